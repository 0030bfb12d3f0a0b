//go:build field

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// leaderSees waits until the leader has published that n candidates follow it.
func leaderSees(tb testing.TB, url, election string, n int) {
	tb.Helper()
	_, js := connectTo(tb, url)
	kv, err := js.KeyValue(tb.Context(), "elections")
	if err != nil {
		tb.Fatal(err)
	}
	eventually(tb, "the leader has seen who follows", func() bool {
		e, err := kv.Get(tb.Context(), election)
		if err != nil {
			return false
		}
		var record struct{ Next []string }
		return json.Unmarshal(e.Value(), &record) == nil && len(record.Next) == n
	})
}

// inLine waits until these candidates stand, in that order.
func inLine(tb testing.TB, url, election string, ids ...string) {
	tb.Helper()
	_, js := connectTo(tb, url)
	b, err := leader.OpenBucket(js, "elections")
	if err != nil {
		tb.Fatal(err)
	}
	eventually(tb, "in line are "+strings.Join(ids, ", "), func() bool {
		var got []string
		all, err := leader.Roster(tb.Context(), b, election)
		for _, s := range all {
			got = append(got, s.ID)
		}
		return err == nil && slices.Equal(got, ids)
	})
}

// readRosterJSON returns the binary's output about the roster of billing.
func readRosterJSON(t *testing.T, url string) rosterSummary {
	t.Helper()
	var r rosterSummary
	if err := json.Unmarshal([]byte(succeeds(t, "roster", "billing", "--json", "-s", url)), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// The roster command shows the leader and the candidates that would follow it.
func TestRosterCommand_Succession(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true})
	if out := succeeds(t, "roster", "billing", "-s", url); out != "nobody leads billing, and nobody stands\n" {
		t.Errorf("of nobody: %q", out)
	}
	if r := readRosterJSON(t, url); r.Leader != nil || r.Candidates == nil || len(r.Candidates) > 0 {
		t.Errorf("of nobody: %+v", r)
	}
	campaigns(t, url, "elections", "billing", leader.Config{ID: "a", Value: []byte("10.0.0.7:80"), Roster: true})
	campaigns(t, url, "elections", "mail", leader.Config{ID: "a"})
	stands(t, url, "billing", leader.Config{ID: "b", Roster: true, Value: []byte("\xff\x00")})
	inLine(t, url, "billing", "b")
	stands(t, url, "billing", leader.Config{ID: "c", Queue: true})
	inLine(t, url, "billing", "b", "c")
	stands(t, url, "billing", leader.Config{ID: "d", Queue: true, Priority: -1, Preempt: true})
	stands(t, url, "billing", leader.Config{ID: "e", Queue: true, Priority: 5, Value: []byte("10.0.0.8:80")})
	stands(t, url, "billing", leader.Config{ID: "f"}) // is not in the roster
	inLine(t, url, "billing", "e", "b", "c", "d")

	r := readRosterJSON(t, url)
	if l := r.Leader; l == nil || l.ID != "a" || l.Pending || l.Token == 0 || l.Value != "10.0.0.7:80" || l.Since == nil || r.Election != "billing" || r.Time != nil {
		t.Errorf("who leads: %+v", r)
	}
	for i, want := range []candidateSummary{
		{ID: "e", Priority: 5, Value: "10.0.0.8:80"}, {ID: "b", Value64: "/wA="}, {ID: "c"}, {ID: "d", Priority: -1, Preempt: true},
	} {
		got := r.Candidates[i]
		if age := time.Since(got.Since); age < 0 || age > patience {
			t.Errorf("%s has waited for %v", got.ID, age)
		}
		if got.Since = (time.Time{}); got != want {
			t.Errorf("%d: %+v, not %+v", i, got, want)
		}
	}
	var places []string
	for line := range strings.Lines(succeeds(t, "roster", "billing", "-s", url)) {
		f := strings.Fields(line)
		places = append(places, strings.Join(f[:4], " "))
	}
	if want := []string{"PLACE ID PRIORITY PREEMPT", "leads a - -", "1 e 5 no", "2 b 0 no", "3 c 0 no", "4 d -1 yes"}; !slices.Equal(places, want) {
		t.Errorf("%q", places)
	}

	out := succeeds(t, "status", "billing", "--roster", "-s", url)
	if !strings.Contains(out, "Leader:    a\n") || !strings.HasSuffix(out, "Next:      e, b, c and 1 more\n") {
		t.Errorf("status of one:\n%s", out)
	}
	var s summary
	if err := json.Unmarshal([]byte(succeeds(t, "status", "billing", "--roster", "--json", "-s", url)), &s); err != nil {
		t.Fatal(err)
	}
	if s.ID != "a" || s.Stand == nil || *s.Stand != 4 || !slices.Equal(s.Next, []string{"e", "b", "c"}) {
		t.Errorf("status of one: %+v", s)
	}
	if s, _ = statusJSON(t, url, "billing"); s.Stand != nil || s.Next != nil {
		t.Errorf("without --roster: %+v", s)
	}
	lines := strings.Split(succeeds(t, "status", "--roster", "-s", url), "\n")
	column := strings.Index(lines[0], "STAND")
	if column < 0 || !strings.HasPrefix(lines[1][column:], "4 ") || strings.TrimSpace(lines[2][column:]) != "0" {
		t.Errorf("status of all: %q", lines)
	}
	var all []summary
	if err := json.Unmarshal([]byte(succeeds(t, "status", "--roster", "--json", "-s", url)), &all); err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || *all[0].Stand != 4 || *all[1].Stand != 0 {
		t.Errorf("status of all: %+v", all)
	}
}

