package machine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/record"
)

// The exploration is as good as its renumbering: situations that it takes for one must be
// one for the machines. So the same actions are applied to a world that is renumbered
// after each action and to a twin that keeps its numbers and instants. Both must do the
// same.
func TestRenumbering_ChangesNothing(t *testing.T) {
	t.Parallel()
	for _, base := range slices.Concat(scenarios, endless) {
		if base.void {
			continue // there the numbers are kept apart only up to a distance
		}
		for seed := range uint64(proof.Raced(proof.Size(6, 20), 20)) {
			sc := *base
			rng := rand.New(rand.NewPCG(seed, 7))
			w := sc.start(nil)
			for k := range w.left {
				if w.left[k] > 0 {
					w.left[k] = unlimited
				}
			}
			w.budget = unlimited
			twin := *w
			var did, twinDid []string
			w.did = func(now time.Time, fx Effects) { did = append(did, inTicks(now, fx)) }
			twin.did = func(now time.Time, fx Effects) { twinDid = append(twinDid, inTicks(now, fx)) }
			w.didRaise = func(now time.Time, fx guardEffects) { did = append(did, guardInTicks(now, fx)) }
			twin.didRaise = func(now time.Time, fx guardEffects) { twinDid = append(twinDid, guardInTicks(now, fx)) }
			var trace []action
			for range 120 {
				all := w.actions(nil)
				if !slices.Equal(all, twin.actions(nil)) {
					t.Fatalf("%s: after %v, %v may happen, or to the twin %v", sc.name, trace, all, twin.actions(nil))
				}
				a := all[rng.IntN(len(all))]
				for range 10 {
					if a.goesOn() {
						break
					}
					a = all[rng.IntN(len(all))]
				}
				trace = append(trace, a)
				did, twinDid = nil, nil
				w.apply(a)
				twin.apply(a)
				if !slices.Equal(did, twinDid) || w.broken != twin.broken {
					t.Fatalf("%s: after %v it did %q %s, and the twin %q %s", sc.name, trace, did, w.broken, twinDid, twin.broken)
				}
				twin.forgetLike(w)
				w.renumber()
			}
		}
	}
}

// inTicks describes the effects of a step, without the numbers and with the times that a
// clock of whole ticks can show.
func inTicks(now time.Time, fx Effects) string {
	after := func(at time.Time) time.Duration { return max(0, at.Sub(now)+tick-1).Truncate(tick) }
	var b strings.Builder
	_, _ = fmt.Fprint(&b, fx.End, fx.Cancel, fx.Request.Kind, fx.Request.Rec.Phase, fx.Request.Rec.Lease, fx.Denied, fx.done, fx.Wake.IsZero(), after(fx.Wake))
	for _, n := range fx.Notes {
		if n.Event != NoteObserved { // the holder that is shown is not part of the exploration
			_, _ = fmt.Fprint(&b, n.Event, n.Err != nil, after(n.Until))
		}
	}
	return b.String()
}

// guardInTicks is inTicks for a guard machine.
func guardInTicks(now time.Time, fx guardEffects) string {
	return fmt.Sprint(fx.Op.Kind, fx.Cancel, fx.Fault != nil, fx.Wake.IsZero(), max(0, fx.Wake.Sub(now)+tick-1).Truncate(tick))
}

// forgetLike drops the messages and old writes that renumbering drops from the other
// world, so that the same may happen next. It also names sessions alike.
func (w *worldOf) forgetLike(other *worldOf) {
	thinned := *other
	thinned.forgetGhosts()
	for i := range w.times {
		p := &thinned.parties[i]
		if !p.up {
			continue
		}
		p.forget(&thinned)
		before := other.parties[i].told
		for n := len(before) - 1; n >= 0; n-- {
			if before[n].Kind != record.EntryUnseen && !slices.Contains(p.told[:], before[n]) {
				w.parties[i].hear(n)
			}
		}
	}
	for n, g := range other.ghosts {
		if g.rec.Session != "" && !slices.Contains(thinned.ghosts[:], g) {
			w.ghosts[n] = ghost{}
		}
	}
	if w.ghosts[0].rec.Session == "" {
		w.ghosts[0], w.ghosts[1] = w.ghosts[1], ghost{}
	}
	if thinned.past == ([2]record.Observation{}) {
		w.past = thinned.past
	}
	thinned.forgetRaises()
	for n, g := range other.guard.ghosts {
		if g.rec.Session != "" && !slices.Contains(thinned.guard.ghosts[:], g) {
			w.guard.ghosts[n] = raiseGhost{}
		}
	}
	if w.guard.ghosts[0].rec.Session == "" {
		w.guard.ghosts[0], w.guard.ghosts[1] = w.guard.ghosts[1], raiseGhost{}
	}
	if thinned.guard.past == ([2]record.GuardObservation{}) {
		w.guard.past = thinned.guard.past
	}
	w.forgetOld()
	w.renumberSessions()
}
