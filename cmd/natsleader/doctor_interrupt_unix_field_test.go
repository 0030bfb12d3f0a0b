//go:build field && unix

package main

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/leader"
)

// A doctor that is interrupted while it stores its message removes its stream before it ends.
func TestDoctor_InterruptedStore(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{})
	nc, _ := connectTo(t, s.ClientURL())
	created, err := nc.SubscribeSync("$JS.EVENT.ADVISORY.STREAM.CREATED.*")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing is lost
	go func() {
		for near, gone := l.Accept(); gone == nil; near, gone = l.Accept() {
			if far, failed := net.Dial("tcp", s.Addr().String()); failed == nil {
				go slowPipe(near, far, 300*time.Millisecond)
				go slowPipe(far, near, 300*time.Millisecond)
			}
		}
	}()
	// Doctor hears 300 ms later that its stream was created, and has two requests more to send.
	cmd := natsleader(t, "doctor", "-s", "nats://"+l.Addr().String())
	started(t, cmd)
	for subject := ""; !strings.Contains(subject, ".natsleader_doctor_"); {
		var m *nats.Msg
		m, err = created.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		subject = m.Subject
	}
	if err = cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := endOf(t, cmd); code != exitSignal+int(syscall.SIGTERM) {
		t.Errorf("exit code %d", code)
	}
	_, js := connectTo(t, s.ClientURL())
	if info, err := js.AccountInfo(t.Context()); err != nil || info.Streams != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}
