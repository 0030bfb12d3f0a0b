package leader_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// Resign hands over at the same instant.
func TestResign_HandsOverAtOnce(t *testing.T) {
	kinds(t, func(w *world) {
		a, b := w.veterans()

		term := a.lastTerm(t)
		w.ok(a.Resign(w.Context()))
		w.isAt(20500*time.Millisecond, "Resign returned")
		if !errors.Is(context.Cause(term.Context()), leader.ErrResigned) || !errors.Is(term.Err(), leader.ErrResigned) {
			t.Errorf("the term ended with %v, Err %v", context.Cause(term.Context()), term.Err())
		}
		a.saw(t, "20.5s deposed resigned", "20.5s observed nobody", "20.5s observed b")
		b.saw(t, "20.5s observed nobody", "20.5s pending", "20.5s elected")
		w.leads(a, b)
	})
}

// A candidate that resigned waits five turns, so that all others try first. If none of them
// takes the key, it leads again.
func TestResign_OthersTryFirst(t *testing.T) {
	kinds(t, func(w *world) {
		a := w.stand("a")
		w.at(20500 * time.Millisecond)
		a.news()
		w.ok(a.Resign(w.Context()))
		w.at(40 * time.Second)
		a.saw(t, "20.5s deposed resigned", "20.5s observed nobody", "21.75s pending", "21.75s elected")
	})
}

// Candidates that resign one after the other do not leave the election without a leader.
func TestResign_SeveralInARow(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.stand("a")
		w.at(time.Second)
		b := w.stand("b")
		w.at(3500 * time.Millisecond)
		w.ok(a.Resign(w.Context())) // until 4.75 s it lets others try first
		w.at(5 * time.Second)
		a.news()
		b.news()
		w.ok(b.Resign(w.Context())) // until 6.25 s
		w.at(5500 * time.Millisecond)
		a.saw(t, "5s observed nobody", "5s pending", "5s elected")
		b.saw(t, "5s deposed resigned", "5s observed nobody", "5s observed a")
		w.ok(a.Resign(w.Context()))
		w.at(10 * time.Second)
		a.saw(t, "5.5s deposed resigned", "5.5s observed nobody", "6.25s observed b")
		b.saw(t, "5.5s observed nobody", "6.25s pending", "6.25s elected")
	})
}

// Only a leader can resign.
func TestResign_NeedsLeadership(t *testing.T) {
	inOrdinary(t, func(w *world) {
		a := w.stand("a")
		w.at(time.Second)
		b := w.stand("b")
		w.at(2500 * time.Millisecond)
		for _, c := range []*candidate{a, b} { // one is pending, one waits
			err := c.Resign(w.Context())
			check.That(t, errors.Is(err, leader.ErrNotLeader), "%s is %v: Resign returned %v", c.ID(), c.State(), err)
		}
		w.at(7 * time.Second)
		w.leads(a, b)
		w.ok(a.Stop(w.Context()))
		check.Is(t, a.Resign(w.Context()), leader.ErrNotLeader)
	})
}

// Two calls of Resign at the same time are one resignation.
func TestResign_TwiceAtOnceIsOnce(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.lone()
		a.detain(down)
		one := w.begin(func() error { return a.Resign(w.Context()) })
		two := w.begin(func() error { return a.Resign(w.Context()) })
		w.at(3600 * time.Millisecond)
		one.pending()
		two.pending()
		a.open()
		one.returned(3600*time.Millisecond, nil)
		two.returned(3600*time.Millisecond, nil)
		a.saw(t, "3.5s deposed resigned", "3.6s observed nobody")
	})
}

// A release that arrives late never touches the record of a successor. Fault 9 of
// docs/faults.md.
func TestRelease_LateSparesSuccessor(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.pair()
		a.detain(up)
		resign := w.begin(func() error { return a.Resign(w.Context()) })
		w.at(3500 * time.Millisecond)
		a.saw(t, "3.5s deposed resigned") // a delay of the release does not delay the end of the context
		w.at(9*time.Second - 1)
		resign.pending()
		w.at(9400 * time.Millisecond)
		resign.returned(9*time.Second, nil) // the lease that it renewed last is over
		b.saw(t, "9s observed nobody", "9s pending", "9s elected")
		a.open()
		w.at(time.Minute)
		b.saw(t)
		w.leads(a, b)
	})
}

