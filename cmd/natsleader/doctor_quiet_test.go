package main

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// distant returns the URL of a way to the server that takes delay in each direction.
func distant(t *testing.T, s *server.Server, delay time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	pipe := func(from, to net.Conn) {
		type part struct {
			data []byte
			at   time.Time
		}
		parts := make(chan part, 1000)
		go func() {
			defer to.Close()                //nolint:errcheck // it may be closed
			defer io.Copy(io.Discard, from) //nolint:errcheck // until it is closed
			for p := range parts {
				time.Sleep(time.Until(p.at))
				if _, err := to.Write(p.data); err != nil {
					break
				}
			}
			for range parts {
			}
		}()
		defer close(parts)
		for {
			data := make([]byte, 4096)
			n, err := from.Read(data)
			if err != nil {
				return
			}
			parts <- part{data[:n], time.Now().Add(delay)}
		}
	}
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", s.Addr().String())
			if err != nil {
				_ = near.Close()
				continue
			}
			go pipe(near, far)
			go pipe(far, near)
		}
	}()
	return "nats://" + l.Addr().String()
}

func TestDoctorOnADistantServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{MaxLease: time.Hour})
	url := distant(t, s, 200*time.Millisecond) // 400 ms there and back
	for lease, severity := range map[string]string{"10m": "ok", "9s": "warning", "300ms": "critical"} {
		t.Run(lease, func(t *testing.T) {
			if severity != "critical" {
				proof.Only(t)
			}
			t.Parallel()
			words := map[string]string{"ok": "fast enough", "warning": "slow for leases of", "critical": "fenced again and again"}
			diagnose(t, url, "--lease", lease).says(t, "round-trip", severity, words[severity])
		})
	}
}

// Doctor leaves nothing behind, and neither the leader nor a waiting candidate notices
// it.
func TestDoctorDisturbsNothing(t *testing.T) {
	s := startServer(t)
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{MaxLease: time.Hour, Roster: true})
	// The next renewal is far away, so doctor is the only client that might write.
	c := campaigns(t, s.ClientURL(), "elections", "billing", leader.Config{ID: "a", LeaseDuration: time.Hour})
	term, ok := c.Term()
	if !ok {
		t.Fatal("no term")
	}
	_, js := connectTo(t, s.ClientURL())
	b, err := leader.OpenBucket(js, "elections")
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := leader.Campaign(t.Context(), b, "billing", leader.Config{ID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "b knows a", func() bool { h, _ := waiting.Leader(); return h.ID == "a" })
	stream, err := js.Stream(t.Context(), "KV_elections")
	if err != nil {
		t.Fatal(err)
	}
	roster, err := js.Stream(t.Context(), "KV_elections_roster")
	if err != nil {
		t.Fatal(err)
	}
	before, subscriptions := stream.CachedInfo().State, s.NumSubscriptions()
	for _, args := range [][]string{{"--election", "billing"}, {"--election", "new"}, nil, {"--roster"}, {"--roster", "--election", "billing"}} {
		diagnose(t, s.ClientURL(), args...)
	}
	if info, told := roster.Info(t.Context()); told != nil || info.State.LastSeq != roster.CachedInfo().Config.FirstSeq-1 || info.State.Consumers != 0 {
		t.Errorf("the roster: %+v, %v", info, told)
	}
	after, err := stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after.State.LastSeq != before.LastSeq || after.State.Msgs != before.Msgs || after.State.NumDeleted != before.NumDeleted {
		t.Errorf("before: %+v\nafter: %+v", before, after.State)
	}
	eventually(t, "no consumer is left", func() bool {
		info, err := stream.Info(t.Context())
		return err == nil && info.State.Consumers == 0
	})
	eventually(t, "no subscription is left", func() bool { return s.NumSubscriptions() == subscriptions })
	if got, ok := c.Term(); !ok || got != term || term.Err() != nil {
		t.Errorf("a leads no more: %v", term.Err())
	}
	if s := waiting.State(); s != leader.StateCandidate {
		t.Errorf("b is %v", s)
	}
	for _, c := range []*leader.Candidate{c, waiting} {
		if s := c.Stats(); s.Refused+s.Unknown+s.FeedRebuilds != 0 || len(s.Faults) != 0 {
			t.Errorf("%s: %+v", c.ID(), s)
		}
	}
	if err := waiting.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestDoctorThatCannotBegin(t *testing.T) {
	s := startServer(t)
	url := s.ClientURL()
	for _, k := range []struct {
		args []string
		code int
	}{
		{[]string{"doctor", "-s", url, "--lease", "-3s"}, exitUsage},
		{[]string{"doctor", "-s", url, "--election", "a..b"}, exitUsage},
		{[]string{"doctor", "-s", url, "--bucket", "a b"}, exitUsage},
		{[]string{"doctor", "-s", url, "--system-context", "nobody's"}, exitUsage},
		{[]string{"doctor", "-s", "nats://127.0.0.1:1"}, exitUnreachable},
	} {
		out, errs, code := outcome(t, natsleader(t, k.args...))
		if code != k.code || out != "" || errs == "" {
			t.Errorf("%v: exit code %d\n%s%s", k.args, code, out, errs)
		}
	}
}

func TestDoctorThatLosesItsConnection(t *testing.T) {
	s := startServer(t)
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{})
	nc, js := connectTo(t, s.ClientURL())
	b, err := leader.OpenBucket(js, "elections")
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	e := &environment{nc: nc, js: js, bucket: b, name: "elections", api: "$JS.API.", wait: patience, election: "e", hostSync: hostSync}
	found := e.runChecks(t.Context())
	for _, f := range found {
		if f.Severity != severityNote || f.Text != "not checked: the connection is lost" {
			t.Errorf("%+v", f)
		}
	}
	if len(found) != len(checks) {
		t.Errorf("%d findings", len(found))
	}
}

func TestDoctorForPeople(t *testing.T) {
	s := startServer(t)
	out, _, code := outcome(t, natsleader(t, "doctor", "-s", s.ClientURL()))
	if code != 2 {
		t.Errorf("exit code %d", code)
	}
	printed(t, out, "\ncritical  bucket ", "-> make it: natsleader bucket add elections\n", "not known: sources, cluster", "\n1 critical, ")
	succeeds(t, "bucket", "add", "-s", s.ClientURL(), "--max-lease", generous.String())
	out, _, code = outcome(t, natsleader(t, "doctor", "-s", s.ClientURL()))
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	printed(t, out, "ok       bucket ", "\nwarning  replicas ", "\n2 warnings, ")
}

// printed fails the test unless all of the texts are in the output.
func printed(t *testing.T, out string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains("\n"+out, text) {
			t.Errorf("no %q in:\n%s", text, out)
		}
	}
}
