package schedule_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/schedule"
)

// ledger is what the bodies of all processes have seen. Instants are true ones, and slots are by their time.
type ledger struct {
	first     time.Time            // the schedule begins after it; zero: no slot was yielded
	last      time.Time            // a body has begun
	fresh     map[int64]freshSlot  // slots that were yielded as new
	yielded   map[int64]time.Time  // when a slot was yielded first
	completed map[int64]time.Time  // when Complete of a slot first returned nil
	told      map[int64]bool       // slots whose body has ended, or that were listed or excused with such a slot
	excused   time.Time            // up to which all slots are told
	checked   map[string]time.Time // of a calendar, up to which all slots are told
	ahead     time.Time            // when ErrAhead was reported last
	blind     []blindness          // looks without the server's time, or with one that is far from exact
	anews     []time.Time          // ErrChanged or ErrCalendar was reported
}

type freshSlot struct {
	at time.Time
	by string
}

// blindness is a time in which a process has looked at its schedule, and did not know the server's time.
type blindness struct {
	by          string
	off         time.Duration
	first, last time.Time
}

func newLedger() ledger {
	return ledger{
		fresh: map[int64]freshSlot{}, yielded: map[int64]time.Time{}, completed: map[int64]time.Time{}, told: map[int64]bool{},
		checked: map[string]time.Time{},
	}
}

// given is a slot as its body has it.
type given struct {
	*schedule.Slot
	at    time.Time
	ended time.Time // the body
	went  bool      // it has called Term.Go
	goes  int       // functions of Term.Go that have not returned
	done  bool
}

func (s *simulation) at(t time.Time) string { return t.Sub(s.begun).String() }

// hear reads the events of the process.
func (l *life) hear(events <-chan leader.Event) {
	for e := range events {
		l.hears(e)
	}
}

func (l *life) hears(e leader.Event) {
	s := l.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.dead.Load() {
		return
	}
	switch e := e.(type) {
	case leader.Elected:
		_ = l.term(e.Term)
		s.logf("%s is elected, token %d", l.name, e.Term.Token())
	case leader.Fenced:
		s.logf("%s is fenced: %v", l.name, e.Cause)
	case leader.Deposed:
		s.logf("%s is deposed: %v", l.name, e.Cause)
	case leader.Faulted:
		if name := nameOf(e.Err); name != "" {
			s.tally["reported: "+name]++
			s.logf("%s reports: %v", l.name, e.Err)
			l.reports(name)
		}
	case leader.Pending, leader.Observed:
	}
}

// term returns what is known of a term.
func (l *life) term(t *leader.Term) *office_ {
	o := l.terms[t]
	if o == nil {
		o = &office_{since: time.Now()}
		l.terms[t] = o
	}
	return o
}

// server reports whether the process knows the server's time in its last term, and how exactly.
func (l *life) server(t *leader.Term) (known bool, width time.Duration) {
	least, most, _ := l.schedule.Server()
	if known = most != 0; known {
		if o := l.term(t); o.known.IsZero() {
			o.known = time.Now()
		}
	}
	return known, time.Duration(most - least)
}

// looks is called when the process looks at its schedule.
func (l *life) looks() {
	s := l.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Equal(l.looked) || l.dead.Load() {
		return
	}
	l.looked = now
	term, leads := l.schedule.Candidate().Term()
	if !leads {
		return
	}
	known, width := l.server(term)
	if known && width < 3*time.Second {
		return
	}
	if o := l.term(term); !known && !o.blind {
		o.blind = true
		s.tally["terms without the server's time"]++
	}
	g := &s.ledger
	if n := len(g.blind) - 1; n >= 0 && g.blind[n].by == l.name && g.blind[n].off == l.off {
		g.blind[n].last = now
		return
	}
	s.logf("%s looks, and knows the server's time: %v, to %v", l.name, known, width)
	g.blind = append(g.blind, blindness{l.name, l.off, now, now})
}

