package leader

import (
	"github.com/natsleader/natsleader/internal/machine"
)

// end releases the resources of the candidate. The machine sends no more requests.
func (a *actor) end() {
	for i := range a.guards {
		a.guards[i].dismiss()
	}
	a.silence.giveUp()
	a.listener.dismiss()
	a.stepListener(machine.ListenerInput{})
	a.roster.dismiss(a.abandoning)
	limit := a.now().Add(lastMoment)
	for a.awaitsReplies() && a.now().Before(limit) { // requests given up are still answered
		if m := a.c.box.takeOr(func() { a.arm(machine.Earlier(a.roster.wakeAt(), limit)) }); m != nil {
			a.last(m)
			m.free()
			continue
		}
		select {
		case <-a.c.box.bell:
		case <-a.timer.C():
			a.step(a.stepRoster(), nil)
		case a.c.pulse <- struct{}{}:
		}
	}
	for _, m := range a.c.box.close() {
		if h := m.roster; h == nil {
			a.last(m)
		} else if h.feed != nil {
			h.feed.Stop()
		}
	}
	a.requests.end()
	a.c.cordon.leave()
	a.timer.Stop()
	a.c.finish(a.values, a.status.Err, (a.abandoning || a.cut) && a.status.MayKeep, a.cut)
}

// awaitsReplies reports whether a request is not answered yet.
func (a *actor) awaitsReplies() bool {
	return a.requests.cancel != nil || a.silence.cancel != nil || a.guards.busy() || a.listener != nil && a.listener.Busy() || a.roster.busy()
}

// last takes mail that came too late to be acted on.
func (a *actor) last(m *mail) {
	if m.guard != nil {
		a.guards[m.guard.number].cleanUp(m.guard)
		return
	}
	if m.listener != nil {
		a.receiveListener(m.listener)
		return
	}
	if m.sign {
		a.silence.cancel = nil
		return
	}
	if m.roster != nil {
		if m.roster.kind != viewChanged {
			a.step(a.receiveRoster(m.roster), nil)
		}
		return
	}
	switch m.in.Kind {
	case machine.InTick:
		end(m)
	case machine.InRead, machine.InWritten, machine.InSettings, machine.InFeed:
		a.replied(m)
	case machine.InResign, machine.InProclaim:
		if m.call != nil { // its caller waits
			m.call <- ErrNotLeader
		}
	case machine.InAbandon:
		a.abandoning = true
		a.roster.dismiss(true)
	case machine.InHeard, machine.InReconnected, machine.InFeedLost, machine.InClosed, machine.InGuards, machine.InRoster, machine.InStop, machine.InDrained, machine.InWorked, machine.InLoop, machine.InNoLoop, machine.InSuspend, machine.InResume, machine.InSlot, machine.InStalled, machine.InPaused:
	}
}
