package leader

import "time"

// watcherMachine decides when the holder of the key reads the roster. Only the holder hears
// of all candidates. The others hear of their turn with the holder's renewals. Like the
// machine, it is a plain value without I/O.
//
// At most one opening is going on. It is answered, also if it was cancelled.
type watcherMachine struct {
	phase  watcherPhase
	held   bool      // it held the key at the last step
	at     time.Time // when to open the view; or to close it, without the key
	anew   time.Time // when to open it anew: purged or overdue entries leave no trace
	openBy time.Time // when the opening is given up; zero: it was
}

type watcherPhase uint8

const (
	watcherShut watcherPhase = iota
	watcherOpening
	watcherOpen
)

// viewLives is for how many leases a view is kept open.
const viewLives = 10

// watcherInput is one input of a watcher machine. All fields but the last are set in each.
type watcherInput struct {
	kind    watcherInputKind
	holds   bool // the candidate holds the key and has not ended
	ended   bool
	taken   bool // another candidate holds the key
	urgent  bool // it gives up the key, and the view has not reported
	changed bool // the holders of other seats have changed since the view was read
	times   durations

	failed bool // watcherOpened: the view could not be opened
}

type watcherInputKind uint8

const (
	watcherTick watcherInputKind = iota
	watcherOpened
	watcherBroken // the view has ended with an error
)

// watcherEffects holds the actions to take after a step, one of the first five at most.
type watcherEffects struct {
	open    bool
	cancel  bool // give up the opening, which still has to be answered
	close   bool
	read    bool // pass what the view shows to the machine
	unknown bool // no better order is known than the last one
	turned  bool // the candidate has won or lost the key, so forget the preemptors
	wake    time.Time
}

// step takes one input. It opens the view of a holder, and closes that of any other
// candidate.
func (l *watcherMachine) step(now time.Time, in watcherInput) (fx watcherEffects) {
	switch in.kind {
	case watcherTick:
		l.tick(now, in, &fx)
	case watcherOpened:
		l.phase, l.openBy = watcherOpen, time.Time{}
		if in.failed {
			l.phase, l.at, fx.unknown = watcherShut, now.Add(in.times.lease), true
		} else {
			l.anew, fx.read = now.Add(viewLives*in.times.lease), true
		}
	case watcherBroken:
		l.phase, l.at, fx.close = watcherShut, now.Add(in.times.renewInterval), true
	}
	fx.wake = l.wakeAt(in)
	return fx
}

func (l *watcherMachine) tick(now time.Time, in watcherInput, fx *watcherEffects) {
	if fx.turned = l.held != in.holds; fx.turned {
		l.held, l.at = in.holds, now.Add(rosterPause)
	}
	switch {
	case l.phase == watcherOpening:
		late := !l.openBy.IsZero() && !now.Before(l.openBy)
		if late {
			l.openBy = time.Time{}
		}
		fx.cancel = late || !in.holds
	case in.holds && l.phase == watcherShut:
		if !now.Before(l.at) || in.urgent {
			l.phase, l.openBy, fx.open = watcherOpening, now.Add(rosterWait(in.times)), true
		}
	case l.phase == watcherShut:
	case !in.holds && l.mayClose(now, in), in.holds && !now.Before(l.anew):
		l.phase, l.at, fx.close = watcherShut, now, true
	case in.holds && (fx.turned || in.changed):
		fx.read = true // the view of the term before, a moment ago; or new holders of other seats
	}
}

// mayClose reports whether the view that is left from holding the key may be closed. No
// candidate's try for the key is to wait for that.
func (l *watcherMachine) mayClose(now time.Time, in watcherInput) bool {
	return in.ended || in.taken || !now.Before(l.at)
}

func (l *watcherMachine) wakeAt(in watcherInput) time.Time {
	switch {
	case l.phase == watcherOpening:
		return l.openBy
	case in.holds && l.phase == watcherShut, !in.holds && l.phase == watcherOpen:
		return l.at
	case l.phase == watcherOpen:
		return l.anew
	}
	return time.Time{}
}
