package machine

import "time"

// A paused machine in the exploration, and a time of day that is set ahead.

// pause begins a pause of a candidate's machine, or ends it. Then the time of day shows how long it was, before anything
// else happens in the process. Until the renewal is answered, or one interval is over, the candidate may be wrong about its lease.
func (w *worldOf) pause(i int, begins bool) {
	p := &w.parties[i]
	p.frozen, p.paused = begins, begins
	if begins {
		w.spend(pause)
		return
	}
	by := time.Duration(p.asleep) * tick
	p.asleep, p.excused = 0, p.now.Add(p.m.bucket.times.RenewInterval)
	w.step(i, Input{Kind: InPaused, By: by})
}

// setTime lets an operator set the time of day. A leader may have to renew its lease, and leads on.
func (w *worldOf) setTime(i int) {
	p := &w.parties[i]
	led, until := p.leads(), p.m.term.leaseUntil
	w.step(i, Input{Kind: InPaused, By: 2 * tick})
	switch {
	case led != p.leads():
		w.fail("%s led: %v, and leads since somebody has set the time of day: %v", p.m.Session, led, p.leads())
	case led && p.m.term.leaseUntil.After(until):
		w.fail("%s has a longer lease since somebody has set the time of day", p.m.Session)
	case led && p.m.leave.mode == Staying && p.m.flight.req.Kind == ReqNone && p.m.flight.slot == slotNone && p.m.flight.retryAt.Before(p.now):
		w.fail("%s does not ask the store since somebody has set the time of day", p.m.Session)
	}
}
