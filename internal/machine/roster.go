package machine

import (
	"time"

	"github.com/natsleader/natsleader/internal/wire"
)

// AnnouncerMachine decides when a candidate announces itself in the roster, and when it
// withdraws its announcement. Like the machine, it is a plain value without I/O.
//
// At most one request is in flight. Each is answered, also one that was cancelled. A stand
// is the time in which a candidate waits for the key without a break. Its ticket, the
// revision of its first announcement, is its place in the order of those that wait. A
// candidate that has held the key begins another stand, so it goes last.
type AnnouncerMachine struct {
	Announces bool   // of the seats of a candidate the first announces, for all
	Spread    uint32 // random; it spreads candidates that came together

	held    bool      // it held the key, or one of several, at the last step
	Denied  bool      // at the last step its writes counted as denied
	Since   time.Time // when the stand began; zero: it has not been announced
	Ticket  uint64    // of the stand; 0: not known yet
	due     time.Time // the next announcement, or the withdrawal
	Until   time.Time // when the announcement lapses; zero: withdrawn
	sending bool
	sendBy  time.Time // when the request in flight is given up; zero: it was
}

const (
	// Lives is for how many leases an announcement lasts. It is repeated after each
	// lease, the first time at some point of the second lease. That spreads candidates
	// that came together.
	Lives = wire.AnnouncementLeases
	// rosterPause lets a candidate that has won the key report that, and its work begin,
	// before anything is done about the roster, in which thousands may stand.
	rosterPause = ListenPause
	// lastWord is how long a candidate that ends waits for its withdrawal at most.
	lastWord = 250 * time.Millisecond
)

// AnnouncerInput is one input of an announcer machine. All fields but the last three are
// set in each.
type AnnouncerInput struct {
	Held     bool      // the candidate holds the key, or one of several, or is cordoned, and has not ended
	Eligible bool      // it waits for the key, and could take it once from has passed
	From     time.Time // before then it takes no lease
	Denied   time.Time // a write of the key was denied: the announcement says so until then
	Leaves   bool      // it stops, or has ended
	Times    Durations

	Answered bool // the request in flight was answered
	Failed   bool // with an error
	Revision uint64
}

// announcerEffects holds the actions to take after a step, one at most, and when to step
// again; zero: with any step.
type announcerEffects struct {
	Announce bool // with the stand's beginning and ticket
	Withdraw bool
	Cancel   bool // give up the request in flight, which still has to be answered
	Wake     time.Time
}

// rosterWait returns how long a request to the roster may take.
func rosterWait(times Durations) time.Duration { return min(wire.CallLimit, times.Lease) }

// Step takes one input.
func (h *AnnouncerMachine) Step(now time.Time, in AnnouncerInput) (fx announcerEffects) {
	if in.Answered {
		h.answered(now, in)
	}
	if h.sending && !h.sendBy.IsZero() && !now.Before(h.sendBy) {
		h.sendBy, fx.Cancel = time.Time{}, true
	}
	if !h.Announces {
		return fx
	}
	if denied := now.Before(in.Denied); h.Denied != denied {
		h.Denied, h.due = denied, now // the others are to know at once
	}
	if h.held != in.Held {
		h.held = in.Held
		h.endListing(now)
		if in.Held {
			h.due = now.Add(rosterPause)
		}
	}
	switch {
	case h.sending:
	case !h.held && in.Eligible && !now.Before(Later(h.due, in.From)):
		fx.Announce = true
		h.announce(now, in.Times)
	case !now.Before(h.Until): // nothing is announced
	case in.Leaves:
		fx.Withdraw = true
		h.withdraw(now, min(lastWord, in.Times.Turn))
	case h.Since.IsZero() && !now.Before(h.due):
		fx.Withdraw = true // the announced stand is over: no candidate is to wait for it
		h.withdraw(now, rosterWait(in.Times))
	}
	fx.Wake = h.wakeAt(now, in)
	return fx
}

// answered takes the reply to the request in flight. If the stand has ended since it was
// sent, there is neither a stand nor a ticket, and the reply changes neither.
func (h *AnnouncerMachine) answered(now time.Time, in AnnouncerInput) {
	first := h.Ticket == 0 && !h.Since.IsZero()
	switch {
	case in.Failed && first: // no candidate waits for one that is not known to stand
		h.due = now.Add(in.Times.RenewInterval)
	case !in.Failed && (first || in.Revision < h.Ticket):
		h.Ticket = in.Revision // the first of this stand, or the roster was lost
	}
	h.sending, h.sendBy = false, time.Time{}
}

// endListing ends the stand. The next announcement, or the withdrawal, is due at once.
func (h *AnnouncerMachine) endListing(now time.Time) {
	h.Ticket, h.Since, h.due = 0, time.Time{}, now
}

