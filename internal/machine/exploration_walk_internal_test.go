package machine

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

var (
	walks = flag.Int("walks", proof.Raced(proof.Size(800, 6000), 20), "how many random walks through the world of the exploration")
	walk  = flag.Uint64("walk", 0, "take this walk alone, and tell what happens")
)

// goesOn reports whether an action happens without any trouble.
func (a action) goesOn() bool {
	switch a.do {
	case doTick, doWake, doArrive, doDeliver, doHear, doBoot, doOpen, doSlot, doGuardArrive, doGuardDeliver, doGuardWrite,
		doOldExpire, doOldCampaign, doOldArrive, doOldDeliver:
		return a.arg == 0
	case doAnnounce, doRank, doLoop:
		return true
	case doFreeze, doCut, doPause:
		return a.arg == 1
	case doStale, doRefuse, doLose, doFail, doMute, doEndFeed, doReconnect, doForge, doCrash, doResign, doStop, doClose,
		doRelease, doWorked, doNoLoop, doStall, doSet, doGo, doHandOver, doLapse, doBar, doGhost, doRemove, doPurge, doOverwrite, doRollBack, doRemake, doForce, doJunk, doCalm,
		doGuardStale, doGuardRefuse, doGuardLose, doGuardFail, doGuardUnfit, doGuardGhost, doGuardRemove, doGuardOverwrite, doGuardPurge,
		doOldBoot, doOldCrash, doOldRefuse, doOldLose, doOldFail, doOldGhost, doDouble:
	}
	return false
}

// The exploration sees everything, but not far. These walks go on for long, with trouble without
// end. In every other one, each clock runs up to 10% faster or slower than true time, and time does not
// go by whole ticks. When the trouble ends, a candidate leads soon.
func TestRandomWalks(t *testing.T) {
	t.Parallel()
	first, seeds := uint64(1), uint64(*walks)
	var say func(format string, args ...any)
	if *walk != 0 {
		first, seeds, say = *walk, 1, t.Logf
	}
	proof.Ran(int(seeds), "random walks")
	for seed := first; seed < first+seeds; seed++ {
		rng := rand.New(rand.NewPCG(seed, 3))
		sc := endless[rng.IntN(len(endless))]
		w := sc.start(say)
		w.stroll(rng, seed%2 == 0 && sc.old.processes == 0)
		check.Must(t, w.broken == "", "%s; repeat with -walk %d -v; %s", w.broken, seed, sc.name)
	}
}

// stroll takes many actions by chance, until a promise is broken. With free time, a tick lasts as long
// as chance will have it, and another time on each clock. Instants and tokens are kept as they are then,
// so that those of two steps can be compared.
func (w *worldOf) stroll(rng *rand.Rand, freeTime bool) {
	trouble := 1 + rng.IntN(12)          // how much of it
	rates := [maxParties]time.Duration{} // of the clocks, in thousandths
	for i := 0; freeTime && i < len(rates); i++ {
		rates[i] = time.Duration(900 + rng.IntN(201))
		w.parties[i].checker.exact = true
	}
	w.setPaces(rates, tick)
	var actions []action
	for range 400 {
		actions = w.actions(actions[:0])
		a := actions[rng.IntN(len(actions))]
		for range 20 {
			if a.goesOn() || rng.IntN(40) < trouble {
				break
			}
			a = actions[rng.IntN(len(actions))]
		}
		if freeTime && a.do == doTick {
			a.arg = 0 // the clocks deviate by their rates
			w.setPaces(rates, tick*time.Duration(1+rng.IntN(8))/8)
		}
		if w.apply(a); w.broken != "" {
			return
		}
		if !freeTime {
			w.renumber()
			continue
		}
		w.forgetGhosts() // there is room for two
		w.renumberSessions()
		for i := range w.times {
			if broken := w.parties[i].m.brokenInvariant(); broken != "" {
				w.fail("%s: %s", partyNames[i], broken)
			}
		}
	}
	w.setPaces(rates, tick)
	w.recovers()
}

// setPaces lets a tick last for a time, and on each clock for that time at its rate. At a rate of 0 a
// tick is a tick.
func (w *worldOf) setPaces(rates [maxParties]time.Duration, d time.Duration) {
	for i, rate := range rates {
		w.paces[i] = d * rate / 1000
	}
}

// recovers ends all trouble, and requires that a candidate leads soon by the slowest clock.
func (w *worldOf) recovers() {
	w.apply(action{do: doCalm})
	for range w.bound() * 10 / 9 / tick {
		w.renumberSessions()
		if _, led := w.settle(nil); led || w.broken != "" {
			return
		}
		w.apply(action{})
	}
	w.fail("nobody leads %v after the last fault", w.bound())
}
