package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"

	"github.com/natsleader/natsleader/internal/record"

	"github.com/natsleader/natsleader/internal/natskv"
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
	return earlier(p.announcer.wake, p.watcher.wake)
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
	if h := &p.announcer; h.cancel != nil && (abandoning || !h.until.IsZero()) {
		h.cancel()
	}
	if p.watcher.cancel != nil {
		p.watcher.cancel()
	}
}

// rosterAnnouncer announces a candidate in the roster while it stands. It has the announcer
// machine, which decides when, and the means to send the announcements.
type rosterAnnouncer struct {
	announcerMachine
	roster   backend.Roster
	election string
	session  string
	entry    record.Announcement
	cancel   context.CancelFunc // of the request in flight; nil if there is none
	wake     time.Time          // when the machine is to step again; zero: with any step
	reported string             // the fault that was reported last
}

// rosterMail is mail about the roster.
type rosterMail struct {
	kind     rosterNews
	revision uint64       // announced
	err      error        // announced, viewOpened
	feed     backend.Feed // viewOpened
	view     *view        // viewOpened, viewChanged
}

type rosterNews uint8

const (
	announced rosterNews = iota
	viewOpened
	viewChanged
	viewClosed
)

// send announces the stand, or withdraws it if life is 0. The reply goes to the mailbox.
func (h *rosterAnnouncer) send(values context.Context, entry []byte, life time.Duration, box *mailbox) {
	var ctx context.Context
	ctx, h.cancel = context.WithCancel(values)
	h.roster.Announce(ctx, h.election, h.session, entry, life, func(revision uint64, err error) {
		box.put(mail{roster: &rosterMail{kind: announced, revision: revision, err: err}})
	})
}

// stepAnnouncer steps the announcer machine and carries out the effects.
func (a *actor) stepAnnouncer(in announcerInput) {
	h, s, permit := &a.roster.announcer, &a.status, a.c.permit
	in.held, in.eligible = s.holds, s.eligible && !s.done
	in.denied, in.from = s.deniedUntil, s.cooldownUntil
	if permit != nil {
		in.held = in.held || permit.holds(a.session)
		in.eligible = in.eligible && !permit.works()
		in.denied = later(in.denied, a.inside(permit.deniedUntil()))
		in.from = later(in.from, a.inside(permit.sitsOut()))
	}
	in.held = in.held && !s.done
	in.leaves = s.done || s.leaving == stopping
	in.times = s.times.orDefault()
	fx := h.step(a.now(), in)
	h.wake = fx.wake
	switch {
	case fx.announce:
		h.entry.Since, h.entry.Ticket, h.entry.Denied = a.outside(h.since).UTC(), h.ticket, h.denied
		h.entry.Publish(s.value)
		h.send(a.values, h.entry.Encode(), lives*in.times.lease, &a.c.box)
	case fx.withdraw:
		h.send(a.values, nil, 0, &a.c.box)
	case fx.cancel:
		h.cancel()
	}
}

// stepRoster does the work on the roster that is due after a step of the machine. It returns the
// input for the machine, or nil.
func (a *actor) stepRoster() *input {
	if a.roster == nil {
		return nil
	}
	a.stepAnnouncer(announcerInput{})
	return a.stepWatcher(watcherInput{})
}

// receiveRoster takes mail about the roster. It returns the input for the machine, or nil.
func (a *actor) receiveRoster(m *rosterMail) *input {
	var in *input
	switch m.kind {
	case announced:
		a.roster.announcer.cancel()
		a.roster.announcer.cancel = nil
		a.rosterFault(m.err)
		a.stepAnnouncer(announcerInput{answered: true, failed: m.err != nil, revision: m.revision})
		return a.stepWatcher(watcherInput{})
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
	case a.status.done || err.Error() == h.reported:
	default:
		h.reported = err.Error()
		a.fault(fmt.Errorf("roster: %w", err)) // the lease does not depend on it
	}
}

