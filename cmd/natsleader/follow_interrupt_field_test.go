//go:build field

package main

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/leader"
)

// reached reports an event once.
type reached chan struct{}

func (r reached) tell() {
	select {
	case r <- struct{}{}:
	default:
	}
}

// watch can be interrupted while it opens.
func TestWatch_InterruptedEarly(t *testing.T) {
	for name, open := range map[string]func(t *testing.T, r reached) string{
		"while it connects":                 silentServer,
		"while it reads the settings":       func(t *testing.T, r reached) string { return deafJetStream(t, r, "$JS.API.STREAM.INFO.") },
		"while it waits for its first feed": func(t *testing.T, r reached) string { return deafJetStream(t, r, "$JS.API.CONSUMER.") },
	} {
		t.Run(name, func(t *testing.T) {
			r := make(reached, 1)
			cmd := natsleader(t, "watch", "--timeout", "10m", "-s", open(t, r))
			out := started(t, cmd)
			<-r
			interrupted(t, cmd)
			<-out.ended
			if out.text() != "" {
				t.Errorf("it prints %q", out.text())
			}
		})
	}
}

// silentServer accepts connections and sends nothing.
func silentServer(t *testing.T, r reached) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		r.tell()
		_, _ = io.Copy(io.Discard, conn) // until the command has ended
		_ = conn.Close()
	}()
	const many = 20 // each may take two seconds: to wait for all of them would take longer than the test
	return strings.Repeat("nats://"+l.Addr().String()+",", many-1) + "nats://" + l.Addr().String()
}

// deafJetStream is a JetStream that never answers requests with the prefix deaf.
func deafJetStream(t *testing.T, r reached, deaf string) string {
	t.Helper()
	behind := startServer(t).ClientURL()
	newBucket(t, behind, "elections", leader.BucketConfig{})
	hears, _ := connectTo(t, behind)
	url := startServer(t, func(o *server.Options) { o.JetStream = false }).ClientURL()
	front, _ := connectTo(t, url)
	_, err := front.Subscribe("$JS.API.>", func(m *nats.Msg) {
		if strings.HasPrefix(m.Subject, deaf) {
			r.tell()
			return
		}
		answer, err := hears.Request(m.Subject, m.Data, patience)
		if err == nil {
			err = m.Respond(answer.Data)
		}
		if err != nil {
			t.Errorf("%s: %v", m.Subject, err)
		}
	})
	if err == nil {
		err = front.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	return url
}
