package leader_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// Candidates raise guards before a term begins, again when a guard is gone, and never
// below its token.

// orders makes the bucket "orders", which is guarded.
func (w *world) orders() jetstream.KeyValue {
	w.Helper()
	kv, err := w.ops.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "orders", History: 5})
	w.ok(err)
	s, err := w.ops.js.Stream(w.Context(), "KV_orders")
	w.ok(err)
	conf := s.CachedInfo().Config
	conf.AllowAtomicPublish = true
	_, err = w.ops.js.UpdateStream(w.Context(), conf)
	w.ok(err)
	return kv
}

// guardian is a candidate that guards buckets through its own connection.
type guardian struct {
	*candidate
	guards []*fence.Bucket
}

func (w *world) guard(id string, buckets ...string) *guardian {
	w.Helper()
	g := &guardian{}
	cl := w.dial(id)
	cfg := leader.Config{ID: id}
	for _, name := range buckets {
		b, err := fence.OpenBucket(cl.js, name)
		w.ok(err)
		g.guards = append(g.guards, b)
		cfg.Guards = append(cfg.Guards, b)
	}
	g.candidate = w.campaign(w.Context(), cl, "e", cfg)
	return g
}

// writer returns the writer of the newest term.
func (g *guardian) writer(t *testing.T) *fence.BucketWriter {
	t.Helper()
	return g.guards[0].Writer(g.lastTerm(t))
}

// standing returns the token at which the guard of a bucket stands, and its revision.
func (w *world) standing(kv jetstream.KeyValue) (token, revision uint64) {
	w.Helper()
	e, err := kv.Get(w.Context(), fence.DefaultGuardKey)
	w.ok(err)
	var rec struct {
		Token    uint64 `json:"token"`
		Election string `json:"election"`
		ID       string `json:"id"`
	}
	w.ok(json.Unmarshal(e.Value(), &rec))
	check.That(w, rec.Election == "E/e" && rec.ID != "", "the guard is %s", e.Value())
	return rec.Token, e.Revision()
}

// guarded fails the test unless the guard stands for the term.
func (w *world) guarded(kv jetstream.KeyValue, g *guardian) {
	w.Helper()
	term := g.lastTerm(w.T)
	token, revision := w.standing(kv)
	check.That(w, token == term.Token(),
		"%v: the guard stands at %d, the term of %s is %d", w.now(), token, g.ID(), term.Token())
	got, ok := term.Fence(g.guards[0])
	check.That(w, ok && got == revision,
		"%v: Fence of %s is %d, %v, the guard's revision is %d", w.now(), g.ID(), got, ok, revision)
}

// A guard is raised before the term begins.
func TestGuard_RaisedBeforeTerm(t *testing.T) {
	kinds(t, func(w *world) {
		kv := w.orders()
		a := w.guard("a", "orders")
		w.at(20 * time.Second)
		w.guarded(kv, a)
		_, err := a.writer(t).Put(w.Context(), "k", []byte("a"))
		w.ok(err)
		b := w.guard("b", "orders")
		w.at(25 * time.Second)
		w.guarded(kv, a) // a waiting candidate changes nothing
		w.ok(a.Resign(w.Context()))
		w.at(26 * time.Second)
		w.leads(a.candidate, b.candidate)
		w.guarded(kv, b)
	})
}

// A write of an earlier term is refused, even an hour later. A worker that is delayed
// between its check and its write, and one that never looks at its context.
func TestZombieWrite_IsRefused(t *testing.T) {
	inSealed(t, func(w *world) {
		kv := w.orders()
		a := w.guard("a", "orders")
		w.at(time.Second)
		zombie := a.writer(t)
		rev, err := zombie.Put(w.Context(), "k", []byte("a"))
		w.ok(err)
		a.blackhole(up, down)
		b := w.guard("b", "orders")
		w.at(20 * time.Second)
		_, err = b.writer(t).Put(w.Context(), "k", []byte("b"))
		w.ok(err)
		a.open()
		w.at(time.Hour)
		batch := zombie.Batch()
		batch.Put("k", []byte("late"))
		batch.Delete("j")
		for what, write := range map[string]func() error{
			"put":    func() error { _, err := zombie.Put(w.Context(), "k", []byte("late")); return err },
			"create": func() error { _, err := zombie.Create(w.Context(), "new", []byte("late")); return err },
			"update": func() error { _, err := zombie.Update(w.Context(), "k", []byte("late"), rev+2); return err },
			"delete": func() error { return zombie.Delete(w.Context(), "k") },
			"purge":  func() error { return zombie.Purge(w.Context(), "k") },
			"batch":  func() error { _, err := batch.Commit(w.Context()); return err },
		} {
			call := w.begin(write)
			call.returned(w.now(), leader.ErrFenced)
			e, err := kv.Get(w.Context(), "k")
			check.That(t, err == nil && string(e.Value()) == "b", "after the %s of a zombie: %v, %v", what, e, err)
		}
		if _, err := kv.Get(w.Context(), "new"); err == nil {
			t.Error("a zombie has created a key")
		}
	})
}

// A candidate that cannot raise its guards renews and does not lead. After one lease it
// lets another candidate try.
func TestGuardRaise_BlockedHandsOver(t *testing.T) {
	inSealed(t, func(w *world) {
		kv := w.orders()
		cl := w.dial("a")
		g, err := fence.OpenBucket(cl.js, "orders")
		w.ok(err)
		cl.filter(func(f frame) treatment {
			if f.dir == up && strings.HasSuffix(f.subject, fence.DefaultGuardKey) && bytes.Contains(f.data(), []byte(`"token":`)) {
				return drop
			}
			return pass
		})
		a := w.campaign(w.Context(), cl, "e", leader.Config{ID: "a", Guards: []leader.Guard{g}})
		w.at(2 * time.Second)
		b := w.guard("b", "orders")
		w.at(5900 * time.Millisecond)
		a.saw(t, "0s pending", "1s faulted unreachable")
		check.That(t, !a.IsLeader() && !b.IsLeader(), "somebody leads without a guard")
		w.at(10 * time.Second)
		a.saw(t, "6s observed nobody", "6s observed b")
		b.saw(t, "2s observed a", "6s observed nobody", "6s pending", "6s elected")
		w.guarded(kv, b)
	})
}