// The roster command reports a bucket without a roster.
func TestRosterCommand_WithoutRoster(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	newBucket(t, url, "robbed", leader.BucketConfig{Roster: true})
	_, js := connectTo(t, url)
	if err := js.DeleteKeyValue(t.Context(), "robbed_roster"); err != nil {
		t.Fatal(err)
	}
	for _, bucket := range []string{"elections", "robbed"} {
		for _, args := range [][]string{
			{"roster", "billing"},
			{"roster", "billing", "--json"},
			{"roster", "billing", "--watch"},
			{"status", "--roster"},
			{"status", "billing", "--roster"},
			{"run", "billing", "--succession", "queue", "--", "true"},
			{"run", "billing", "--succession", "priority", "--", "true"},
			{"run", "billing", "--roster", "--", "true"},
		} {
			cmd := withEnv(natsleader(t, args...), "NATS_URL="+url, "NATSLEADER_BUCKET="+bucket)
			fails(t, cmd, exitBucket, "bucket "+bucket+" keeps no roster: `natsleader bucket add "+bucket+" --roster` makes one")
		}
	}
	fails(t, natsleader(t, "roster", "billing", "--bucket", "none", "-s", url), exitBucket, "bucket none does not exist")
	fails(t, natsleader(t, "roster", "b*", "-s", url), exitUsage, `"b*"`)
	fails(t, natsleader(t, "roster", "-s", url), exitUsage, "election")
}

