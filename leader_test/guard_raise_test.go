package leader_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// Candidates raise guards before a term begins, again when a guard is gone, and never
// below its token.

// orders makes the bucket "orders", which is guarded.
func (w *world) orders() jetstream.KeyValue {
	w.Helper()
	kv := check.Got(w.ops.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "orders", History: 5}))(w)
	s := check.Got(w.ops.js.Stream(w.Context(), "KV_orders"))(w)
	conf := s.CachedInfo().Config
	conf.AllowAtomicPublish = true
	check.Got(w.ops.js.UpdateStream(w.Context(), conf))(w)
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
		b := check.Got(fence.OpenBucket(cl.js, name))(w)
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
	e := check.Got(kv.Get(w.Context(), fence.DefaultGuardKey))(w)
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
	got, ok := backend.GuardRevision(term, g.guards[0])
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
		check.Got(a.writer(t).Put(w.Context(), "k", []byte("a")))(w)
		b := w.guard("b", "orders")
		w.at(25 * time.Second)
		w.guarded(kv, a) // a waiting candidate changes nothing
		w.ok(leadertest.Resign(w.Context(), a))
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
		rev := check.Got(zombie.Put(w.Context(), "k", []byte("a")))(w)
		a.blackhole(up, down)
		b := w.guard("b", "orders")
		w.at(20 * time.Second)
		check.Got(b.writer(t).Put(w.Context(), "k", []byte("b")))(w)
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
		_, err := kv.Get(w.Context(), "new")
		check.That(t, err != nil, "a zombie has created a key")
	})
}
