package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// A handler that blocks for ever holds up neither the deadline nor the events nor the end.
func TestLogHandler_Blocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := newScribbler(func(string) { <-release })
		b := lead(t, newLedger(nil), leader.Config{Logger: slog.New(h)})
		term, _ := b.Term()
		b.at(3500 * time.Millisecond) // it has renewed at 3s
		b.store.mute()
		b.at(3*time.Second + plainDeadline - 1)
		check.That(t, term.Context().Err() == nil, "the context ended too soon")
		b.at(3*time.Second + plainDeadline)
		b.told("0s elected: token 1", "7.8s fenced: token 1: "+leader.ErrLeaseExpired.Error())
		backend.Crash(b.Candidate)
		at := time.Now()
		<-b.Done()
		if d := time.Since(at); d > 2*time.Second { // for the request that is not answered, and for the handler
			t.Errorf("Done after %v", d)
		}
		close(release)
	})
}

// Stop waits for a handler that blocks, but only for a second.
func TestLogHandler_BlockedAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := newScribbler(func(string) { <-release })
		b := lead(t, newLedger(nil), leader.Config{Logger: slog.New(h)})
		b.at(time.Second / 2)
		check.OK(t, b.Stop())
		check.Equal(t, time.Since(b.zero), 1500*time.Millisecond, "Stop has returned at %v")
		close(release)
		synctest.Wait()
		if lines := h.written(); !strings.HasPrefix(lines[len(lines)-1], "deposed") {
			t.Errorf("the last line is %q", lines[len(lines)-1])
		}
	})
}

// A handler may call the candidate.
func TestLogHandler_CallsTheCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c *leader.Candidate
		var calls []string
		known := make(chan struct{})
		h := newScribbler(func(message string) {
			<-known
			if message != "elected" || calls != nil {
				return
			}
			ctx := context.Background()
			calls = append(calls,
				fmt.Sprint("Proclaim ", leadertest.Led(c).Proclaim(ctx, []byte("x"))), fmt.Sprint("Stats ", c.Stats().State), fmt.Sprint("Resign ", leadertest.Resign(ctx, c)),
				fmt.Sprint("Stop ", c.Stop()))
		})
		c, _ = leader.Campaign(t.Context(), newPlainStore(), "e", leader.Config{Logger: slog.New(h)})
		close(known)
		zero := time.Now()
		<-c.Done()
		check.Equal(t, time.Since(zero), time.Second, "Done after %v")
		synctest.Wait()
		check.Equal(t, strings.Join(calls, ", "), "Proclaim <nil>, Stats leader, Resign <nil>, Stop <nil>",
			"called: %s")
	})
}

// On a fake clock Settle and Advance return when all is logged, also by a handler that takes its time.
func TestLogHandler_FakeClockWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newScribbler(func(string) { time.Sleep(time.Millisecond) })
		s := newStage(t)
		s.stand("a", leader.Config{Logger: slog.New(h)})
		has := func(begin string) bool {
			return slices.ContainsFunc(h.written(), func(line string) bool { return strings.HasPrefix(line, begin) })
		}
		s.clock.Settle()
		check.That(t, has("elected "), "Settle returns before the candidate has logged that it leads")
		s.store.Link("a").Cut()
		s.clock.Advance(12 * time.Second)
		check.That(t, has("fenced "), "Advance returns before the candidate has logged that it is fenced")
	})
}

// Without a Logger the warnings of a candidate go to the default logger, and nothing else. A handler that discards
// all is asked for nothing.
func TestLogHandler_Default(t *testing.T) {
	var text lines
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})))
	defer log.SetOutput(log.Writer())
	defer slog.SetDefault(before)
	for name, l := range map[string]*slog.Logger{"a": nil, "b": slog.New(slog.DiscardHandler)} {
		s := newStage(t)
		c := s.stand(name, leader.Config{Logger: l})
		s.clock.Settle()
		s.store.Link(name).Cut()
		s.clock.Advance(time.Minute)
		s.store.Link(name).Close()
		<-c.Done() // all is logged
	}
	for line := range strings.Lines(text.String()) {
		check.That(t, strings.Contains(line, "level=WARN") && strings.Contains(line, "election=jobs id=a "), "logged: %s", line)
	}
	check.That(t, strings.Contains(text.String(), "msg=faulted"), "no fault is logged:\n%s", &text)
}