// announce begins a stand, or repeats its announcement.
func (h *AnnouncerMachine) announce(now time.Time, times Durations) {
	h.due, h.Until = now.Add(times.Lease), now.Add(Lives*times.Lease)
	if h.Since.IsZero() {
		h.Since = now
		h.due = h.due.Add(share(times.Lease, h.Spread))
	}
	h.sending, h.sendBy = true, now.Add(rosterWait(times))
}

func (h *AnnouncerMachine) withdraw(now time.Time, limit time.Duration) {
	h.Until = time.Time{}
	h.sending, h.sendBy = true, now.Add(limit)
}

func (h *AnnouncerMachine) wakeAt(now time.Time, in AnnouncerInput) time.Time {
	switch {
	case h.sending:
		return h.sendBy
	case h.held && now.Before(h.Until):
		return h.due
	case !h.held && in.Eligible && h.Denied:
		return Earlier(Later(h.due, in.From), in.Denied)
	case !h.held && in.Eligible:
		return Later(h.due, in.From)
	}
	return time.Time{}
}

// WatcherMachine decides when the holder of the key reads the roster. Only the holder hears
// of all candidates. The others hear of their turn with the holder's renewals. Like the
// machine, it is a plain value without I/O.
//
// At most one opening is going on. It is answered, also if it was cancelled.
type WatcherMachine struct {
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

// WatcherInput is one input of a watcher machine. All fields but the last are set in each.
type WatcherInput struct {
	Kind    watcherInputKind
	Holds   bool // the candidate holds the key and has not ended
	Ended   bool
	Taken   bool // a candidate holds the key; of use where it is not this one
	Urgent  bool // it gives up the key, and the view has not reported
	Changed bool // the holders of other seats have changed since the view was read
	Times   Durations

	Failed bool // watcherOpened: the view could not be opened
}

type watcherInputKind uint8

// Inputs of a watcher machine.
const (
	watcherTick watcherInputKind = iota
	WatcherOpened
	WatcherBroken // the view has ended with an error
)

// watcherEffects holds the actions to take after a step, one of the first five at most.
type watcherEffects struct {
	Open    bool
	Cancel  bool // give up the opening, which still has to be answered
	Close   bool
	Read    bool // pass what the view shows to the machine
	Unknown bool // no better order is known than the last one
	Turned  bool // the candidate has won or lost the key, so forget the preemptors
	Wake    time.Time
}

// Step takes one input. It opens the view of a holder, and closes that of any other
// candidate.
func (l *WatcherMachine) Step(now time.Time, in WatcherInput) (fx watcherEffects) {
	switch in.Kind {
	case watcherTick:
		l.tick(now, in, &fx)
	case WatcherOpened:
		l.phase, l.openBy = watcherOpen, time.Time{}
		if in.Failed {
			l.phase, l.at, fx.Unknown = watcherShut, now.Add(in.Times.Lease), true
		} else {
			l.anew, fx.Read = now.Add(viewLives*in.Times.Lease), true
		}
	case WatcherBroken:
		l.phase, l.at, fx.Close = watcherShut, now.Add(in.Times.RenewInterval), true
	}
	fx.Wake = l.wakeAt(in)
	return fx
}

func (l *WatcherMachine) tick(now time.Time, in WatcherInput, fx *watcherEffects) {
	if fx.Turned = l.held != in.Holds; fx.Turned {
		l.held, l.at = in.Holds, now.Add(rosterPause)
	}
	switch {
	case l.phase == watcherOpening:
		late := !l.openBy.IsZero() && !now.Before(l.openBy)
		if late {
			l.openBy = time.Time{}
		}
		fx.Cancel = late || !in.Holds
	case in.Holds && l.phase == watcherShut:
		if !now.Before(l.at) || in.Urgent {
			l.phase, l.openBy, fx.Open = watcherOpening, now.Add(rosterWait(in.Times)), true
		}
	case l.phase == watcherShut:
	case !in.Holds && l.mayClose(now, in), in.Holds && !now.Before(l.anew):
		l.phase, l.at, fx.Close = watcherShut, now, true
	case in.Holds && (fx.Turned || in.Changed):
		fx.Read = true // the view of the term before, a moment ago; or new holders of other seats
	}
}

// mayClose reports whether the view that is left from holding the key may be closed. No
// candidate's try for the key is to wait for that.
func (l *WatcherMachine) mayClose(now time.Time, in WatcherInput) bool {
	return in.Ended || in.Taken || !now.Before(l.at)
}

func (l *WatcherMachine) wakeAt(in WatcherInput) time.Time {
	switch {
	case l.phase == watcherOpening:
		return l.openBy
	case in.Holds && l.phase == watcherShut, !in.Holds && l.phase == watcherOpen:
		return l.at
	case l.phase == watcherOpen:
		return l.anew
	}
	return time.Time{}
}
