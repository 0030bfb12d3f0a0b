package leader_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// ended fails the test unless the candidate has ended by itself or by Stop.
func (c *candidate) ended(t *testing.T, want error) {
	t.Helper()
	synctest.Wait()
	select {
	case <-c.Done():
	default:
		t.Errorf("%s has not ended", c.ID())
	}
	select {
	case <-c.read:
	default:
		t.Errorf("%s: the events do not end", c.ID())
	}
	check.That(t, errors.Is(c.Err(), want), "%s: Err is %v, want %v", c.ID(), c.Err(), want)
	check.That(t, !c.IsLeader() && c.State() != leader.StateLeader, "%s is %v", c.ID(), c.State())
}

// A stopped leader is replaced at the same instant.
func TestStop_HandsOverAtOnce(t *testing.T) {
	kinds(t, func(w *world) {
		a, b := w.veterans()
		w.ok(a.Stop(w.Context()))
		w.isAt(20500*time.Millisecond, "Stop returned")
		a.ended(t, nil)
		a.saw(t, "20.5s deposed stopped")
		b.saw(t, "20.5s observed nobody", "20.5s pending", "20.5s elected")
	})
}

// Fault 2 of docs/faults.md: the end of the context.
func TestContextEnd_StopsGracefully(t *testing.T) {
	kinds(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		a := w.campaign(ctx, w.dial("a"), "e", leader.Config{ID: "a"})
		w.at(20 * time.Second)
		b := w.stand("b")
		w.at(20500 * time.Millisecond)
		a.news()
		b.news()
		term := a.lastTerm(t)
		check.That(t, term.Context().Err() == nil, "the term is over before")
		cancel()
		a.saw(t, "20.5s deposed stopped")
		a.ended(t, nil)
		check.Is(t, context.Cause(term.Context()), leader.ErrStopped)
		b.saw(t, "20.5s observed nobody", "20.5s pending", "20.5s elected")
	})
}

func TestContextEnd_Drains(t *testing.T) {
	inSealed(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		a := w.campaign(ctx, w.dial("a"), "e", leader.Config{ID: "a", DrainTimeout: 10 * time.Second})
		w.at(3500 * time.Millisecond)
		a.news()
		cancel()
		w.at(9 * time.Second)
		a.saw(t, "3.5s fenced stopped")
		a.lastTerm(t).Release()
		a.saw(t, "9s deposed stopped")
		a.ended(t, nil)
	})
}

// A context that has ended before the campaign makes no leader.
func TestContextEnd_BeforeCampaign(t *testing.T) {
	inSealed(t, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		cancel()
		a := w.campaign(ctx, w.dial("a"), "e", leader.Config{ID: "a"})
		w.at(time.Minute)
		a.saw(t)
		a.ended(t, nil)
	})
}

