package leader

import "time"

// listenerMachine decides when a leader listens for step-down requests. A candidate that has
// never led has no open listener, so waiting costs nothing. One that has led keeps its
// listener until it sees the record of another session's term. Like the machine, it is a
// plain value without I/O.
//
// At most one opening or closing is going on. Each is answered, also one that was cancelled.
type listenerMachine struct {
	pause  time.Duration // from an election to the opening
	phase  listenerPhase
	at     time.Time // when to open after an election; zero: with any step
	denied bool      // the server refused the subscription since the connection was last made
}

type listenerPhase uint8

const (
	listenerShut listenerPhase = iota
	listenerOpening
	listenerOpen
	listenerClosing
)

// listenerInput is one input of a listener machine. leads and replaced are set in each.
type listenerInput struct {
	kind     listenerInputKind
	leads    bool // the candidate leads
	replaced bool // the record of another session's term is seen, or the candidate has ended
	open     bool // listenerOpened: it is open
	denied   bool // listenerOpened: the server refused the subscription
}

type listenerInputKind uint8

const (
	listenerTick listenerInputKind = iota
	listenerElected
	listenerReconnected
	listenerOpened // the outcome of the opening
	listenerClosed // the end of the closing
)

// listenerEffects holds the actions to take after a step, one at most, and when to step
// again; zero: with any step.
type listenerEffects struct {
	open   bool
	cancel bool // give up the opening, which still has to be answered
	close  bool
	wake   time.Time
}

// step takes one input. It opens the listener of a leader, again and again until it is
// open. It closes the listener of a candidate that no longer leads once another session's
// term is well under way, so that a handover does not wait for the closing.
func (l *listenerMachine) step(now time.Time, in listenerInput) (fx listenerEffects) {
	switch in.kind {
	case listenerTick:
	case listenerElected:
		l.at = now.Add(l.pause)
	case listenerReconnected:
		l.denied = false
	case listenerOpened:
		l.phase = listenerShut
		if in.open {
			l.phase = listenerOpen
		}
		// A denied subscription is not tried again on the same connection, because the
		// server reports every try.
		if l.denied = in.denied; !in.open {
			if in.leads && !l.denied && now.Before(l.at) {
				fx.wake = l.at // or the next step tries again
			}
			return fx
		}
	case listenerClosed:
		l.phase = listenerShut
	}
	if !in.leads {
		l.at = time.Time{}
	}
	switch {
	case l.phase == listenerOpening:
		fx.cancel = !in.leads
	case l.phase == listenerShut && in.leads && !l.denied:
		if !now.Before(l.at) {
			l.at, l.phase, fx.open = time.Time{}, listenerOpening, true
		}
		fx.wake = l.at
	case l.phase == listenerOpen && !in.leads && in.replaced:
		l.phase, fx.close = listenerClosing, true
	}
	return fx
}

// listenerNews returns what a step of the candidate's machine is for its listener.
func listenerNews(in *input, before, after State) listenerInputKind {
	switch {
	case in.kind == inReconnected:
		return listenerReconnected
	case before != StateLeader && after == StateLeader:
		return listenerElected
	}
	return listenerTick
}

// busy reports whether an opening or a closing is going on.
func (l *listenerMachine) busy() bool {
	return l.phase == listenerOpening || l.phase == listenerClosing
}