// spread returns how far the clocks differ that decided without the server's time since an instant, the right one included.
func (g *ledger) spread(since time.Time) time.Duration {
	least, most := time.Duration(0), time.Duration(0)
	for _, b := range g.blind {
		if !b.last.Before(since) {
			least, most = min(least, b.off), max(most, b.off)
		}
	}
	return most - least
}

// forgotten reports whether a slot that was yielded at an instant may be forgotten: a mark of more than a day ahead is, by clocks
// that decided without the server's time.
func (g *ledger) forgotten(at time.Time) bool { return g.spread(at) >= 24*time.Hour-time.Minute }

// begunAnew reports whether a calendar has begun anew after a mark that was ahead, since an instant.
func (g *ledger) begunAnew(at time.Time) bool { return !g.ahead.Before(at) }

// reports checks a fault that the process reports.
func (l *life) reports(name string) {
	s, now := l.sim, time.Now()
	switch name {
	case "clock":
		if _, most := l.differences(now.Add(-10 * time.Millisecond)); most <= 2*time.Second {
			s.failf("%s reports its clock, which is %v ahead", l.name, l.off)
		}
		l.clockTold, l.agreed = true, time.Time{}
	case "ahead":
		s.ledger.beginsAnew(now)
		if s.ledger.spread(s.begun) < 5*time.Second {
			s.failf("%s reports a mark ahead, and no clock was wrong without the server's time", l.name)
		}
	case "changed":
		s.ledger.anews = append(s.ledger.anews, now)
		if !s.changes {
			s.failf("%s reports another calendar, and there is one", l.name)
		}
	case "calendar":
		s.ledger.anews = append(s.ledger.anews, now)
		if l.plan.stands[0].IsZero() {
			s.failf("%s reports its calendar, which is not broken", l.name)
		}
	case "mark":
		if !s.ledger.first.IsZero() { // otherwise the first leader has crashed before its first mark
			s.failf("%s reports a mark that is none", l.name)
		}
	}
}

// begins checks a slot that is yielded. It returns nil if the process has crashed.
func (l *life) begins(slot *schedule.Slot) *given {
	s := l.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.dead.Load() {
		return nil
	}
	g, now, t := &s.ledger, time.Now(), slot.Time.UnixNano()
	known, width := l.server(slot.Term)
	s.tally["slots"]++
	text := ""
	if slot.Begun {
		s.tally["slots begun"]++
		text = ", begun"
	}
	if n := len(slot.Missed); n > 0 {
		s.tally["slots with missed ones"]++
		text += fmt.Sprintf(", %d missed from %s", n, s.at(slot.Missed[0]))
	}
	if slot.Skipped != nil {
		s.tally["skipped: "+nameOf(slot.Skipped)]++
		text += ", " + nameOf(slot.Skipped)
	}
	s.logf("stored: %s %s", s.store.Holder("job").ID, s.store.Holder("job").Value)
	s.logf("%s works %s after %s%s; the server's time is known: %v, to %v", l.name, s.at(slot.Time), s.at(slot.After), text, known, width)

	if g.first.IsZero() {
		if g.first = slot.After; g.first.After(now.Add(2*time.Second + width)) {
			g.first = now
		}
		g.excused = g.first
	}
	switch {
	case l.slot != nil:
		s.failf("%s: two bodies at once", l.name)
	case slot.Term.Context().Err() != nil && !l.dead.Load() && leader.Err(slot.Term.Context()) != nil && s.lease == 0:
		s.failf("%s: a slot after the term", l.name)
	case !l.plan.has(slot.Time) && !slot.Begun:
		s.failf("%s: %s is no slot", l.name, s.at(slot.Time))
	case len(slot.Missed) > 100:
		s.failf("%s: %d missed", l.name, len(slot.Missed))
	}
	last := slot.After
	for _, m := range slot.Missed {
		if !m.After(last) || !m.Before(slot.Time) || !l.plan.has(m) {
			s.failf("%s: %s is listed as missed", l.name, s.at(m))
			break
		}
		last = m
	}
	for _, m := range slot.Missed {
		if at, was := g.yielded[m.UnixNano()]; was {
			// A clock that was ahead may have worked them: see Slot.Missed.
			if !g.begunAnew(at) {
				s.failf("%s: %s is listed as missed, and was yielded at %s", l.name, s.at(m), s.at(at))
			}
			s.tally["excused: missed, and yielded before"]++
			break
		}
	}
	if errors.Is(slot.Skipped, schedule.ErrAhead) {
		g.beginsAnew(now)
	}
	if l.finished.slot == t && !g.begunAnew(l.finished.at) {
		s.failf("%s: slot %s comes again to the process that has worked it until %s", l.name, s.at(slot.Time), s.at(l.finished.at))
	}
	if before, twice := g.fresh[t]; twice && !slot.Begun {
		if !g.forgotten(before.at) {
			s.failf("%s: slot %s is new, and was so to %s at %s", l.name, s.at(slot.Time), before.by, s.at(before.at))
		}
		s.tally["excused: new twice"]++
	}
	if at, was := g.yielded[t]; was && !slot.Begun && g.fresh[t].by == "" && !g.forgotten(at) {
		s.failf("%s: slot %s is new, and was begun at %s", l.name, s.at(slot.Time), s.at(at))
	}
	if at, was := g.completed[t]; was {
		switch {
		case !slot.Begun && !g.forgotten(at):
			s.failf("%s: slot %s is new, and was completed at %s", l.name, s.at(slot.Time), s.at(at))
		case slot.Begun && !g.begunAnew(at):
			s.failf("%s: slot %s is begun, and was completed at %s", l.name, s.at(slot.Time), s.at(at))
		}
		s.tally["excused: completed before"]++
	}
	if early := slot.Time.Sub(now); known && early > 2*time.Second+width {
		s.failf("%s: slot %s is early by %v, and the server's time is known to %v", l.name, s.at(slot.Time), early, width)
	}
	if !slot.Begun {
		g.fresh[t] = freshSlot{now, l.name}
	}
	if _, was := g.yielded[t]; !was {
		g.yielded[t] = now
	}
	// The loop goes on in a term when the mark of the slot before is stored.
	if b := l.before; b != nil && b.Term == slot.Term && !b.Time.Equal(slot.Time) {
		s.complete(b, b.ended)
	}
	g.last = now
	given := &given{Slot: slot, at: now}
	l.slot = given
	return given
}