// Fault 1 of docs/faults.md: Stop twice, and in every state. No candidate leads
// afterwards.
func TestStop_ReturnsInEveryState(t *testing.T) {
	for _, k := range []struct {
		name  string
		bring func(w *world) *candidate // into the state
		state leader.State
		took  time.Duration
		saw   string
	}{
		{"that waits", func(w *world) *candidate {
			w.sealed()
			w.stand("b")
			w.at(time.Second)
			a := w.stand("a")
			w.at(3500 * time.Millisecond)
			return a
		}, leader.StateCandidate, 0, ""},
		{"that is pending", func(w *world) *candidate {
			w.ordinary()
			a := w.stand("a")
			w.at(3500 * time.Millisecond)
			return a
		}, leader.StatePending, 0, ""},
		{"that leads", func(w *world) *candidate {
			w.sealed()
			a := w.stand("a")
			w.at(3500 * time.Millisecond)
			return a
		}, leader.StateLeader, 0, "deposed stopped"},
		{"that is fenced", func(w *world) *candidate {
			w.sealed()
			a := w.stand("a")
			w.at(3500 * time.Millisecond)
			a.blackhole(up, down)
			w.at(8500 * time.Millisecond) // it wrote last at 7.75s, and that may still arrive
			return a
		}, leader.StateFenced, 5250 * time.Millisecond, "deposed expired"},
		{"that leads without a server", func(w *world) *candidate {
			w.sealed()
			a := w.stand("a")
			w.at(3500 * time.Millisecond)
			a.cut()
			return a
		}, leader.StateLeader, 5500 * time.Millisecond, "deposed stopped"}, // it wrote last at 3s
		{"that sits out", func(w *world) *candidate {
			w.sealed()
			a := w.stand("a")
			w.at(3500 * time.Millisecond)
			w.ok(a.Resign(w.Context()))
			return a
		}, leader.StateCandidate, 0, ""},
		{"that has no bucket", func(w *world) *candidate {
			a := w.stand("a")
			w.at(3500 * time.Millisecond)
			return a
		}, leader.StateCandidate, 0, ""},
		{"that has no server", func(w *world) *candidate {
			cl := w.dial("a")
			cl.cut()
			w.at(time.Second)
			a := w.campaign(w.Context(), cl, "e", leader.Config{ID: "a"})
			w.at(3500 * time.Millisecond)
			return a
		}, leader.StateCandidate, 0, ""},
		{"that waits for the answer to its first request", func(w *world) *candidate {
			w.sealed()
			cl := w.dial("a")
			cl.blackhole(down)
			a := w.campaign(w.Context(), cl, "e", leader.Config{ID: "a"})
			w.at(500 * time.Millisecond)
			return a
		}, leader.StateCandidate, 0, ""},
		{"that has just begun", func(w *world) *candidate {
			w.sealed()
			return w.stand("a")
		}, 0, 0, "any"},
	} {
		inBubble.run(t, k.name, func(t *testing.T, w *world) {
			a := k.bring(w)
			check.Must(t, k.state == 0 || a.State() == k.state, "a is %v", a.State())
			if k.saw != "any" {
				a.news()
			}
			at := w.now()
			calls := []*call{}
			for range 3 {
				calls = append(calls, w.begin(func() error { return a.Stop(w.Context()) }))
			}
			time.Sleep(k.took)
			for _, c := range calls {
				c.returned(at+k.took, nil)
			}
			w.begin(func() error { return a.Stop(w.Context()) }).returned(at+k.took, nil)
			a.ended(t, nil)
			got := strings.Join(a.news(), "|")
			check.That(t, k.saw == "any" || strings.Contains(got, k.saw), "a saw %q, want %q", got, k.saw)
			a.open()
			w.at(w.now() + time.Minute)
			a.saw(t)
		})
	}
}

// Fault 1 of docs/faults.md: Stop from inside the event loop.
func TestStop_FromTheEventLoop(t *testing.T) {
	for _, with := range []leader.Event{leader.Pending{}, leader.Elected{}} {
		inSealed(t, func(w *world) {
			a := w.mute(w.Context(), w.dial("a"), "e", leader.Config{ID: "a"})
			lost, won := 0, 0
			for e := range a.Events(w.Context()) {
				if _, ok := with.(leader.Pending); ok {
					w.ok(a.Stop(w.Context()))
				}
				switch e := e.(type) {
				case leader.Elected:
					won++
					w.ok(a.Stop(w.Context()))
					check.That(t, e.Term.Err() != nil, "the term is alive after Stop")
				case leader.Deposed:
					lost++
				case leader.Pending, leader.Fenced, leader.Observed, leader.Faulted:
				}
			}
			w.isAt(0, "ended")
			check.That(t, won == lost && won <= 1, "%d Elected, %d Deposed", won, lost)
		})
	}
}

// Fault 1 of docs/faults.md: Stop while the write that wins is in flight; fault 7: it is
// applied, and then released.
func TestStop_ReleasesWinInFlight(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.behind(treat(hold, isWrite))
		w.at(100 * time.Millisecond)
		b := w.stand("b")
		// b is behind it in the queue.
		w.at(100 * time.Millisecond)
		b.saw(t, "100ms pending", "100ms elected")
		w.ok(b.Stop(w.Context()))
		w.at(200 * time.Millisecond)
		stop := w.begin(func() error { return a.Stop(w.Context()) })
		w.at(500 * time.Millisecond)
		stop.pending()
		a.open() // refused: b has written
		stop.returned(500*time.Millisecond, nil)
		a.saw(t, "100ms observed b", "100ms observed nobody")
		w.at(time.Minute)
		a.saw(t)
	})
	inSealed(t, func(w *world) {
		a := w.behind(treat(hold, isWrite))
		w.at(200 * time.Millisecond)
		stop := w.begin(func() error { return a.Stop(w.Context()) })
		w.at(500 * time.Millisecond)
		stop.pending()
		a.open() // accepted, and released at once
		stop.returned(500*time.Millisecond, nil)
		a.saw(t)
		b := w.stand("b")
		b.saw(t, "500ms pending", "500ms elected")
	})
}

