//go:build field

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

// statusJSON returns the binary's output about an election, and its exit code.
func statusJSON(t *testing.T, url, election string) (summary, int) {
	t.Helper()
	out, errs, code := outcome(t, natsleader(t, "status", election, "--json", "-s", url))
	var s summary
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	return s, code
}

// status shows every state of an election.
func TestStatus_ShowsEveryState(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	_, js := connectTo(t, url)
	if out := succeeds(t, "status", "-s", url); out != "no election in bucket elections yet\n" {
		t.Errorf("of an empty bucket: %q", out)
	}
	if out := succeeds(t, "status", "--json", "-s", url); out != "[]\n" {
		t.Errorf("of an empty bucket in JSON: %q", out)
	}

	a := campaigns(t, url, "elections", "leading", leader.Config{ID: "a", Value: []byte("10.0.0.7:80")})
	put(t, js, "expired", record(t, js, "leading", "b", time.Millisecond))
	put(t, js, "pending", strings.Replace(record(t, js, "leading", "b", time.Hour), `"elected"`, `"pending"`, 1))
	put(t, js, "foreign", "hello")
	put(t, js, "deleted", record(t, js, "leading", "b", time.Hour))
	put(t, js, "binary", strings.Replace(record(t, js, "leading", "b", time.Hour), `"value":"10.0.0.7:80"`, `"value64":"/wA="`, 1))
	kv, err := js.KeyValue(t.Context(), "elections")
	if err != nil {
		t.Fatal(err)
	}
	if err = kv.Delete(t.Context(), "deleted"); err != nil {
		t.Fatal(err)
	}
	released := campaigns(t, url, "elections", "released", leader.Config{ID: "a"})
	if err = released.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	states := map[string]state{
		"leading": stateLeading, "pending": statePending, "released": stateReleased, "expired": stateExpired,
		"deleted": stateDeleted, "foreign": stateForeign, "never": stateNever, "binary": stateLeading,
	}
	for election, want := range states {
		got, code := statusJSON(t, url, election)
		wantCode := exitFailed
		if want == stateLeading {
			wantCode = 0
		}
		if got.State != want || got.Election != election || code != wantCode {
			t.Errorf("%s: exit code %d, %+v", election, code, got)
		}
		out, _, _ := outcome(t, natsleader(t, "status", election, "-s", url))
		if nobody := strings.Contains(out, "nobody") || strings.Contains(out, "unknown"); nobody != (want != stateLeading) {
			t.Errorf("%s:\n%s", election, out)
		}
	}
	term, _ := a.Term()
	got, _ := statusJSON(t, url, "leading")
	if got.ID != "a" || got.Token != term.Token() || got.Value != "10.0.0.7:80" || got.Lease != 15 ||
		got.Remaining == nil || *got.Remaining <= 0 || *got.Remaining > 15 || got.Since == nil || time.Since(*got.Since) > time.Hour {
		t.Errorf("leading: %+v", got)
	}
	if got, _ := statusJSON(t, url, "binary"); got.Value64 != "/wA=" || got.Value != "" {
		t.Errorf("a value that is no text: %+v", got)
	}

	delete(states, "never")
	lines := strings.Split(strings.TrimSpace(succeeds(t, "status", "-s", url)), "\n")
	if len(lines) != 1+len(states) {
		t.Fatalf("a table of %d elections:\n%s", len(states), strings.Join(lines, "\n"))
	}
	last := ""
	for _, line := range lines[1:] {
		f := strings.Fields(line)
		if f[0] <= last || string(states[f[0]]) != f[1] {
			t.Errorf("not sorted, or not %q: %s", states[f[0]], line)
		}
		last = f[0]
	}
}