// roster --watch reports each change once.
func TestRosterWatch_EachChangeOnce(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true})
	watch := func(args ...string) (*exec.Cmd, *output) {
		cmd := natsleader(t, append([]string{"roster", "billing", "--watch", "-s", url}, args...)...)
		return cmd, started(t, cmd)
	}
	people, text := watch()
	programs, objects := watch("--json")
	text.says(t, "nobody leads; nobody stands")
	objects.says(t, `"candidates":[]`)
	a := campaigns(t, url, "elections", "billing", leader.Config{ID: "a", Roster: true})
	text.says(t, "a leads with "+tokenOf(t, a)+"; nobody stands")
	stands(t, url, "billing", leader.Config{ID: "b", Roster: true})
	text.says(t, "a leads with "+tokenOf(t, a)+"; next: b")
	objects.says(t, `"candidates":[{"id":"b"`)
	if err := a.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	text.says(t, "b leads with token ")
	eventually(t, "b does not stand any more", func() bool { return strings.HasSuffix(text.text(), "; nobody stands") })
	objects.says(t, `"leader":{"id":"b"`)
	interrupted(t, people)
	interrupted(t, programs)
	last := ""
	for line := range strings.Lines(text.text()) {
		_, told, _ := strings.Cut(strings.TrimSpace(line), "  ")
		if told == last {
			t.Errorf("twice: %s", line)
		}
		last = told
	}
	for line := range strings.Lines(objects.text()) {
		var r rosterSummary
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Time == nil || r.Election != "billing" {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// The watch survives the loss of the server.
func TestRosterWatch_OutlivesServer(t *testing.T) {
	t.Parallel()
	dir, port := testserver.StoreDir(t), testserver.FreePort(t) // a port that stays free while the server is down
	listens := func(o *server.Options) { o.StoreDir, o.Port = dir, port }
	s := startServer(t, listens)
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{Roster: true})
	cmd := natsleader(t, "roster", "billing", "--watch", "-s", s.ClientURL())
	out := started(t, cmd)
	out.says(t, "nobody leads")
	s.Shutdown()
	s.WaitForShutdown()
	out.says(t, "the connection was lost; trying again")
	s = startServer(t, listens)
	out.says(t, "connected again")
	a := campaigns(t, s.ClientURL(), "elections", "billing", leader.Config{ID: "a", Roster: true})
	stands(t, s.ClientURL(), "billing", leader.Config{ID: "b", Roster: true})
	out.says(t, "a leads with "+tokenOf(t, a)+"; next: b")
	interrupted(t, cmd)
}

// The text of others in a roster reaches no terminal as it is.
func TestRosterCommand_EscapesText(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true})
	evil := "\x1b]0;title\x07\x1b[2J\r\n\u202ereversed\u009b\U000e0001\xff"
	// Campaign takes no such ID, but a client that may write the bucket can forge one.
	id, err := json.Marshal(evil)
	if err != nil {
		t.Fatal(err)
	}
	_, js := connectTo(t, url)
	b, err := leader.OpenBucket(js, "elections")
	if err != nil {
		t.Fatal(err)
	}
	stored := make(chan error, 2)
	answer := func(_ uint64, err error) { stored <- err }
	b.Backend().Update(t.Context(), "billing", fmt.Appendf(nil, `{"v":1,"state":"leading","id":%s,"session":"s","n":1,"lease":"15s","token":7,"value":%[1]s}`, id), 0, answer)
	b.Backend().Announce(t.Context(), "billing", strings.Repeat("A", 26), fmt.Appendf(nil, `{"v":1,"id":%s,"since":"2026-11-21T18:00:00Z","value":%[1]s}`, id), time.Minute, answer)
	for range 2 {
		if err := <-stored; err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"roster", "billing"}, {"roster", "billing", "--json"}, {"status", "billing", "--roster"}, {"status", "billing", "--roster", "--json"}} {
		if out := succeeds(t, append(args, "-s", url)...); rawIn(out) || !strings.Contains(out, "title") {
			t.Errorf("%q: %q", args, out)
		}
	}
	for _, format := range []string{"--watch", "--json"} {
		cmd := natsleader(t, "roster", "billing", "--watch", format, "-s", url)
		if format == "--watch" {
			cmd = natsleader(t, "roster", "billing", "--watch", "-s", url)
		}
		out := started(t, cmd)
		out.says(t, "title")
		interrupted(t, cmd)
		if rawIn(out.text()) {
			t.Errorf("%s: %q", format, out.text())
		}
	}
	completing := withEnv(natsleader(t, "--completion-bash", "transfer", "billing", ""), "NATS_URL="+url)
	if got := completions(t, completing); len(got) > 0 {
		t.Errorf("completions: %q", got)
	}
	_, errs, code := outcome(t, natsleader(t, "transfer", "billing", "\x1b]0;title\x07", "-s", url))
	if code != exitUsage || rawIn(errs) || !strings.Contains(errs, `\x1b]0;title`) {
		t.Errorf("transfer: exit code %d, %q", code, errs)
	}
}

