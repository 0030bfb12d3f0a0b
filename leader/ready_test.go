package leader_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// waiting is a stage in the time of a bubble.
type waiting struct{ *stage }

func inWaiting(t *testing.T, test func(w waiting)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(waiting{&stage{T: t, store: leadertest.NewStore(nil)}}) })
}

var errCause = errors.New("the caller has had enough")

// ready expects the result of a Ready that may take an hour, after exactly d.
func (w waiting) ready(c *leader.Candidate, want error, d time.Duration) {
	w.Helper()
	_ = w.result(c, want, d)
}

// result is ready, and returns the error.
func (w waiting) result(c *leader.Candidate, want error, d time.Duration) error {
	w.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), time.Hour, errCause)
	defer cancel()
	from := time.Now()
	err := c.Ready(ctx)
	if !errors.Is(err, want) || want == nil && err != nil || time.Since(from) != d {
		w.Errorf("%s: %v after %v, want %v after %v", c.ID(), err, time.Since(from), want, d)
	}
	return err
}

// Ready returns nil at the instant at which the candidate leads, and in the one that follows at
// that at which it knows the leader. Both were cut off when they began.
func TestReady_ColdStart(t *testing.T) {
	inWaiting(t, func(w waiting) {
		w.store.Link("a").Cut()
		w.store.Link("b").Cut()
		a, b := w.stand("a", leader.Config{}), w.stand("b", leader.Config{})
		time.AfterFunc(10*time.Minute, func() { w.store.Link("a").Restore() })
		ctx, cancel := context.WithTimeout(w.Context(), 10*time.Minute-1)
		defer cancel()
		err := a.Ready(ctx)
		check.That(w, errors.Is(err, context.DeadlineExceeded) && errors.Is(err, leader.ErrUnreachable),
			"cut off: %v", err)
		if err := a.Ready(w.Context()); err != nil || !a.IsLeader() {
			w.Errorf("a: %v, leads: %v", err, a.IsLeader())
		}
		w.store.Link("b").Restore()
		if err := b.Ready(w.Context()); err != nil || b.IsLeader() {
			w.Errorf("b: %v, leads: %v", err, b.IsLeader())
		}
		h := b.Leader()
		check.That(w, h.State == leader.HolderLeading && h.ID == "a", "b follows %v", h)
		w.ready(a, nil, 0)
		w.ready(b, nil, 0)
	})
}

// A context that has ended is no reason to report anything else of a candidate that leads or follows.
func TestReady_EndedContext(t *testing.T) {
	inWaiting(t, func(w waiting) {
		a, b := w.stand("a", leader.Config{}), w.stand("b", leader.Config{})
		synctest.Wait()
		ended, cancel := context.WithCancelCause(w.Context())
		cancel(errCause)
		for _, c := range []*leader.Candidate{a, b} {
			if err := c.Ready(ended); err != nil {
				w.Errorf("%s: %v", c.ID(), err)
			}
		}
		w.store.Link("c").Cut()
		err := w.stand("c", leader.Config{}).Ready(ended)
		check.That(w, errors.Is(err, errCause), "c: %v", err)
	})
}

// Ready returns the cause of ctx, with the last fault. A fault is forgotten when the candidate has
// seen a holder since.
func TestReady_CauseAndFault(t *testing.T) {
	inWaiting(t, func(w waiting) {
		w.store.Link("a").FailWrites(-1, leader.ErrPermission)
		a := w.stand("a", leader.Config{})
		check.Is(w, w.result(a, errCause, time.Hour), leader.ErrPermission)
		b := w.stand("b", leader.Config{})
		w.ready(b, nil, 0)
		w.ready(a, nil, 0)
		w.store.Link("a").Cut()
		time.Sleep(time.Minute)
		if err := w.result(a, errCause, time.Hour); errors.Is(err, leader.ErrPermission) || !errors.Is(err, leader.ErrUnreachable) {
			w.Errorf("a fault that is over: %v", err)
		}
	})
}

// Ready waits while the candidate is Pending, and follows another that is.
func TestReady_Pending(t *testing.T) {
	inWaiting(t, func(w waiting) {
		a := w.stand("a", leader.Config{PendingPeriod: 5 * time.Minute})
		synctest.Wait()
		b := w.stand("b", leader.Config{})
		w.ready(b, nil, 0)
		w.ready(a, nil, 5*time.Minute)
		if !a.IsLeader() || b.IsLeader() {
			w.Errorf("a leads: %v, b leads: %v", a.IsLeader(), b.IsLeader())
		}
	})
}

