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
	"github.com/natsleader/natsleader/leader"
)

// ping expects this result of a Ping of at most a second, after exactly d.
func ping(t *testing.T, c *leader.Candidate, want error, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	from := time.Now()
	if err := c.Ping(ctx); !errors.Is(err, want) || time.Since(from) != d {
		t.Errorf("Ping: %v after %v, want %v after %v", err, time.Since(from), want, d)
	}
}

// Ping is answered at once while the candidate leads, while it is cut off from the store for
// hours, and while it ends. Then it returns ErrStopped.
func TestPing_AnsweredAtOnce(t *testing.T) {
	for _, seats := range []int{0, 3} {
		synctest.Test(t, func(t *testing.T) {
			b := lead(t, &gated{plainStore: newPlainStore()}, leader.Config{Seats: seats})
			ping(t, b.Candidate, nil, 0)
			b.store.mute()
			b.at(6 * time.Hour)
			ping(t, b.Candidate, nil, 0)
			go func() { _ = b.Stop(t.Context()) }()
			synctest.Wait() // it waits for the requests in flight
			select {
			case <-b.Done():
				t.Error("it has ended already")
			default:
			}
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
			store := &gated{plainStore: newPlainStore()}
			b := lead(t, store, leader.Config{Clock: newGatedClock(store), Guards: []leader.Guard{&gatedGuard{store, new(backend.Entry)}}})
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
			if err := b.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// One of several seats does not answer for the others.
func TestPing_OneSeatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := lead(t, &gated{plainStore: newPlainStore()}, leader.Config{Seats: 3})
		unblock := b.store.block("Get")
		b.at(5 * time.Minute) // the seats that it does not lead on read their keys again
		ping(t, b.Candidate, context.DeadlineExceeded, time.Second)
		unblock()
		ping(t, b.Candidate, nil, 0)
		_ = b.Stop(t.Context())
	})
}

// Ping does not wait for a handler of the log that holds up the end of the candidate.
func TestPing_EndAwaitsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := newScribbler(func(string) { <-release })
		b := lead(t, &gated{plainStore: newPlainStore()}, leader.Config{Logger: slog.New(h)})
		go func() { _ = b.Stop(t.Context()) }()
		synctest.Wait()
		select {
		case <-b.Done():
			t.Error("it has ended already")
		default:
		}
		ping(t, b.Candidate, leader.ErrStopped, 0)
		close(release)
		<-b.Done()
	})
}

// Ping is answered while the mail never ends.
func TestPing_WhileMailPoursIn(t *testing.T) {
	store := newPlainStore()
	c, err := leader.Campaign(t.Context(), store, "e", leader.Config{})
	if err != nil {
		t.Fatal(err)
	}
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
		if err := c.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	}
	close(end)
	pour.Wait()
	_ = c.Stop(t.Context())
}

// A zero Candidate is one that has ended.
func TestPing_ZeroCandidate(t *testing.T) {
	if err := new(leader.Candidate).Ping(t.Context()); !errors.Is(err, leader.ErrStopped) {
		t.Error(err)
	}
}
