//go:build field && unix

package main

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// A server that was killed or hangs is reported as missing, also if it led the stream and its
// successor has never heard of it. What can still be lost is counted without it.
func TestDoctor_DeadServer(t *testing.T) {
	t.Parallel()
	for name, k := range map[string]struct {
		sig  syscall.Signal
		led  bool
		only bool // with the build tag prove
	}{
		"killed leader":   {sig: syscall.SIGKILL, led: true},
		"hung leader":     {sig: syscall.SIGSTOP, led: true, only: true},
		"killed follower": {sig: syscall.SIGKILL, only: true},
		"hung follower":   {sig: syscall.SIGSTOP, only: true},
	} {
		t.Run(name, func(t *testing.T) {
			if k.only {
				proof.Only(t)
			}
			t.Parallel()
			all := processCluster(t)
			_, js := connectTo(t, all["s1"].url)
			leads := leadsStream(t, js)
			var victim, witness *serverProcess
			for name, p := range all {
				if (name == leads) == k.led {
					victim = p
				}
			}
			for _, p := range all {
				if p != victim {
					witness = p
				}
			}
			_, js = connectTo(t, witness.url)
			victim.signal(t, k.sig)
			if k.led {
				eventually(t, "another server leads the stream", func() bool { l := leadsStream(t, js); return l != "" && l != victim.name })
			}
			// The writes show which servers are behind.
			eventually(t, "a write is stored", func() bool {
				_, err := js.Publish(t.Context(), "$KV.elections.written", nil)
				return err == nil
			})
			out, code := diagnose(t, witness.url) // the dead server does not report its version
			printed(t, out, "\nwarning cluster the replica on "+victim.name, "dead, hung or cut off",
				"\nwarning replicas 3 replicas, 1 of them missing ("+victim.name+"): elections stop with the loss of one more server")
			if code != 1 || strings.Contains(out, "catching up") || strings.Contains(out, "elections go on") {
				t.Errorf("exit code %d\n%v", code, out)
			}
			if k.led {
				productionShows(t, witness.url, "cluster", "replicas")
			}
		})
	}
}

// A doctor that is interrupted while it stores its message removes its stream before it ends.
func TestDoctor_InterruptedStore(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{})
	nc, _ := connectTo(t, s.ClientURL())
	created, err := nc.SubscribeSync("$JS.EVENT.ADVISORY.STREAM.CREATED.*")
	expect.OK(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	expect.OK(t, err)
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
		expect.OK(t, err)
		subject = m.Subject
	}
	err = cmd.Process.Signal(syscall.SIGTERM)
	expect.OK(t, err)
	expect.Equal(t, endOf(t, cmd), exitSignal+int(syscall.SIGTERM), "exit code %d")
	_, js := connectTo(t, s.ClientURL())
	if info, err := js.AccountInfo(t.Context()); err != nil || info.Streams != 1 {
		t.Errorf("%+v, %v", info, err)
	}
}