// A candidate follows a holder that cannot be named.
func TestReady_Foreign(t *testing.T) {
	inWaiting(t, func(w waiting) {
		w.store.Put("jobs", []byte("another program"))
		w.ready(w.stand("a", leader.Config{}), nil, 0)
	})
}

// Ready waits for the next leader when one is lost.
func TestReady_LostLeader(t *testing.T) {
	inWaiting(t, func(w waiting) {
		a := w.stand("a", leader.Config{})
		synctest.Wait()
		b := w.stand("b", leader.Config{})
		w.ready(b, nil, 0)
		w.store.Link("a").Cut()
		w.store.Link("b").Cut()
		time.Sleep(time.Minute) // the lease of a is over
		time.AfterFunc(time.Minute, func() { w.store.Link("b").Restore() })
		if err := b.Ready(w.Context()); err != nil || !b.IsLeader() {
			w.Errorf("b: %v, leads: %v", err, b.IsLeader())
		}
		w.ready(a, errCause, time.Hour) // it does not know
	})
}

// A candidate that hands over without a loop campaigns again by itself, and Ready waits for that.
func TestReady_AfterResign(t *testing.T) {
	inWaiting(t, func(w waiting) {
		a := w.stand("a", leader.Config{})
		synctest.Wait()
		check.OK(w, leadertest.Resign(w.Context(), a))
		w.ready(a, nil, 1250*time.Millisecond)
	})
}

// A candidate that has left its loop takes no key before another loop, and Ready does not wait for one.
func TestReady_LoopLeft(t *testing.T) {
	inWaiting(t, func(w waiting) {
		a := w.stand("a", leader.Config{})
		for range a.Terms() {
			break
		}
		synctest.Wait() // it still leads before
		w.ready(a, leader.ErrNotLeader, 0)
		b := w.stand("b", leader.Config{})
		synctest.Wait()
		w.ready(b, nil, 0)
		w.ready(a, nil, 0) // it follows b
		check.OK(w, b.Stop())
		synctest.Wait()
		w.ready(a, leader.ErrNotLeader, 0)
		go func() {
			for term := range a.Terms() {
				<-term.Context().Done()
			}
		}()
		synctest.Wait()
		w.ready(a, nil, 15*time.Second) // after a body that ended while it led it waits one lease
	})
}

// Ready does not wait for the work of a term that is over, neither in the body nor beside it.
func TestReady_WorkGoesOn(t *testing.T) {
	inWaiting(t, func(w waiting) {
		a := w.stand("a", leader.Config{GracePeriod: time.Minute})
		for range a.Terms() {
			w.store.Link("a").Cut()
			beside := make(chan error, 1)
			time.Sleep(9 * time.Second)
			w.ready(a, nil, 0) // it still leads
			go func() {
				time.Sleep(time.Hour)
				beside <- a.Ready(w.Context())
			}()
			time.Sleep(9 * time.Second)
			w.ready(a, leader.ErrNotReleased, 0)
			time.Sleep(time.Hour)
			check.Is(w, <-beside, leader.ErrNotReleased)
			break
		}
		synctest.Wait()
		w.ready(a, leader.ErrNotLeader, 0)
	})
}

// Ready returns when the candidate ends, with the reason. Afterwards, and for a zero Candidate, it
// does so at once.
func TestReady_Ended(t *testing.T) {
	for _, seats := range []int{0, 3} {
		for want, end := range map[error]func(w waiting, c *leader.Candidate){
			leader.ErrStopped:          func(w waiting, c *leader.Candidate) { _ = c.Stop() },
			leader.ErrConnectionClosed: func(w waiting, _ *leader.Candidate) { w.store.Link("a").Close() },
		} {
			inWaiting(t, func(w waiting) {
				w.seats = seats
				w.store.Link("a").Cut()
				a := w.stand("a", leader.Config{})
				time.Sleep(time.Minute)
				result := make(chan error, 1)
				go func() { result <- a.Ready(context.Background()) }()
				synctest.Wait()
				end(w, a)
				err := <-result
				check.That(w, errors.Is(err, want), "%d seats: %v, want %v", seats, err, want)
				<-a.Done()
				w.ready(a, want, 0)
			})
		}
	}
	check.Is(t, new(leader.Candidate).Ready(t.Context()), leader.ErrStopped)
}