// Of more lines than the queue takes the newest are dropped and counted; the others keep
// their order. Nothing runs when all is written.
func TestLogHandler_QueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blocked, release := true, make(chan struct{})
		h := newScribbler(func(string) {
			if blocked {
				<-release
			}
		})
		store := newPlainStore()
		store.put([]byte("junk"))
		c := check.Got(leader.Campaign(t.Context(), store, "e", leader.Config{Logger: slog.New(h)}))(t)
		synctest.Wait()
		for i := range 200 { // each is an Observed event
			store.put([]byte(fmt.Sprint("junk ", i)))
			synctest.Wait()
		}
		dropped := c.Stats().LogDropped
		blocked = false
		close(release)
		synctest.Wait()
		lines := h.written()
		check.Equal(t, len(lines), 65, "%d lines are written")
		if want := fmt.Sprintf(" dropped=%d", dropped); dropped == 0 || len(lines) < 2 || !strings.HasSuffix(lines[1], want) {
			t.Errorf("the first line written afterwards is %q, want %q; the others are %q", lines[1], want, lines)
		}
		store.put([]byte("more junk"))
		synctest.Wait()
		if lines := h.written(); strings.Contains(lines[len(lines)-1], "dropped") {
			t.Errorf("it is told twice: %q", lines[len(lines)-1])
		}
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if n := strings.Count(string(stacks), "created by github.com/natsleader/natsleader/leader."); n != 1 { // the candidate's own
			t.Errorf("%d goroutines of the library run:\n%s", n, stacks)
		}
		_ = c.Stop()
	})
}

// The context ends at its deadline, whichever call of the user's code holds up the
// candidate's goroutine, and the accessors agree with it. When the call returns, the
// candidate goes on.
func TestWatchdog_EndsTheContext(t *testing.T) {
	for call, then := range map[string]struct {
		at    time.Duration
		token int
	}{
		"Update": {20 * time.Second, 6},
		"Check":  {20 * time.Second, 5},
		"Reset":  {21 * time.Second, 6}, // only then is the timer armed
	} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newLedger(nil)
				b := lead(t, store, leader.Config{Clock: newLedgerClock(store), Guards: []leader.Guard{&ledgerGuard{l: store}}})
				term, _ := b.Term()
				b.at(3500 * time.Millisecond) // it has renewed at 3s
				unblock := store.block(call)
				if call == "Check" {
					for _, deliver := range store.delivers {
						deliver(backend.FeedEvent{Reconnected: true})
					}
				}
				deadline := 3*time.Second + plainDeadline
				if call == "Reset" {
					deadline += time.Second // it comes to rest after one more renewal
				}
				b.at(deadline - 1)
				if !b.IsLeader() || b.State() != leader.StateLeader || term.Context().Err() != nil {
					t.Errorf("%v, and its lease is good", b.State())
				}
				b.at(deadline)
				if !errors.Is(context.Cause(term.Context()), leader.ErrLeaseExpired) {
					t.Fatalf("the context ended with %v", context.Cause(term.Context()))
				}
				if h := b.Leader(); b.IsLeader() || b.State() != leader.StateFenced || h.State != leader.HolderPending || b.Stats().State != leader.StateFenced {
					t.Errorf("%v, and names %v", b.State(), h)
				}
				b.told("0s elected: token 1") // its goroutine does not get to more
				b.at(20 * time.Second)
				unblock()
				b.at(30 * time.Second)
				b.told("0s elected: token 1", fmt.Sprintf("%v fenced: token 1: %v", then.at, leader.ErrLeaseExpired),
					fmt.Sprintf("%v deposed: token 1: %v", then.at, leader.ErrLeaseExpired), fmt.Sprintf("%v elected: token %d", then.at, then.token))
				check.Is(t, b.Stop(), nil)
			})
		})
	}
}

