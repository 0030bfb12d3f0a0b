package leader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// Writes through a guard: their results, their effects on readers and watchers, and
// their errors.

func isFenced(err error) bool { return errors.Is(err, leader.ErrFenced) }

// history returns the values stored for a key, oldest first.
func (w *world) history(kv jetstream.KeyValue, key string) string {
	w.Helper()
	all, err := kv.History(w.Context(), key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return ""
	}
	w.ok(err)
	var s []string
	for _, e := range all {
		switch e.Operation() {
		case jetstream.KeyValuePut:
			s = append(s, string(e.Value()))
		default:
			s = append(s, e.Operation().String())
		}
	}
	return strings.Join(s, " ")
}

// refused fails the test unless the error says that nothing was written because of a
// condition of the caller's own.
func (w *world) refused(err, want error) {
	w.Helper()
	if !errors.Is(err, want) || errors.Is(err, leader.ErrFenced) || errors.Is(err, fence.ErrUnknownOutcome) {
		w.Errorf("%v, want %v", err, want)
	}
}

// A writer stores the messages that the bucket of nats.go would store. TestParity_GuardedWrites has the
// errors of conditions that do not hold.
func TestBucketWriter_MatchesKV(t *testing.T) {
	inSealed(t, func(w *world) {
		kv := w.orders()
		a := w.guard("a", "orders")
		w.at(time.Second)
		ctx, put := w.Context(), a.writer(t)
		rev := check.Got(put.Put(ctx, "k", []byte("1")))(w)
		e := check.Got(kv.Get(ctx, "k"))(w)
		check.Equal(t, e.Revision(), rev, "revision %d")
		check.Got(put.Update(ctx, "k", []byte("2"), rev))(w)
		w.ok(put.Delete(ctx, "k"))
		check.Got(put.Create(ctx, "k", []byte("3")))(w)
		check.Equal(t, w.history(kv, "k"), "1 2 KeyValueDeleteOp 3", "%q")
		w.ok(put.Purge(ctx, "k"))
		check.Equal(t, w.history(kv, "k"), "KeyValuePurgeOp", "%q")
		w.guarded(kv, a)
	})
}

// A batch is written as a whole or not at all.
func TestBatch_IsAtomic(t *testing.T) {
	inSealed(t, func(w *world) {
		kv := w.orders()
		a := w.guard("a", "orders")
		w.at(time.Second)
		ctx, put := w.Context(), a.writer(t)
		first := check.Got(put.Put(ctx, "a", []byte("1")))(w)

		b := put.Batch()
		b.Update("a", []byte("2"), first)
		b.Create("b", []byte("2"))
		b.Put("c", []byte("2"))
		b.Put("c", []byte("3"))
		b.Delete("d")
		revs := check.Got(b.Commit(ctx))(w)
		for i, key := range []string{"a", "b", "", "c"} {
			if key == "" {
				continue
			}
			e, gerr := kv.Get(ctx, key)
			w.ok(gerr)
			check.That(t, e.Revision() == revs[i], "%s is at %d, Commit said %d", key, e.Revision(), revs)
		}
		if len(revs) != 5 || w.history(kv, "c") != "2 3" || w.history(kv, "d") != "KeyValueDeleteOp" {
			t.Errorf("%d, c: %q, d: %q", revs, w.history(kv, "c"), w.history(kv, "d"))
		}

		for want, add := range map[error]func(b *fence.BucketBatch){
			jetstream.ErrKeyRevisionMismatch: func(b *fence.BucketBatch) { b.Update("a", []byte("x"), first) },
			jetstream.ErrKeyExists:           func(b *fence.BucketBatch) { b.Create("b", []byte("x")) },
			leader.ErrInvalidConfig:          func(b *fence.BucketBatch) { b.Update("z", []byte("x"), 1) },
			jetstream.ErrInvalidKey:          func(b *fence.BucketBatch) { b.Put("no key", nil) },
		} {
			b := put.Batch()
			b.Put("z", []byte("x"))
			add(b)
			_, err := b.Commit(ctx)
			w.refused(err, want)
		}
		check.Equal(t, w.history(kv, "z"), "", "a refused batch has written %q")
		w.guarded(kv, a)
	})
}