// A leader whose guard a later term has raised begins a new term.
func TestGuard_RaisedByLaterTerm(t *testing.T) {
	inSealed(t, func(w *world) {
		kv := w.orders()
		a := w.guard("a", "orders")
		w.at(500 * time.Millisecond)
		a.saw(t, "0s pending", "0s elected")
		old := a.writer(t)
		w.write(kv, fence.DefaultGuardKey, `{"v":1,"election":"E/e","token":5000000000000000,"id":"x","session":"other"}`)
		if _, err := old.Put(w.Context(), "k", nil); !isFenced(err) {
			t.Error(err)
		}
		w.at(time.Minute)
		// It learned this from the writer.
		a.saw(t, "500ms fenced overtaken", "500ms deposed overtaken", "500ms pending", "500ms elected")
		w.guarded(kv, a)
		w.write(kv, fence.DefaultGuardKey, `{"v":1,"election":"E/e","token":9000000000000000,"id":"x","session":"other"}`)
		w.at(2 * time.Minute)
		// Without a write, it looks after its guards once per lease.
		a.saw(t, "1m0.5s fenced overtaken", "1m0.5s deposed overtaken", "1m0.5s pending", "1m0.5s elected")
		w.guarded(kv, a)
		if _, err := old.Put(w.Context(), "k", nil); !isFenced(err) {
			t.Error(err)
		}
	})
}

// A guard that is gone is raised again. docs/faults.md has no such fault, since no other
// library has guards.
func TestGuard_LostIsRaisedAgain(t *testing.T) {
	for name, lose := range map[string]func(w *world, kv jetstream.KeyValue){
		"deleted": func(w *world, kv jetstream.KeyValue) { w.ok(kv.Delete(w.Context(), fence.DefaultGuardKey)) },
		"purged":  func(w *world, kv jetstream.KeyValue) { w.ok(kv.Purge(w.Context(), fence.DefaultGuardKey)) },
		"overwritten": func(w *world, kv jetstream.KeyValue) {
			w.write(kv, fence.DefaultGuardKey, "junk")
		},
		"removed without a trace": func(w *world, _ jetstream.KeyValue) {
			s, err := w.ops.js.Stream(w.Context(), "KV_orders")
			w.ok(err)
			w.ok(s.Purge(w.Context()))
		},
		"made anew": func(w *world, _ jetstream.KeyValue) {
			w.ok(w.ops.js.DeleteKeyValue(w.Context(), "orders"))
			w.orders()
		},
	} {
		inSealed.run(t, name, func(t *testing.T, w *world) {
			kv := w.orders()
			a := w.guard("a", "orders")
			w.at(500 * time.Millisecond)
			a.news()
			for i := range 5 { // so that revisions go back if the stream is made anew
				_, err := a.writer(t).Put(w.Context(), fmt.Sprint("k", i), nil)
				w.ok(err)
			}
			lose(w, kv)
			w.at(7 * time.Second)
			a.saw(t, "6s faulted guard deleted")
			w.guarded(kv, a)

			lose(w, kv)
			writer := a.writer(t)
			call := w.begin(func() error { _, err := writer.Put(w.Context(), "k", []byte("x")); return err })
			call.returned(7*time.Second, nil) // a write that finds it gone does not wait for a look
			w.guarded(kv, a)
			a.saw(t, "7s faulted guard deleted")

			w.ok(a.Resign(w.Context()))
			lose(w, kv)
			call = w.begin(func() error { _, err := writer.Put(w.Context(), "k", []byte("late")); return err })
			call.returned(7*time.Second, leader.ErrFenced) // it is not raised for a term that is over
		})
	}
}

// Each guard adds two requests to an election.
func TestGuardRaise_TwoRequests(t *testing.T) {
	inSealed(t, func(w *world) {
		w.orders()
		_, err := w.ops.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "stock"})
		w.ok(err)
		a := w.guard("a", "orders", "stock")
		w.at(time.Second)
		w.ok(a.Resign(w.Context()))
		// The messages in both directions from the winning write on, each in the order
		// in which the connection carries it.
		var log []string
		a.filter(func(f frame) treatment {
			switch {
			case f.dir == down && f.subject != "" && !strings.HasPrefix(f.subject, "natsleader."):
				log = append(log, "reply")
			case f.dir == up && f.subject == "$KV.E.e":
				log = append(log, "lease")
			case f.dir == up && strings.HasPrefix(f.subject, "$JS.API.STREAM.MSG.GET."):
				log = append(log, "look")
			case f.dir == up && strings.HasSuffix(f.subject, fence.DefaultGuardKey):
				log = append(log, "raise")
			}
			return pass
		})
		w.at(2750 * time.Millisecond)
		a.sawBut(t, "observed", "0s pending", "0s elected", "1s deposed resigned", "2.25s pending", "2.25s elected")
		// The scheduler decides when each is sent; guard_kit_test.go asserts the time.
		if got := strings.Join(log, " "); strings.Count(got, "look") != 2 || strings.Count(got, "raise") != 2 || strings.Count(got, "lease") != 1 {
			t.Error(got)
		}
	})
}
