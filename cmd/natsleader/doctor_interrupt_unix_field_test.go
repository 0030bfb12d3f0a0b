//go:build field && unix

package main

import (
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
	// Doctor hears 300 ms later that its stream was created, and has two requests more to send.
	cmd := natsleader(t, "doctor", "-s", distant(t, s, 300*time.Millisecond))
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
	if names := doctorStreams(t, s.ClientURL()); len(names) != 1 || names[0] != "KV_elections" {
		t.Errorf("%v", names)
	}
}
