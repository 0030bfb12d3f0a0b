package leader_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// In a loop over events the hand-over waits for what Go has begun, and for no other goroutine, whatever context that has.
func TestElected_OnlyGoIsAwaited(t *testing.T) {
	for _, c := range []struct {
		begin func(term *leader.Term, work func(lead context.Context))
		want  time.Duration // from the stop to the next leader
	}{
		{func(term *leader.Term, work func(context.Context)) { term.Go(work) }, 3 * time.Second},
		{func(term *leader.Term, work func(context.Context)) { go work(term.Context()) }, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := leadertest.NewStore(nil)
			a := check.Got(leader.Campaign(t.Context(), store.Link("a"), "e", leader.Config{ID: "a"}))(t)
			go func() {
				for e := range a.Events(context.Background(), leader.Elected{}) {
					c.begin(e.(leader.Elected).Term, func(lead context.Context) {
						<-lead.Done()
						time.Sleep(3 * time.Second) // the rest of the item
					})
				}
			}()
			time.Sleep(time.Second)
			b := check.Got(leader.Campaign(t.Context(), store.Link("b"), "e", leader.Config{ID: "b"}))(t)
			elected := b.Events(t.Context(), leader.Elected{})
			time.Sleep(time.Second)
			stopped := time.Now()
			check.OK(t, a.Stop())
			<-elected
			check.Equal(t, time.Since(stopped), c.want, "b leads after %v")
			check.OK(t, b.Stop())
			time.Sleep(3 * time.Second)
		})
	}
}

// Go either begins work that the hand-over waits for, or begins nothing, in whichever moment the term ends.
func TestGo_RacesTheEnd(t *testing.T) {
	var begun, refused int
	for round := range proof.Raced(400, 4) {
		s := newStage(t)
		a, b := s.stand("a", leader.Config{}), s.stand("b", leader.Config{})
		s.clock.Settle()
		term, ok := a.Term()
		check.Must(t, ok, "a does not lead")
		var inside atomic.Int64
		started, ended := make(chan struct{}, 1), make(chan struct{})
		go func() {
			defer close(ended)
			for term.Go(func(context.Context) { inside.Add(1); runtime.Gosched(); inside.Add(-1) }) {
				begun++
				runtime.Gosched() // for the candidate, on a single processor
				select {
				case started <- struct{}{}:
				default:
				}
			}
			refused++
		}()
		if round%2 == 0 {
			<-started
		}
		check.OK(t, a.Stop())
		n := inside.Load() // the key is given up
		<-ended
		check.That(t, n == 0 && inside.Load() == 0, "%d functions work after the hand-over", n)
		leadertest.Watch(t, s.clock, b).Expect(leadertest.Elected())
	}
	check.That(t, begun > 0 && refused > 0, "%d functions have begun, and %d calls were refused", begun, refused)
}

// The return of a function is no news when another has begun meanwhile.
func TestGo_BesideAReturn(t *testing.T) {
	s := newStage(t)
	a := s.stand("a", leader.Config{})
	s.clock.Settle()
	term, _ := a.Term()
	end := leader.StopBesideGo(a, term)
	check.Soon(t, "the stop begins", func() bool { return a.State() != leader.StateLeader }, runtime.Gosched)
	s.clock.Settle()
	check.Equal(t, a.State(), leader.StateFenced, "%v while the function works")
	end()
	<-a.Done()
}

// Nor is it when a loop has taken the term meanwhile: the hand-over waits for the body.
func TestGo_BesideALoop(t *testing.T) {
	s := newStage(t)
	a := s.stand("a", leader.Config{})
	s.clock.Settle()
	term, _ := a.Term()
	end := leader.LoopBesideGo(a, term)
	s.clock.Settle()
	check.Is(t, leadertest.Led(a).Resign(check.Ended()), context.Canceled)
	s.clock.Settle()
	check.Equal(t, a.State(), leader.StateFenced, "%v while the body works")
	end()
	s.clock.Settle()
	check.Equal(t, a.State(), leader.StateCandidate, "%v after the body")
}

// A zero term, and none, begin no work.
func TestGo_OfNoTerm(t *testing.T) {
	for _, term := range []*leader.Term{nil, {}} {
		check.That(t, !term.Go(func(context.Context) { t.Error("it is called") }), "Go returns true")
		check.Is(t, term.Resign(t.Context()), leader.ErrNotLeader)
		check.Is(t, term.TransferTo(t.Context(), "b"), leader.ErrNotLeader)
		check.Is(t, term.Proclaim(t.Context(), nil), leader.ErrNotLeader)
	}
	check.Is(t, leader.Grace(t.Context()).Err(), context.Canceled)
	check.Is(t, context.Cause(leader.Grace(t.Context())), leader.ErrNotLeader)
}

// Grace has the values of its context, and the contexts that are derived from it end with it, and have its cause.
func TestGrace_IsDerivedFrom(t *testing.T) {
	s := newStage(t)
	a := s.stand("a", leader.Config{})
	s.clock.Settle()
	term, _ := a.Term()
	type key struct{}
	lead, cancel := context.WithCancel(context.WithValue(term.Context(), key{}, "value"))
	cancel()
	grace := leader.Grace(lead)
	derived, cancel := context.WithCancel(grace)
	defer cancel()
	from, ok := leader.FromContext(derived)
	check.That(t, derived.Err() == nil && derived.Value(key{}) == "value" && ok && from == term,
		"it ends with %v, has the value %v, and is of %v", derived.Err(), derived.Value(key{}), from)
	_, bounded := grace.Deadline()
	check.That(t, !bounded, "it has a deadline")
	check.OK(t, a.Stop())
	<-derived.Done()
	check.Is(t, context.Cause(derived), leader.ErrStopped)
}
