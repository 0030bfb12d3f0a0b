package leader_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// semaphore returns a process that asks for the lock with that number of seats.
func (w *world) semaphore(id string, seats int) *process {
	w.Helper()
	p := w.process(id)
	p.mark = seated(seats)
	return p
}

// disagrees fails the test unless the error names the number of seats of "b" and that of a
// holder.
func (w *world) disagrees(err error, seats int, holder string, others int) {
	w.Helper()
	want := fmt.Sprintf("%q is set to %d, %q to %d; give all the same number", "b", seats, holder, others)
	check.That(w, errors.Is(err, leader.ErrSeatsDiffer) && strings.Contains(err.Error(), want),
		"at %v: %v, want %s", w.now(), err, want)
}

// unwritten fails the test unless the keys of the seats after the first n have no record.
func (w *world) unwritten(n int) {
	w.Helper()
	for seat := n + 1; seat < n+4; seat++ {
		_, err := w.kv().Get(w.Context(), seats.Key("e", seat))
		check.That(w, err != nil, "seat %d has been written", seat)
	}
}

// A lock is refused while a holder lives that is set to another number of seats, be it
// greater or less, and whether the holder has a lock or is a candidate. The refusal comes
// before any seat is taken: TryAcquire refuses at once, and Acquire after a renewal.
func TestLock_OtherNumberOfSeats(t *testing.T) {
	for _, one := range []struct{ holder, asks int }{{0, 2}, {1, 2}, {2, 1}, {2, 0}, {2, 3}, {3, 2}} {
		for _, candidate := range []bool{false, true} {
			inSealed(t, func(w *world) {
				has, asks := max(one.holder, 1), max(one.asks, 1)
				if candidate {
					a := w.dial("a")
					a.mark = seated(one.holder)
					w.campaign(w.Context(), a, "e", leader.Config{ID: "a"})
					w.at(0)
				} else {
					w.semaphore("a", one.holder).acquire()
				}
				b := w.semaphore("b", one.asks)
				_, err := b.try()
				w.disagrees(err, asks, "a", has)
				w.isAt(0, fmt.Sprintf("%v: TryAcquire", one))
				w.at(lease / 12)
				again := b.wait(w.Context())
				again.pending()
				w.at(lease / 3)
				again.returned(lease/12+lease/6, leader.ErrSeatsDiffer) // after the first renewal
				w.disagrees(again.err, asks, "a", has)
				w.unwritten(1)
				same := w.semaphore("c", one.holder).wait(w.Context()) // who agrees waits, or has a seat
				w.at(lease)
				if has == 1 {
					same.pending()
				} else {
					same.returned(lease/3, nil)
				}
			})
		}
	}
}

// A holder on a seat above those of the lock is found by the record that the first seat keeps
// when it is released, as often as one asks. When all have unlocked, any number will do.
func TestLock_OtherNumberOfSeatsAbove(t *testing.T) {
	inSealed(t, func(w *world) {
		var above *leader.Lock
		var others []*leader.Lock
		for _, id := range []string{"x", "y", "z"} {
			lock := w.semaphore(id, 3).acquire()
			if lock.Seat() == 3 {
				above = lock
			} else {
				others = append(others, lock)
			}
		}
		for _, lock := range others {
			w.ok(lock.Unlock(w.Context()))
		}
		holder := check.Got(leader.Lookup(w.Context(), w.ops.bucket(t), seats.Key("e", 3)))(w)
		w.at(lease / 12)
		for range 2 {
			b := w.semaphore("b", 1)
			_, err := b.try()
			w.disagrees(err, 1, holder.ID, 3)
			at := w.now()
			asked := b.wait(w.Context())
			w.at(at + lease)
			asked.returned(at+lease/6, leader.ErrSeatsDiffer)
		}
		w.ok(above.Err())
		w.ok(above.Unlock(w.Context()))
		lock := check.Got(w.semaphore("b", 1).try())(w)
		w.ok(lock.Unlock(w.Context()))
		check.Got(w.semaphore("b", 2).try())(w)
		w.isAt(lease/12+2*lease, "all tries")
	})
}

// A holder that has crashed refuses nothing for longer than its lease. Acquire waits for that.
// TryAcquire refuses the lock until the process has seen the record for the lease.
func TestLock_OtherNumberOfSeatsCrashed(t *testing.T) { story(t) }

// A holder that unlocks while the check waits for its renewal refuses nothing.
func TestLock_OtherNumberOfSeatsUnlocked(t *testing.T) { story(t) }

// A context that ends while the check waits for a renewal ends Acquire, with the disagreement
// in the text.
func TestLock_OtherNumberOfSeatsGivesUp(t *testing.T) { story(t) }

// Holders with another number that come while Acquire waits refuse it as well, whether it
// would wait for them or has won a seat that they do not know of.
func TestLock_OtherNumberOfSeatsLater(t *testing.T) {
	for _, number := range []int{1, 2} {
		inSealed(t, func(w *world) {
			var locks []*leader.Lock
			for n := range number {
				locks = append(locks, w.semaphore(fmt.Sprint("x", n), number).acquire())
			}
			b := w.semaphore("b", number)
			waits := b.wait(w.Context())
			w.at(time.Second)
			b.cut()
			for _, lock := range locks {
				w.ok(lock.Unlock(w.Context()))
			}
			other := 3 - number
			a := w.semaphore("a", other)
			lock := check.Got(a.try())(w)
			check.Must(t, lock.Seat() == 1, "a is on seat %d", lock.Seat())
			w.at(2 * time.Second)
			b.open()
			w.at(2*time.Second + lease)
			waits.returned(waits.at, leader.ErrSeatsDiffer)
			w.disagrees(waits.err, number, "a", other)
			w.ok(lock.Err())
			w.at(2*time.Second + 2*lease)
			h, err := leader.Lookup(w.Context(), a.bucket, seats.Key("e", 2))
			check.That(t, err == nil && h.ID == "", "seat 2: %v, %v", h, err)
		})
	}
}

// A check that gets no answer delays the lock, and does not refuse it.
func TestLock_OtherNumberOfSeatsUnread(t *testing.T) { story(t) }
