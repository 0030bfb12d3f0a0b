package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
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

func TestDoctor_NamesWhatApplicationsShouldSet(t *testing.T) {
	url := startServer(t).ClientURL()
	succeeds(t, "bucket", "add", "-s", url)
	diagnose(t, url).says(t, "client", "ok", "a write that the network does not take fails after 2s")
	if out, _, _ := outcome(t, natsleader(t, "doctor", "-s", url)); !strings.Contains(out, "nats.PingInterval(time.Second) and nats.FlusherTimeout(2*time.Second)") {
		t.Errorf("%s", out)
	}
}
