package leader

import (
	"context"
	"log/slog"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// rosterWatcher reads the roster for the candidate that holds the key. Only the holder hears of
// all candidates. The others hear of their turn with the holder's renewals.
type rosterWatcher struct {
	view       *view              // nil: it is not open
	held       bool               // whether it held the key at the last look
	at         time.Time          // when to open the view; or to close it, without the key
	anew       time.Time          // when to open it anew: purged or overdue entries leave no trace
	opening    context.CancelFunc // it is being opened; nil if it is not
	openBy     time.Time          // when that is given up
	feed       backend.Feed
	closing    int    // views that are being left
	changes    uint64 // of the other seats' holders, when it was last read
	preemptors map[string]preemptorEntry
}

// preemptorEntry is a candidate that asks to lead, as the holder sees it.
type preemptorEntry struct {
	since    time.Time // when it was seen first
	revision uint64    // of its newest announcement
	again    time.Time // when it announced itself last, after the first
}

// viewLives is for how many leases a view is kept open.
const viewLives = 10

// shut reports whether there is no view, and none is being opened.
func (l *rosterWatcher) shut() bool { return l.view == nil && l.opening == nil }

// handedOver reports whether the view that is left from holding the key may be closed. No
// candidate's try for the key is to wait for that.
func (a *actor) handedOver(now time.Time) bool {
	return a.m.done || a.m.key.seen.held() || !now.Before(a.watcher.at)
}

func (a *actor) watcherWake() time.Time {
	l, holds := &a.watcher, a.m.holds()
	switch {
	case l.opening != nil:
	case holds && l.shut(), !holds && l.view != nil:
		return l.at
	case l.view != nil:
		return l.anew
	}
	return time.Time{}
}

// lookAfterView opens the view of a holder, and closes that of any other candidate.
func (a *actor) lookAfterView(now time.Time) {
	l := &a.watcher
	holds := a.m.holds() && !a.m.done
	turned := l.held != holds
	if turned {
		l.held, l.at, l.preemptors = holds, now.Add(rosterPause), nil
	}
	switch {
	case l.opening != nil:
		if !holds {
			l.opening()
		}
	case holds && l.shut():
		if !now.Before(l.at) || a.m.leave.mode != staying && !a.m.queue.reported {
			a.openView(now)
		}
	case l.view == nil:
	case !holds && a.handedOver(now), holds && !now.Before(l.anew):
		l.at = now
		a.closeView()
	case holds && (turned || a.c.permit != nil && l.changes != a.c.permit.changed()):
		a.readView(l.view) // view of the term before, a moment ago; or new holders of other seats
	}
}

// openView begins to read the roster.
func (a *actor) openView(now time.Time) {
	l, box := &a.watcher, &a.c.box
	var ctx context.Context
	ctx, l.opening = context.WithCancel(a.values)
	l.openBy = now.Add(a.rosterWait())
	var v *view
	v = newView(a.m.priority, func() { box.put(mail{roster: &rosterMail{kind: viewChanged, view: v}}) })
	a.announcer.roster.Stands(ctx, a.announcer.election, v.take, func(f backend.Feed, err error) {
		if !box.put(mail{roster: &rosterMail{kind: viewOpened, view: v, feed: f, err: err}}) && f != nil {
			f.Stop() // the candidate has ended without waiting any longer
		}
	})
}

// viewOpened takes the outcome of openView.
func (a *actor) viewOpened(m *rosterMail) {
	l := &a.watcher
	l.opening()
	l.opening, l.openBy = nil, time.Time{}
	a.rosterFault(m.err)
	if m.err != nil {
		l.at = a.now().Add(a.m.bucket.timing().lease)
		a.step(input{kind: inRoster, roster: rosterReport{line: a.m.queue.line}}, nil) // no better is known
		return
	}
	l.view, l.feed = m.view, m.feed
	l.anew = a.now().Add(viewLives * a.m.bucket.timing().lease)
	a.readView(m.view)
}

// closeView leaves the view. Before it ends, the view of a Bucket may have to wait for
// the connection's lock. The actor does not wait for that.
func (a *actor) closeView() {
	l := &a.watcher
	if v, ok := l.feed.(*rosterView); ok {
		box := &a.c.box
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

// readView passes the candidates that stand to the machine.
func (a *actor) readView(v *view) {
	l := &a.watcher
	if v != l.view {
		return // it is being opened, or closed
	}
	if a.c.permit != nil {
		l.changes = a.c.permit.changed()
	}
	all, told, err := v.order(a.holding)
	switch {
	case err != nil:
		a.rosterFault(err)
		l.at = a.now().Add(a.m.bucket.timing().renewInterval)
		a.closeView()
	case told && a.m.holds():
		r, before := rosterReport{line: lineOfAll(all), preemptor: a.rival(all)}, a.m.leave.mode
		if a.step(input{kind: inRoster, roster: r}, nil); before == staying && a.m.leave.to != "" {
			a.c.log.LogAttrs(a.values, slog.LevelInfo, "hands over to a higher priority", slog.String("to", a.m.leave.to))
		}
	}
}

// holding reports whether a session holds the key, or one of several, so that it does
// not stand.
func (a *actor) holding(session string) bool {
	b := a.c.permit
	return session == a.m.session || b != nil && b.holds(session)
}

// rival returns the candidate with a higher priority that the leader is to hand over to.
// It asks to lead, has stood for a lease, and has just announced itself again. So a
// candidate that comes and goes pushes out no leader, nor hides one that stays. After
// each handover in vain rival returns the next one in order. So no rival that can take
// the key waits behind one that cannot.
func (a *actor) rival(all []announcement) preemptor {
	l, now := &a.watcher, a.now()
	lease := a.m.bucket.times.lease
	var rivals []preemptor
	var just []bool
	seen := make(map[string]preemptorEntry)
	for _, s := range all {
		if !s.Preempt || s.Priority <= a.m.priority {
			continue
		}
		was, known := l.preemptors[s.session]
		if !known {
			was = preemptorEntry{since: now, revision: s.revision}
		}
		again := s.revision > was.revision
		if again {
			was.revision, was.again = s.revision, now
		}
		seen[s.session] = was
		if !now.Before(was.since.Add(lease)) && now.Before(was.again.Add(lease+lease/4)) {
			rivals, just = append(rivals, preemptor{s.session, was.since}), append(just, again)
		}
	}
	l.preemptors = seen
	if b := a.c.permit; len(rivals) == 0 || a.c.refuses || b != nil && !b.givesWay(a.seat) {
		return preemptor{}
	}
	next := int(a.m.queue.vain % uint32(len(rivals)))
	if !just[next] {
		return preemptor{}
	}
	return rivals[next]
}
