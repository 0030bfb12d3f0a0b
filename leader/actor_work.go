package leader

import "time"

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

// due returns the input of a tick. When the time for a stop is up, the candidate ends
// without waiting any longer.
func (a *actor) due() input {
	if a.stopBy.IsZero() || a.now().Before(a.stopBy) {
		return input{kind: inTick}
	}
	a.stopBy, a.abandoning = time.Time{}, true
	return input{kind: inAbandon}
}

// offerTerm offers the term that has begun to the loops over Terms, once.
func (a *actor) offerTerm() {
	if t := a.term; t != nil && !t.offered && a.status.offers && a.status.state == StateLeader {
		t.offered = true
		a.c.loops.offer(t)
	}
}

// reminder decides when to report again that the work of a term goes on after its end: after
// one lease, and then in intervals that double.
type reminder struct {
	at    time.Time // the next report; zero: the work has ended
	pause time.Duration
	token uint64 // of the term
}

// due reports whether to report now. working is false while the candidate holds the key, or
// has ended.
func (r *reminder) due(now time.Time, working bool, lease time.Duration) bool {
	switch {
	case !working:
		r.at = time.Time{}
	case r.at.IsZero():
		r.pause, r.at = lease, now.Add(lease)
	case !now.Before(r.at):
		r.pause = min(2*r.pause, lease<<patienceDoubles)
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
	if s := &a.status; a.reminder.due(a.now(), s.working && s.state == StateCandidate && !s.done, s.times.lease) {
		a.fault(notReleased(a.reminder.token))
	}
}
