package leader

import "github.com/natsleader/natsleader/internal/machine"

// The states of a candidate, and the transitions between them:
//
//	              won                may lead
//	 Candidate ─────────▶ Pending ─────────────▶ Leader
//	  ▲   ▲   ▲              │ ▲                  │  │
//	  │   │   └──── lost ────┘ └─ renewed late ─┐ │  │ not confirmed,
//	  │   │                                     │ ▼  │ or work goes on
//	  │   └────── released, or lost ────────── Fenced│
//	  └─────────── lost, or given up ────────────────┘
//
//	from       to         when                                            event, with its cause
//	Candidate  Pending    its write takes the key                         Pending
//	Pending    Leader     no earlier lease can be valid, and the guards   Elected
//	                      of the term stand
//	Pending    Candidate  it gives the key up, or the key has changed     -
//	Leader     Fenced     the lease is not confirmed in time              Fenced, ErrLeaseExpired
//	                      it steps down, and its work goes on             Fenced, ErrResigned
//	                      it stops, and its work goes on                  Fenced, ErrStopped
//	                      its work hangs                                  Fenced, ErrStalled
//	                      a later term has raised a guard                 Fenced, ErrFenced
//	                      the connection was closed                       Fenced, ErrConnectionClosed
//	Leader     Candidate  it steps down, or stops, and no work goes on    Deposed, ErrResigned or ErrStopped
//	                      another candidate has the key                   Deposed, ErrPreempted
//	                      the key was deleted                             Deposed, ErrDeleted
//	                      the store has lost acknowledged writes          Deposed, ErrRegressed
//	Fenced     Candidate  it has released the key, or lost it             Deposed, as Fenced
//	Fenced     Pending    a late renewal shows that it still has the key  Deposed, as Fenced, and Pending
//
// The rules are in internal/machine. A candidate whose goroutine has ended is in StateEnded.

// State is the state of a candidate. Its zero value is none of the states.
type State uint8

// The states of a candidate.
const (
	StateCandidate State = iota + 1 // waits for the key, tries to take it, or has just given it up
	StatePending                    // holds the key, but an earlier lease may still be valid
	StateLeader                     // leads: the term's context is alive
	StateFenced                     // has led, and may still hold the key: the term's context has ended, see [Fenced]
	StateEnded                      // has ended: [Candidate.Done] is closed
)

// The states of the machine have the same numbers.
var _ = [1]struct{}{}[StateCandidate-State(machine.StateCandidate)+StateFenced-State(machine.StateFenced)]

// String returns the name of the state in lower case.
func (s State) String() string {
	if s == StateEnded {
		return "ended"
	}
	return machine.State(s).String()
}
