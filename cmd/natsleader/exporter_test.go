package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/natsleader/natsleader/internal/backend"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// changeOf returns a change to a holder.
func changeOf(election string, s state, h leader.Holder) change {
	return electionChange{at: time.Unix(1e9, 0), state: s, now: electionStatus{election: election, entry: backend.Entry{Revision: 1}, holder: h}}
}

// The exporter shows no more elections than it is allowed to, counts the others, and shows
// no name or ID that a client made up to spoil the page.
func TestExporter_IsBounded(t *testing.T) {
	e := newElectionMetrics("elections", 2)
	e.up = true
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(e)
	count := func(elections, left int) {
		t.Helper()
		want := fmt.Sprintf("# HELP natsleader_bucket_elections Keys of elections and of their seats in the bucket that have metrics.\n# TYPE natsleader_bucket_elections gauge\nnatsleader_bucket_elections{bucket=\"elections\"} %d\n"+
			"# HELP natsleader_bucket_elections_left_out Keys in the bucket that have no metrics: more than --max-elections, or no names of elections.\n# TYPE natsleader_bucket_elections_left_out gauge\nnatsleader_bucket_elections_left_out{bucket=\"elections\"} %d\n", elections, left)
		err := testutil.GatherAndCompare(registry, strings.NewReader(want), "natsleader_bucket_elections", "natsleader_bucket_elections_left_out")
		expect.That(t, err == nil, "%v", err)
		if n, err := testutil.GatherAndCount(registry); err != nil || n != 3+5*elections {
			t.Errorf("%d series for %d elections, %v", n, elections, err)
		}
	}
	h := leader.Holder{ID: "\xff\"\n" + strings.Repeat("x", 200), Token: 7}
	expect.OK(t, e.changed(changeOf("\xff", stateLeading, h), changeOf("a", stateLeading, h), changeOf("b", stateLeading, h), changeOf("c", stateLeading, h)))
	count(2, 2)
	id := e.shows["a"].id
	expect.That(t, cells(id) == longID && strings.HasPrefix(id, `\xff"\n`), "the ID is shown as %q", id)
	if err := e.changed(changeOf("b", stateNever, leader.Holder{})); err != nil { // deleted, and its marker has expired
		t.Fatal(err)
	}
	count(1, 2)
	expect.OK(t, e.changed(changeOf("c", stateLeading, h), changeOf("a", stateLeading, h), changeOf("a", stateLeading, leader.Holder{ID: "b", Token: 8})))
	count(2, 1)
	x := e.shows["a"]
	expect.That(t, x.terms == 2 && x.token == 8 && x.id == "b", "%+v", x)
	gone := electionChange{state: stateDeleted, now: electionStatus{election: "a", gone: time.Unix(1e9, 0)}} // its marker has expired
	expect.OK(t, e.changed(gone, changeOf("\xff", stateNever, leader.Holder{}), changeOf("b", stateDeleted, leader.Holder{})))
	count(2, 0)
	e.trouble(errors.New("gone"))
	n, err := testutil.GatherAndCount(registry)
	expect.That(t, err == nil && n == 1, "%d series without the bucket, %v", n, err)
}

// The key of a seat belongs to the election, and no other key does.
func TestSeatOfKey(t *testing.T) {
	for key, want := range map[string]string{
		"a": "a 1", "a.seat.2": "a 2", "a.seat.1": "a.seat.1 1", "a.seat.02": "a.seat.02 1", "a.seat.x": "a.seat.x 1",
		"a.seat.3.seat.2": "a.seat.3 2", ".seat.2": ".seat.2 1", "a.seat.-2": "a.seat.-2 1",
	} {
		election, seat := seatOfKey(key)
		expect.That(t, fmt.Sprint(election, " ", seat) == want, "%s: %s %d, want %s", key, election, seat, want)
	}
}

// metricTokens are tokens as values of metrics: see tokens.
var metricTokens = regexp.MustCompile(`9\.46684\d*e\+14`)

// exported adds to the transcript what the exporter serves, but no metrics of Go and of the process.
func (w *world) exported() {
	w.Helper()
	for _, path := range []string{"/metrics", "/connected", "/live"} {
		status, body := w.get(path)
		w.notef("GET %s: %d\n", path, status)
		for line := range strings.Lines(body) {
			if path != "/metrics" || strings.HasPrefix(line, "natsleader_") {
				w.notef("  %s", metricTokens.ReplaceAllString(line, "TOKEN"))
			}
		}
	}
}

// The exporter shows elections with a leader, with several, with dead candidates and without candidates, in
// buckets that go away and come back. While the bucket cannot be read it shows no election: what it has read
// may be wrong by then.
func TestExporter_AllElections(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		at := func(what string, do func() error) {
			w.Helper()
			w.notef("# %s\n", what)
			expect.OK(w, do())
			time.Sleep(10 * time.Second)
			w.exported()
		}
		defer w.follow("exporter --bucket jobs --timeout 1h -s nats://boss:boss@127.0.0.1:4222")()
		at("there is no bucket", func() error { return nil })
		_, body := w.get("/connected")
		if text, err := os.ReadFile("../../docs/cli.md"); err != nil || !strings.Contains(string(text), "$ curl localhost:9847/connected\n"+strings.ReplaceAll(body, "jobs", "elections")) {
			w.Errorf("docs/cli.md does not show\n%s%v", body, err)
		}
		at("the bucket is made, many has two leaders, and the holder of dead has died", func() (err error) {
			w.bucket, err = leader.CreateBucket(w.Context(), w.js, leader.BucketConfig{Name: "jobs", MaxLease: 10 * time.Second})
			for _, id := range []string{"a", "b"} {
				w.campaigns("many", leader.Config{ID: id, Seats: 2})
			}
			record := `{"v":1,"state":"leading","id":"worker-c","session":"s","n":1,"lease":"100ms","token":1}`
			_, failed := w.js.Publish(w.Context(), "$KV.jobs.dead", []byte(record))
			return errors.Join(err, failed)
		})
		at("the server restarts", func() error { w.restart(); return nil })
		reload := func(deny ...string) error {
			o := w.o.Clone()
			o.Users[1].Permissions = denied(deny...)
			return w.s.ReloadOptions(o)
		}
		at("a permission is revoked", func() error { return reload("$JS.API.STREAM.INFO.>") })
		at("it is granted again", func() error { return reload() })
		at("the bucket is deleted", func() error { return w.js.DeleteKeyValue(w.Context(), "jobs") })
		w.notef("# the server is gone: no metrics at once, although the limit for an answer is an hour\n")
		w.s.Shutdown()
		w.s.WaitForShutdown()
		synctest.Wait()
		w.exported()
		w.serve()
	}, withUser("boss", nil))
}
