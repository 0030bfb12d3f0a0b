package leader_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// headerNames returns the names of the headers in a frame.
func headerNames(f frame) (names []string) {
	for line := range bytes.SplitSeq(f.body[:f.head], []byte("\r\n")) {
		if name, _, ok := bytes.Cut(line, []byte(": ")); ok {
			names = append(names, string(name))
		}
	}
	return names
}

// Some servers take the name of a header for another name that contains it. Among all
// names that the library sends there is one such pair, which is the reason for the
// least version of guards.
func TestGuardHeaders_DistinctNames(t *testing.T) {
	bubble(t, func(w *world) {
		check.Got(leader.CreateOrUpdateBucket(w.Context(), w.ops.js, leader.BucketConfig{Name: "E", Roster: true}))(w)
		w.createBucket(jetstream.KeyValueConfig{TTL: time.Hour})
		cl := w.dial("a")
		sent := make(map[string]bool)
		cl.filter(func(f frame) treatment {
			if f.dir == up && f.head > 0 {
				for _, name := range headerNames(f) {
					sent[name] = true
				}
			}
			return pass
		})
		g := cl.openBucket(t)
		a := w.campaign(w.Context(), cl, "e", leader.Config{ID: "a", Queue: &leader.Queue{AtOnce: true}, Guards: []leader.Guard{g}})
		w.at(time.Minute)
		ctx, put := w.Context(), g.Writer(a.lastTerm(t))
		rev := check.Got(put.Put(ctx, "k", nil))(w)
		check.Got(put.Update(ctx, "k", nil, rev))(w)
		w.ok(put.Delete(ctx, "k"))
		w.ok(put.Purge(ctx, "k"))
		w.ok(a.Stop())
		w.ok(checked(ctx, g))
		names := slices.Sorted(maps.Keys(sent))
		t.Logf("%q", names)
		for _, want := range []string{
			"KV-Operation", "Nats-Batch-Commit", "Nats-Batch-Id", "Nats-Batch-Sequence", "Nats-Expected-Last-Subject-Sequence",
			"Nats-Expected-Last-Subject-Sequence-Subject", "Nats-Rollup", "Nats-TTL",
		} {
			check.That(t, sent[want], "%s was not sent", want)
		}
		names = append(names, jetstream.MsgIDHeader, jetstream.ExpectedStreamHeader) // on replicas, and of the caller's
		for _, a := range names {
			for _, b := range names {
				known := a == "Nats-Expected-Last-Subject-Sequence" && b == a+"-Subject"
				check.That(t, a == b || !strings.Contains(b, a) || known, "%s is within %s", a, b)
			}
		}
	})
}
