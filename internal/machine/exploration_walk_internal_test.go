package machine

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/natsleader/natsleader/internal/proof"
)

var (
	walks = flag.Int("walks", proof.Size(400, 8000)/slowdown, "how many random walks through the world of the exploration")
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
	case doFreeze, doCut:
		return a.arg == 1
	case doStale, doRefuse, doLose, doFail, doMute, doEndFeed, doReconnect, doForge, doCrash, doResign, doStop, doClose,
		doRelease, doWorked, doNoLoop, doHandOver, doLapse, doBar, doGhost, doRemove, doPurge, doOverwrite, doRollBack, doRemake, doForce, doJunk, doCalm,
		doGuardStale, doGuardRefuse, doGuardLose, doGuardFail, doGuardUnfit, doGuardGhost, doGuardRemove, doGuardOverwrite, doGuardPurge,
		doOldBoot, doOldCrash, doOldRefuse, doOldLose, doOldFail, doOldGhost, doDouble:
	}
	return false
}

// The exploration sees everything, but not far. These walks go on for long, with trouble
// without end.
func TestRandomWalks(t *testing.T) {
	t.Parallel()
	seeds, say := uint64(*walks), func(string, ...any) {}
	proof.Ran(*walks, "random walks")
	first := uint64(1)
	if *walk != 0 {
		first, seeds, say = *walk, 1, t.Logf
	}
	for seed := first; seed < first+seeds; seed++ {
		rng := rand.New(rand.NewPCG(seed, 3))
		sc := endless[rng.IntN(len(endless))]
		w := sc.start(nil)
		trouble := 1 + rng.IntN(12) // how much of it
		var trace, actions []action
		for range 400 {
			actions = w.actions(actions[:0])
			a := actions[rng.IntN(len(actions))]
			for range 20 {
				if a.goesOn() || rng.IntN(40) < trouble {
					break
				}
				a = actions[rng.IntN(len(actions))]
			}
			trace = append(trace, a)
			if w.apply(a); w.broken != "" {
				sc.retell(trace, say)
				t.Fatalf("%s; repeat with -walk %d -v; %s %v", w.broken, seed, sc.name, trace)
			}
			w.renumber()
		}
	}
}
