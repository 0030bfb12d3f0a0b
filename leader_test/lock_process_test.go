package leader_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// refused fails the test unless the call has returned now, because this process holds the lock.
func (p *waiting) refused() {
	p.w.Helper()
	synctest.Wait()
	select {
	case <-p.done:
		held := new(leader.HeldError)
		if !errors.As(p.err, &held) || held.Election != "e" || !strings.Contains(p.err.Error(), `"e" is held by this process: "`+held.Holder.ID+`" `) {
			p.w.Errorf("at %v: returned %v", p.at, p.err)
		}
	default:
		p.w.Errorf("at %v: it waits for its own process", p.w.now())
	}
}

// A process does not wait for a lock that it holds itself, be it by the same Bucket, by
// another, or by another connection, and with or without an ID. A lock of another name, that
// of another ID and a candidate do not matter.
func TestAcquire_HeldByThisProcess(t *testing.T) {
	for _, id := range []string{"a", ""} {
		inSealed(t, func(w *world) {
			a, again := w.process("a"), w.process("a")
			for _, p := range []*process{a, again} {
				p.cfg.ID = id
			}
			lock := a.acquire()
			a.wait(w.Context()).refused()
			again.wait(w.Context()).refused()
			w.isAt(0, "both calls")
			other := check.Got(leader.Acquire(w.Context(), a.bucket, "other", a.cfg))(w)
			w.ok(other.Unlock(w.Context()))
			b := w.locker("b").wait(w.Context())
			stands := w.campaign(w.Context(), a.client, "e", a.cfg)
			w.at(2 * lease)
			b.pending()
			w.ok(stands.Stop())
			w.ok(lock.Unlock(w.Context()))
			b.returned(2*lease, nil)
			next := again.wait(w.Context())
			next.pending()
			w.ok(b.lock.Unlock(w.Context()))
			next.returned(2*lease, nil)
		})
	}
}

// Of two calls of one process that wait for another, one gets the lock and the other fails.
func TestAcquire_TwiceWaiting(t *testing.T) {
	inSealed(t, func(w *world) {
		lock := w.locker("b").acquire()
		a := w.locker("a")
		one, two := a.wait(w.Context()), a.wait(w.Context())
		w.at(time.Second)
		one.pending()
		two.pending()
		w.ok(lock.Unlock(w.Context()))
		w.at(2 * time.Second)
		for _, p := range []*waiting{one, two} {
			if p.err != nil {
				p.refused()
			}
		}
		check.That(t, (one.err == nil) != (two.err == nil), "%v and %v", one.err, two.err)
	})
}

// A process may hold several seats of a lock. It does not wait when it holds all of them.
func TestAcquire_AllSeatsHeldByThisProcess(t *testing.T) { story(t) }

// A lock that was lost, or given up by an Unlock that goes on, is waited for: it comes free.
func TestAcquire_OwnLockComesFree(t *testing.T) { story(t) }