// A StreamWriter publishes messages with their headers, one by one and in batches, until its term ends.
func TestStreamWriter_Publishes(t *testing.T) {
	inSealed(t, func(w *world) {
		conf := jetstream.StreamConfig{Name: "LOG", Subjects: []string{"log.>"}, AllowAtomicPublish: true}
		s := check.Got(w.ops.js.CreateStream(w.Context(), conf))(w)
		g := check.Got(fence.OpenStream(w.ops.js, "LOG", "log.guard"))(w)
		a := w.standAs(leader.Config{ID: "a", Guards: []leader.Guard{g}})
		w.at(time.Second)
		ctx, pub := w.Context(), g.Writer(a.lastTerm(t))
		one := check.Got(pub.Publish(ctx, "log.a", []byte("1")))(w)
		named := &nats.Msg{Subject: "log.a", Header: nats.Header{"Nats-Msg-Id": {"id"}, "X": {"y"}}, Data: []byte("2")}
		two := check.Got(pub.PublishMsg(ctx, named))(w)
		again := check.Got(pub.PublishMsg(ctx, named))(w)
		check.That(t, !two.Duplicate && again.Duplicate && again.Sequence == two.Sequence && two.Sequence == one.Sequence+1,
			"%+v, %+v, %+v", one, two, again)
		m := check.Got(s.GetMsg(ctx, two.Sequence))(w)
		check.That(t, m.Header.Get("X") == "y" && string(m.Data) == "2", "%v %q", m.Header, m.Data)
		b := pub.Batch()
		b.Publish("log.b", []byte("4"))
		on := nats.Header{"Nats-Expected-Last-Subject-Sequence": {fmt.Sprint(two.Sequence)}}
		b.PublishMsg(&nats.Msg{Subject: "log.a", Header: on})
		last := check.Got(b.Commit(ctx))(w)
		m = check.Got(s.GetMsg(ctx, last.Sequence-1))(w)
		check.Equal(t, m.Subject, "log.b", "%s")
		w.ok(leadertest.Resign(ctx, a))
		w.at(10 * time.Second) // and it leads again
		check.Is(t, check.Err(pub.Publish(ctx, "log.a", nil)), leader.ErrFenced)
		check.Is(t, check.Err(pub.PublishMsg(ctx, named)), leader.ErrFenced)
	})
}

// The reply is lost, the request is lost, or the request arrives after other writes. In
// each case the outcome is unknown. A write that is not stored by the time of the next
// acknowledgement never will be.
func TestUnknownOutcome_IsSettled(t *testing.T) {
	for name, k := range map[string]struct {
		dir  direction
		do   treatment
		want string
	}{
		"reply lost":   {down, drop, "unknown next"},
		"request lost": {up, drop, "next"},
		"request late": {up, hold, "next"},
	} {
		for _, kind := range []string{"put", "update", "batch"} {
			inSealed.run(t, name+", "+kind, func(t *testing.T, w *world) {
				kv := w.orders()
				a := w.guard("a", "orders")
				w.at(time.Second)
				put := a.writer(t)
				var inbox string
				a.filter(func(f frame) treatment {
					if f.dir == up && f.subject == "$KV.orders.k" {
						inbox = f.reply
						if k.dir == up {
							return k.do
						}
					}
					if f.dir == down && k.dir == down && inbox != "" && f.subject == inbox {
						return k.do
					}
					return pass
				})
				ctx, cancel := context.WithTimeout(w.Context(), time.Second)
				defer cancel()
				var err error
				switch kind {
				case "put":
					_, err = put.Put(ctx, "k", []byte("unknown"))
				case "update":
					_, err = put.Update(ctx, "k", []byte("unknown"), 0)
				default:
					b := put.Batch()
					b.Put("other", nil)
					b.Put("k", []byte("unknown"))
					_, err = b.Commit(ctx)
				}
				// An update is a batch with the guard as its last message. If its
				// first message is missing, nothing is written, but a try may be on
				// its way at the end.
				told := k.dir == down && kind == "update"
				incomplete := k.dir == up && kind == "update"
				if !incomplete && errors.Is(err, fence.ErrUnknownOutcome) == told || errors.Is(err, context.DeadlineExceeded) == told {
					t.Errorf("%v at %v", err, w.now())
				}
				a.filter(nil)
				check.Got(put.Put(w.Context(), "k", []byte("next")))(w)
				a.open()
				w.at(20 * time.Second)
				// An incomplete batch is sent again until its caller has left. The
				// last try may be on its way when the link is whole again.
				late := kind == "update" && k.dir == up
				got := w.history(kv, "k")
				check.That(t, got == k.want || late && got == "unknown next", "%q, want %q", got, k.want)
				w.guarded(kv, a)
			})
		}
	}
}