// silent is a watch that delivers nothing, as if the last entry had just expired.
type silent struct {
	jetstream.KeyValue
	times int
}

func (s *silent) WatchAll(ctx context.Context, opts ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	if s.times--; s.times >= 0 {
		opts = append(opts, jetstream.UpdatesOnly()) // leaves out the entries that exist
	}
	return s.KeyValue.WatchAll(ctx, opts...)
}

// The roster is read again when a watch falls silent.
func TestRosterWatch_SilentIsReread(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{Roster: true})
	_, js := connectTo(t, url)
	kv, err := js.KeyValue(t.Context(), "elections_roster")
	if err == nil {
		_, err = kv.PutString(t.Context(), "billing.x", "x")
	}
	if err != nil {
		t.Fatal(err)
	}
	entries, err := entriesOf(t.Context(), &silent{kv, 1}, "keys")
	if err != nil || len(entries) != 1 || entries[0].Key() != "billing.x" {
		t.Errorf("%v, %v", entries, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if entries, err = entriesOf(ctx, &silent{kv, 100}, "keys"); codeOf(err) != exitUnreachable {
		t.Errorf("%v, %v", entries, err)
	}
}

// Candidates whose permission to write was revoked stay in the roster, as denied. When it was
// granted again, without a new connection, they can be named, and the leader steps down.
func TestRosterCommand_Denied(t *testing.T) {
	t.Parallel()
	users := func(deny ...string) []*server.User {
		return []*server.User{
			{Username: "boss", Password: "boss"},
			{Username: "worker", Password: "worker", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: deny}}},
		}
	}
	var options *server.Options
	srv := startServer(t, func(o *server.Options) {
		o.Users = users()
		options = o.Clone()
	})
	reload := func(deny ...string) {
		o := options.Clone()
		o.Users = users(deny...)
		if err := srv.ReloadOptions(o); err != nil {
			t.Fatal(err)
		}
	}
	as := func(user string) string { return strings.Replace(srv.ClientURL(), "//", "//"+user+":"+user+"@", 1) }
	boss := as("boss")
	newBucket(t, boss, "elections", leader.BucketConfig{Roster: true})
	cfg := leader.Config{ID: "a", Queue: true, LeaseDuration: 8 * time.Second}
	campaigns(t, as("worker"), "elections", "billing", cfg)
	for _, id := range []string{"b", "c"} {
		cfg.ID = id
		stands(t, as("worker"), "billing", cfg)
	}
	eventually(t, "two stand", func() bool { return len(readRosterJSON(t, boss).Candidates) == 2 })
	reload("$KV.elections.billing")
	eventually(t, "both are denied", func() bool {
		all := readRosterJSON(t, boss).Candidates
		return len(all) == 2 && all[0].Denied && all[1].Denied
	})
	if out := succeeds(t, "roster", "billing", "-s", boss); strings.Count(out, "\ndenied ") != 2 {
		t.Errorf("the roster:\n%s", out)
	}
	if out, _, code := outcome(t, natsleader(t, "status", "billing", "--roster", "-s", boss)); code != exitFailed || strings.Count(out, " (denied)") != 2 {
		t.Errorf("code %d, the status:\n%s", code, out)
	}
	reload()
	var all rosterSummary
	eventually(t, "one leads, and another stands", func() bool {
		all = readRosterJSON(t, boss)
		return all.Leader != nil && !all.Leader.Pending && len(all.Candidates) > 0
	})
	last := all.Candidates[len(all.Candidates)-1].ID
	eventually(t, last+" can be named", func() bool { // it may still wait for the reply to a denied write
		_, _, code := outcome(t, natsleader(t, "transfer", "billing", last, "-s", boss))
		return code == 0
	})
	eventually(t, "another stands", func() bool { return len(readRosterJSON(t, boss).Candidates) > 0 })
	if out := succeeds(t, "step-down", "billing", "-s", boss); !strings.Contains(out, last+" has handed over billing") {
		t.Errorf("step-down: %q", out)
	}
}
