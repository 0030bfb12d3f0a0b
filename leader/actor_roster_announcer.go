package leader

import (
	"context"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/wire"
)

// rosterAnnouncer announces a candidate in the roster while it stands.
type rosterAnnouncer struct {
	roster    backend.Roster // nil: the candidate does not announce itself
	election  string
	announces bool         // of several seats the first does, for all
	entry     announcement // the announcement; without Since, of no stand

	held    bool               // whether it held the key, or one of several, at the last look
	due     time.Time          // the next announcement, or the withdrawal
	until   time.Time          // when the announcement lapses; zero: withdrawn
	sending context.CancelFunc // of the request in flight; nil if there is none
	sendBy  time.Time          // when that is given up
	over    bool               // the request in flight is of a stand that is over
	told    string             // the fault that was reported last
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

const (
	// lives is for how many leases an announcement lasts. It is repeated after each
	// lease, the first time at some point of the second lease. That spreads candidates
	// that came together.
	lives = wire.AnnouncementLeases
	// rosterPause lets a candidate that has won the key report that, and its work begin,
	// before anything is done about the roster, in which thousands may stand.
	rosterPause = listenPause
	// lastWord is how long a candidate that ends waits for its withdrawal at most.
	lastWord = 250 * time.Millisecond
)

// rosterWait is how long a request to the roster may take.
func (a *actor) rosterWait() time.Duration { return min(defaultLimit, a.m.timing().lease) }

// holdsAny reports whether the candidate holds the key, or one of several.
func (a *actor) holdsAny() bool {
	b := a.c.permit
	return a.m.holds() || b != nil && b.holds(a.m.session)
}

// sitsOut returns the instant until which the candidate does not stand.
func (a *actor) sitsOut() time.Time {
	until := later(a.m.cooldownUntil, a.deniedUntil())
	if b := a.c.permit; b != nil {
		until = later(until, a.inside(b.sitsOut()))
	}
	return until
}

// deniedUntil returns the instant until which the candidate does not stand because it was
// not allowed to write its key, or one of several.
func (a *actor) deniedUntil() time.Time {
	if b := a.c.permit; b != nil {
		return later(a.m.standsFrom, a.inside(b.deniedUntil()))
	}
	return a.m.standsFrom
}

// rosterWake returns when lookAfterRoster is due.
func (a *actor) rosterWake() time.Time {
	if a.announcer.roster == nil {
		return time.Time{}
	}
	return earlier(a.rosterLimit(), earlier(a.announcerWake(), a.watcherWake()))
}

// lookAfterRoster does the work on the roster that is due after a step.
func (a *actor) lookAfterRoster() {
	if a.announcer.roster == nil {
		return
	}
	now := a.now()
	a.giveUpOnRoster(now)
	if a.announcer.announces {
		a.lookAfterStand(now)
	}
	a.lookAfterView(now)
}

// giveUpOnRoster gives up requests that have taken too long. They still have to be
// answered.
func (a *actor) giveUpOnRoster(now time.Time) {
	if h := &a.announcer; !h.sendBy.IsZero() && !now.Before(h.sendBy) {
		h.sendBy = time.Time{}
		h.sending()
	}
	if l := &a.watcher; !l.openBy.IsZero() && !now.Before(l.openBy) {
		l.openBy = time.Time{}
		l.opening()
	}
}

// rosterLimit returns when giveUpOnRoster is due; zero: never.
func (a *actor) rosterLimit() time.Time { return earlier(a.announcer.sendBy, a.watcher.openBy) }

func (a *actor) announcerWake() time.Time {
	h := &a.announcer
	switch {
	case h.sending != nil || !h.announces:
	case h.held && a.now().Before(h.until):
		return h.due
	case !h.held:
		if at := later(h.due, a.sitsOut()); a.m.stands(later(a.now(), at)) {
			return at
		}
	}
	return time.Time{}
}

func (a *actor) lookAfterStand(now time.Time) {
	h := &a.announcer
	if held := a.holdsAny() && !a.m.done; h.held != held {
		h.held = held
		h.entry.Ticket, h.entry.Since, h.due = 0, time.Time{}, now // a former holder goes last
		if held {
			h.due = now.Add(rosterPause)
		}
		h.over = h.sending != nil
	}
	if !h.held && !h.entry.Since.IsZero() && now.Before(a.deniedUntil()) {
		h.entry.Ticket, h.entry.Since, h.due = 0, time.Time{}, now
		h.over = h.sending != nil
	}
	switch {
	case h.sending != nil:
	case !h.held && a.m.stands(now) && !now.Before(later(h.due, a.sitsOut())):
		a.announce(now)
	case !now.Before(h.until): // nothing is announced
	case a.m.done || a.m.leaving == stopping:
		h.until = time.Time{}
		a.send(nil, 0, min(lastWord, a.m.timing().turn))
	case h.entry.Since.IsZero() && !now.Before(h.due):
		h.until = time.Time{} // the announced stand is over: no candidate is to wait for it
		a.send(nil, 0, a.rosterWait())
	}
}

// announce announces that the candidate stands.
func (a *actor) announce(now time.Time) {
	h := &a.announcer
	lease := a.m.times.lease
	h.due, h.until = now.Add(lease), now.Add(lives*lease)
	if h.entry.Since.IsZero() {
		h.entry.Since = a.outside(now).UTC()
		h.due = h.due.Add(share(lease, a.m.lot))
	}
	h.entry.publish(a.m.value)
	a.send(h.entry.encode(), lives*lease, a.rosterWait())
}

// send sends an announcement, or withdraws it.
func (a *actor) send(entry []byte, life, limit time.Duration) {
	h, box := &a.announcer, &a.c.box
	var ctx context.Context
	ctx, h.sending = context.WithCancel(a.values)
	h.sendBy = a.now().Add(limit)
	h.roster.Announce(ctx, h.election, a.m.session, entry, life, func(revision uint64, err error) {
		box.put(mail{roster: &rosterMail{kind: announced, revision: revision, err: err}})
	})
}

// sent takes the answer to an announcement.
func (a *actor) sent(m *rosterMail) {
	h := &a.announcer
	h.sending()
	h.sending, h.sendBy = nil, time.Time{}
	first := h.entry.Ticket == 0 && !h.entry.Since.IsZero()
	switch {
	case h.over:
	case m.err != nil && first: // no candidate waits for one that is not known to stand
		h.due = a.now().Add(a.m.timing().renewInterval)
	case m.err == nil && (first || m.revision < h.entry.Ticket):
		h.entry.Ticket = m.revision // the first of this stand, or the roster was lost
	}
	h.over = false
	a.rosterFault(m.err)
}

// receiveRoster takes mail about the roster.
func (a *actor) receiveRoster(m *rosterMail) {
	switch m.kind {
	case announced:
		a.sent(m)
	case viewOpened:
		a.viewOpened(m)
	case viewChanged:
		a.readView(m.view)
	case viewClosed:
		a.watcher.closing--
	}
	a.lookAfterRoster()
}

// rosterFault reports an error that keeps the candidate from the roster, once.
func (a *actor) rosterFault(err error) {
	h := &a.announcer
	switch {
	case err == nil:
		h.told = ""
	case a.m.done || err.Error() == h.told:
	default:
		h.told = err.Error()
		a.fault(err)
	}
}

// dismissRoster gives up the requests in flight, which still have to be answered. It
// spares the withdrawal, unless the candidate ends without waiting.
func (a *actor) dismissRoster() {
	if a.watcher.opening != nil {
		a.watcher.opening()
	}
	if h := &a.announcer; h.sending != nil && (a.abandoning || !h.until.IsZero()) {
		h.sending()
	}
}

// leaveRoster takes mail for a candidate that has ended.
func (a *actor) leaveRoster(m *rosterMail) {
	if m.kind != viewChanged {
		a.receiveRoster(m)
	}
}
