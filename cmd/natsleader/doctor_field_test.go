//go:build field

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// diagnosis is the output of doctor for programs.
type diagnosis struct {
	Findings []struct{ Check, Severity, Text, Advice string }
	Severity string
	code     int
}

// diagnose runs doctor.
func diagnose(t *testing.T, url string, args ...string) diagnosis {
	t.Helper()
	out, errs, code := outcome(t, natsleader(t, append([]string{"doctor", "--json", "-s", url}, args...)...))
	d := diagnosis{code: code}
	if err := json.Unmarshal([]byte(out), &d); err != nil || errs != "" {
		t.Fatalf("doctor %v: exit code %d, %v\n%s%s", args, code, err, out, errs)
	}
	if want := map[string]int{"ok": 0, "note": 0, "warning": 1, "critical": 2}[d.Severity]; code != want {
		t.Errorf("exit code %d for %s", code, d.Severity)
	}
	return d
}

func (d diagnosis) String() string {
	var b strings.Builder
	for _, f := range d.Findings {
		_, _ = fmt.Fprintf(&b, "%s %s: %s -> %s\n", f.Severity, f.Check, f.Text, f.Advice)
	}
	return b.String()
}

// says fails the test unless the check has a finding of that severity with all
// of the words.
func (d diagnosis) says(t *testing.T, check, severity string, words ...string) {
	t.Helper()
	for _, f := range d.Findings {
		missing := func(w string) bool { return !strings.Contains(f.Text+" "+f.Advice, w) }
		if f.Check == check && f.Severity == severity && !slices.ContainsFunc(words, missing) {
			return
		}
	}
	t.Errorf("no %s of check %s says %q:\n%v", severity, check, words, d)
}

// fineBut fails the test if anything but the named checks is worse than ok.
func (d diagnosis) fineBut(t *testing.T, checks ...string) {
	t.Helper()
	for _, f := range d.Findings {
		if f.Severity != "ok" && !slices.Contains(checks, f.Check) {
			t.Errorf("%s %s: %s", f.Severity, f.Check, f.Text)
		}
	}
}

// configured starts a server with a configuration.
func configured(t *testing.T, config string) *server.Server {
	t.Helper()
	return startServer(t, func(o *server.Options) {
		*o = server.Options{}
		if err := o.ProcessConfigString(config); err != nil {
			t.Fatal(err)
		}
		o.NoLog, o.NoSigs = true, true
	})
}

// permitted are accounts with the users candidate, admin and operator. The first has
// the permissions of a candidate, and those that it takes to look at the elections and
// the limits.
const permitted = `
	accounts {
		A { jetstream: enabled, users: [
			{ user: admin, password: x }
			{ user: candidate, password: x, permissions: {
				publish: { allow: [
					"$JS.API.STREAM.INFO.KV_elections", "$JS.API.DIRECT.GET.KV_elections.$KV.elections.>", "$KV.elections.>",
					"$JS.API.CONSUMER.CREATE.KV_elections.*.$KV.elections.>", "$JS.API.CONSUMER.DELETE.KV_elections.*", "$JS.API.INFO" ] }
				subscribe: { allow: [ "_INBOX.>", "natsleader.feed.elections.>", "natsleader.ask.elections.>" ] } } } ] }
		SYS { users: [ { user: operator, password: x } ] }
	}
	system_account: SYS`

// asUser returns the server's URL with a user of that name.
func asUser(s *server.Server, name string) string {
	return strings.Replace(s.ClientURL(), "nats://", "nats://"+name+":x@", 1)
}

// systemContext returns the file of a context with system credentials.
func systemContext(t *testing.T, s *server.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "system.json")
	text := fmt.Sprintf(`{"url": %q, "user": "operator", "password": "x"}`, s.ClientURL())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// The doctor names what applications should set.
func TestDoctor_ClientSettings(t *testing.T) {
	url := startServer(t).ClientURL()
	succeeds(t, "bucket", "add", "-s", url)
	diagnose(t, url).says(t, "client", "ok", "a write that the network does not take fails after 2s")
	if out, _, _ := outcome(t, natsleader(t, "doctor", "-s", url)); !strings.Contains(out, "nats.PingInterval(time.Second) and nats.FlusherTimeout(2*time.Second)") {
		t.Errorf("%s", out)
	}
}

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

func TestDoctor_DistantServer(t *testing.T) {
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
func TestDoctor_DisturbsNothing(t *testing.T) {
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

func TestDoctor_CannotBegin(t *testing.T) {
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

func TestDoctor_LosesConnection(t *testing.T) {
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

func TestDoctor_ForPeople(t *testing.T) {
	s := startServer(t)
	out, _, code := outcome(t, natsleader(t, "doctor", "-s", s.ClientURL()))
	if code != 2 {
		t.Errorf("exit code %d", code)
	}
	printed(t, out, "\ncritical  bucket ", "-> if it was deleted, a leader of it may lead for one more lease ", "not known: sources, cluster", "\n1 critical, ", ", 17 not checked, ")
	succeeds(t, "bucket", "add", "-s", s.ClientURL(), "--max-lease", generous.String())
	out, _, code = outcome(t, natsleader(t, "doctor", "-s", s.ClientURL()))
	if code != 1 {
		t.Errorf("exit code %d", code)
	}
	printed(t, out, "ok       bucket ", "\nwarning  replicas ", "\n2 warnings, ")
}
