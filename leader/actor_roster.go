package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/internal/record"
)

// rosterParts are what a candidate needs for the roster. Most candidates have none.
type rosterParts struct {
	announcer rosterAnnouncer
	watcher   rosterWatcher
}

// wakeAt returns when one of the machines is to step again; zero: with any step.
func (p *rosterParts) wakeAt() time.Time {
	if p == nil {
		return time.Time{}
	}
	return machine.Earlier(p.announcer.wake, p.watcher.wake)
}

// busy reports whether a request is not answered yet, or a view is being left.
func (p *rosterParts) busy() bool {
	return p != nil && (p.announcer.cancel != nil || p.watcher.cancel != nil || p.watcher.closing > 0)
}

// dismiss gives up the requests in flight, which still have to be answered. It spares the
// withdrawal, unless the candidate ends without waiting.
func (p *rosterParts) dismiss(abandoning bool) {
	if p == nil {
		return
	}
	if h := &p.announcer; h.cancel != nil && (abandoning || !h.Until.IsZero()) {
		h.cancel()
	}
	if p.watcher.cancel != nil {
		p.watcher.cancel()
	}
}

// rosterAnnouncer announces a candidate in the roster while it stands. It has the announcer
// machine, which decides when, and the means to send the announcements.
type rosterAnnouncer struct {
	machine.AnnouncerMachine
	roster   backend.Roster
	election string
	session  string
	entry    record.Announcement
	dated    time.Time          // AnnouncerMachine.Since when entry.Since was set: others see that only change with the stand
	cancel   context.CancelFunc // of the request in flight; nil if there is none
	wake     time.Time          // when the machine is to step again; zero: with any step
	reported string             // the fault that was reported last
}

// send announces the stand, or withdraws it if life is 0. The reply goes to the mailbox.
func (h *rosterAnnouncer) send(values context.Context, entry []byte, life time.Duration, box *mailbox) {
	var ctx context.Context
	ctx, h.cancel = context.WithCancel(values)
	h.roster.Announce(ctx, h.election, h.session, entry, life, func(revision uint64, err error) {
		box.put(mail{roster: &rosterMail{kind: announced, revision: revision, err: err}})
	})
}

// stepAnnouncer steps the announcer machine and carries out the effects.
func (a *actor) stepAnnouncer(in machine.AnnouncerInput) {
	h, s, permit := &a.roster.announcer, &a.status, a.c.permit
	in.Held, in.Eligible = s.Holds || a.isCordoned(), s.Eligible && !s.Done && !a.isWithheld()
	in.Denied, in.From = s.DeniedUntil, s.CooldownUntil
	if permit != nil {
		in.Held = in.Held || permit.holds(a.Session)
		in.Eligible = in.Eligible && !permit.works()
		in.Denied = machine.Later(in.Denied, a.inside(permit.deniedUntil()))
		in.From = machine.Later(in.From, a.inside(permit.sitsOut()))
	}
	in.Held = in.Held && !s.Done
	in.Leaves = s.Done || s.Leaving == machine.Stopping
	in.Times = s.Times.OrDefault()
	fx := h.Step(a.now(), in)
	h.wake = fx.Wake
	switch {
	case fx.Announce:
		if !h.dated.Equal(h.Since) {
			h.dated, h.entry.Since = h.Since, a.wall(h.Since).UTC()
		}
		h.entry.Ticket, h.entry.Denied, h.entry.DeniedAt = h.Ticket, h.Denied, time.Time{}
		if h.Denied {
			h.entry.DeniedAt = a.wall(in.Denied.Add(-machine.DenialLeases * in.Times.Lease)).UTC()
		}
		h.entry.Publish(s.Value)
		h.send(a.values, h.entry.Encode(), machine.Lives*in.Times.Lease, &a.c.box)
	case fx.Withdraw:
		h.send(a.values, nil, 0, &a.c.box)
		if a.abandoning {
			h.cancel() // whatever was in flight when Stop had no time left: nothing waits
		}
	case fx.Cancel:
		h.cancel()
	}
}

