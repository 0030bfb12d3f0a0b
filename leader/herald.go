package leader

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

// herald announces a candidate in the roster while it stands, and reads the roster
// while it holds the key: only the holder hears of everybody, and the others hear of
// their turn with its renewals.
type herald struct {
	registry  Registry // nil: no roster
	election  string
	announces bool         // of several seats the first does, for all
	entry     announcement // what is announced

	held    bool               // the key, or one of several, when it was last looked at
	due     time.Time          // the next announcement, or the withdrawal
	until   time.Time          // what was announced lapses then
	sending context.CancelFunc // an announcement is in flight
	sendBy  time.Time          // when it is given up
	over    bool               // it is of a stand that is over

	view    *view              // nil: it is not open
	viewed  bool               // the key was held when it was last looked at
	viewAt  time.Time          // when to open it
	failed  bool               // the last could not be opened, or has ended
	changes uint64             // of the other seats' holders, when it was last read
	opening context.CancelFunc // it is being opened
	openBy  time.Time          // when that is given up
	feed    Feed
	closing int    // views; another may be opened meanwhile
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
func (h *herald) busy() bool { return h.sending != nil || h.opening != nil || h.closing > 0 }

// shut reports whether there is no view, and none on its way.
func (h *herald) shut() bool { return h.view == nil && h.opening == nil }

// holdsAny reports whether the candidate holds the key, or one of several.
func (a *actor) holdsAny() bool {
	b := a.c.bench
	return a.m.holds() || b != nil && b.holds(a.m.session)
}

// sitsOut is until when the candidate does not stand.
func (a *actor) sitsOut() time.Time {
	if b := a.c.bench; b != nil {
		return later(a.m.away, a.inside(b.sitsOut()))
	}
	return a.m.away
}

// limit is when what is in flight is given up first; zero: never.
func (h *herald) limit() time.Time { return earlier(h.sendBy, h.openBy) }

// giveUp gives up what has taken too long. It still has to be answered.
func (h *herald) giveUp(now time.Time) {
	if !h.sendBy.IsZero() && !now.Before(h.sendBy) {
		h.sending()
		h.sendBy = time.Time{}
	}
	if !h.openBy.IsZero() && !now.Before(h.openBy) {
		h.opening()
		h.openBy = time.Time{}
	}
}

// heraldWake is when the roster is to be looked after.
func (a *actor) heraldWake() time.Time {
	h := &a.herald
	switch {
	case h.registry == nil:
	case a.m.holds() && h.shut():
		return h.viewAt
	case h.announces && h.sending == nil && h.held && a.now().Before(h.until):
		return h.due
	case h.announces && h.sending == nil && !h.held:
		if at := later(h.due, a.sitsOut()); a.m.stands(later(a.now(), at)) {
			return at
		}
	}
	return time.Time{}
}

// lookAfterRoster does what is due of the roster after a step.
func (a *actor) lookAfterRoster() {
	if a.herald.registry == nil {
		return
	}
	now := a.now()
	a.herald.giveUp(now)
	if a.herald.announces {
		a.lookAfterStand(now)
	}
	a.lookAfterView(now)
}

func (a *actor) lookAfterStand(now time.Time) {
	h := &a.herald
	if holds := a.holdsAny() && !a.m.done; h.held != holds {
		h.held = holds
		h.entry.Ticket, h.entry.Since, h.due = 0, time.Time{}, now // who has held the key goes to the end
		if holds {
			h.due = now.Add(viewPause) // the withdrawal has time
		}
		h.over = h.sending != nil
	}
	switch {
	case h.sending != nil:
	case !h.held && a.m.stands(now) && !now.Before(later(h.due, a.sitsOut())):
		a.announce(now)
	case now.Before(h.until) && (a.m.done || a.m.leaving == stopping || h.entry.Since.IsZero() && !now.Before(h.due)):
		h.until = time.Time{} // the stand that was announced is over: nobody is to wait for it
		a.send(nil, 0, a.m.timing().turn)
	}
}

func (a *actor) lookAfterView(now time.Time) {
	h := &a.herald
	holds := a.m.holds() && !a.m.done
	if h.viewed != holds {
		h.viewed = holds
		h.viewAt, h.failed = now.Add(viewPause), false
	}
	switch {
	case holds && h.shut() && (!now.Before(h.viewAt) || a.m.leaving != staying && !h.failed):
		a.openView()
	case !holds && h.opening != nil:
		h.opening()
	case !holds && h.view != nil:
		a.closeView()
	case h.view != nil && a.c.bench != nil && h.changes != a.c.bench.changed():
		a.readView(h.view) // who has taken another seat does not stand any more
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
	ctx, a.herald.sending = context.WithCancel(a.values)
	a.herald.sendBy = a.now().Add(limit)
	box := &a.c.box
	a.herald.registry.Announce(ctx, a.herald.election, a.m.session, entry, life, func(revision uint64, err error) {
		box.put(mail{herald: &heraldMail{what: announced, revision: revision, err: err}})
	})
}

// openView begins to read who stands.
func (a *actor) openView() {
	h := &a.herald
	var ctx context.Context
	ctx, h.opening = context.WithCancel(a.values)
	h.openBy = a.now().Add(defaultLimit)
	box := &a.c.box
	var v *view
	v = newView(func() { box.put(mail{herald: &heraldMail{what: viewChanged, view: v}}) })
	h.registry.Stands(ctx, h.election, v.take, func(f Feed, err error) {
		box.put(mail{herald: &heraldMail{what: viewOpened, view: v, feed: f, err: err}})
	})
}

// closeView may have to wait for the connection's lock, so the actor does not.
func (a *actor) closeView() {
	h := &a.herald
	box, feed := &a.c.box, h.feed
	h.view, h.feed = nil, nil
	h.closing++
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
		h.sending, h.sendBy = nil, time.Time{}
		if m.err == nil && !h.over && (h.entry.Ticket == 0 || m.revision < h.entry.Ticket) {
			h.entry.Ticket = m.revision // the first of this stand, or the roster was lost
		}
		h.over = false
		a.rosterFault(m.err)
	case viewOpened:
		h.opening()
		h.opening, h.openBy = nil, time.Time{}
		a.rosterFault(m.err)
		if m.err != nil {
			h.viewAt, h.failed = a.now().Add(a.m.timing().renewInterval), true
			a.step(input{kind: inRoster, roster: rosterReport{line: a.m.line}}, nil) // better is not known
			break
		}
		h.view, h.feed = m.view, m.feed
		a.readView(m.view)
	case viewChanged:
		a.readView(m.view)
	case viewClosed:
		h.closing--
		return
	}
	a.lookAfterRoster()
}

// readView tells the machine who stands.
func (a *actor) readView(v *view) {
	h := &a.herald
	if v != h.view {
		return // it is being opened, or closed
	}
	if a.c.bench != nil {
		h.changes = a.c.bench.changed()
	}
	all, told, err := v.order(a.holding)
	switch {
	case err != nil:
		a.rosterFault(err)
		h.viewAt, h.failed = a.now().Add(a.m.timing().renewInterval), true
		a.closeView()
	case told:
		r, before := a.rank(all), a.m.leaving
		if a.step(input{kind: inRoster, roster: r}, nil); before == staying && a.m.leaving == resigning {
			i := slices.IndexFunc(all, func(s announcement) bool { return s.session == r.rival.session })
			a.c.log.LogAttrs(a.values, slog.LevelInfo, "hands over to a higher priority",
				slog.String("to", all[i].ID), slog.Int("priority", all[i].Priority))
		}
	}
}

// holding reports whether a session holds the key, or one of several, so that it does
// not stand.
func (a *actor) holding(session string) bool {
	b := a.c.bench
	return session == a.m.session || b != nil && b.holds(session)
}

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
