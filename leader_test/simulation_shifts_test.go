package leader_test

import (
	"errors"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// shift is the work of an application in one term: the body of a loop over the terms, or the
// time of a function of Term.Go.
type shift struct {
	term    *leader.Term
	early   bool        // it ends although the term leads
	planned bool        // when it ends is decided
	logged  bool        // the driver has seen it
	order   chan ending // of a loop
	end     func()      // of a function of Go
}

// ending is the way in which the body of a loop ends.
type ending int

const (
	returns ending = iota
	breaks
	panics
)

// errShift is what a body panics with.
var errShift = errors.New("a worker panics")

// looper is one loop of an application over the terms of its candidate.
type looper struct {
	*life
	shift *shift        // the body that runs; guarded by sim.mu
	again chan struct{} // lets the next loop begin after a break
	waits bool          // for again; guarded by sim.mu
	over  bool          // guarded by sim.mu
}

// employ starts the loops of the application.
func (l *life) employ() {
	for range l.loops {
		p := &looper{life: l, again: make(chan struct{}, 1)}
		l.loopers = append(l.loopers, p)
		l.sim.begin(func() { go p.run() })
	}
}

// run loops until the candidate has ended.
func (p *looper) run() {
	s := p.sim
	for !p.loop() {
		s.mu.Lock()
		p.waits = true
		s.mu.Unlock()
		<-p.again
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.over = true
}

// loop returns true when no more terms come, and false after a body that broke or panicked.
func (p *looper) loop() (over bool) {
	defer func() {
		if r := recover(); r != nil && r != errShift { //nolint:errorlint // the very value
			panic(r)
		}
	}()
	for term := range p.Terms() {
		switch p.work(term) {
		case returns:
		case breaks:
			return false
		case panics:
			panic(errShift)
		}
	}
	return true
}

// work is the body.
func (p *looper) work(term *leader.Term) ending {
	s, body := p.sim, &shift{term: term, order: make(chan ending, 1)}
	s.mu.Lock()
	s.tally["shift"]++
	p.alone(term)
	p.shift = body
	s.mu.Unlock()
	how := <-body.order
	s.mu.Lock()
	defer s.mu.Unlock()
	p.shift = nil
	return how
}

// alone checks that the process does not work in an earlier term. The lock is held.
func (l *life) alone(term *leader.Term) {
	shifts := []*shift{l.duty}
	for _, p := range l.loopers {
		shifts = append(shifts, p.shift)
	}
	for _, b := range shifts {
		if b != nil && b.term != term {
			l.sim.failf("%s works in term %d, and term %d begins", l.name, b.term.Token(), term.Token())
		}
	}
}

// serves begins the work of an application without a loop, unless the term is over. The lock is held.
func (l *life) serves(term *leader.Term) {
	if l.alone(term); l.loops == 0 && l.cfg.GracePeriod > 0 {
		if end, begun := leadertest.Work(term); begun {
			l.duty = &shift{term: term, end: end}
		}
	}
}

// discharge ends that work.
func (l *life) discharge(duty *shift) {
	l.sim.mu.Lock()
	if l.duty == duty {
		l.duty = nil
	}
	l.sim.mu.Unlock()
	duty.end()
}

// shifts plans the end of the work that has begun, or whose term is over.
func (s *simulation) shifts() {
	for _, l := range s.lives {
		s.mu.Lock()
		duty := l.duty
		s.mu.Unlock()
		if duty != nil && !duty.planned && leader.Err(duty.term.Context()) != nil {
			duty.planned = true
			s.plan(l, s.between(0, 2*s.drain), func() { s.begin(func() { l.discharge(duty) }) })
		}
		for _, p := range l.loopers {
			p.plan()
		}
	}
}

// plan plans the end of the body of a loop, and the next loop after a break.
func (p *looper) plan() {
	s := p.sim
	s.mu.Lock()
	body, waits := p.shift, p.waits
	p.waits = false
	if body != nil && !body.logged {
		body.logged = true
		s.logf("%s works in term %d", p.name, body.term.Token())
	}
	s.mu.Unlock()
	if waits {
		s.plan(p.life, s.between(0, 3*s.lease), p.goOn)
	}
	if body == nil || body.planned {
		return
	}
	body.early = body.early || !s.calmed && s.chance(40)
	if body.early || leader.Err(body.term.Context()) != nil {
		body.planned = true
		how := []ending{returns, returns, returns, returns, breaks, panics}[s.rng.IntN(6)]
		most := 2 * s.lease
		if s.chance(6) { // it is stuck
			most = 20 * s.lease
		}
		s.plan(p.life, s.between(0, most), func() { p.end(body, how) })
	}
}

// plan lets an application act later, when its process runs.
func (s *simulation) plan(l *life, d time.Duration, do func()) {
	s.later(d, func() {
		if l.away && !l.killed {
			s.plan(l, s.lease, do)
			return
		}
		do()
	})
}

// goOn lets the next loop begin.
func (p *looper) goOn() {
	select {
	case p.again <- struct{}{}:
		p.sim.begin(func() {})
	default: // it is on its way
	}
}

// end ends a body.
func (p *looper) end(body *shift, how ending) {
	p.sim.mu.Lock()
	p.sim.logf("%s ends its work in term %d: %d", p.name, body.term.Token(), how)
	p.resigns = true
	p.sim.mu.Unlock()
	select {
	case body.order <- how:
	default: // it has been ended before
		return
	}
	p.sim.begin(func() {})
}

// relieve ends all work in terms that are over, and lets loops begin.
func (s *simulation) relieve() {
	synctest.Wait() // for workers, which may have begun just now
	for _, l := range s.lives {
		s.mu.Lock()
		duty := l.duty
		s.mu.Unlock()
		if duty != nil && leader.Err(duty.term.Context()) != nil {
			s.begin(func() { l.discharge(duty) })
		}
		for _, p := range l.loopers {
			s.mu.Lock()
			body := p.shift
			s.mu.Unlock()
			if body != nil && leader.Err(body.term.Context()) != nil {
				p.end(body, returns)
			}
			p.goOn()
		}
	}
}

// looping returns how many loops, and functions of Go, run.
func (s *simulation) looping() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lives {
		if l.duty != nil {
			n++
		}
		for _, p := range l.loopers {
			if !p.over {
				n++
			}
		}
	}
	return n
}
