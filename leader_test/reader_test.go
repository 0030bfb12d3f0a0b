package leader_test

import (
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/checker"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// A reader that sleeps for many leases delays no renewal. Fault 4 of docs/faults.md.
func TestSlowReader_DelaysNoRenewal(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.mute(w.Context(), w.dial("a"), "e", leader.Config{ID: "a"})
		w.at(500 * time.Millisecond)
		b := w.stand("b")
		w.at(time.Hour)
		b.saw(t, "500ms observed a")
		check.That(t, a.IsLeader(), "a does not lead")
		w.ok(a.Stop())
		var got []string
		for e := range a.Events(w.Context()) {
			got = append(got, describe(e))
		}
		want := "pending|elected|deposed stopped"
		check.That(t, strings.Join(got, "|") == want, "a saw %q", got)
	})
}

// A reader that sleeps delays no fence. Fault 4 of docs/faults.md: nothing delays a fence
// either.
func TestSlowReader_DelaysNoFence(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.mute(w.Context(), w.dial("a"), "e", leader.Config{ID: "a"})
		w.at(3500 * time.Millisecond)
		term, ok := a.Term()
		check.Must(t, ok, "a does not lead")
		a.cut()
		<-term.Context().Done()
		w.isAt(7800*time.Millisecond, "the context ended")
		w.ok(a.Stop())
	})
}

// Every transition is delivered to a slow reader, in order.
func TestSlowReader_GetsTransitions(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.mute(w.Context(), w.dial("a"), "e", leader.Config{ID: "a"})
		events := a.Events(w.Context())
		const terms = 200 // far more than the channel has room for
		for range terms {
			w.at(w.now() + lease)
			w.ok(leadertest.Resign(w.Context(), a))
		}
		w.at(w.now() + time.Second)
		check.That(t, !a.IsLeader(), "a leads too soon")
		read := checker.Candidate{Name: "a"}
		for n := 0; n < terms; {
			e := check.Comes(w, "the next event", events)
			report(t, w.now(), read.Next(e, time.Now()))
			if _, ok := e.(leader.Deposed); ok {
				n++
			}
		}
		w.isAt(terms*lease+time.Second, "all were delivered")
		w.ok(a.Stop())
	})
}

// Events that are never read leak nothing, or the bubble would not end.
func TestUnreadEvents_LeakNothing(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.mute(w.Context(), w.dial("a"), "e", leader.Config{ID: "a"})
		b := w.mute(w.Context(), w.dial("b"), "e", leader.Config{ID: "b"})
		for range 100 {
			w.at(w.now() + lease)
			for _, c := range []*candidate{a, b} {
				if c.IsLeader() {
					w.ok(leadertest.Resign(w.Context(), c))
					break
				}
			}
		}
		w.ok(a.Stop())
		w.ok(b.Stop())
		won, lost := 0, 0
		for e := range a.Events(w.Context()) { // the events that are left make up whole terms
			switch e.(type) {
			case leader.Elected:
				won++
			case leader.Deposed:
				lost++
			case leader.Pending, leader.Fenced, leader.Observed, leader.Faulted:
			}
		}
		check.That(t, won == lost && won != 0, "%d Elected, %d Deposed", won, lost)
	})
}
