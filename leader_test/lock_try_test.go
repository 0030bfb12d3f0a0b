package leader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/kvelect"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// process is a process that tries for the lock "e" on one Bucket.
type process struct {
	*locker
	bucket *leader.Bucket
}

func (w *world) process(id string) *process {
	w.Helper()
	l := w.locker(id)
	return &process{l, l.bucket(w.T)}
}

func (p *process) try() (*leader.Lock, error) {
	lock, err := leader.TryAcquire(p.w.Context(), p.mark.of(p.bucket), "e", p.cfg)
	p.w.locked(lock)
	return lock, err
}

// held fails the test unless "a" holds the lock, and no time goes by.
func (p *process) held() {
	p.w.Helper()
	at := p.w.now()
	held := new(leader.HeldError)
	err := check.Err(p.try())
	check.That(p.w, errors.As(err, &held) && held.Holder.ID == "a", "%v: %s: %v, want that a holds it", at, p.cfg.ID, err)
	p.w.isAt(at, "TryAcquire")
	synctest.Wait() // the candidate remembers what it has read a moment after it has reported it
}

// TryAcquire takes a free lock at once, whether the key was never written or was released,
// and otherwise names the holder.
func TestTryAcquire_FreeOrHeld(t *testing.T) { story(t) }

// The lock of a holder that has crashed is free when this process has seen the same record
// for the whole lease, and not before. A renewal counts as sight of another record.
func TestTryAcquire_CrashedHolder(t *testing.T) { story(t) }

// The memory is of one process, so a Bucket of another connection begins anew, and of one
// clock, so a Clock of its own does.
func TestTryAcquire_MemoryIsNotShared(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.process("a"), w.process("b")
		check.Got(a.try())(w)
		w.at(500 * time.Millisecond)
		a.cut()
		b.held()
		w.at(20 * time.Second)
		w.process("c").held()
		own := &process{b.locker, b.bucket}
		own.cfg.Clock = leader.SystemClock()
		own.held() // and what the process knew is replaced
		own.cfg.Clock = nil
		b.held()
		own.cfg.Clock = uncomparable{leader.SystemClock(), nil}
		own.held()
		own.cfg.Clock = nil
		w.at(20*time.Second + lease)
		check.Got(b.try())(w)
	})
}

// uncomparable is a clock that must not be compared with another.
type uncomparable struct {
	leader.Clock
	_ []int
}

// A key that was deleted is free after one lease in the same way. One that was deleted with
// the holder's lease in the marker, likewise.
func TestTryAcquire_DeletedKey(t *testing.T) { story(t) }

// Values that are no records count as held for one lease, too.
func TestTryAcquire_ForeignRecord(t *testing.T) { story(t) }

// A fault of the store ends the try, in the time of a request.
func TestTryAcquire_Faults(t *testing.T) {
	bubble(t, func(w *world) {
		b := w.process("b")
		fails := func(want error) {
			t.Helper()
			_, err := b.try()
			check.That(t, errors.Is(err, want) && strings.HasPrefix(err.Error(), `try lock "e": leader: `),
				"%v: %v, want %v", w.now(), err, want)
		}
		fails(leader.ErrNoBucket)
		w.isAt(0, "no bucket")
		w.sealed()
		b.blackhole(up, down)
		fails(leader.ErrUnreachable)
		check.That(t, w.now() <= 5*time.Second, "it took %v", w.now())
		b.open()
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		_, err := leader.TryAcquire(ctx, b.bucket, "e", b.cfg)
		check.That(t, err == nil || errors.Is(err, context.Canceled), "%v", err)
		w.at(w.now() + time.Minute)
		w.free() // what came too late was released
		b.nc.Close()
		fails(leader.ErrConnectionClosed)
	})
}

// A bucket that is not purge-protected is refused, whatever its key holds.
func TestTryAcquire_UnfitBucket(t *testing.T) { story(t) }

