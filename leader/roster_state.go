package leader

import (
	"time"

	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/wire"
)

// announcerMachine decides when a candidate announces itself in the roster, and when it
// withdraws its announcement. Like the machine, it is a plain value without I/O.
//
// At most one request is in flight. Each is answered, also one that was cancelled. A stand
// is the time in which a candidate waits for the key without a break. Its ticket, the
// revision of its first announcement, is its place in the order of those that wait. A
// candidate that has held the key begins another stand, so it goes last.
type announcerMachine struct {
	announces bool   // of the seats of a candidate the first announces, for all
	lot       uint32 // random; it spreads candidates that came together

	held    bool      // it held the key, or one of several, at the last step
	denied  bool      // at the last step its writes counted as denied
	since   time.Time // when the stand began; zero: it has not been announced
	ticket  uint64    // of the stand; 0: not known yet
	due     time.Time // the next announcement, or the withdrawal
	until   time.Time // when the announcement lapses; zero: withdrawn
	sending bool
	sendBy  time.Time // when the request in flight is given up; zero: it was
}

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

// announcerInput is one input of an announcer machine. All fields but the last three are
// set in each.
type announcerInput struct {
	held     bool      // the candidate holds the key, or one of several, and has not ended
	eligible bool      // it waits for the key, and could take it once from has passed
	from     time.Time // before then it takes no lease
	denied   time.Time // a write of the key was denied: the announcement says so until then
	leaves   bool      // it stops, or has ended
	times    durations

	answered bool // the request in flight was answered
	failed   bool // with an error
	revision uint64
}

// announcerEffects holds the actions to take after a step, one at most, and when to step
// again; zero: with any step.
type announcerEffects struct {
	announce bool // with the stand's beginning and ticket
	withdraw bool
	cancel   bool // give up the request in flight, which still has to be answered
	wake     time.Time
}

// rosterWait returns how long a request to the roster may take.
func rosterWait(times durations) time.Duration { return min(deadline.Default, times.lease) }

// step takes one input.
func (h *announcerMachine) step(now time.Time, in announcerInput) (fx announcerEffects) {
	if in.answered {
		h.answered(now, in)
	}
	if h.sending && !h.sendBy.IsZero() && !now.Before(h.sendBy) {
		h.sendBy, fx.cancel = time.Time{}, true
	}
	if !h.announces {
		return fx
	}
	if denied := now.Before(in.denied); h.denied != denied {
		h.denied, h.due = denied, now // the others are to know at once
	}
	if h.held != in.held {
		h.held = in.held
		h.endStand(now)
		if in.held {
			h.due = now.Add(rosterPause)
		}
	}
	switch {
	case h.sending:
	case !h.held && in.eligible && !now.Before(later(h.due, in.from)):
		fx.announce = true
		h.announce(now, in.times)
	case !now.Before(h.until): // nothing is announced
	case in.leaves:
		fx.withdraw = true
		h.withdraw(now, min(lastWord, in.times.turn))
	case h.since.IsZero() && !now.Before(h.due):
		fx.withdraw = true // the announced stand is over: no candidate is to wait for it
		h.withdraw(now, rosterWait(in.times))
	}
	fx.wake = h.wakeAt(now, in)
	return fx
}

// answered takes the reply to the request in flight. If the stand has ended since it was
// sent, there is neither a stand nor a ticket, and the reply changes neither.
func (h *announcerMachine) answered(now time.Time, in announcerInput) {
	first := h.ticket == 0 && !h.since.IsZero()
	switch {
	case in.failed && first: // no candidate waits for one that is not known to stand
		h.due = now.Add(in.times.renewInterval)
	case !in.failed && (first || in.revision < h.ticket):
		h.ticket = in.revision // the first of this stand, or the roster was lost
	}
	h.sending, h.sendBy = false, time.Time{}
}

// endStand ends the stand. The next announcement, or the withdrawal, is due at once.
func (h *announcerMachine) endStand(now time.Time) {
	h.ticket, h.since, h.due = 0, time.Time{}, now
}

// announce begins a stand, or repeats its announcement.
func (h *announcerMachine) announce(now time.Time, times durations) {
	h.due, h.until = now.Add(times.lease), now.Add(lives*times.lease)
	if h.since.IsZero() {
		h.since = now
		h.due = h.due.Add(share(times.lease, h.lot))
	}
	h.sending, h.sendBy = true, now.Add(rosterWait(times))
}

func (h *announcerMachine) withdraw(now time.Time, limit time.Duration) {
	h.until = time.Time{}
	h.sending, h.sendBy = true, now.Add(limit)
}

