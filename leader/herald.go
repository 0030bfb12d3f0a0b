package leader

import (
	"context"
	"slices"
	"time"
)

// herald announces a candidate in the roster while it stands, and reads the roster
// while it holds the key: only the holder hears of everybody, and the others hear of
// their turn with its renewals.
type herald struct {
	registry Registry     // nil: no roster
	entry    announcement // what is announced

	held    bool               // the key, when it was last looked at
	due     time.Time          // the next announcement; zero: as soon as the candidate stands
	until   time.Time          // what was announced lapses then
	sending context.CancelFunc // an announcement is in flight
	over    bool               // it is of a stand that is over

	view    *view              // nil: it is not open
	viewAt  time.Time          // when to open it, unless there is hurry and no fault; without the key, when to close it at the latest
	opening context.CancelFunc // it is being opened
	feed    Feed
	closing bool
	told    string // the fault that was reported last
}

// heraldMail is what reaches the actor of the roster.
type heraldMail struct {
	what     heraldNews
	revision uint64 // announced
	err      error  // announced, opened
	feed     Feed   // opened
	view     *view  // opened, changed
}

type heraldNews uint8

const (
	announced heraldNews = iota
	viewOpened
	viewChanged
	viewClosed
)

const (
	// lives is for how many leases an announcement lasts. It is repeated after each,
	// the first time at some point of the second: that spreads those who came together.
	lives = 3
	// viewPause lets a candidate that was elected tell of it, and its work begin,
	// before it reads a roster of thousands.
	viewPause = doorPause
)

// busy reports whether something is still to be answered.
func (h *herald) busy() bool { return h.sending != nil || h.opening != nil || h.closing }

// shut reports whether there is no view, and none on its way.
func (h *herald) shut() bool { return h.view == nil && h.opening == nil && !h.closing }

// heraldWake is when the roster is to be looked after.
func (a *actor) heraldWake() time.Time {
	h := &a.herald
	switch {
	case h.registry == nil:
	case a.m.holds() && h.shut():
		return h.viewAt
	case h.sending == nil && a.m.stands(later(a.now(), a.m.away)):
		return earlier(later(h.due, a.m.away), a.handedOverBy())
	}
	return a.handedOverBy()
}

// handedOver reports whether what is left of holding the key may be cleared away:
// nobody's try for it is to wait for that.
func (a *actor) handedOver(now time.Time) bool {
	return a.m.done || a.m.seen.held() || !now.Before(a.herald.viewAt)
}

// handedOverBy is when that is so at the latest; zero: it is.
func (a *actor) handedOverBy() time.Time {
	if h := &a.herald; h.registry != nil && !a.m.holds() && !a.handedOver(a.now()) {
		return h.viewAt
	}
	return time.Time{}
}

// lookAfterRoster does what is due of the roster after a step.
func (a *actor) lookAfterRoster() {
	h := &a.herald
	if h.registry == nil {
		return
	}
	now, holds := a.now(), a.m.holds() && !a.m.done
	won := holds && !h.held
	if h.held != holds {
		h.held = holds
		h.entry.Ticket, h.entry.Since, h.due = 0, time.Time{}, time.Time{} // who has held the key goes to the end
		h.over = h.sending != nil
		h.viewAt = now.Add(viewPause)
	}
	left := !holds && a.handedOver(now)
	switch {
	case h.sending != nil:
	case a.m.stands(now) && !now.Before(h.due):
		a.announce(now)
	case now.Before(h.until) && (a.m.done || a.m.leaving == stopping || h.entry.Since.IsZero() && left):
		// It was announced for a stand that is over: nobody is to wait for it.
		h.until = time.Time{}
		a.send(nil, 0, a.m.timing().turn)
	}
	switch {
	case holds && h.shut() && (!now.Before(h.viewAt) || a.m.leaving != staying && h.told == ""):
		a.openView()
	case !holds && h.opening != nil:
		h.opening()
	case left && h.view != nil:
		a.closeView()
	case won && h.view != nil:
		a.readView(h.view) // of the term before, a moment ago
	}
}

// announce says that the candidate stands.
func (a *actor) announce(now time.Time) {
	h := &a.herald
	lease := a.m.times.lease
	h.due, h.until = now.Add(lease), now.Add(lives*lease)
	if h.entry.Since.IsZero() {
		h.entry.Since = a.outside(now).UTC()
		h.due = h.due.Add(time.Duration(uint64(lease>>8) * uint64(a.m.lot) >> 24))
	}
	h.entry.publish(a.m.value)
	a.send(h.entry.encode(), lives*lease, defaultLimit)
}

