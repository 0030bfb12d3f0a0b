// Package schedule runs a job at the slots of a calendar, on the one process that leads:
//
//	s, err := schedule.Campaign(ctx, bucket, "report", schedule.Every(10*time.Second), leader.Config{})
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
// The clock of the host decides when a slot is due, while it is within 2 s of the server's; otherwise the server's. Clocks,
// marks and calendars that are wrong are faults ([ErrClock], [ErrAhead], [ErrChanged], [ErrCalendar], [ErrMark]).
//
// The marks are two small writes for each slot. They are lost if the key of the election is deleted. A
// schedule has one leader, so it is not for a store of package seats.
//
//	schedule.go  Schedule, Slot, and the loop over slots
//	daily.go     Daily: a calendar with a slot on each date
//	time.go      which clock decides, and the faults of clocks, marks and calendars
package schedule

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/slots"
	"github.com/natsleader/natsleader/leader"
)

// Calendar returns the first slot after an instant, or the zero Time if there is none. All candidates
// of an election have the same calendar, in the same time zone. A Schedule of github.com/robfig/cron
// is a Calendar. Its calls do not overlap, and have to return. While another candidate leads they are on a goroutine of
// the Schedule.
type Calendar interface {
	Next(after time.Time) time.Time
}

// Every returns a calendar with a slot at each multiple of d in UTC: with an hour, at each full hour.
func Every(d time.Duration) Calendar { return every(d) }

type every time.Duration

func (e every) Next(after time.Time) time.Time {
	return after.Truncate(time.Duration(e)).Add(time.Duration(e))
}

// Schedule is a candidate that works at the slots of a calendar while it leads.
type Schedule struct {
	candidate *leader.Candidate
	clock     leader.Clock
	stall     time.Duration // see leader.Config.StallTimeout: each wait is a sign of life
	patience  time.Duration // in this term a wait is no longer
	timer     leader.Timer  // of the loop; nil before its first wait, because a fake clock waits for a timer to be set
	time      *serverTime   // in this term
	told      slots.Fault   // that was reported last; none: a slot was worked since

	turn     chan struct{} // held for what follows, from a look to the mark that follows from it; see hold
	calendar Calendar
	book     slots.Book
	differs  bool // the host's clock does from the server's, as was reported
}

// maxWait is after which time the clocks, and a calendar that is broken, are looked at again while the next slot is far: the
// clocks may have been set. A shorter lease is so, too.
const maxWait = 10 * time.Second

// limits are those of the rules. Two clocks that are believed differ by 4 s at most.
var limits = slots.Limits{
	Agree: int64(2 * time.Second), Tolerance: int64(10 * time.Second), Horizon: int64(24 * time.Hour),
	Span: int64(time.Microsecond), Missed: 100, Calls: 100_000,
}

// Campaign starts a candidate as [leader.Campaign] does, with the same errors, for a calendar. [leader.ErrInvalidConfig] is
// also returned for a calendar that is missing or stands still, for a store of several seats, and for a Value, whose place
// the marks take. Inherit is set. So the election is for this calendar alone.
func Campaign(ctx context.Context, store leader.Store, election string, calendar Calendar, cfg leader.Config) (*Schedule, error) {
	if d, ok := calendar.(daily); ok {
		if err := d.check(); err != nil {
			return nil, err
		}
	}
	switch some := time.Unix(0, 0); {
	case calendar == nil:
		return nil, fmt.Errorf("%w: no calendar: use schedule.Every, for example", leader.ErrInvalidConfig)
	case len(cfg.Value) > 0:
		return nil, fmt.Errorf("%w: Value is set, and the marks of the schedule take its place: leave it out", leader.ErrInvalidConfig)
	case !calendar.Next(some).IsZero() && !calendar.Next(some).After(some):
		return nil, fmt.Errorf("%w: the slot of the calendar after %v is not after it: is its period positive?", leader.ErrInvalidConfig, some)
	}
	if n := seatsOf(store); n > 1 {
		return nil, fmt.Errorf("%w: %d seats, each of whose leaders would work every slot: pass the store without package seats", leader.ErrInvalidConfig, n)
	}
	cfg.Inherit = true
	c, err := leader.Campaign(ctx, store, election, cfg)
	if err != nil {
		return nil, err
	}
	return &Schedule{
		candidate: c, calendar: calendar, clock: backend.ClockOf(c).(leader.Clock), stall: cfg.StallTimeout,
		turn: make(chan struct{}, 1), book: slots.Book{Limits: limits},
	}, nil
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
	// No leader has begun them, unless one's clock was ahead (ErrAhead), and they are not yielded. After is the last
	// slot that was yielded before Time, or when the calendar began, or began anew.
	Missed []time.Time
	After  time.Time
	// Skipped is why slots before Time may have been left out that are not in Missed: [ErrAhead], [ErrChanged],
	// [ErrCalendar] or [ErrMark]. It is nil if none were.
	Skipped error

	s    *Schedule
	done atomic.Bool // so vet reports a copy, which would not know that the slot is done
}