// ends notes the end of a body.
func (l *life) ends(g *given, goes bool) {
	s := l.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	l.idle, g.ended = now, now
	if now.Sub(g.at) > 5*time.Second {
		l.toiled = now
	}
	defer func() { l.slot, l.before = nil, g }()
	if l.dead.Load() {
		return
	}
	s.logf("%s ends %s, and goes on: %v", l.name, s.at(g.Time), goes)
	if goes {
		s.tell(l, g)
	}
	if goes && !g.went && g.Term.Context().Err() == nil {
		l.finished.slot, l.finished.at = g.Time.UnixNano(), now
	}
}

// returns notes the end of a function of Term.Go.
func (l *life) returns(g *given) {
	l.sim.mu.Lock()
	defer l.sim.mu.Unlock()
	g.goes--
	l.idle = time.Now()
	if l.idle.Sub(g.at) > 5*time.Second {
		l.toiled = l.idle
	}
}

// completes notes a call of Complete.
func (l *life) completes(g *given, err error, when string) {
	s := l.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.dead.Load() {
		return
	}
	s.logf("%s completes %s %s: %v", l.name, s.at(g.Time), when, err)
	switch {
	case err == nil:
		at := g.ended // the loop may have completed it then
		if at.IsZero() {
			at = time.Now()
		}
		s.complete(g, at)
		if strings.Contains(when, "late") {
			s.tally["completed late"]++
		}
	case errors.Is(err, schedule.ErrAhead):
		s.failf("%s: Complete returns %v", l.name, err)
	}
}

// complete notes that a slot was completed at an instant, or before it.
func (s *simulation) complete(g *given, at time.Time) {
	if g.done {
		return
	}
	g.done = true
	s.ledger.completed[g.Time.UnixNano()] = at
}

