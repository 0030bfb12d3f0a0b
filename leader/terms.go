package leader

import (
	"context"
	"iter"
	"log/slog"
	"sync"

	"github.com/natsleader/natsleader/internal/machine"
)

// Terms returns the terms to which the candidate is elected, for a loop whose body is the work of the leader. Work
// that waits in a select asks the context after each wait (docs/howto/workers.md).
//
// While a body or a function of [Term.Go] runs, no other term of the candidate begins. When they have returned, and
// the term still leads, the candidate hands over, with a cause that wraps [ErrResigned], and waits one lease before
// it campaigns again. After three terms in a row that were shorter than RenewInterval it logs a warning. If the term
// ends before them, the candidate keeps the key for the work, without leading, up to [Config].GracePeriod, after
// which others can lead.
//
// After a break, a return or a panic in the body, the candidate does not campaign until another loop begins. The loop
// ends when the candidate has ended and the body has returned; [Candidate.Err] has the reason. A body must not wait
// for [Candidate.Stop] or [Candidate.Done], nor run another loop, because each waits for the body. It may call
// [Term.Resign].
func (c *Candidate) Terms() iter.Seq[*Term] {
	return func(yield func(*Term) bool) {
		if c.done == nil { // of a zero Candidate
			return
		}
		terms := c.loops.enter(c)
		for {
			select {
			case t := <-terms:
				if t.over() != nil {
					t.finish()
				} else if !c.loops.work(c, t, yield) {
					return
				}
			case <-c.done:
				c.loops.leave(c)
				return
			}
		}
	}
}

// loops are the running loops over the terms of a candidate, on all of its seats.
type loops struct {
	mu      sync.Mutex // held for moments only
	running int
	bodies  int        // that run
	told    bool       // that a loop has begun beside a body
	terms   chan *Term // the term that no loop has taken; nil before the first loop
}

// enter begins a loop.
func (l *loops) enter(c *Candidate) <-chan *Term {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terms == nil {
		l.terms = make(chan *Term, 1)
	}
	if l.running++; l.bodies > 0 && !l.told {
		l.told = true
		c.log.LogAttrs(context.Background(), slog.LevelWarn, "a loop over Terms begins beside the body of another", slog.String("instead",
			"a loop in a body gets no term before the body has returned: begin none there"))
	}
	c.toAll(machine.InLoop)
	return l.terms
}

// leave ends a loop. The last one leaves no loop that could take a term that waits.
func (l *loops) leave(c *Candidate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running--; l.running > 0 {
		return
	}
	c.toAll(machine.InNoLoop)
	select {
	case t := <-l.terms:
		t.finish()
	default:
	}
}

// left reports whether there were loops, and there is none now.
func (l *loops) left() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.terms != nil && l.running == 0
}

// offer hands a term to the loops. It never waits.
func (l *loops) offer(t *Term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running == 0 {
		t.finish()
		return
	}
	t.offer()
	l.terms <- t
}

// count counts the bodies.
func (l *loops) count(more int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bodies += more
}

// work runs the body of a loop. It returns false if the loop ends with it. The term is finished
// even if the body panics.
func (l *loops) work(c *Candidate, t *Term, yield func(*Term) bool) (more bool) {
	l.count(1)
	defer func() {
		l.count(-1)
		if !more {
			l.leave(c) // before the term is finished, or another might begin in between
		}
		t.finish()
	}()
	return yield(t)
}