// The text that others wrote reaches no terminal as it is.
func TestStatus_EscapesForeignText(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	evil := "\x1b]0;title\x07\x1b[2J\r\n\u202ereversed\u009b\U000e0001\xff"
	campaigns(t, url, "elections", "model", leader.Config{ID: "b"})
	nc, js := connectTo(t, url)
	value := base64.StdEncoding.EncodeToString([]byte(evil + strings.Repeat("x", 100)))
	put(t, js, "billing", strings.Replace(record(t, js, "model", evil, time.Hour), `"v":1`, `"v":1,"value64":"`+value+`"`, 1))
	const name = "\x1b]0;title\x07\u202ereversed\u009b" // no spaces: the server takes it
	if err := nc.Publish("$KV.elections."+name, []byte(record(t, js, "model", "b", time.Hour))); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the name is stored", func() bool {
		stream, err := js.Stream(t.Context(), "KV_elections")
		return err == nil && stream.CachedInfo().State.NumSubjects == 3
	})
	if got, _ := statusJSON(t, url, "billing"); got.ID != strings.ToValidUTF8(evil, "\ufffd") {
		t.Errorf("in JSON %q", got.ID)
	}
	check := func(args []string, out string, titles int) {
		t.Helper()
		if n := strings.Count(out, `\x1b]0;title`) + strings.Count(out, `\u001b]0;title`); rawIn(out) || n != titles {
			t.Errorf("%q: %d titles in %q", args, n, out)
		}
	}
	for _, x := range []struct {
		args   []string
		titles int
	}{
		{[]string{"status"}, 3},           // the name, the ID and the value
		{[]string{"status", "--json"}, 2}, // the value is in base64
		{[]string{"status", "billing"}, 2},
	} {
		check(x.args, succeeds(t, append(x.args, "-s", url)...), x.titles)
	}
	for format, titles := range map[string]int{"--timeline": 3, "--json": 2} {
		cmd := natsleader(t, "watch", format, "-s", url)
		out := started(t, cmd)
		eventually(t, "it prints all three", func() bool { return strings.Count(out.text(), "\n") == 2 })
		interrupted(t, cmd)
		check(cmd.Args[1:], out.text(), titles)
	}
	check([]string{"step-down"}, succeeds(t, "step-down", "billing", "--force", "--yes", "-s", url), 1)

	completing := withEnv(natsleader(t, "--completion-bash", "status", ""), "NATS_URL="+url)
	if got := completions(t, completing); !slices.Equal(got, []string{"billing", "model"}) {
		t.Errorf("completions: %q", got)
	}
	odd := electionStatus{election: name}
	check(nil, fmt.Sprint(odd.details(time.Now()), odd.overview(stateNever, time.Now())), 2)
}

// observerOf permits a client no more than to observe one election.
func observerOf(election string) func(*server.Options) {
	return func(o *server.Options) {
		o.Users = []*server.User{{Username: "admin"}, {Username: "observer", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{
				"$JS.API.STREAM.INFO.KV_elections", "$JS.API.DIRECT.GET.KV_elections.$KV.elections." + election,
			}},
			Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
		}}}
		o.NoAuthUser = "admin"
	}
}

// The status of one election needs the permissions of an observer.
func TestStatus_ObserverPermissions(t *testing.T) {
	s := startServer(t, observerOf("billing"))
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{})
	campaigns(t, s.ClientURL(), "elections", "billing", leader.Config{ID: "a"})
	url := "nats://observer:@" + s.Addr().String()
	if out := succeeds(t, "status", "billing", "-s", url); !strings.Contains(out, "Leader:    a\n") {
		t.Errorf("status billing:\n%s", out)
	}
	fails(t, natsleader(t, "status", "-s", url), exitDenied, "CONSUMER.CREATE")
	fails(t, natsleader(t, "status", "mail", "-s", url), exitDenied, "$KV.elections.mail")
	fails(t, natsleader(t, "watch", "-s", url), exitDenied, "CONSUMER.CREATE")
}

// manyElections makes a bucket of n elections, with one waiting candidate in each, and
// returns its server's URL.
func manyElections(tb testing.TB, n int) string {
	tb.Helper()
	url := startServer(tb).ClientURL()
	newBucket(tb, url, "elections", leader.BucketConfig{Roster: true})
	campaigns(tb, url, "elections", "e", leader.Config{ID: "a", Value: []byte("10.0.0.7:80"), Roster: true})
	stands(tb, url, "e", leader.Config{ID: "b", Roster: true})
	inLine(tb, url, "e", "b")
	nc, js := connectTo(tb, url)
	value := []byte(record(tb, js, "e", "b", time.Hour))
	for i := range n - 1 {
		announcement := nats.NewMsg(fmt.Sprintf("$KV.elections_roster.e%05d.%s", i, anySession))
		announcement.Header.Set(jetstream.MsgTTLHeader, "1h")
		announcement.Data = []byte(`{"v":1,"id":"b"}`)
		if err := errors.Join(nc.Publish(fmt.Sprintf("$KV.elections.e%05d", i), value), nc.PublishMsg(announcement)); err != nil {
			tb.Fatal(err)
		}
	}
	for _, name := range []string{"KV_elections", "KV_elections_roster"} {
		eventually(tb, "the records are stored", func() bool {
			stream, err := js.Stream(tb.Context(), name)
			return err == nil && stream.CachedInfo().State.NumSubjects >= uint64(n)
		})
	}
	return url
}

func TestStatus_10000Elections(t *testing.T) {
	const n = 10_000
	url := manyElections(t, n)
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"status", "--roster"}, {"status", "--roster", "--json"}} {
		out := succeeds(t, append(args, "-s", url)...)
		if one := strings.Count(out, `"stand": 1`); slices.Contains(args, "--roster") && slices.Contains(args, "--json") && one != n {
			t.Errorf("%v: one stands in %d of %d elections", args, one, n)
		}
		if got := strings.Count(out, "leading"); got != n {
			t.Errorf("%v: %d of %d elections", args, got, n)
		}
	}
}

// endOf waits for the end of a command that was started.
func endOf(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the exit code has it
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case <-ended:
	case <-ctx.Done():
		t.Fatalf("%v goes on", cmd.Args[1:])
	}
	return cmd.ProcessState.ExitCode()
}