// beginsAnew notes that the calendar begins anew, because a mark was ahead: what was told of slots to come counts no longer.
func (g *ledger) beginsAnew(now time.Time) {
	g.ahead = now
	for t := range g.told {
		if t > now.Add(15*time.Second).UnixNano() {
			delete(g.told, t)
		}
	}
}

// tell notes that a slot and its list are told, and checks that no slot before it is untold.
func (s *simulation) tell(l *life, of *given) {
	g, now := &s.ledger, time.Now()
	soon := now.Add(15 * time.Second)
	g.told[of.Time.UnixNano()] = true
	for _, m := range of.Missed {
		g.told[m.UnixNano()] = true
	}
	if of.Skipped != nil {
		g.excuse(earlier(of.Time, soon))
	} else if len(of.Missed) == 100 { // those before the list were missed, too
		for t := l.plan.Next(of.After); t.Before(of.Missed[0]) && t.Before(soon); t = l.plan.Next(t) {
			g.told[t.UnixNano()] = true
		}
	}
	if of.Time.After(soon) || of != l.slot { // an earlier one that is completed late, or the clock that decides is ahead, and the calendar begins anew when it is right
		return
	}
	from, seen := g.checked[l.plan.name]
	if !seen || from.Before(g.excused) {
		from = g.excused
	}
	for t := l.plan.Next(from); !t.After(of.Time) && !t.After(now); t = l.plan.Next(t) {
		if !g.told[t.UnixNano()] {
			s.failf("%s: slot %s is untold when %s is done", l.name, s.at(t), s.at(of.Time))
			return
		}
		g.checked[l.plan.name] = t
	}
}

func (g *ledger) excuse(until time.Time) {
	if until.After(g.excused) {
		g.excused = until
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// latest returns the latest of some instants.
func latest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.After(first) {
			first = t
		}
	}
	return first
}

// watch checks a process from outside, every 2 s: that it is not silent, and that it reports its clock.
func (s *simulation) watch(h *host) {
	l := h.life
	if l == nil || l.over() || h.sleeping() != nil {
		return
	}
	term, leads := l.schedule.Candidate().Term()
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if !leads || l.whole.IsZero() {
		l.agreed = time.Time{}
		return
	}
	known, width := l.server(term)
	o := l.term(term)
	work := l.slot
	if work == nil && l.before != nil && l.before.goes > 0 {
		work = l.before
	}
	if !known || work != nil && now.Sub(work.at) > 5*time.Second {
		l.agreed = time.Time{}
		return
	}
	since := latest(o.since, o.known, l.whole.Add(s.lease+10*time.Second))
	s.silent(l, latest(since, l.idle), width, work != nil)

	since = latest(since, l.toiled)
	switch {
	case h.rightSince.IsZero():
		l.agreed = time.Time{}
	case l.agreed.IsZero():
		l.agreed = now
	case now.Sub(latest(l.agreed, since)) > 22*time.Second:
		l.clockTold = false
	}
	if h.wrongSince.IsZero() || l.clockTold || l.blocked(now) {
		return
	}
	since = latest(since, h.wrongSince)
	if least, _ := h.differences(since); now.Sub(since) > 20*time.Second && least > 2*time.Second+width {
		s.failf("%s leads with a clock that is %v ahead since %s, and does not report it", l.name, h.off, s.at(h.wrongSince))
	}
}

// blocked reports whether the calendar of the process fails, so that it is asked again later.
func (l *life) blocked(now time.Time) bool {
	return !l.plan.stands[0].IsZero() && !now.Before(l.plan.stands[0]) && now.Before(l.plan.stands[1].Add(12*time.Second))
}

// silent checks that a leader without work is not silent for longer than to its next slot.
func (s *simulation) silent(l *life, since time.Time, width time.Duration, working bool) {
	now := time.Now()
	if working || l.blocked(now) {
		return
	}
	if from := l.plan.stands[1].Add(12 * time.Second); !l.plan.stands[0].IsZero() && from.Before(now) {
		since = latest(since, from)
	}
	if silence := now.Sub(since); silence > l.plan.period+15*time.Second+width {
		s.failf("%s leads without a slot for %v", l.name, silence)
	}
}