// A release that did not get through is tried again.
func TestRelease_LostIsTriedAgain(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.stand("a")
		w.at(500 * time.Millisecond)
		b := w.stand("b")
		w.at(3500 * time.Millisecond)
		b.news()
		a.blackhole(up)
		resign := w.begin(func() error { return a.Resign(w.Context()) })
		w.at(4 * time.Second)
		resign.pending()
		a.open()
		w.at(5 * time.Second)
		got := b.news()
		check.Must(t, len(got) == 3, "b saw %q", got)
		at := check.Got(time.ParseDuration(got[2][:len(got[2])-len(" elected")]))(w)
		// The pauses between tries are random: up to a quarter of an interval, and a
		// wait of half an interval for an answer.
		check.That(t, at > 4*time.Second && at <= 4*time.Second+interval/2+interval/4, "b was elected at %v", at)
		resign.returned(at, nil)
	})
}

// A draining leader keeps the lease until its work is released.
func TestDrain_UntilRelease(t *testing.T) {
	kinds(t, func(w *world) {
		a := w.standAs(leader.Config{ID: "a", DrainTimeout: time.Minute})
		w.at(20 * time.Second)
		b := w.stand("b")
		w.at(20500 * time.Millisecond)
		a.news()
		b.news()
		term := a.lastTerm(t)
		resign := w.begin(func() error { return a.Resign(w.Context()) })
		a.saw(t, "20.5s fenced resigned")
		check.That(t, a.State() == leader.StateFenced && !a.IsLeader(), "a is %v", a.State())
		w.at(50 * time.Second) // five leases
		b.saw(t)
		resign.pending()
		term.Release()
		resign.returned(50*time.Second, nil)
		a.saw(t, "50s deposed resigned", "50s observed nobody", "50s observed b")
		b.saw(t, "50s observed nobody", "50s pending", "50s elected")
		term.Release() // again, and late
		w.at(60 * time.Second)
		a.saw(t)
		b.saw(t)
	})
}

// A draining leader gives up the key when DrainTimeout is over.
func TestDrain_Timeout(t *testing.T) {
	kinds(t, func(w *world) {
		a := w.standAs(leader.Config{ID: "a", DrainTimeout: 10 * time.Second})
		w.at(20 * time.Second)
		b := w.stand("b")
		w.at(20500 * time.Millisecond)
		a.news()
		b.news()
		resign := w.begin(func() error { return a.Resign(w.Context()) })
		w.at(40 * time.Second)
		resign.returned(30500*time.Millisecond, nil)
		a.saw(t, "20.5s fenced resigned", "30.5s faulted not released", "30.5s deposed resigned", "30.5s observed nobody", "30.5s observed b",
			"36.5s faulted not released")
		b.saw(t, "30.5s observed nobody", "30.5s pending", "30.5s elected")
	})
}

// Work that was released before the resignation needs no drain.
func TestDrain_AfterRelease(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.standAs(leader.Config{ID: "a", DrainTimeout: time.Minute})
		w.at(3500 * time.Millisecond)
		a.news()
		a.lastTerm(t).Release()
		w.at(4500 * time.Millisecond)
		a.saw(t) // it leads on
		w.ok(a.Resign(w.Context()))
		w.isAt(4500*time.Millisecond, "Resign returned")
		a.saw(t, "4.5s deposed resigned", "4.5s observed nobody")
	})
}

// A late Release of an earlier term does not count for the next term.
func TestRelease_OfEarlierTerm(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.standAs(leader.Config{ID: "a", DrainTimeout: 3 * time.Second})
		w.at(500 * time.Millisecond)
		first := a.lastTerm(t)
		resign := w.begin(func() error { return a.Resign(w.Context()) })
		w.at(20500 * time.Millisecond)
		resign.returned(3500*time.Millisecond, nil)
		a.saw(t, "0s pending", "0s elected", "500ms fenced resigned", "3.5s faulted not released", "3.5s deposed resigned", "3.5s observed nobody",
			"9.5s faulted not released")
		first.Release()
		a.saw(t, "20.5s pending", "20.5s elected")
		first.Release()
		resign = w.begin(func() error { return a.Resign(w.Context()) })
		w.at(30 * time.Second)
		resign.returned(23500*time.Millisecond, nil)
		a.news()
	})
}

// A draining leader that is cut off gives up when its time is over.
func TestDrain_CutOff(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.standAs(leader.Config{ID: "a", DrainTimeout: 3 * time.Second})
		w.at(500 * time.Millisecond)
		b := w.stand("b")
		w.at(3500 * time.Millisecond)
		a.news()
		b.news()
		stop := w.begin(func() error { return a.Stop(w.Context()) })
		w.at(3700 * time.Millisecond)
		a.cut()
		w.at(20 * time.Second)
		b.saw(t, "9s observed nobody", "9s pending", "9s elected")
		a.saw(t, "3.5s fenced stopped", "4s faulted unreachable", "6.5s faulted not released", "6.5s deposed stopped")
		// For all a knows, the write of 4s may have been sent. After one lease that
		// write keeps no candidate out any more.
		stop.returned(10*time.Second, nil)
	})
}
