package leader_test

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// logGuard makes the stream LOG, and a candidate that leads with its guard, and returns its writer.
func (w *world) logGuard() *fence.StreamWriter {
	w.Helper()
	_, err := w.ops.js.CreateStream(w.Context(), jetstream.StreamConfig{
		Name: "LOG", Subjects: []string{"log.>"}, AllowRollup: true, AllowAtomicPublish: true, AllowMsgTTL: true,
	})
	w.ok(err)
	g := check.Got(fence.OpenStream(w.ops.js, "LOG", "log.guard"))(w)
	a := w.standAs(leader.Config{ID: "a", Guards: []leader.Guard{g}})
	w.at(w.now() + time.Second)
	return g.Writer(a.lastTerm(w.T))
}

// A header of the caller that could hide the condition from some servers is refused. So
// is a header that removes the guard, however it is written. The term can write on.
// TestCheckHeader_Names of package fence has all such headers.
func TestGuardHeaders_Hiding(t *testing.T) {
	const text, id = "Nats-Expected-Last-Subject-Sequence", "Nats-Msg-Id"
	inSealed(t, func(w *world) {
		pub := w.logGuard()
		for says, header := range map[string]nats.Header{
			"the header X-" + text + ": nats-server may take its name for " + text:         {"X-" + text: {"1"}},
			"nats-server may take its name for Nats-Batch-":                                {"Nats-Batch-Ids": {"1"}},
			"the header X: nats-server may take its value \"" + text + ": 1\" for " + text: {"X": {text + ": 1"}},
			"the header " + id + ": nats-server may take its value \"Nats-Batch-Id: 1\"":   {id: {"Nats-Batch-Id: 1"}},
			"the header " + text + " has 2 values":                                         {text: {"", "1"}},
			"the header Nats-Expected-Last-Sequence does not go with a guard":              {"Nats-Expected-Last-Sequence": {"", "1"}},
			"the header Nats-Rollup: all would remove the guard":                           {"Nats-Rollup": {" all\t"}},
		} {
			check.Says(t, check.Err(pub.PublishMsg(w.Context(), &nats.Msg{Subject: "log.x", Header: header})), leader.ErrInvalidConfig, says)
			check.Is(t, check.Err(pub.Publish(w.Context(), "log.x", nil)), nil)
		}
	})
}

// A subject that could hide the condition from some servers is refused.
func TestGuardHeaders_HidingSubject(t *testing.T) {
	inSealed(t, func(w *world) {
		const subject = "log.Nats-Expected-Last-Subject-Sequence:.x"
		if g, err := fence.OpenStream(w.ops.js, "LOG", subject); g != nil || !errors.Is(err, leader.ErrInvalidConfig) {
			t.Errorf("a guard: %v", err)
		}
		pub := w.logGuard()
		_, err := pub.PublishMsg(w.Context(), &nats.Msg{Subject: subject, Header: nats.Header{"Nats-Expected-Last-Subject-Sequence": {"0"}}})
		check.Says(t, err, leader.ErrInvalidConfig, "nats-server may take the subject for the header")
		_, err = pub.Publish(w.Context(), subject, nil) // this name is in no header
		w.ok(err)
	})
}

// A write with an invalid header name is not of unknown outcome. A message that nats.go
// does not send is known not to be written.
func TestGuardHeaders_InvalidName(t *testing.T) {
	inSealed(t, func(w *world) {
		pub := w.logGuard()
		_, err := pub.PublishMsg(w.Context(), &nats.Msg{Subject: "log.x", Header: nats.Header{"a:b": {"1"}}})
		check.That(t, errors.Is(err, nats.ErrBadHeaderMsg) && !errors.Is(err, fence.ErrUnknownOutcome), "%v", err)
	})
}

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
		check.Got(leader.CreateBucket(w.Context(), w.ops.js, leader.BucketConfig{Name: "E", Roster: true}))(w)
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
		a := w.campaign(w.Context(), cl, "e", leader.Config{ID: "a", Roster: true, Guards: []leader.Guard{g}})
		w.at(time.Minute)
		ctx, put := w.Context(), g.Writer(a.lastTerm(t))
		rev := check.Got(put.Put(ctx, "k", nil))(w)
		check.Got(put.Update(ctx, "k", nil, rev))(w)
		w.ok(put.Delete(ctx, "k"))
		w.ok(put.Purge(ctx, "k"))
		w.ok(a.Stop(ctx))
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