// The release of a stopped leader follows a renewal that is in flight. Fault 1 of
// docs/faults.md: Stop while a renewal is in flight.
func TestStop_ReleasesAfterRenewal(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.pair()
		a.detain(down)
		w.at(4100 * time.Millisecond)
		stop := w.begin(func() error { return a.Stop(w.Context()) })
		a.saw(t, "4.1s deposed stopped")
		w.at(4200 * time.Millisecond)
		stop.pending()
		b.saw(t)
		a.open()
		stop.returned(4200*time.Millisecond, nil)
		b.saw(t, "4.2s observed nobody", "4.2s pending", "4.2s elected")
	})
}

// Stop ends the candidate when the context of the call ends.
func TestStop_EndsWithItsContext(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.standAs(leader.Config{ID: "a", DrainTimeout: time.Hour})
		w.at(3500 * time.Millisecond)
		a.news()
		a.blackhole(up, down)
		ctx, cancel := context.WithTimeout(w.Context(), 2*time.Second)
		defer cancel()
		stop := w.begin(func() error { return a.Stop(ctx) })
		w.at(5 * time.Second)
		a.saw(t, "3.5s fenced stopped", "4.25s faulted unreachable")
		stop.pending()
		w.at(5500 * time.Millisecond)
		stop.returned(5500*time.Millisecond, context.DeadlineExceeded)
		a.saw(t, "5.5s deposed stopped")
		a.ended(t, nil)
	})
}

// A candidate that stops while it is pending for a lease releases nothing.
func TestStop_WhilePending(t *testing.T) {
	inOrdinary(t, func(w *world) {
		a := w.stand("a")
		w.at(3500 * time.Millisecond)
		w.ok(a.Stop(w.Context()))
		w.isAt(3500*time.Millisecond, "Stop returned")
		b := w.stand("b")
		w.at(time.Minute)
		// The last write of a was at 3s; b received it at 3.5s.
		b.saw(t, "3.5s observed a pending", "9.5s observed nobody", "9.5s pending", "9.5s elected")
	})
}

// Fault 2 of docs/faults.md: a panic in a worker.
func TestWorkerPanic_IsOneLoss(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.mute(w.Context(), w.dial("a"), "e", leader.Config{ID: "a"})
		w.at(time.Second)
		b := w.stand("b")
		work := func(term *leader.Term) (failed bool) {
			defer func() {
				if recover() != nil {
					failed = true
				}
			}()
			time.Sleep(3500*time.Millisecond - w.now())
			panic(term.Token())
		}
		var got []string
		for e := range a.Events(w.Context()) {
			got = append(got, describe(e))
			if e, ok := e.(leader.Elected); ok && work(e.Term) {
				w.ok(a.Stop(w.Context()))
			}
		}
		want := "pending|elected|deposed stopped"
		check.That(t, strings.Join(got, "|") == want, "a saw %q, want %q", got, want)
		b.saw(t, "1s observed a", "3.5s observed nobody", "3.5s pending", "3.5s elected")
	})
}

// All candidates may be stopped at the same time. One that has tried for the key that the leader
// released, and was refused, reads the key after a pause before it ends.
func TestStop_AllAtOnce(t *testing.T) {
	kinds(t, func(w *world) {
		var all []*candidate
		for _, id := range []string{"a", "b", "c", "d"} {
			all = append(all, w.stand(id))
		}
		w.at(20500 * time.Millisecond)
		var calls []*call
		for _, c := range all {
			calls = append(calls, w.begin(func() error { return c.Stop(w.Context()) }))
		}
		w.at(21 * time.Second)
		for i, c := range all {
			at := 20500 * time.Millisecond
			if c.Stats().Refused > 0 {
				at = max(at, calls[i].at)
			}
			calls[i].returned(at, nil)
			c.ended(t, nil)
		}
		e := w.stand("e")
		e.saw(t, "21s pending", "21s elected")
	})
}