// send sends an announcement, or withdraws it.
func (a *actor) send(entry []byte, life, limit time.Duration) {
	var ctx context.Context
	ctx, a.herald.sending = within(a.values, limit)
	box := &a.c.box
	a.herald.registry.Announce(ctx, a.c.election, a.m.session, entry, life, func(revision uint64, err error) {
		box.put(mail{herald: &heraldMail{what: announced, revision: revision, err: err}})
	})
}

// openView begins to read who stands.
func (a *actor) openView() {
	h := &a.herald
	var ctx context.Context
	ctx, h.opening = within(a.values, defaultLimit)
	box := &a.c.box
	var v *view
	v = newView(func() { box.put(mail{herald: &heraldMail{what: viewChanged, view: v}}) })
	h.registry.Stands(ctx, a.c.election, v.take, func(f Feed, err error) {
		box.put(mail{herald: &heraldMail{what: viewOpened, view: v, feed: f, err: err}})
	})
}

// closeView may have to wait for the connection's lock, so the actor does not.
func (a *actor) closeView() {
	h := &a.herald
	box, feed := &a.c.box, h.feed
	h.view, h.feed, h.closing = nil, nil, true
	go func() {
		feed.Stop()
		box.put(mail{herald: &heraldMail{what: viewClosed}})
	}()
}

// heralded takes what has come of the roster.
func (a *actor) heralded(m *heraldMail) {
	h := &a.herald
	switch m.what {
	case announced:
		h.sending()
		h.sending = nil
		if m.err == nil && !h.over && (h.entry.Ticket == 0 || m.revision < h.entry.Ticket) {
			h.entry.Ticket = m.revision // the first of this stand, or the roster was lost
		}
		h.over = false
		a.rosterFault(m.err)
	case viewOpened:
		h.opening()
		h.opening = nil
		a.rosterFault(m.err)
		if m.err != nil {
			h.viewAt = a.now().Add(a.m.timing().renewInterval)
			break
		}
		h.view, h.feed = m.view, m.feed
		a.readView(m.view)
	case viewChanged:
		a.readView(m.view)
	case viewClosed:
		h.closing = false
	}
	a.lookAfterRoster()
}

// readView tells the machine who stands.
func (a *actor) readView(v *view) {
	h := &a.herald
	if v != h.view {
		return // it is being opened, or closed
	}
	all, told, err := v.order(a.holding)
	switch {
	case err != nil:
		a.rosterFault(err)
		h.viewAt = a.now().Add(a.m.timing().renewInterval)
		a.closeView()
	case told:
		a.step(input{kind: inRoster, roster: a.rank(all)}, nil)
	}
}

// holding reports whether a session holds the key, so that it does not stand.
func (a *actor) holding(session string) bool { return session == a.m.session }

// rank is what the machine needs to know of who stands.
func (a *actor) rank(all []announcement) rosterReport {
	sessions := make([]string, 0, maxLine)
	for _, s := range all[:min(len(all), maxLine)] {
		sessions = append(sessions, s.session)
	}
	r := rosterReport{line: lineOf(sessions)}
	if i := slices.IndexFunc(all, func(s announcement) bool { return s.Preempt }); i >= 0 && !a.c.refuses && all[i].Priority > a.herald.entry.Priority {
		r.rival = rival{session: all[i].session, proof: all[i].revision}
	}
	return r
}

// rosterFault reports what keeps the candidate from the roster, once.
func (a *actor) rosterFault(err error) {
	h := &a.herald
	switch {
	case err == nil:
		h.told = ""
	case a.m.done || err.Error() == h.told:
	default:
		h.told = err.Error()
		a.fault(err)
	}
}

// dismiss gives up what is in flight, which still has to be answered; but for the
// withdrawal, unless nobody waits for that.
func (h *herald) dismiss(hasty bool) {
	if h.opening != nil {
		h.opening()
	}
	if h.sending != nil && (hasty || !h.until.IsZero()) {
		h.sending()
	}
}

// leaveRoster takes what comes to a candidate that has ended.
func (a *actor) leaveRoster(m *heraldMail) {
	if m.what != viewChanged {
		a.heralded(m)
	}
}
