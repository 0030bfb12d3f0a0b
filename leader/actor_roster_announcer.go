package leader

import (
	"context"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// rosterAnnouncer announces a candidate in the roster while it stands. It has the announcer
// machine, which decides when, and the means to send the announcements.
type rosterAnnouncer struct {
	announcerMachine
	roster   backend.Roster // nil: the candidate has no roster
	election string
	session  string
	entry    announcement
	cancel   context.CancelFunc // of the request in flight; nil if there is none
	wake     time.Time          // when the machine is to step again; zero: with any step
	told     string             // the fault that was reported last
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
	h, s, permit := &a.announcer, &a.status, a.c.permit
	in.held, in.eligible = s.holds, s.eligible && !s.done
	in.denied, in.from = s.deniedUntil, s.cooldownUntil
	if permit != nil {
		in.held = in.held || permit.holds(a.session)
		in.denied = later(in.denied, a.inside(permit.deniedUntil()))
		in.from = later(in.from, a.inside(permit.sitsOut()))
	}
	in.held = in.held && !s.done
	in.from = later(in.from, in.denied)
	in.leaves = s.done || s.leaving == stopping
	in.times = s.times.orDefault()
	fx := h.step(a.now(), in)
	h.wake = fx.wake
	switch {
	case fx.announce:
		h.entry.Since, h.entry.Ticket = a.outside(h.since).UTC(), h.ticket
		h.entry.publish(s.value)
		h.send(a.values, h.entry.encode(), lives*in.times.lease, &a.c.box)
	case fx.withdraw:
		h.send(a.values, nil, 0, &a.c.box)
	case fx.cancel:
		h.cancel()
	}
}

// stepRoster does the work on the roster that is due after a step of the machine.
func (a *actor) stepRoster() {
	if a.announcer.roster != nil {
		a.stepAnnouncer(announcerInput{})
		a.stepWatcher(watcherInput{})
	}
}

// receiveRoster takes mail about the roster.
func (a *actor) receiveRoster(m *rosterMail) {
	switch m.kind {
	case announced:
		a.announcer.cancel()
		a.announcer.cancel = nil
		a.rosterFault(m.err)
		a.stepAnnouncer(announcerInput{answered: true, failed: m.err != nil, revision: m.revision})
		a.stepWatcher(watcherInput{})
		return
	case viewOpened:
		a.viewOpened(m)
	case viewChanged:
		a.readView(m.view)
	case viewClosed:
		a.watcher.closing--
	}
	a.stepRoster()
}

// rosterFault reports an error that keeps the candidate from the roster, once.
func (a *actor) rosterFault(err error) {
	h := &a.announcer
	switch {
	case err == nil:
		h.told = ""
	case a.status.done || err.Error() == h.told:
	default:
		h.told = err.Error()
		a.fault(err)
	}
}

// dismiss gives up the request in flight, which still has to be answered. It spares the
// withdrawal, unless the candidate ends without waiting.
func (h *rosterAnnouncer) dismiss(abandoning bool) {
	if h.cancel != nil && (abandoning || !h.until.IsZero()) {
		h.cancel()
	}
}
