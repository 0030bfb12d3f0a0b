package leader

import (
	"errors"
	"slices"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/machine"
)

// faultFilter remembers which faults were reported, so that each is reported once, and not
// with every try.
type faultFilter struct {
	reported map[string]machine.InputKind // the faults reported, and the kind of reply that reported each
	outage   bool                         // reported, and nothing has succeeded since
	kinds    uint8                        // of errors of the connection that were reported in the outage
	told     bool                         // reported, and no sign of a majority has come since
	deaf     bool                         // the feed was reported not to deliver, and has not since
	seats    bool                         // the holder is set to another number of seats
	differs  string                       // the last difference of the bucket from the settings of EnsureBucket that was reported
	misfit   string                       // the last fault reported of settings that were received; empty: none since they last fitted
}

// isNews reports whether a fault has not been reported since the same kind of
// request last succeeded. An outage is one fault, not one for every try, nor one
// for every kind of request that fails; and one more for each kind of error of the connection.
func (f *faultFilter) isNews(in *machine.Input, err error) bool {
	text := err.Error()
	if in.Err == nil {
		if in.Kind != machine.InSettings || !isMisfit(err) {
			return true
		}
		known := f.misfit == text
		f.misfit = text
		return !known
	}
	_, known := f.reported[text]
	if !known {
		if f.reported == nil || len(f.reported) >= 16 {
			f.reported = make(map[string]machine.InputKind)
		}
		f.reported[text] = in.Kind
	}
	unreachable := errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrNoFeed)
	var why backend.ConnError
	found := unreachable && errors.As(err, &why) && f.kinds&why.Bit() == 0
	if known || unreachable && f.outage && !found {
		return false
	}
	if found {
		f.kinds |= why.Bit()
	}
	f.outage = f.outage || unreachable
	return true
}

// succeeded records that a request of that kind has succeeded.
func (f *faultFilter) succeeded(kind machine.InputKind) {
	f.outage, f.kinds = false, 0
	for text, k := range f.reported {
		if k == kind || k == machine.InFeedLost && kind == machine.InFeed {
			delete(f.reported, text)
		}
	}
}

// isDifferent reports whether a difference of the bucket from the settings of EnsureBucket is
// to be reported. nil stands for none.
func (f *faultFilter) isDifferent(err error) bool {
	text := ""
	if err != nil {
		text = err.Error()
	}
	news := text != "" && text != f.differs
	f.differs = text
	return news
}

// received records that the settings of the bucket were received, with what the machine noted. A
// leader goes on with settings that do not fit, so they are known all the same.
func (f *faultFilter) received(notes []machine.Note) {
	if !slices.ContainsFunc(notes, func(n machine.Note) bool { return n.Event == machine.NoteFaulted && isMisfit(n.Err) }) {
		f.misfit = ""
	}
}

// isMisfit reports whether a fault that settings have caused means that they do not fit.
func isMisfit(err error) bool {
	return !errors.Is(err, ErrRegressed) && !errors.Is(err, ErrCongested) && !errors.Is(err, ErrClock)
}

// healers are what shows that a fault is over: each is a bit.
type healers uint16

const (
	byRead     healers = 1 << iota // a request of that kind succeeds
	byWrite                        // or is refused, which only the stream does, or the client reconnects
	bySettings                     // with settings that fit, if others were reported
	byFeed                         // the feed is open again
	byReply                        // any request succeeds
	byLeader                       // the candidate sees a new leader, or is elected
	byDelivery                     // the feed delivers again
	byRoster                       // a request to the roster succeeds
	byGuard                        // a request to a guard succeeds
	bySeats                        // the holder has as many seats
	byWorkEnd                      // the work of the term ends
	byUncordon                     // the cordon is lifted

	byRequest = byRead | byWrite | bySettings | byFeed | byReply
)

// replyOf returns the healer that is the success of a request.
func replyOf(kind machine.InputKind) healers {
	switch kind { //nolint:exhaustive // the others are no replies
	case machine.InRead:
		return byRead
	case machine.InWritten:
		return byWrite
	case machine.InSettings:
		return bySettings
	case machine.InFeed, machine.InFeedLost:
		return byFeed
	}
	return 0
}

// healersOf returns what shows that a fault of the machine is over, or 0 if nothing would: then it is an event. holds
// says that the candidate holds the key, so that it does not ask for the settings again.
func healersOf(in *machine.Input, err error, holds bool) healers {
	switch {
	case errors.Is(err, ErrClock), errors.Is(err, ErrCongested):
		return 0
	case errors.Is(err, ErrNotReleased):
		return byWorkEnd
	case in.Err == nil && errors.Is(err, ErrNoFeed):
		return byDelivery
	case in.Err == nil && in.Kind == machine.InSettings && isMisfit(err):
		if holds {
			return 0
		}
		return bySettings
	case in.Err == nil, errors.Is(err, ErrRegressed): // a fault of what was read, or of the record
		return byLeader
	case errors.Is(err, ErrNoFeed):
		return byFeed
	case errors.Is(err, ErrNoBucket), errors.Is(err, ErrUnreachable):
		return byReply | byLeader // another's write was stored
	case in.Kind == machine.InWritten && !errors.Is(err, ErrPermission):
		return byWrite | byLeader
	}
	return replyOf(in.Kind)
}

// lasts records that a fault has been seen, also one that was reported before.
func (a *actor) lasts(err error, end healers) {
	if end != 0 {
		a.c.mu.Lock()
		defer a.c.mu.Unlock()
		a.c.tally.causes.last(err, end, a.c.since())
	}
}

// heal records what shows that faults are over.
func (a *actor) heal(by healers) {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	a.c.tally.causes.heal(by)
}
