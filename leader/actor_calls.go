package leader

import (
	"fmt"
	"slices"
	"time"

	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/record"
)

// calls are the calls of an application that wait for their outcome.
type calls struct {
	session    string // the candidate's own
	seat       int
	taken      func(id string) // keeps the ID of the candidate that took the key after a TransferTo
	resigning  []chan error
	handing    []handing
	proclaimed []proclamation
}

// handing is a call of TransferTo that waits until a candidate takes the key.
type handing struct {
	call chan error
	to   string // an ID or a session
}

// proclamation is a call of Proclaim that waits for its value to be stored.
type proclamation struct {
	call    chan error
	term    uint64
	counter uint64 // of the first write that carries the value
}

// add keeps a call until its outcome is known, or answers it if the machine cannot serve it.
// written is the number of writes that were sent before the call.
func (c *calls) add(in *machine.Input, call chan error, written uint64, denied error, s *machine.Status) {
	switch {
	case call == nil:
	case denied != nil:
		call <- denied
	case in.Kind == machine.InResign && in.Term != 0: // of the work itself, perhaps
		call <- nil
	case in.Kind == machine.InResign && (in.To != "" || in.Next):
		c.handing = append(c.handing, handing{call, s.To})
	case in.Kind == machine.InResign:
		c.resigning = append(c.resigning, call)
	case in.Kind == machine.InProclaim:
		c.proclaimed = append(c.proclaimed, proclamation{call, s.Term, written + 1})
	}
}

// answer answers the calls whose outcome is known.
func (c *calls) answer(now time.Time, s *machine.Status) {
	if s.Leaving == machine.Staying || s.Abandoned {
		for _, call := range c.resigning {
			call <- nil
		}
		c.resigning = nil
		c.answerTransfers(now, s)
	}
	if len(c.proclaimed) > 0 {
		c.proclaimed = slices.DeleteFunc(c.proclaimed, func(p proclamation) bool {
			switch {
			case s.State != machine.StateLeader && (s.State != machine.StateFenced || !s.Working) || s.Term != p.term:
				p.call <- ErrNotLeader
			case s.Stored >= p.counter:
				p.call <- nil
			default:
				return false
			}
			return true
		})
	}
}

// answerTransfers answers the calls of TransferTo when another holder of the key is seen, or
// when this candidate may take the key again and no other has taken it.
func (c *calls) answerTransfers(now time.Time, s *machine.Status) {
	seen := s.Seen
	by := seen.Kind == record.EntryForeign || seen.Kind == record.EntryRecord && seen.Rec.Session != c.session
	if len(c.handing) == 0 || !by && !s.Holds && now.Before(s.CooldownUntil) {
		return
	}
	c.taken(seen.Rec.ID)
	for _, h := range c.handing {
		switch {
		case by && (seen.Rec.ID == h.to || seen.Rec.Session == h.to):
			h.call <- nil
		case by:
			h.call <- fmt.Errorf("%w: %s", ErrNotSucceeded, holderOf(*seen, c.seat))
		default:
			h.call <- fmt.Errorf("%w: no other candidate has taken the key", ErrNotSucceeded)
		}
	}
	c.handing = nil
}

// end answers the calls that wait for a candidate that has ended.
func (c *calls) end(s *machine.Status) {
	for _, h := range c.handing {
		h.call <- fmt.Errorf("%w before another candidate was seen to take the key", ErrStopped)
	}
	for _, call := range c.resigning {
		if s.Holds {
			call <- fmt.Errorf("%w before the release was acknowledged", ErrStopped)
		} else {
			call <- nil
		}
	}
}
