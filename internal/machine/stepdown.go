package machine

import "time"

// ListenerMachine decides when a leader listens for step-down requests. A candidate that has
// never led has no open listener, so waiting costs nothing. One that has led keeps its
// listener until it sees the record of another session's term. Like the machine, it is a
// plain value without I/O.
//
// At most one opening or closing is going on. Each is answered, also one that was cancelled.
type ListenerMachine struct {
	Pause  time.Duration // from an election to the opening
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

// ListenerInput is one input of a listener machine. leads and replaced are set in each.
type ListenerInput struct {
	Kind     listenerInputKind
	Leads    bool // the candidate leads
	Replaced bool // the record of another session's term is seen, or the candidate has ended
	Open     bool // listenerOpened: it is open
	Denied   bool // listenerOpened: the server refused the subscription
}

type listenerInputKind uint8

// Inputs of a listener machine.
const (
	listenerTick listenerInputKind = iota
	listenerElected
	listenerReconnected
	ListenerOpened // the outcome of the opening
	ListenerClosed // the end of the closing
)

// listenerEffects holds the actions to take after a step, one at most, and when to step
// again; zero: with any step.
type listenerEffects struct {
	Open   bool
	Cancel bool // give up the opening, which still has to be answered
	Close  bool
	Wake   time.Time
}

// Step takes one input. It opens the listener of a leader, again and again until it is
// open. It closes the listener of a candidate that no longer leads once another session's
// term is well under way, so that a handover does not wait for the closing.
func (l *ListenerMachine) Step(now time.Time, in ListenerInput) (fx listenerEffects) {
	switch in.Kind {
	case listenerTick:
	case listenerElected:
		l.at = now.Add(l.Pause)
	case listenerReconnected:
		l.denied = false
	case ListenerOpened:
		l.phase = listenerShut
		if in.Open {
			l.phase = listenerOpen
		}
		// A denied subscription is not tried again on the same connection, because the
		// server reports every try.
		if l.denied = in.Denied; !in.Open {
			if in.Leads && !l.denied && now.Before(l.at) {
				fx.Wake = l.at // or the next step tries again
			}
			return fx
		}
	case ListenerClosed:
		l.phase = listenerShut
	}
	if !in.Leads {
		l.at = time.Time{}
	}
	switch {
	case l.phase == listenerOpening:
		fx.Cancel = !in.Leads
	case l.phase == listenerShut && in.Leads && !l.denied:
		if !now.Before(l.at) {
			l.at, l.phase, fx.Open = time.Time{}, listenerOpening, true
		}
		fx.Wake = l.at
	case l.phase == listenerOpen && !in.Leads && in.Replaced:
		l.phase, fx.Close = listenerClosing, true
	}
	return fx
}

// ListenerNews returns what a step of the candidate's machine is for its listener.
func ListenerNews(in *Input, before, after State) listenerInputKind {
	switch {
	case in.Kind == InReconnected:
		return listenerReconnected
	case before != StateLeader && after == StateLeader:
		return listenerElected
	}
	return listenerTick
}

// Busy reports whether an opening or a closing is going on.
func (l *ListenerMachine) Busy() bool {
	return l.phase == listenerOpening || l.phase == listenerClosing
}

// ListenPause lets a candidate that was elected on a connection report that, and its work
// begin, before anything else is done there. A leader can be asked during its whole term, so
// the pause costs little.
const ListenPause = 10 * time.Millisecond
