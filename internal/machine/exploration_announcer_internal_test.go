package machine

import (
	"testing"
	"time"
)

// announcerWorld is an announcer machine, its candidate and the roster.
type announcerWorld struct {
	m        AnnouncerMachine
	held     bool
	eligible bool
	from     time.Time
	denied   time.Time
	leaves   bool

	sending   announcerRequest
	stale     bool // it is of a stand that is over
	cancelled bool
	lapses    time.Time // when the roster's entry lapses; zero: there is none
	void      bool      // the stand that was announced is over
	missed    bool      // a withdrawal has failed, or an announcement arrived after one
	marked    bool      // the last announcement said that a write was denied
}

type announcerRequest uint8

const (
	sendingNothing announcerRequest = iota
	sendingStand
	sendingWithdrawal
)

// oldTicket is the ticket of every stand in this world, of which a machine knows only
// whether a revision is less.
const oldTicket = 5

// In every situation a candidate announces itself only while it stands, has one request
// in flight, begins another stand after it has held the key, says whether a write was denied,
// and is withdrawn in the end.
func TestAnnouncerMachine_Explored(t *testing.T) {
	smallWorld[announcerWorld]{
		start: announcerWorld{m: AnnouncerMachine{Announces: true, Spread: 1 << 31}},
		least: 500,
		actions: func(w announcerWorld, add func(may bool, action string)) {
			add(!w.cancelled, "time") // a request that was cancelled is answered at once
			add(!w.held && !w.leaves && !w.eligible, "stands")
			add(w.eligible, "not fit")
			add(!w.held && !w.leaves, "won")
			add(!w.held && !w.leaves, "won another seat")
			add(w.held, "lost")
			add(w.held && !w.leaves, "resigned")
			add(!w.leaves && !w.held && w.denied.IsZero(), "denied")
			add(!w.denied.IsZero(), "permitted")
			add(!w.leaves, "stops")
			add(w.sending != sendingNothing, "answered")
			add(w.sending == sendingStand, "answered by a roster that was lost")
			add(w.sending != sendingNothing, "failed")
			add(w.sending != sendingNothing, "failed, and arrived")
		},
		apply: (*announcerWorld).apply,
	}.explore(t)
}

func (w *announcerWorld) apply(action string) string {
	in := AnnouncerInput{Times: Durations{Lease: 2 * tick, RenewInterval: tick, Turn: tick}}
	switch action {
	case "time":
		for _, at := range []*time.Time{&w.m.Since, &w.m.due, &w.m.Until, &w.m.sendBy, &w.from, &w.denied, &w.lapses} {
			*at = aged(*at)
		}
		for _, at := range []*time.Time{&w.lapses, &w.denied, &w.from} {
			if !at.After(epoch) {
				*at = time.Time{}
			}
		}
	case "stands":
		w.eligible = true
	case "not fit":
		w.eligible = false
	case "won":
		w.held, w.eligible, w.void = true, false, true
	case "won another seat":
		w.held, w.void = true, true
	case "lost":
		w.held = false
	case "resigned":
		w.held, w.from = false, epoch.Add(2*tick)
	case "denied":
		w.denied = epoch.Add(2 * tick)
	case "permitted":
		w.denied = time.Time{}
	case "stops":
		w.leaves, w.eligible, w.held = true, false, false
	case "answered":
		in.Answered, in.Revision = true, oldTicket+1
		w.arrive()
	case "answered by a roster that was lost":
		in.Answered, in.Revision = true, 1
		w.arrive()
	case "failed":
		in.Answered, in.Failed = true, true
		w.missed = w.missed || w.sending == sendingWithdrawal
	case "failed, and arrived":
		in.Answered, in.Failed = true, true
		w.arrive()
	}
	w.stale = w.stale || w.void && w.sending == sendingStand
	stale := w.stale && in.Answered
	if in.Answered {
		w.sending, w.cancelled, w.stale = sendingNothing, false, false
	}
	in.Held, in.Eligible, in.Leaves, in.Denied, in.From = w.held, w.eligible, w.leaves, w.denied, w.from
	fx := w.m.Step(epoch, in)
	broken := w.keep(fx)
	if stale && w.m.Ticket != 0 {
		broken = "the reply of a stand that is over gives the next one its place"
	}
	if w.m.Ticket != 0 {
		w.m.Ticket = oldTicket
	}
	if !w.m.Since.IsZero() {
		w.m.Since = epoch // only whether it is set matters
	}
	for _, at := range []*time.Time{&w.m.due, &w.m.Until} {
		if !at.After(epoch) && !at.IsZero() {
			*at = epoch
		}
	}
	return broken
}

// arrive lets the request in flight take effect.
func (w *announcerWorld) arrive() {
	switch w.sending {
	case sendingStand:
		w.lapses = epoch.Add(Lives * 2 * tick)
	case sendingWithdrawal:
		w.lapses, w.missed = time.Time{}, false
	case sendingNothing:
	}
}

func (w *announcerWorld) keep(fx announcerEffects) string {
	free := w.sending == sendingNothing
	switch {
	case (fx.Announce || fx.Withdraw) && !free:
		return "it sends while a request is in flight"
	case fx.Announce && (!w.eligible || w.held || w.leaves || epoch.Before(w.from)):
		return "it announces a candidate that does not stand"
	case fx.Announce && w.void && (w.m.Ticket != 0 || !w.m.Since.Equal(epoch)):
		return "it keeps its place after it has held the key"
	case fx.Announce && w.m.Until.Before(epoch.Add(2*tick)):
		return "it forgets its announcement before that lapses"
	case fx.Cancel && (free || w.cancelled):
		return "it cancels no request"
	}
	switch {
	case fx.Announce:
		w.sending, w.void, w.missed, w.marked = sendingStand, false, false, w.m.Denied
	case fx.Withdraw:
		w.sending = sendingWithdrawal
	case fx.Cancel:
		w.cancelled = true
	}
	// The announcement lapses later than the machine knows if it arrived late.
	listed := w.lapses.After(epoch.Add(2*tick)) && !w.missed
	switch {
	case w.sending != sendingNothing:
		if !w.cancelled && fx.Wake.IsZero() {
			return "it waits for an answer for ever"
		}
	case w.leaves && listed:
		return "it leaves its announcement behind"
	case w.held && listed && fx.Wake.IsZero():
		return "a holder stays in the roster"
	case w.eligible && !w.held && fx.Wake.IsZero():
		return "a candidate that stands is never announced, or not again"
	case w.eligible && !w.held && w.marked && fx.Wake.After(Later(Later(epoch.Add(tick), w.from), w.denied)):
		return "an announcement speaks of a denial after its end"
	case w.eligible && !w.held && !w.marked && epoch.Before(w.denied) && fx.Wake.After(Later(epoch.Add(tick), w.from)):
		return "an announcement does not speak of a denial"
	}
	return wakes(fx.Wake)
}