// Settings with which a candidate waits are refused, and those that no candidate can have.
func TestTryAcquire_Config(t *testing.T) {
	store := leadertest.NewStore(leadertest.NewClock())
	for name, marked := range map[string]leader.Store{"kvelect.Beside": kvelect.Beside(store), "-1 seats": seats.Of(store, -1)} {
		_, err := leader.TryAcquire(t.Context(), marked, "e", leader.Config{})
		check.Says(t, err, leader.ErrInvalidConfig, name)
	}
	for name, cfg := range map[string]leader.Config{
		"Queue": {Queue: &leader.Queue{AtOnce: true}}, "Queue ": {Queue: &leader.Queue{}}, "PendingPeriod": {PendingPeriod: time.Second},
		"LeaseDuration": {LeaseDuration: -1},
	} {
		_, err := leader.TryAcquire(t.Context(), store, "e", cfg)
		check.Says(t, err, leader.ErrInvalidConfig, strings.TrimSpace(name))
	}
	check.Is(t, check.Err(leader.Acquire(t.Context(), seats.Of(store, -1), "e", leader.Config{})), leader.ErrInvalidConfig)
	check.Equal(t, store.Requests().Total(), 0, "%d requests")
}

// Of a hundred processes that try at once, exactly one has the lock. The others know it.
func TestTryAcquire_OnceOfHundred(t *testing.T) {
	inSealed(t, func(w *world) {
		var all []*process
		for i := range 100 {
			all = append(all, w.process(fmt.Sprintf("p%d", i)))
		}
		var mu sync.Mutex
		var locks []*leader.Lock
		for round := range 3 {
			var tries sync.WaitGroup
			for _, p := range all {
				tries.Go(func() {
					lock, err := p.try()
					mu.Lock()
					defer mu.Unlock()
					if held := new(leader.HeldError); err == nil {
						locks = append(locks, lock)
					} else if !errors.As(err, &held) {
						t.Error(err)
					}
				})
			}
			tries.Wait()
			check.Must(t, len(locks) == 1, "round %d: %d locks", round, len(locks))
			w.ok(locks[0].Unlock(w.Context()))
			locks = nil
		}
	})
}

// With seats the lock is held when all seats are.
func TestTryAcquire_Seats(t *testing.T) {
	inSealed(t, func(w *world) {
		seats := func(id string) *process {
			p := w.process(id)
			p.mark = seated(3)
			return p
		}
		var locks []*leader.Lock
		var held []int
		for _, id := range []string{"a", "b", "c"} {
			lock := check.Got(seats(id).try())(w)
			locks, held = append(locks, lock), append(held, lock.Seat())
		}
		slices.Sort(held)
		check.That(t, slices.Equal(held, []int{1, 2, 3}), "seats %d", held)
		d := seats("d")
		_, err := d.try()
		check.That(t, errors.As(err, new(*leader.HeldError)), "got %v", err)
		w.ok(locks[1].Unlock(w.Context()))
		lock := check.Got(d.try())(w)
		if lock.Seat() != locks[1].Seat() {
			t.Errorf("seat %d, want %d", lock.Seat(), locks[1].Seat())
		}
		w.isAt(0, "all tries")
	})
}

// Guards are raised before the lock is returned, so its writes are fenced.
func TestTryAcquire_Guards(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.process("a")
		guarded := check.Got(fence.CreateOrUpdateBucket(w.Context(), a.js, jetstream.KeyValueConfig{Bucket: "G"}))(w)
		a.cfg.Guards = []leader.Guard{guarded}
		lock := check.Got(a.try())(w)
		check.Got(guarded.Writer(lock.Term).Put(w.Context(), "k", []byte("v")))(w)
		w.ok(lock.Unlock(w.Context()))
		next := check.Got(a.try())(w)
		_, err := guarded.Writer(lock.Term).Put(w.Context(), "k", nil)
		check.That(t, err != nil, "the first lock still writes")
		check.Got(guarded.Writer(next.Term).Put(w.Context(), "k", nil))(w)
	})
}
