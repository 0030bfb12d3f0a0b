// Package schedule runs a job at the slots of a calendar, on the one process that leads:
//
//	s, err := schedule.Campaign(ctx, bucket, "report", schedule.Config{Calendar: schedule.Every(10 * time.Second)})
//	...
//	for slot := range s.Slots() {
//		report(slot.Term.Context(), slot.Time) // the work
//	}
//	return s.Candidate().Err()
//
// The leader marks each slot as begun before the work and as done after it, in the value that it
// publishes with its lease. So the next leader knows how far the last one came. It is given a slot
// that was begun and not done (Slot.Begun), and the newest slot that no leader has begun. Each comes with the
// list of the slots that were missed before it (Slot.Missed), until it is done. A crash costs the slots of one
// lease, and none goes unreported.
//
// The marks are two small writes for each slot. They are lost if the key of the election is deleted. A
// schedule has one leader, so it is not for a store of package seats.
package schedule

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

// Calendar returns the first slot after an instant, or the zero Time if there is none. All candidates
// of an election have the same calendar, in the same time zone. A Schedule of github.com/robfig/cron
// is a Calendar.
type Calendar interface {
	Next(after time.Time) time.Time
}

// Every returns a calendar with a slot at each multiple of d in UTC: with an hour, at each full hour.
func Every(d time.Duration) Calendar { return every(d) }

type every time.Duration

func (e every) Next(after time.Time) time.Time {
	return after.Truncate(time.Duration(e)).Add(time.Duration(e))
}

// Config configures a candidate and its calendar.
type Config struct {
	Calendar Calendar
	// Election has the settings of the candidate. Its Value must be empty, because the marks take its place, and
	// Inherit is set. So the election is for this calendar alone.
	Election leader.Config
}

// Schedule is a candidate that works at the slots of a calendar while it leads.
type Schedule struct {
	candidate *leader.Candidate
	calendar  Calendar
	clock     leader.Clock
	patience  time.Duration // a wait is no longer
	mark      mark          // the last one that this process knows
	complete  time.Time     // the newest slot whose work is complete here; its mark may be lost
	timer     leader.Timer  // of the loop; nil before its first wait, because a fake clock waits for a timer to be set
}

// maxWait is after which time the clock is read again while the next slot is far, because the wall
// clock may have been set.
const maxWait = time.Minute

// Campaign starts a candidate as [leader.Campaign] does, with the same errors. [leader.ErrInvalidConfig]
// is also returned for a Calendar that is missing or stands still, for a Value, and for a store of several
// seats.
func Campaign(ctx context.Context, store leader.Store, election string, cfg Config) (*Schedule, error) {
	switch some := time.Unix(0, 0); {
	case cfg.Calendar == nil:
		return nil, fmt.Errorf("%w: no Calendar: use schedule.Every, for example", leader.ErrInvalidConfig)
	case len(cfg.Election.Value) > 0:
		return nil, fmt.Errorf("%w: Election.Value is set, and the marks of the schedule take its place: leave it out", leader.ErrInvalidConfig)
	case !cfg.Calendar.Next(some).IsZero() && !cfg.Calendar.Next(some).After(some):
		return nil, fmt.Errorf("%w: the slot of the Calendar after %v is not after it: is its period positive?", leader.ErrInvalidConfig, some)
	}
	if n := seatsOf(store); n > 1 {
		return nil, fmt.Errorf("%w: %d seats, each of whose leaders would work every slot: pass the store without package seats", leader.ErrInvalidConfig, n)
	}
	cfg.Election.Inherit = true
	c, err := leader.Campaign(ctx, store, election, cfg.Election)
	if err != nil {
		return nil, err
	}
	s := &Schedule{candidate: c, calendar: cfg.Calendar, clock: backend.ClockOf(c).(leader.Clock), patience: maxWait}
	if cfg.Election.StallTimeout > 0 { // each wait is a sign of life
		s.patience = min(maxWait, cfg.Election.StallTimeout/2)
	}
	return s, nil
}

// seatsOf returns the number of leaders that package seats gives to the elections of a store; 0 without it.
func seatsOf(store leader.Store) int {
	m, marked := store.(backend.Marked)
	for marked && m.Seats == 0 {
		m, marked = m.Sealed.(backend.Marked)
	}
	return m.Seats
}

// Candidate returns the candidate, to stop it and to watch it. Its Terms, and Proclaim of a term, are for Slots alone.
func (s *Schedule) Candidate() *leader.Candidate { return s.candidate }

// Slot is a slot that is due. It must not be copied.
type Slot struct {
	Time time.Time
	// Term is the term in which the slot is to be worked. Its context is that of the work.
	Term *leader.Term
	// Begun reports that a leader has begun the slot, and has not marked it as done. Work it again for
	// a job that must run at least once; continue for one that must run at most once.
	Begun bool
	// Missed has the slots between After and Time, oldest first, and of more than 100 the newest 100.
	// No leader has begun them, and they are not yielded. After is the last slot that was yielded
	// before Time, or when the first leader was elected.
	Missed []time.Time
	After  time.Time

	s    *Schedule
	done atomic.Bool // so vet reports a copy, which would not know that the slot is done
}

// maxMissed bounds Slot.Missed.
const maxMissed = 100

// Slots yields each slot that is due while the candidate leads: a slot at its time, and at the
// beginning of a term those that the last leader has left behind. The first leader of an election
// begins with the first slot after its election. Work that takes longer than to the next slot
// makes that late, and those in between are Missed.
//
// When the loop's body has ended, and the functions of [leader.Term.Go] have returned, the slot is marked as done if the
// term still leads. No other slot is yielded before, so each function ends with its slot. After the term, and to leave the loop, call [Slot.Complete] if the work is complete. A slot that is not marked as done is
// yielded by the next leader, with Begun. The loop ends with the candidate. As in a loop over
// [leader.Candidate.Terms], break hands over and takes no further term.
func (s *Schedule) Slots() iter.Seq[*Slot] {
	return func(yield func(*Slot) bool) {
		for term := range s.candidate.Terms() {
			if !s.serve(term, yield) {
				return
			}
		}
	}
}

