package leader_test

import (
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

// How many round trips it takes until a candidate leads, and until a lock is taken, found held and given back.
func TestTrips(t *testing.T) {
	opens := func(cl *client) *leader.Bucket { return cl.bucket(t) }
	ensures := func(cl *client) *leader.Bucket {
		return check.Got(leader.EnsureBucket(cl.js, leader.BucketConfig{Name: "E"}))(t)
	}
	takes := func(want, n int, what string) {
		t.Helper()
		check.Equal(t, n, want, what+": %d trips")
	}
	inBubble.run(t, "no bucket", func(t *testing.T, w *world) {
		_, n := w.travels(t, ensures).elected(t, "a")
		takes(4, n, "elected")
	})
	inSealed.run(t, "in the bucket of EnsureBucket", func(t *testing.T, w *world) {
		_, n := w.travels(t, ensures).elected(t, "a")
		takes(2, n, "elected")
	})
	inSealed.run(t, "in the bucket of OpenBucket", func(t *testing.T, w *world) {
		far := w.travels(t, opens)
		a, n := far.elected(t, "a")
		takes(3, n, "elected in a new process")
		b, n := far.elected(t, "b")
		takes(2, n, "elected beside another")
		check.OK(t, a.Stop())
		check.OK(t, b.Stop())
		_, n = far.elected(t, "a")
		takes(2, n, "elected again")
	})
	inSealed.run(t, "lock", func(t *testing.T, w *world) {
		far, near := w.travels(t, opens), w.dial("near").bucket(t)
		var lock *leader.Lock
		try := func() (err error) {
			lock, err = leader.TryAcquire(w.Context(), far.b, "l", leader.Config{ID: "far"})
			return err
		}
		unlock := func() error { return lock.Unlock(w.Context()) }
		takes(3, far.trips(t, try), "taken in a new process")
		takes(1, far.trips(t, unlock), "given back")
		takes(2, far.trips(t, try), "taken again")
		takes(1, far.trips(t, unlock), "given back")
		far.elected(t, "other")
		takes(2, far.trips(t, try), "taken beside another")
		takes(1, far.trips(t, unlock), "given back")
		held := check.Got(leader.Acquire(w.Context(), near, "l", leader.Config{ID: "near"}))(t)
		takes(1, far.trips(t, func() error {
			var other *leader.HeldError
			check.That(t, errors.As(try(), &other), "not held")
			return nil
		}), "found held")
		check.OK(t, held.Unlock(w.Context()))
	})
}