// Slots yields each slot that is due while the candidate leads: a slot at its time, and at the
// beginning of a term those that the last leader has left behind. The first leader of an election
// begins with the first slot after its election. Work that takes longer than to the next slot
// makes that late, and those in between are Missed.
//
// When the loop's body has ended, and the functions of [leader.Term.Go] have returned, the slot is marked as done if the
// term still leads. No other slot is yielded before, so each function ends with its slot. After the term, and to leave the
// loop, call [Slot.Complete] if the work is complete. A slot that is not marked as done is yielded by the next leader, with
// Begun. The loop ends with the candidate. As in a loop over [leader.Candidate.Terms], break hands over and takes no further
// term.
func (s *Schedule) Slots() iter.Seq[*Slot] {
	return func(yield func(*Slot) bool) {
		ctx, cancel := context.WithCancel(context.Background())
		var comparing sync.WaitGroup
		comparing.Go(func() { s.compare(ctx) })
		defer comparing.Wait()
		defer cancel()
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
	if !s.open(lead, term) {
		return true
	}
	for lead.Err() == nil {
		act, now, ok := s.step(lead, term)
		switch {
		case !ok:
			return true
		case act.Store != nil:
		case act.Yield != nil:
			slot := s.slot(act.Yield, term, now.Location())
			if !yield(slot) {
				return false
			}
			<-backend.Idle(term) // they are work of the slot
			if lead.Err() != nil || slot.Complete(lead) != nil {
				return true // the mark of complete work follows at the next election
			}
			s.told = slots.Fine
		case act.Wait != slots.None:
			s.wait(lead, time.Duration(act.Wait-now.UnixNano()), nil)
		default:
			s.wait(lead, s.patience, nil)
		}
	}
	return true
}

// open begins a term. It reports whether the term goes on.
func (s *Schedule) open(lead context.Context, term *leader.Term) bool {
	if s.hold(lead) != nil {
		return false
	}
	defer s.release()
	p := term.Previous()
	s.book.Open(string(p.Value), p.State != leader.HolderNone)
	s.told = slots.Fine
	// A candidate publishes what it has proclaimed before: a mark that was not stored, or an old one if the key was deleted.
	if m := s.book.Mark; m != (slots.Mark{}) && m.String() != string(s.candidate.Leader().Value) && term.Proclaim(lead, []byte(m.String())) != nil {
		return false
	}
	s.patience = min(maxWait, s.candidate.Stats().LeaseDuration)
	if s.stall > 0 {
		s.patience = min(s.patience, s.stall/2)
	}
	s.awaitServer(lead)
	return true
}

// step asks the rules what to do, and stores the mark that they want. If it is that of a slot that begins, the rules are asked
// again, for the slot. It reports whether the term goes on.
func (s *Schedule) step(lead context.Context, term *leader.Term) (act slots.Act, now time.Time, ok bool) {
	if s.hold(lead) != nil {
		return act, now, false
	}
	defer s.release()
	before := s.book.Mark
	act, now = s.look(lead)
	switch {
	case act.Store == nil:
		return act, now, true
	case !act.Store.Begun:
		return act, now, s.set(lead, term, *act.Store) == nil
	}
	// A mark that was sent counts, so its outcome is awaited also after a term that is handed over. Then the slot was not begun,
	// and the next leader works it. A term that is lost stores no mark.
	grace := leader.Grace(lead)
	err := s.set(grace, term, *act.Store)
	if err == nil && lead.Err() == nil {
		act, now = s.look(lead)
	}
	if lead.Err() != nil {
		_ = s.set(grace, term, before)
		return act, now, false
	}
	return act, now, err == nil
}

// look asks the rules what to do. The marks are held.
func (s *Schedule) look(lead context.Context) (act slots.Act, now time.Time) {
	before := s.book.Mark
	now = s.now(lead)
	act = s.book.Look(now.UnixNano(), s.next(now.Location()))
	s.tell(&act, before, now)
	return act, now
}

// hold waits until the calendar and the marks are this goroutine's: others are the loop, a call of Complete, and compare.
func (s *Schedule) hold(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Schedule) release() { <-s.turn }

// next returns the calendar as package slots knows it, with a zone for those that have none of their own. It is held.
func (s *Schedule) next(zone *time.Location) slots.Calendar {
	return func(after int64) int64 {
		switch t := s.calendar.Next(time.Unix(0, after).In(zone)); {
		case t.IsZero() || t.Year() > 2261: // later ones have no Unix nanoseconds
			return slots.None
		case t.Year() < 1970:
			return after // as a calendar that goes back
		default:
			return t.UnixNano()
		}
	}
}

// slot returns a slot for the application.
func (s *Schedule) slot(y *slots.Slot, term *leader.Term, zone *time.Location) *Slot {
	at := func(t int64) time.Time { return time.Unix(0, t).In(zone) }
	slot := &Slot{Time: at(y.Time), After: at(y.After), Begun: y.Begun, Skipped: faults[y.Why], Term: term, s: s}
	for _, t := range y.Missed {
		slot.Missed = append(slot.Missed, at(t))
	}
	return slot
}

// set publishes a mark, in its term only, and reports why the store does not take it. The marks are held.
func (s *Schedule) set(ctx context.Context, term *leader.Term, m slots.Mark) error {
	err := term.Proclaim(ctx, []byte(m.String()))
	switch {
	case err == nil:
		s.book.Stored(m)
	case ctx.Err() == nil && !errors.Is(err, leader.ErrNotLeader):
		s.report(fmt.Errorf("schedule: the mark %q is not stored: %w", m, err))
	}
	return err
}

// Complete marks the slot as done, once. It returns nil when the mark is stored, [leader.ErrNotLeader] if
// the term is over and the candidate keeps its key no longer, or if a later slot has begun, or the error of ctx: then the mark may
// be stored all the same. After the term, whose context has ended, it needs another ctx.
func (s *Slot) Complete(ctx context.Context) error {
	if s.done.Load() {
		return nil
	}
	if err := s.s.hold(ctx); err != nil {
		return err
	}
	defer s.s.release()
	if s.done.Load() {
		return nil
	}
	m := s.s.book.Done(s.Time.UnixNano(), s.s.next(s.Time.Location()))
	if m == nil {
		return leader.ErrNotLeader
	}
	err := s.s.set(ctx, s.Term, *m)
	s.done.Store(err == nil)
	return err
}

// wait waits so long, or until more receives, or the term has ended.
func (s *Schedule) wait(lead context.Context, d time.Duration, more <-chan struct{}) {
	if s.timer == nil {
		s.timer = backend.Unarmed(s.clock)
	}
	s.timer.Reset(min(s.patience, d))
	defer s.timer.Stop()
	select {
	case <-lead.Done():
	case <-more:
	case <-s.timer.C():
	}
}