// serve yields the slots of one term. It returns false if the application has left the loop.
func (s *Schedule) serve(term *leader.Term, yield func(*Slot) bool) bool {
	lead := term.Context()
	if p := term.Previous(); p.State != leader.HolderNone {
		s.mark = parseMark(p.Value, s.clock.Now())
	}
	var err error
	switch {
	case s.mark.at.IsZero():
		err = s.set(lead, term, mark{at: s.clock.Now()})
	case s.mark.at.Equal(s.complete):
		err = s.set(lead, term, mark{at: s.complete})
	}
	if err != nil {
		return true
	}
	for {
		slot := s.next(lead)
		if slot == nil {
			return true
		}
		slot.Term, slot.s = term, s
		if !s.begin(lead, slot) {
			return true
		}
		if !yield(slot) {
			return false
		}
		<-backend.Idle(term) // they are work of the slot
		if lead.Err() != nil || slot.Complete(lead) != nil {
			return true // the mark of complete work follows at the next election
		}
	}
}

// begin marks a slot as begun, and reports whether the term goes on. A mark that was sent counts, so begin
// waits for its outcome also after a term that is handed over. Then the slot was not begun, and the next
// leader works it. A term that is lost stores no mark.
func (s *Schedule) begin(lead context.Context, slot *Slot) bool {
	ctx := leader.Grace(lead)
	before := s.mark
	err := s.set(ctx, slot.Term, mark{at: slot.Time, begun: true, after: slot.After})
	if lead.Err() != nil {
		_ = s.set(ctx, slot.Term, before)
	}
	return err == nil && lead.Err() == nil
}

// Complete marks the slot as done, once. It returns nil when the mark is stored, [leader.ErrNotLeader] if
// the term is over and the candidate keeps its key no longer, or the error of ctx. After the term, whose
// context has ended, it needs another ctx.
func (s *Slot) Complete(ctx context.Context) error {
	if s.done.Load() {
		return nil
	}
	s.s.complete = s.Time
	err := s.s.set(ctx, s.Term, mark{at: s.Time})
	s.done.Store(err == nil)
	return err
}

// next waits for the next slot. It returns nil if the term ends first.
func (s *Schedule) next(lead context.Context) *Slot {
	for lead.Err() == nil {
		now := s.clock.Now()
		if m := s.mark; m.begun {
			at, after := m.at.In(now.Location()), m.after.In(now.Location())
			return &Slot{Time: at, Begun: true, Missed: due(s.calendar, after, at.Add(-1)), After: after}
		}
		after := s.mark.at.In(now.Location())
		if slots := due(s.calendar, after, now); len(slots) > 0 {
			last := len(slots) - 1
			return &Slot{Time: slots[last], Missed: slots[:last], After: after}
		}
		wait := s.patience
		if next := s.calendar.Next(after); !next.IsZero() {
			wait = min(wait, next.Sub(now))
		}
		if s.timer == nil {
			s.timer = s.clock.NewTimer(-1)
		}
		s.timer.Reset(wait)
		select {
		case <-lead.Done():
		case <-s.timer.C():
		}
		s.timer.Stop()
	}
	return nil
}

// due returns the slots after an instant up to now, the newest of them if there are many. It
// looks back twice as far each time, so that a long absence costs little.
func due(calendar Calendar, after, now time.Time) (slots []time.Time) {
	for back := time.Second; ; back *= 2 {
		from, all := now.Add(-back), back > now.Sub(after)/2 // so back does not overflow
		if all {
			from = after
		}
		slots = slots[:0]
		for t := calendar.Next(from); !t.IsZero() && !t.After(now); t = calendar.Next(t) {
			slots = append(slots, t)
		}
		if n := len(slots) - maxMissed - 1; all || n >= 0 {
			return slots[max(n, 0):]
		}
	}
}

// mark is how far the leaders have come: a slot, and whether it was only begun, after which one.
type mark struct {
	at    time.Time
	begun bool
	after time.Time
}

// String returns the value that is published.
func (m mark) String() string {
	if m.begun {
		return "begun " + m.at.UTC().Format(time.RFC3339Nano) + " after " + m.after.UTC().Format(time.RFC3339Nano)
	}
	return "done " + m.at.UTC().Format(time.RFC3339Nano)
}

// set publishes a mark, in its term only.
func (s *Schedule) set(ctx context.Context, term *leader.Term, m mark) error {
	err := term.Proclaim(ctx, []byte(m.String()))
	if err == nil {
		s.mark = m
	}
	return err
}

// parseMark returns the mark that a leader has published, or the zero mark for another value. A mark
// ahead of the clock by more than a day is no leader's: it would end the schedule until then.
func parseMark(value []byte, now time.Time) mark {
	text, after, begun := strings.Cut(string(value), " after ")
	state, text, _ := strings.Cut(text, " ")
	m := mark{begun: begun}
	m.at, _ = time.Parse(time.RFC3339Nano, text) // the zero Time is not after any
	if m.at.After(now.Add(24 * time.Hour)) {
		return mark{}
	}
	var err error
	if begun {
		m.after, err = time.Parse(time.RFC3339Nano, after)
	}
	if err != nil || state != map[bool]string{false: "done", true: "begun"}[begun] || !m.after.Before(m.at) {
		return mark{}
	}
	return m
}