// rosterWatcher reads the roster for the candidate that holds the key. It has the watcher
// machine, which decides when, and the view of the roster.
type rosterWatcher struct {
	watcherMachine
	view       *view // nil: it is not open
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
func (a *actor) stepWatcher(in watcherInput) *input {
	l, s := &a.roster.watcher, &a.status
	in.holds, in.ended, in.taken = s.holds && !s.done, s.done, s.seen.Held()
	in.urgent = s.leaving != staying && !s.ranked
	in.changed = a.c.permit != nil && l.changes != a.c.permit.changed()
	in.times = s.times.orDefault()
	fx := l.step(a.now(), in)
	l.wake = fx.wake
	if fx.turned {
		l.preemptors = nil
	}
	switch {
	case fx.open:
		l.open(a.values, &a.roster.announcer, a.priority, &a.c.box)
	case fx.cancel:
		l.cancel()
	case fx.close:
		l.stop(&a.c.box)
	case fx.read:
		return a.readView(l.view)
	case fx.unknown:
		return &input{kind: inRoster, roster: rosterReport{line: s.line}}
	}
	return nil
}

// open begins to read the roster. What it finds goes to the mailbox.
func (l *rosterWatcher) open(values context.Context, h *rosterAnnouncer, priority int, box *mailbox) {
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(values)
	var v *view
	v = newView(priority, func() { box.put(mail{roster: &rosterMail{kind: viewChanged, view: v}}) })
	h.roster.Stands(ctx, h.election, v.take, func(f backend.Feed, err error) {
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
func (a *actor) viewOpened(m *rosterMail) *input {
	l := &a.roster.watcher
	l.cancel()
	l.cancel, l.view, l.feed = nil, m.view, m.feed
	if m.err != nil {
		l.view = nil
	}
	a.rosterFault(m.err)
	return a.stepWatcher(watcherInput{kind: watcherOpened, failed: m.err != nil})
}

// readView returns the input that has the candidates of the roster, or nil.
func (a *actor) readView(v *view) *input {
	l := &a.roster.watcher
	if v != l.view {
		return nil // it is being opened, or closed
	}
	if a.c.permit != nil {
		l.changes = a.c.permit.changed()
	}
	all, complete, err := v.order(a.holding)
	switch {
	case err != nil:
		a.rosterFault(err)
		return a.stepWatcher(watcherInput{kind: watcherBroken})
	case complete && a.status.holds:
		return &input{kind: inRoster, roster: rosterReport{line: lineOfAll(all), preemptor: a.preemptor(all)}}
	default:
		return nil
	}
}

// holding reports whether a session holds the key, or one of several, so that it does
// not stand.
func (a *actor) holding(session string) bool {
	b := a.c.permit
	return session == a.session || b != nil && b.holds(session)
}

// choose returns the candidate with a higher priority that asks to lead, has stood for a
// lease, and has just announced itself again. So a candidate that comes and goes pushes out
// no leader, nor hides one that stays. After each handover in vain choose returns the next
// one in order. So no candidate that can take the key waits behind one that cannot.
func (l *rosterWatcher) choose(now time.Time, all []record.Announcement, priority int, s *status) preemptor {
	lease := s.times.lease
	var asking []preemptor
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
			asking, just = append(asking, preemptor{c.Session, was.since}), append(just, again)
		}
	}
	l.preemptors = seen
	if len(asking) == 0 {
		return preemptor{}
	}
	next := int(s.vain % uint32(len(asking)))
	if !just[next] {
		return preemptor{}
	}
	return asking[next]
}

// preemptor returns the candidate that the leader is to hand over to. There is none if the
// leader refuses requests, or if the leader of another seat gives way first.
func (a *actor) preemptor(all []record.Announcement) preemptor {
	p := a.roster.watcher.choose(a.now(), all, a.priority, &a.status)
	if b := a.c.permit; p.session != "" && (a.c.refuses || b != nil && !b.givesWay(a.seat)) {
		return preemptor{}
	}
	return p
}