// stepRoster does the work on the roster that is due after a step of the machine. It returns the
// input for the machine, or nil.
func (a *actor) stepRoster() *machine.Input {
	if a.roster == nil {
		return nil
	}
	a.stepAnnouncer(machine.AnnouncerInput{})
	return a.stepWatcher(machine.WatcherInput{})
}

// receiveRoster takes mail about the roster. It returns the input for the machine, or nil.
func (a *actor) receiveRoster(m *rosterMail) *machine.Input {
	var in *machine.Input
	switch m.kind {
	case announced:
		a.roster.announcer.cancel()
		a.roster.announcer.cancel = nil
		a.rosterFault(m.err)
		a.stepAnnouncer(machine.AnnouncerInput{Answered: true, Failed: m.err != nil, Revision: m.revision})
		return a.stepWatcher(machine.WatcherInput{})
	case viewOpened:
		in = a.viewOpened(m)
	case viewChanged:
		in = a.readView(m.view)
	case viewClosed:
		a.roster.watcher.closing--
	}
	if in == nil {
		in = a.stepRoster()
	}
	return in
}

// rosterFault reports an error that keeps the candidate from the roster, once.
func (a *actor) rosterFault(err error) {
	h := &a.roster.announcer
	switch {
	case err == nil:
		h.reported = ""
	case a.status.Done || err.Error() == h.reported:
	default:
		h.reported = err.Error()
		a.fault(fmt.Errorf("roster: %w", err)) // the lease does not depend on it
	}
}

// rosterWatcher reads the roster for the candidate that holds the key. It has the watcher
// machine, which decides when, and the view of the roster.
type rosterWatcher struct {
	machine.WatcherMachine
	view       *record.View // nil: it is not open
	feed       backend.Feed
	cancel     context.CancelFunc // of the opening that is going on; nil if there is none
	closing    int                // views that are being left
	wake       time.Time          // when the machine is to step again; zero: with any step
	changes    uint64             // of the other seats' holders, when the view was last read
	preemptors map[string]preemptorEntry
}

// preemptorEntry is a candidate that asks to lead, as the holder sees it.
type preemptorEntry struct {
	since    time.Time // when it was seen first
	revision uint64    // of its newest announcement
	again    time.Time // when it announced itself last, after the first
}

// stepWatcher steps the watcher machine and carries out the effects. It returns the input for the
// machine of the candidate, or nil.
func (a *actor) stepWatcher(in machine.WatcherInput) *machine.Input {
	l, s := &a.roster.watcher, &a.status
	in.Holds, in.Ended, in.Taken = s.Holds && !s.Done, s.Done, s.Seen.Held()
	in.Urgent = s.Leaving != machine.Staying && !s.Ranked
	in.Changed = a.c.permit != nil && l.changes != a.c.permit.changed()
	in.Times = s.Times.OrDefault()
	fx := l.Step(a.now(), in)
	l.wake = fx.Wake
	if fx.Turned {
		l.preemptors = nil
	}
	switch {
	case fx.Open:
		l.open(a.values, &a.roster.announcer, a.Priority, &a.c.box)
	case fx.Cancel:
		l.cancel()
	case fx.Close:
		l.stop(&a.c.box)
	case fx.Read:
		return a.readView(l.view)
	case fx.Unknown:
		return &machine.Input{Kind: machine.InRoster, Roster: machine.RosterReport{Line: s.Line}}
	}
	return nil
}

// open begins to read the roster. What it finds goes to the mailbox.
func (l *rosterWatcher) open(values context.Context, h *rosterAnnouncer, priority int, box *mailbox) {
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(values)
	var v *record.View
	v = record.NewView(priority, func() { box.put(mail{roster: &rosterMail{kind: viewChanged, view: v}}) })
	h.roster.View(ctx, h.election, v.Take, func(f backend.Feed, err error) {
		if !box.put(mail{roster: &rosterMail{kind: viewOpened, view: v, feed: f, err: err}}) && f != nil {
			f.Stop() // the candidate has ended without waiting any longer
		}
	})
}

