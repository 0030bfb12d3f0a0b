package leader

import (
	"slices"

	"github.com/natsleader/natsleader/internal/machine"
)

// calls are the calls of Proclaim that wait for their values to be stored.
type calls []proclamation

type proclamation struct {
	call    chan error
	term    uint64
	counter uint64 // of the first write that carries the value
}

// add answers a call, or keeps it until its outcome is known.
// written is the number of writes that were sent before the call.
func (c *calls) add(in *machine.Input, call chan error, written uint64, denied error, s *machine.Status) {
	switch {
	case call == nil:
	case denied != nil || in.Kind == machine.InResign: // which may be a call of the work itself
		call <- denied
	default:
		*c = append(*c, proclamation{call, s.Term, written + 1})
	}
}

// answer answers the calls whose outcome is known.
func (c *calls) answer(s *machine.Status) {
	if len(*c) > 0 {
		*c = slices.DeleteFunc(*c, func(p proclamation) bool {
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
