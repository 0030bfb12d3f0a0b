package leader

import (
	"iter"
	"sync"

	"github.com/natsleader/natsleader/internal/machine"
)

// Terms returns the terms to which the candidate is elected, for a loop whose body is the
// work of the leader:
//
//	for term := range c.Terms() {
//		for lead := term.Context(); lead.Err() == nil; {
//			item(lead, term.Token())
//		}
//	}
//
// Work that waits asks after each wait, because a process may be stopped there for a minute,
// and select then picks among what is ready at random:
//
//	for lead := term.Context(); lead.Err() == nil; {
//		select {
//		case <-lead.Done():
//		case j := <-jobs:
//			if lead.Err() != nil {
//				break // put j back, if nothing else does
//			}
//			j.do(lead)
//		}
//	}
//
// When the body ends, the term is released. If it still leads then, the candidate hands over
// and waits one lease before it campaigns again, so that work that fails at once does not
// make the leadership change in a tight circle.
//
// While a body runs, no other term of the candidate begins. If the term ends during the body,
// the candidate keeps the key, if it still has it, for the work, without leading, up to
// DrainTimeout, or for one lease if none is set. If the body ends in that time, the candidate
// can be elected again at once. Otherwise other candidates can be elected, and this one
// reports [ErrNotReleased] and does not campaign until the body has ended. So the work of two
// terms of one candidate never overlaps, and that of two candidates only if a body outlives
// that time, or another candidate has taken the key.
//
// After a break, a return, a panic or a runtime.Goexit in the body, the candidate does not
// campaign until another loop begins. It does not end: call [Candidate.Stop], or end the
// context given to [Campaign].
//
// A body that is to hand over returns. It must not wait for [Candidate.Resign],
// [Candidate.TransferTo], [Candidate.Stop] or [Candidate.Done], because each of them waits for
// the body. A body after which the program is to end cancels the context given to [Campaign]
// and returns.
//
// A loop ends when the candidate has ended and the body has returned. [Candidate.Err] then
// returns the reason. The NATS connection may be closed after that, and need not be. A loop
// cannot leave a body that does not return. A program that must end nevertheless waits for
// [Candidate.Done] in another goroutine.
//
// A term that is over before a loop could take it is released and left out. Each term goes to
// one loop if there are several. A loop must not be run within a body of the same candidate:
// it would wait for that body. Terms is independent of [Candidate.Events].
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
	terms   chan *Term // the term that no loop has taken; nil before the first loop
}

// enter begins a loop.
func (l *loops) enter(c *Candidate) <-chan *Term {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terms == nil {
		l.terms = make(chan *Term, 1)
	}
	l.running++
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
	select {
	case <-l.terms: // over, and released by the application
	default:
	}
	l.terms <- t
}

// work runs the body of a loop. It returns false if the loop ends with it. The term is finished
// even if the body panics.
func (l *loops) work(c *Candidate, t *Term, yield func(*Term) bool) (more bool) {
	defer func() {
		if !more {
			l.leave(c) // before the term is finished, or another might begin in between
		}
		t.finish()
	}()
	return yield(t)
}
