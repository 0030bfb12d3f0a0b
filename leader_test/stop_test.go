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
func TestStop_HandsOverAtOnce(t *testing.T) { story(t) }

// Fault 2 of docs/faults.md: the end of the context.
func TestContextEnd_StopsGracefully(t *testing.T) { story(t) }

func TestContextEnd_Drains(t *testing.T) { story(t) }

// A context that has ended before the campaign makes no leader.
func TestContextEnd_BeforeCampaign(t *testing.T) { story(t) }

// Fault 1 of docs/faults.md: Stop twice, and in every state. No candidate leads
// afterwards.
func TestStop_ReturnsInEveryState(t *testing.T) { story(t) }

// Fault 1 of docs/faults.md: Stop from inside the event loop.
func TestStop_FromTheEventLoop(t *testing.T) {
	for _, with := range []leader.Event{leader.Pending{}, leader.Elected{}} {
		inSealed(t, func(w *world) {
			a := w.mute(w.Context(), w.dial("a"), "e", leader.Config{ID: "a"})
			lost, won := 0, 0
			for e := range a.Events(w.Context()) {
				if _, ok := with.(leader.Pending); ok {
					w.ok(a.Stop())
				}
				switch e := e.(type) {
				case leader.Elected:
					won++
					w.ok(a.Stop())
					check.That(t, leader.Err(e.Term.Context()) != nil, "the term is alive after Stop")
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
func TestStop_ReleasesWinInFlight(t *testing.T) { story(t) }

// The release of a stopped leader follows a renewal that is in flight. Fault 1 of
// docs/faults.md: Stop while a renewal is in flight.
func TestStop_ReleasesAfterRenewal(t *testing.T) { story(t) }

// Without an answer to the release, Stop returns at the end of StopTimeout.
func TestStop_EndsInTime(t *testing.T) { story(t) }

// Stop after the end of the context given to Campaign, the last lines of many a main, waits for the same stop.
func TestStop_BesideTheEndOfItsContext(t *testing.T) { story(t) }

// A candidate that stops while it is pending for a lease releases nothing.
func TestStop_WhilePending(t *testing.T) { story(t) }

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
				w.ok(a.Stop())
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
			calls = append(calls, w.begin(func() error { return c.Stop() }))
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