// With several seats the candidate leads on one, or knows the holders of all. It waits while a seat
// is free.
func TestReady_Seats(t *testing.T) {
	inWaiting(t, func(w waiting) {
		w.seats = 2
		a := w.stand("a", leader.Config{})
		w.ready(a, nil, 0)
		b := w.stand("b", leader.Config{PendingPeriod: time.Minute})
		w.ready(b, nil, time.Minute)
		c := w.stand("c", leader.Config{})
		w.ready(c, nil, 0)
		if !a.IsLeader() || !b.IsLeader() || c.IsLeader() {
			w.Errorf("a leads: %v, b leads: %v, c leads: %v", a.IsLeader(), b.IsLeader(), c.IsLeader())
		}
		w.store.Link("c").FailWrites(-1, leader.ErrPermission)
		check.OK(w, a.Stop())
		synctest.Wait()
		if err := w.result(c, errCause, time.Hour); !errors.Is(err, leader.ErrPermission) { // b holds one seat only
			w.Error(err)
		}
	})
}

// ping expects this result of a Ping of at most a second, after exactly d.
func ping(t *testing.T, c *leader.Candidate, want error, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	from := time.Now()
	err := c.Ping(ctx)
	check.That(t, errors.Is(err, want) && time.Since(from) == d,
		"Ping: %v after %v, want %v after %v", err, time.Since(from), want, d)
}

// Ping is answered at once while the candidate leads, while it is cut off from the store for
// hours, and while it ends. Then it returns ErrStopped.
func TestPing_AnsweredAtOnce(t *testing.T) {
	for _, seats := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			l := newLedger(nil)
			l.seats = seats
			b := lead(t, l, leader.Config{})
			ping(t, b.Candidate, nil, 0)
			b.store.mute()
			b.at(6 * time.Hour)
			ping(t, b.Candidate, nil, 0)
			go func() { _ = b.Stop() }()
			synctest.Wait() // it waits for the requests in flight
			check.That(t, !check.Now(b.Done()), "it has ended already")
			ping(t, b.Candidate, nil, 0)
			<-b.Done()
			ping(t, b.Candidate, leader.ErrStopped, 0)
		})
	}
}

// Ping ends with its context while a call of the application's or the store's code holds up
// the candidate's goroutine, and leaves nothing behind.
func TestPing_CallHangs(t *testing.T) {
	for _, call := range []string{"Update", "Check", "Reset"} {
		synctest.Test(t, func(t *testing.T) {
			store := newLedger(nil)
			b := lead(t, store, leader.Config{Clock: newLedgerClock(store), Guards: []leader.Guard{&ledgerGuard{l: store}}})
			b.at(3500 * time.Millisecond)
			unblock := store.block(call)
			b.at(2 * time.Minute) // a renewal is due, and a check of the guard
			before := runtime.NumGoroutine()
			for range 100 {
				ping(t, b.Candidate, context.DeadlineExceeded, time.Second)
			}
			if after := runtime.NumGoroutine(); after >= before+50 { // the runtime has some of its own
				t.Errorf("%s: %d goroutines, %d before", call, after, before)
			}
			unblock()
			ping(t, b.Candidate, nil, 0)
			check.Is(t, b.Stop(), nil)
		})
	}
}

// One of several seats does not answer for the others.
func TestPing_OneSeatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(nil)
		l.seats = 3
		b := lead(t, l, leader.Config{})
		unblock := b.store.block("Get")
		b.at(5 * time.Minute) // the seats that it does not lead on read their keys again
		ping(t, b.Candidate, context.DeadlineExceeded, time.Second)
		unblock()
		ping(t, b.Candidate, nil, 0)
		_ = b.Stop()
	})
}

// Ping does not wait for a handler of the log that holds up the end of the candidate.
func TestPing_EndAwaitsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := newScribbler(func(string) { <-release })
		b := lead(t, newLedger(nil), leader.Config{Logger: slog.New(h)})
		go func() { _ = b.Stop() }()
		synctest.Wait()
		check.That(t, !check.Now(b.Done()), "it has ended already")
		ping(t, b.Candidate, leader.ErrStopped, 0)
		close(release)
		<-b.Done()
	})
}

// Ping is answered while the mail never ends.
func TestPing_WhileMailPoursIn(t *testing.T) {
	store := newPlainStore()
	c := check.Got(leader.Campaign(t.Context(), store, "e", leader.Config{}))(t)
	<-c.Events(t.Context()) // the feed is open
	var pour sync.WaitGroup
	end := make(chan struct{})
	for range 4 {
		pour.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
					store.delivers[0](backend.FeedEvent{Reconnected: true})
				}
			}
		})
	}
	for range 100 {
		check.Is(t, c.Ping(t.Context()), nil)
	}
	close(end)
	pour.Wait()
	_ = c.Stop()
}

// A zero Candidate is one that has ended.
func TestPing_ZeroCandidate(t *testing.T) {
	check.Is(t, new(leader.Candidate).Ping(t.Context()), leader.ErrStopped)
}