func (h *announcerMachine) wakeAt(now time.Time, in announcerInput) time.Time {
	switch {
	case h.sending:
		return h.sendBy
	case h.held && now.Before(h.until):
		return h.due
	case !h.held && in.eligible && h.denied:
		return earlier(later(h.due, in.from), in.denied)
	case !h.held && in.eligible:
		return later(h.due, in.from)
	}
	return time.Time{}
}

// watcherMachine decides when the holder of the key reads the roster. Only the holder hears
// of all candidates. The others hear of their turn with the holder's renewals. Like the
// machine, it is a plain value without I/O.
//
// At most one opening is going on. It is answered, also if it was cancelled.
type watcherMachine struct {
	phase  watcherPhase
	held   bool      // it held the key at the last step
	at     time.Time // when to open the view; or to close it, without the key
	anew   time.Time // when to open it anew: purged or overdue entries leave no trace
	openBy time.Time // when the opening is given up; zero: it was
}

type watcherPhase uint8

const (
	watcherShut watcherPhase = iota
	watcherOpening
	watcherOpen
)

// viewLives is for how many leases a view is kept open.
const viewLives = 10

// watcherInput is one input of a watcher machine. All fields but the last are set in each.
type watcherInput struct {
	kind    watcherInputKind
	holds   bool // the candidate holds the key and has not ended
	ended   bool
	taken   bool // a candidate holds the key; of use where it is not this one
	urgent  bool // it gives up the key, and the view has not reported
	changed bool // the holders of other seats have changed since the view was read
	times   durations

	failed bool // watcherOpened: the view could not be opened
}

type watcherInputKind uint8

const (
	watcherTick watcherInputKind = iota
	watcherOpened
	watcherBroken // the view has ended with an error
)

// watcherEffects holds the actions to take after a step, one of the first five at most.
type watcherEffects struct {
	open    bool
	cancel  bool // give up the opening, which still has to be answered
	close   bool
	read    bool // pass what the view shows to the machine
	unknown bool // no better order is known than the last one
	turned  bool // the candidate has won or lost the key, so forget the preemptors
	wake    time.Time
}

// step takes one input. It opens the view of a holder, and closes that of any other
// candidate.
func (l *watcherMachine) step(now time.Time, in watcherInput) (fx watcherEffects) {
	switch in.kind {
	case watcherTick:
		l.tick(now, in, &fx)
	case watcherOpened:
		l.phase, l.openBy = watcherOpen, time.Time{}
		if in.failed {
			l.phase, l.at, fx.unknown = watcherShut, now.Add(in.times.lease), true
		} else {
			l.anew, fx.read = now.Add(viewLives*in.times.lease), true
		}
	case watcherBroken:
		l.phase, l.at, fx.close = watcherShut, now.Add(in.times.renewInterval), true
	}
	fx.wake = l.wakeAt(in)
	return fx
}

func (l *watcherMachine) tick(now time.Time, in watcherInput, fx *watcherEffects) {
	if fx.turned = l.held != in.holds; fx.turned {
		l.held, l.at = in.holds, now.Add(rosterPause)
	}
	switch {
	case l.phase == watcherOpening:
		late := !l.openBy.IsZero() && !now.Before(l.openBy)
		if late {
			l.openBy = time.Time{}
		}
		fx.cancel = late || !in.holds
	case in.holds && l.phase == watcherShut:
		if !now.Before(l.at) || in.urgent {
			l.phase, l.openBy, fx.open = watcherOpening, now.Add(rosterWait(in.times)), true
		}
	case l.phase == watcherShut:
	case !in.holds && l.mayClose(now, in), in.holds && !now.Before(l.anew):
		l.phase, l.at, fx.close = watcherShut, now, true
	case in.holds && (fx.turned || in.changed):
		fx.read = true // the view of the term before, a moment ago; or new holders of other seats
	}
}

// mayClose reports whether the view that is left from holding the key may be closed. No
// candidate's try for the key is to wait for that.
func (l *watcherMachine) mayClose(now time.Time, in watcherInput) bool {
	return in.ended || in.taken || !now.Before(l.at)
}

func (l *watcherMachine) wakeAt(in watcherInput) time.Time {
	switch {
	case l.phase == watcherOpening:
		return l.openBy
	case in.holds && l.phase == watcherShut, !in.holds && l.phase == watcherOpen:
		return l.at
	case l.phase == watcherOpen:
		return l.anew
	}
	return time.Time{}
}
