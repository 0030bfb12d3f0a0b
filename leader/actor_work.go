package leader

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/machine"
)

// limitStop begins a stop that StopTimeout bounds. It returns when a drain has to end, so that
// time is left to release the key, or zero if there is no bound.
func (a *actor) limitStop() (drainBy time.Time) {
	if a.stopTimeout <= 0 {
		return time.Time{}
	}
	if a.stopBy.IsZero() {
		a.stopBy = a.now().Add(a.stopTimeout)
	}
	return a.stopBy.Add(-min(releaseTime, a.stopTimeout/4))
}

// releaseTime is how much of StopTimeout is left for the release after a drain.
const releaseTime = 2 * time.Second

// due returns the kind of the input of a tick. When the time for a stop is up, the candidate
// ends without waiting any longer.
func (a *actor) due() machine.InputKind {
	if a.stopBy.IsZero() || a.now().Before(a.stopBy) {
		return machine.InTick
	}
	a.stopBy, a.abandoning = time.Time{}, true
	return machine.InAbandon
}

// offerTerm offers the term that has begun to the loops over Terms, once.
func (a *actor) offerTerm() {
	if t := a.term; t != nil && !t.offered && a.status.Offers && a.status.State == machine.StateLeader {
		t.offered = true
		a.c.loops.offer(t)
	}
}

// workWatch notices that the work of a term does not ask its context any more. Only the candidate's
// goroutine uses it, but for asked. Its instants count from the start of the candidate.
type workWatch struct {
	timeout     time.Duration // Config.StallTimeout; 0: it is off
	asked       atomic.Int64  // when the work has asked last
	since, next time.Duration // the silence counts from since; the next look
}

// begin begins to watch the work of a term.
func (w *workWatch) begin(timeout, now time.Duration) {
	w.timeout, w.since, w.next = timeout, now, now
	w.asked.Store(int64(now))
}

// hangs looks, if it is time, and reports whether the work has been silent for the timeout. The
// time by which a look is late does not count: the process has been stopped, or the candidate's
// goroutine was held up. There are four looks in the timeout, so a shorter stop is of no account.
func (w *workWatch) hangs(now time.Duration) bool {
	if now < w.next {
		return false
	}
	late := now - w.next
	w.since = min(now, max(w.since, time.Duration(w.asked.Load()))+late)
	w.next = min(now+w.timeout/4, w.since+w.timeout)
	return now >= w.since+w.timeout
}

// watched returns the term that leads, if its work is watched and has not ended.
func (a *actor) watched() *Term {
	if a.stall == 0 || a.status.State != machine.StateLeader || !a.status.Working {
		return nil
	}
	return a.term
}

// hasty is how many terms in a row, whose work returned at once, are no chance.
const hasty = 3

// noticeReturn warns when the work of some terms in a row has returned soon after its begin: perhaps the body of the loop
// begins work that the candidate does not know.
func (a *actor) noticeReturn(cause error) {
	if !errors.Is(cause, machine.ErrWorkReturned) || a.now().Sub(a.elected) >= a.status.Times.OrDefault().RenewInterval {
		a.returns = 0
		return
	}
	if a.returns++; a.returns == hasty {
		a.c.log.LogAttrs(a.values, slog.LevelWarn, "the work returns at once", slog.Int("terms", int(a.returns)), slog.String("instead",
			"let the body of the loop over Terms be the work, or begin each goroutine by Term.Go"))
	}
}

// reminder decides when to report again that the candidate does not campaign because of its
// application: after one lease, and then in intervals that double.
type reminder struct {
	at    time.Time // the next report; zero: it campaigns
	pause time.Duration
	token uint64 // of the term
}

// due reports whether to report now. shut is false while the candidate holds the key, or has
// ended.
func (r *reminder) due(now time.Time, shut bool, lease time.Duration) bool {
	switch {
	case !shut:
		r.at = time.Time{}
	case r.at.IsZero():
		r.pause, r.at = lease, now.Add(lease)
	case !now.Before(r.at):
		r.pause = min(2*r.pause, lease<<machine.PatienceDoubles)
		r.at = now.Add(r.pause)
		return true
	}
	return false
}

// remind reports, now and then, that the candidate does not campaign because of its work.
func (a *actor) remind() {
	if a.term != nil {
		a.reminder.token = a.term.token
	}
	s := &a.status
	shut := (s.Working || s.Idle && a.seat == 1) && s.State == machine.StateCandidate && s.Leaving != machine.Stopping && !s.Done
	switch {
	case !a.reminder.due(a.now(), shut, s.Times.OrDefault().Lease):
	case s.Working:
		a.fault(machine.NotReleased(a.reminder.token))
	default:
		a.c.log.LogAttrs(a.values, slog.LevelWarn, "no loop takes terms", slog.String("instead",
			"the candidate does not campaign since its loop over Terms was left: begin another loop, or stop the candidate"))
	}
}
