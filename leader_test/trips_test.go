package leader_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// tripTime is the time of a round trip on the link of a traveller.
const tripTime = 10 * time.Millisecond

// traveller is a client far from the server: what it sends arrives a round trip later, and the replies come at once.
type traveller struct {
	*client
	b *leader.Bucket
}

func (w *world) travels(t *testing.T, b func(cl *client) *leader.Bucket) *traveller {
	t.Helper()
	cl := w.dial("far")
	return &traveller{cl, b(cl)}
}

// trips returns how many round trips a call takes.
func (r *traveller) trips(t *testing.T, call func() error) (n int) {
	t.Helper()
	done := make(chan error, 1)
	r.detain(up)
	go func() { done <- call() }()
	for {
		synctest.Wait()
		select {
		case err := <-done:
			r.open()
			synctest.Wait()
			check.OK(t, err)
			return n
		default:
		}
		check.Must(t, n < 50, "it takes more than %d trips", n)
		time.Sleep(tripTime)
		synctest.Wait()
		r.release(1 << 30)
		n++
	}
}

// elected returns the trips of a candidate from its start until it leads.
func (r *traveller) elected(t *testing.T, election string) (c *leader.Candidate, trips int) {
	t.Helper()
	trips = r.trips(t, func() error {
		c = check.Got(leader.Campaign(r.w.Context(), r.b, election, leader.Config{ID: "far"}))(t)
		<-c.Events(r.w.Context(), leader.Elected{})
		return nil
	})
	return c, trips
}

// locked returns the trips until a lock is taken.
func (r *traveller) locked(t *testing.T, take func(context.Context, leader.Store, string, leader.Config) (*leader.Lock, error)) int {
	t.Helper()
	return r.trips(t, func() error {
		lock, err := take(r.w.Context(), r.b, "l", leader.Config{})
		r.w.locks = append(r.w.locks, lock)
		return err
	})
}

// How many round trips it takes until a candidate leads, and until a lock is taken, found held and given back. Now and then one more is
// needed: which of two requests of one instant goes out first is chance. So the fewest of several tries count.
func TestTrips(t *testing.T) {
	opens := func(cl *client) *leader.Bucket { return cl.bucket(t) }
	ensures := func(cl *client) *leader.Bucket {
		return check.Got(leader.EnsureBucket(cl.js, leader.BucketConfig{Name: "E"}))(t)
	}
	takes := func(want int, what string, in setting, measure func(w *world) int) {
		t.Helper()
		fewest := 100
		for tries := 0; tries < 5 && fewest > want; tries++ {
			in(t, func(w *world) { fewest = min(fewest, measure(w)) })
		}
		check.Equal(t, fewest, want, what+": %d trips")
	}
	takes(4, "elected where there is no bucket", inBubble, func(w *world) int {
		_, n := w.travels(t, ensures).elected(t, "a")
		return n
	})
	takes(2, "elected in the bucket of EnsureBucket", inSealed, func(w *world) int {
		_, n := w.travels(t, ensures).elected(t, "a")
		return n
	})
	takes(3, "elected in the bucket of OpenBucket", inSealed, func(w *world) int {
		_, n := w.travels(t, opens).elected(t, "a")
		return n
	})
	takes(2, "elected beside another", inSealed, func(w *world) int {
		far := w.travels(t, opens)
		far.elected(t, "a")
		_, n := far.elected(t, "b")
		return n
	})
	takes(2, "elected again", inSealed, func(w *world) int {
		far := w.travels(t, opens)
		first, _ := far.elected(t, "a")
		check.OK(t, first.Stop())
		_, n := far.elected(t, "a")
		return n
	})
	takes(1, "a lock taken", inSealed, func(w *world) int {
		far := w.travels(t, opens)
		far.elected(t, "other")
		return far.locked(t, leader.TryAcquire)
	})
	takes(1, "a lock taken again", inSealed, func(w *world) int {
		far := w.travels(t, opens)
		far.elected(t, "other")
		for range 3 {
			far.locked(t, leader.Acquire)
			check.OK(t, w.locks[0].Unlock(w.Context()))
			w.locks = nil
		}
		return far.locked(t, leader.Acquire)
	})
	takes(1, "a lock taken again, with nothing else in the bucket", inSealed, func(w *world) int {
		far := w.travels(t, opens)
		far.locked(t, leader.Acquire)
		check.OK(t, w.locks[0].Unlock(w.Context()))
		w.locks = nil
		return far.locked(t, leader.TryAcquire)
	})
	takes(2, "a lock taken that another process has freed", inSealed, func(w *world) int {
		far := w.travels(t, opens)
		far.elected(t, "other")
		near := check.Got(leader.Acquire(w.Context(), w.dial("near").bucket(t), "l", leader.Config{}))(t)
		check.OK(t, near.Unlock(w.Context()))
		return far.locked(t, leader.TryAcquire)
	})
	takes(1, "a lock given back", inSealed, func(w *world) int {
		far := w.travels(t, opens)
		lock := check.Got(leader.Acquire(w.Context(), far.b, "l", leader.Config{}))(t)
		return far.trips(t, func() error { return lock.Unlock(w.Context()) })
	})
	takes(1, "a lock found held", inSealed, func(w *world) int {
		far := w.travels(t, opens)
		far.elected(t, "other")
		w.locks = append(w.locks, check.Got(leader.Acquire(w.Context(), w.dial("near").bucket(t), "l", leader.Config{ID: "near"}))(t))
		return far.trips(t, func() error {
			var held *leader.HeldError
			check.That(t, errors.As(check.Err(leader.TryAcquire(w.Context(), far.b, "l", leader.Config{ID: "far"})), &held), "not held")
			return nil
		})
	})
}