// If a store call does not return, the term ends in time all the same, and Stop returns when the call has.
func TestStop_StoreCallHangs(t *testing.T) {
	inBubble(t, leader.Config{}, func(b *bench) {
		unblock := b.store.block("Update")
		b.at(2 * time.Second)
		stopped := make(chan error, 1)
		go func() { stopped <- b.Stop() }()
		b.at(10 * time.Second)
		check.That(t, !b.IsLeader(), "leads after its deadline")
		unblock()
		synctest.Wait()
		check.That(t, check.Now(b.Done()), "Done is open")
		check.OK(t, <-stopped)
	})
}

// At its end a candidate does not wait for a store that does not answer although the
// context of the call has ended. Stop says whether the key is given up.
func TestStop_StoreNeverAnswers(t *testing.T) {
	for _, c := range []struct {
		limit, at time.Duration
		want      error
	}{
		{0, 8 * time.Second, nil}, // the record keeps others out until then
		{time.Second, 3500 * time.Millisecond, leader.ErrUnreachable},
	} {
		inBubble(t, leader.Config{StopTimeout: c.limit}, func(b *bench) {
			b.at(1500 * time.Millisecond)
			b.store.mute()
			b.at(2500 * time.Millisecond) // the renewal of 2s is not answered
			check.Is(b, b.Stop(), c.want)
			check.Equal(b, time.Since(b.zero), c.at+time.Second, "Stop has returned at %v")
		})
	}
}

// Stop says that the work goes on, or that the connection was closed under the key. Without a key there is nothing to say.
func TestStop_Errors(t *testing.T) {
	for name, c := range map[string]struct {
		before func(b *bench)
		at     time.Duration
		want   error
	}{
		"the work goes on":         {func(b *bench) { term, _ := b.Term(); term.Go(func(context.Context) { <-b.Context().Done() }) }, 6 * time.Second, leader.ErrNotReleased},
		"the connection is closed": {func(b *bench) { b.store.tellAll(backend.FeedEvent{Err: leader.ErrConnectionClosed}) }, 0, leader.ErrConnectionClosed},
		"another leads, and it is closed": {func(b *bench) {
			b.store.put([]byte("junk"))
			synctest.Wait()
			b.store.tellAll(backend.FeedEvent{Err: leader.ErrConnectionClosed})
		}, 0, nil},
		"it has stopped before": {func(b *bench) { check.OK(b, b.Stop()) }, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, leader.Config{}, func(b *bench) {
				b.at(1500 * time.Millisecond)
				c.before(b)
				from := time.Now()
				for range 2 {
					check.Is(b, b.Stop(), c.want)
					check.Equal(b, time.Since(from), c.at, "Stop has returned after %v")
				}
			})
		})
	}
}

// The watchdog is stopped in each way in which a term ends, and a renewal does not touch it.
func TestWatchdog_StopsWithItsTerm(t *testing.T) {
	for name, end := range map[string]func(b *bench){
		"Resign":            func(b *bench) { _ = leadertest.Resign(b.Context(), b) },
		"Stop":              func(b *bench) { _ = b.Stop() },
		"lease expired":     func(b *bench) { b.store.mute(); b.at(90 * time.Second) },
		"preempted":         func(b *bench) { b.store.put([]byte("junk")) },
		"connection closed": func(b *bench) { b.store.delivers[0](backend.FeedEvent{Err: leader.ErrConnectionClosed}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := newLedger(nil)
				clock := newLedgerClock(store)
				b := lead(t, store, leader.Config{Clock: clock})
				b.at(time.Minute + time.Second/2)
				_, n, sets := clock.armed()
				check.That(t, n == 1 && sets <= 20 && store.updates >= 60,
					"%d watchdogs run, set %d times for %d writes", n, sets, store.updates)
				end(b)
				synctest.Wait()
				_, n, _ = clock.armed()
				check.Equal(t, n, 0, "%d watchdogs run")
				backend.Crash(b.Candidate)
				<-b.Done()
			})
		})
	}
}
