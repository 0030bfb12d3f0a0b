package schedule

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/slots"
	"github.com/natsleader/natsleader/leader"
)

// The faults of a schedule, after each of which it goes on. Its candidate reports them as [leader.Faulted]: ErrClock each time
// that the clocks part, the others once until a slot has been worked. [leader.Stats] counts them.
var (
	// ErrClock is the fault that the clock of this host differs from the server's by more than 2 s. The server's decides until
	// they differ by less than 1 s.
	ErrClock error = backend.ScheduleError("this host's clock is not that of the server")
	// ErrAhead is the fault that the last mark lies ahead by more than 10 s, because a leader's clock was. The calendar begins
	// anew after now. Slots up to that mark come at their time with [Slot].Begun.
	ErrAhead error = backend.ScheduleError("the last mark is in the future")
	// ErrChanged is the fault that a leader has had another calendar, or time zone, under this name. The calendar begins anew
	// after now, or after the slot that was begun. A candidate that waits reports it, too.
	ErrChanged error = backend.ScheduleError("the calendar is not that of the leader")
	// ErrCalendar is the fault that the Calendar has returned a slot that is not after its argument, or has too many. It
	// begins anew after now, and if it fails there as well, it is asked again each 10 s, or each lease if that is shorter.
	ErrCalendar error = backend.ScheduleError("the calendar is broken")
	// ErrMark is the fault that a leader has published something else under this name, or nothing for a lease, so that its last
	// slot is not known. The calendar begins anew after now. A candidate that waits reports it, too.
	ErrMark error = backend.ScheduleError("the leader has published no mark of a schedule")
)

var faults = [...]error{slots.Ahead: ErrAhead, slots.Changed: ErrChanged, slots.Broken: ErrCalendar, slots.Unread: ErrMark}

// askEach is how old the server's time may be before it is asked for again, and serverLimit how long a term waits for its first
// answer.
const (
	askEach     = time.Minute
	serverLimit = time.Second
)

// serverTime is the server's time by its last answer in a term. When the answer was asked for, the server's clock was not
// further ahead of the candidate's than most, and when it came not less than least.
type serverTime struct {
	mu          sync.Mutex
	least, most int64         // Unix nanoseconds, where the candidate's clock shows 0
	asked       time.Duration // when the last answer was asked for; most is 0: none has come
	sent        time.Duration // when the last request was sent
	giveUp      func()        // of the request in flight; nil: none is
	replied     chan struct{} // receives when it is not any more
}

// between returns between which instants the server's time is after so much of the candidate's time.
func (t *serverTime) between(elapsed time.Duration) slots.Server {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.most == 0 {
		return slots.Server{}
	}
	return slots.Server{Least: t.least + int64(elapsed), Most: t.most + int64(elapsed)}
}

// ask returns a context for a request if one is due. It cancels a request whose reply has not come within maxWait, because
// that reply may be lost.
func (t *serverTime) ask(lead context.Context, elapsed time.Duration) (ctx context.Context, due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.giveUp != nil && elapsed-t.sent < maxWait, t.most != 0 && elapsed-t.asked < askEach:
		return nil, false
	case t.giveUp != nil:
		t.giveUp()
	}
	t.sent = elapsed
	ctx, t.giveUp = context.WithCancel(lead)
	return ctx, true
}

// hear takes the reply to a request; without the server's time it is 0.
func (t *serverTime) hear(server int64, asked, now time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if asked != t.sent {
		return // it was given up
	}
	t.giveUp()
	if t.giveUp = nil; server != 0 {
		t.least, t.most, t.asked = server-int64(now), server-int64(asked), asked
	}
	select {
	case t.replied <- struct{}{}:
	default: // one is there to be received
	}
}

// awaitServer waits for the server's time in a term that begins. Without it the host's clock decides until it comes.
func (s *Schedule) awaitServer(lead context.Context) {
	s.time = &serverTime{replied: make(chan struct{}, 1)}
	s.server(lead)
	s.wait(lead, serverLimit, s.time.replied)
}

// server returns what is known of the server's time in this term, and asks for it now and then.
func (s *Schedule) server(lead context.Context) slots.Server {
	elapsed, t := backend.ElapsedOf(s.candidate), s.time
	if ctx, due := t.ask(lead, elapsed); due {
		backend.StoreOf(s.candidate).Settings(ctx, func(answer backend.Settings, _ error) {
			t.hear(answer.Now, elapsed, backend.ElapsedOf(s.candidate))
		})
	}
	return t.between(elapsed)
}

// now returns the time of day that decides, in the zone of the host, and reports a host's clock that does not. The marks are
// held.
func (s *Schedule) now(lead context.Context) time.Time {
	host := backend.Wall(s.clock)
	at, agrees := s.book.Now(host.UnixNano(), s.server(lead))
	now := time.Unix(0, at).In(host.Location())
	if !agrees && !s.differs {
		s.report(fmt.Errorf("%w: it shows %s, and the server %s: the server's decides until they agree", ErrClock, text(host), text(now)))
	}
	s.differs = !agrees
	return now
}

// tell reports the fault of a look, once until a slot has been worked.
func (s *Schedule) tell(act *slots.Act, before slots.Mark, now time.Time) {
	if act.Fault == slots.Fine || act.Fault == s.told {
		return
	}
	s.told = act.Fault
	then := "the calendar begins anew after " + text(now)
	switch {
	case act.Yield != nil && act.Fault == slots.Broken:
		then = "slots that were missed before the one of " + text(time.Unix(0, act.Yield.Time)) + " are not known"
	case act.Yield != nil:
		then += ", and before the one of " + text(time.Unix(0, act.Yield.Time)) + " comes, which was begun"
	case act.Store == nil:
		then = "it is asked again"
	}
	last := "the last mark is of " + text(time.Unix(0, before.At))
	if before == (slots.Mark{}) {
		last = "there is no mark"
	}
	s.report(fmt.Errorf("%w: %s; %s", faults[act.Fault], last, then))
}

// compare follows the marks of other leaders, so that this process knows them also if their key is deleted. It reports a leader
// with another calendar, or one that publishes no marks.
func (s *Schedule) compare(ctx context.Context) {
	observed := s.candidate.Events(ctx, leader.Observed{})
	patience := s.clock.NewTimer(time.Hour) // with a leader that publishes nothing: its first mark is on the way
	defer patience.Stop()
	patience.Stop()
	var told slots.Fault
	for {
		waited := false
		select {
		case _, ok := <-observed:
			if !ok {
				return
			}
		case <-patience.C():
			waited = true
		}
		if s.hold(ctx) != nil {
			return
		}
		fault, h := slots.Fine, s.candidate.Leader()
		switch {
		case h.State != leader.HolderLeading || s.candidate.IsLeader():
		case len(h.Value) == 0 && !waited:
			patience.Reset(h.Lease)
		default:
			fault = s.book.Observe(string(h.Value), s.next(backend.Wall(s.clock).Location()))
		}
		s.release()
		if fault != slots.Fine && fault != told {
			s.report(fmt.Errorf("%w: %q leads under this name", faults[fault], h.ID))
		}
		told = fault
	}
}

func (s *Schedule) report(fault error) { backend.Report(s.candidate, fault) }

func text(t time.Time) string { return t.UTC().Format(time.RFC3339) }