// Many goroutines write single keys, batches and under conditions, on one replica; see
// guard_cluster_test.go for three. Each write is there once, at the revision that it
// returned, while the guard moves and is deleted.
func TestGuardedWrite_Concurrent(t *testing.T) {
	inSealed(t, func(w *world) {
		kv := w.orders()
		a := w.guard("a", "orders")
		w.at(time.Second)
		put := a.writer(t)
		guardRush(w.T, put, kv, 16, 40, func(i int) {
			if i == 20 {
				w.ok(kv.Delete(w.Context(), fence.DefaultGuardKey))
			}
		})
		w.guarded(kv, a)
	})
}

// guardRush writes from several goroutines, each its own keys, and checks every
// revision.
func guardRush(t *testing.T, put *fence.BucketWriter, kv jetstream.KeyValue, goroutines, times int, meanwhile func(i int)) {
	t.Helper()
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			var counter uint64
			for i := range times {
				if g == 0 {
					meanwhile(i)
				}
				key, value := fmt.Sprintf("k%d.%d", g, i), []byte(fmt.Sprint("v", g, i))
				expect := map[string]uint64{}
				var err error
				switch (g + i) % 4 {
				case 0, 1:
					expect[key], err = put.Put(t.Context(), key, value)
				case 2:
					key = fmt.Sprintf("c%d", g)
					counter, err = put.Update(t.Context(), key, value, counter)
					expect[key] = counter
				case 3:
					b := put.Batch()
					b.Create(key, value)
					b.Put(key+"b", value)
					revs, cerr := b.Commit(t.Context())
					if err = cerr; err == nil {
						expect[key], expect[key+"b"] = revs[0], revs[1]
					}
				}
				if err != nil {
					t.Errorf("goroutine %d, %d: %v", g, i, err)
					return
				}
				for key, rev := range expect {
					e, err := kv.GetRevision(t.Context(), key, rev)
					for began := time.Now(); errors.Is(err, jetstream.ErrKeyNotFound) && time.Since(began) < tcpLimit; {
						<-time.After(10 * time.Millisecond) // a replica may lag
						e, err = kv.GetRevision(t.Context(), key, rev)
					}
					check.That(t, err == nil && string(e.Value()) == string(value),
						"%s at revision %d: %v, %v", key, rev, e, err)
				}
			}
		})
	}
	wg.Wait()
}

// A batch can be committed again after a commit that failed.
func TestBatch_CommittedAgain(t *testing.T) {
	inSealed(t, func(w *world) {
		kv := w.orders()
		a := w.guard("a", "orders")
		w.at(time.Second)
		put := a.writer(t)
		b := put.Batch()
		b.Put("x", []byte("1"))
		b.Put("y", []byte("1"))
		a.cut()
		w.at(1500 * time.Millisecond)
		ctx, cancel := context.WithTimeout(w.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := b.Commit(ctx)
		w.refused(err, context.DeadlineExceeded)
		check.That(t, strings.Contains(err.Error(), "the connection is"), "%v does not say why", err)
		a.open()
		w.at(4 * time.Second)
		for range 2 {
			check.Got(b.Commit(w.Context()))(w)
		}
		check.Equal(t, w.history(kv, "x"), "1 1", "%q")
	})
}
