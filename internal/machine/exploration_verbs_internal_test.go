package machine

import (
	"fmt"
	"strconv"
	"strings"
)

// action is one thing that may happen.
type action struct {
	do    verb
	party uint8
	arg   uint8
}

type verb uint8

const (
	doTick    verb = iota // arg: 0 all clocks, 1 the first alone, 2 all others
	doWake                // a timer fires
	doArrive              // the request reaches the store; arg 1: refusals name nothing
	doStale               // a read is answered from the past
	doRefuse              // arg 1: without a revision
	doLose                // the request, or its reply
	doDeliver             // the reply
	doFail                // the request is given up; arg 1: a write may still arrive
	doHear                // arg: which message of the feed
	doMute                // a message of the feed is lost
	doEndFeed
	doReconnect
	doFreeze // arg 1: it goes on
	doCut    // arg 1: it is connected again
	doForge  // arg: which message
	doCrash  // arg 1: its write is still on its way
	doBoot   // arg 1: with foresight; 2: the same, and the process has forgotten what it left
	doResign
	doStop
	doClose
	doRelease
	doWorked
	doLoop
	doNoLoop
	doStall
	doSet   // the operator sets the time of day
	doPause // arg 1: it goes on
	doGo    // the application begins work of the term
	doAnnounce
	doRank     // arg 1: its rival is alive
	doHandOver // arg: the successor
	doBar
	doOpen
	doSlot
	doGuardArrive // arg 1: refusals name nothing
	doGuardStale
	doGuardRefuse
	doGuardLose
	doGuardDeliver
	doGuardFail  // arg 1: a raise may still arrive
	doGuardWrite // a write of the term was refused
	doGuardUnfit // a check finds the guard not fit
	doGhost      // arg: which
	doRemove
	doPurge
	doOverwrite
	doRollBack
	doRemake
	doForce      // a marker with the held record takes its place
	doJunk       // arg: which
	doGuardGhost // arg: which
	doGuardRemove
	doGuardOverwrite // arg: which entry
	doGuardPurge
	doLapse // arg: which announcement
	doCalm  // all faults end, and no other begins
	// Of the processes of another algorithm; arg: which, and its variant.
	doOldExpire // their bucket drops its message
	doOldBoot
	doOldCampaign
	doOldCrash
	doOldArrive
	doOldRefuse
	doOldLose
	doOldDeliver
	doOldFail
	doOldGhost
	doDouble // a candidate's write arrives, and will once more; arg: which candidate
)

var verbNames = []string{
	"tick", "wake", "arrive", "stale", "refuse", "lose", "deliver", "fail", "hear", "mute", "endfeed", "reconnect",
	"freeze", "cut", "forge", "crash", "boot", "resign", "stop", "close", "release", "worked", "loop", "unloop", "stall", "set", "pause", "go", "announce", "rank", "transfer", "bar", "open", "slot",
	"guard-arrive", "guard-stale", "guard-refuse", "guard-lose", "guard-deliver", "guard-fail", "guard-write", "guard-unfit",
	"ghost", "remove", "purge", "overwrite", "rollback", "remake", "force", "junk", "guard-ghost", "guard-remove", "guard-overwrite", "guard-purge", "lapse", "calm",
	"old-expire", "old-boot", "old-campaign", "old-crash", "old-arrive", "old-refuse", "old-lose", "old-deliver", "old-fail", "old-ghost", "double",
}

// String returns the action as a trace names it: A.arrive, tick.1.
func (a action) String() string {
	text := verbNames[a.do]
	if a.do != doTick && a.do < doGhost {
		text = partyNames[a.party] + "." + text
	}
	if a.arg != 0 {
		text += "." + strconv.Itoa(int(a.arg))
	}
	return text
}

// parseTrace reads what String wrote, separated by blanks.
func parseTrace(text string) ([]action, error) {
	var trace []action
	for _, word := range strings.Fields(text) {
		found := false
		for do := range verbNames {
			for party := range partyNames {
				for arg := range 16 {
					if a := (action{verb(do), uint8(party), uint8(arg)}); !found && a.String() == word {
						trace, found = append(trace, a), true
					}
				}
			}
		}
		if !found {
			return nil, fmt.Errorf("%q is no action", word)
		}
	}
	return trace, nil
}