// stop leaves the view. Before it ends, the view of a Bucket may have to wait for the
// connection's lock. The actor does not wait for that.
func (l *rosterWatcher) stop(box *mailbox) {
	if v, ok := l.feed.(*natskv.View); ok {
		l.closing++
		go func() {
			v.Stop()
			box.put(mail{roster: &rosterMail{kind: viewClosed}})
		}()
	} else {
		l.feed.Stop()
	}
	l.view, l.feed = nil, nil
}

// viewOpened takes the outcome of an opening. It returns the input for the machine, or nil.
func (a *actor) viewOpened(m *rosterMail) *machine.Input {
	l := &a.roster.watcher
	l.cancel()
	l.cancel, l.view, l.feed = nil, m.view, m.feed
	if m.err != nil {
		l.view = nil
	}
	if m.err == nil || a.status.Holds { // else the watcher has given it up
		a.rosterFault(m.err)
	}
	return a.stepWatcher(machine.WatcherInput{Kind: machine.WatcherOpened, Failed: m.err != nil})
}

// readView returns the input that has the candidates of the roster, or nil.
func (a *actor) readView(v *record.View) *machine.Input {
	l := &a.roster.watcher
	if v != l.view {
		return nil // it is being opened, or closed
	}
	if a.c.permit != nil {
		l.changes = a.c.permit.changed()
	}
	all, complete, err := v.Order(a.holding)
	switch {
	case err != nil:
		a.rosterFault(err)
		return a.stepWatcher(machine.WatcherInput{Kind: machine.WatcherBroken})
	case complete && a.status.Holds:
		return &machine.Input{Kind: machine.InRoster, Roster: machine.RosterReport{Line: machine.LineOfAll(all), Preemptor: a.preemptor(all)}}
	default:
		return nil
	}
}

// holding reports whether a session holds the key, or one of several, so that it does
// not stand.
func (a *actor) holding(session string) bool {
	b := a.c.permit
	return session == a.Session || b != nil && b.holds(session)
}

// choose returns the candidate with a higher priority that asks to lead, has stood for a
// lease, and has just announced itself again. So a candidate that comes and goes pushes out
// no leader, nor hides one that stays. After each failed handover choose returns the next
// one in order. So no candidate that can take the key waits behind one that cannot.
func (l *rosterWatcher) choose(now time.Time, all []record.Announcement, priority int, s *machine.Status) machine.Preemptor {
	lease := s.Times.Lease
	var asking []machine.Preemptor
	var just []bool
	seen := make(map[string]preemptorEntry)
	for _, c := range all {
		if !c.Preempt || c.Denied || c.Priority <= priority {
			continue
		}
		was, known := l.preemptors[c.Session]
		if !known {
			was = preemptorEntry{since: now, revision: c.Revision}
		}
		again := c.Revision > was.revision
		if again {
			was.revision, was.again = c.Revision, now
		}
		seen[c.Session] = was
		if !now.Before(was.since.Add(lease)) && now.Before(was.again.Add(lease+lease/4)) {
			asking, just = append(asking, machine.Preemptor{Session: c.Session, Since: was.since}), append(just, again)
		}
	}
	l.preemptors = seen
	if len(asking) == 0 {
		return machine.Preemptor{}
	}
	next := int(s.FailedHandovers % uint32(len(asking)))
	if !just[next] {
		return machine.Preemptor{}
	}
	return asking[next]
}

// preemptor returns the candidate that the leader is to hand over to. There is none if the
// leader refuses requests, or if the leader of another seat gives way first.
func (a *actor) preemptor(all []record.Announcement) machine.Preemptor {
	p := a.roster.watcher.choose(a.now(), all, a.Priority, &a.status)
	if b := a.c.permit; p.Session != "" && (a.c.refuses || b != nil && !b.givesWay(a.seat, p.Session)) {
		return machine.Preemptor{}
	}
	return p
}
