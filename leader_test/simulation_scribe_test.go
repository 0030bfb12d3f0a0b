package leader_test

import (
	"sync"

	"github.com/natsleader/natsleader/leader"
)

// scribe is the timer of a candidate's log. By it the candidate reports when it logs,
// and when all lines are written. So the checker knows the state at the time of each
// line. The candidate waits for the handler before it does anything that the store or
// the clock can notice, so a seed is the same every time. A handler that blocks is not
// waited for.
type scribe struct {
	leader.Timer
	life *life

	mu       sync.Mutex
	lines    []*leader.Term // by line that waits for the handler: the term led when it was logged
	term     *leader.Term   // of the line that the handler gets
	writing  chan struct{}  // closed when all is written; nil: all is
	blocks   chan struct{}  // closed when the handler may go on; nil: it does not block
	sleeping bool           // the handler waits for that
}

// Wake is called for each line, by the candidate's goroutine.
func (b *scribe) Wake() {
	term, _ := b.life.Term()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, term)
	if b.writing == nil {
		b.writing = make(chan struct{})
	}
	if !b.sleeping {
		b.awake()
	}
}

// awake takes part in the rest again.
func (b *scribe) awake() {
	if w, ok := b.Timer.(interface{ Wake() }); ok {
		w.Wake()
	}
}

// Stop is called when all is written.
func (b *scribe) Stop() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.writing != nil {
		close(b.writing)
		b.writing = nil
	}
	return b.Timer.Stop()
}

// begin is called by the handler for each line. It blocks if the handler is to block.
func (b *scribe) begin() {
	b.mu.Lock()
	b.term, b.lines = b.lines[0], b.lines[1:]
	blocks := b.blocks
	if b.sleeping = blocks != nil; b.sleeping {
		b.Timer.Stop() // time goes on
	}
	b.mu.Unlock()
	if blocks != nil {
		<-blocks
	}
}

// await waits for the handler, unless the handler blocks.
func (b *scribe) await() {
	b.mu.Lock()
	writing := b.writing
	if b.blocks != nil || b.life.muted() {
		writing = nil
	}
	b.mu.Unlock()
	if writing != nil {
		<-writing
	}
}

// block makes the handler block, from the next line on.
func (b *scribe) block() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.blocks == nil {
		b.blocks = make(chan struct{})
	}
}

// unblock lets the handler go on.
func (b *scribe) unblock() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.blocks == nil {
		return
	}
	if b.sleeping {
		b.sleeping = false
		b.awake()
	}
	close(b.blocks)
	b.blocks = nil
}

// storeStall is a call of the store that takes long to return.
type storeStall struct {
	mu     sync.Mutex
	next   bool          // the next call does not return
	before bool          // before anything is sent
	until  chan struct{} // closed when the call may return; nil: none is held up
}

// holdUp calls the store, which may take long to return.
func (l *life) holdUp(call func()) {
	if l == nil {
		call()
		return
	}
	l.scribe.await()
	s := &l.stall
	s.mu.Lock()
	var until chan struct{}
	if s.next {
		until = make(chan struct{})
		s.next, s.until = false, until
	}
	before := s.before
	s.mu.Unlock()
	if until == nil || !before {
		call()
	}
	if until == nil {
		return
	}
	l.sim.count("a store call held up")
	l.clock.timers[0].stall()
	<-until
	if before {
		call()
	}
}

// release lets a call that is held up return.
func (l *life) release() {
	s := &l.stall
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next = false; s.until != nil {
		l.clock.timers[0].unstall()
		close(s.until)
		s.until = nil
	}
}

// heldUp reports whether a call is held up.
func (l *life) heldUp() bool {
	l.stall.mu.Lock()
	defer l.stall.mu.Unlock()
	return l.stall.until != nil
}

// muted reports whether its log has been held up.
func (l *life) muted() bool {
	l.sim.mu.Lock()
	defer l.sim.mu.Unlock()
	return l.mute
}

// held are the faults of the user's code, which does not return, for long or for ever.
func (s *simulation) held() []fault {
	if s.seats > 0 { // there is no log, and a call is of one seat of several
		return nil
	}
	return []fault{
		{"a log handler that blocks", 2, false, func(l *life) bool {
			s.mu.Lock()
			l.mute = true
			s.mu.Unlock()
			l.scribe.block()
			if s.chance(2) {
				s.later(s.between(0, 3*s.lease), l.scribe.unblock)
			}
			return true
		}},
		{"a store call that does not return", 4, false, func(l *life) bool {
			l.stall.mu.Lock()
			l.stall.next, l.stall.before = l.stall.until == nil, s.chance(2)
			l.stall.mu.Unlock()
			if !s.chance(4) {
				s.later(s.between(0, 3*s.lease), l.release)
			}
			return true
		}},
	}
}

// letGo ends the faults of the user's code.
func (s *simulation) letGo() {
	for _, l := range s.lives {
		l.release()
		l.rivals.leave(s)
		l.scribe.unblock()
		s.pass(0)
	}
}
