package leader

import (
	"errors"
	"slices"

	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/record"
)

// lastingFault is a fault that was found, without a sign since that it is over. Unlike faultFilter this takes each fault that
// is found, whether it is news or not.
type lastingFault struct {
	from faultSource
	kind error // as in counted
}

// faultSource is what a fault came from. See notice for the sign of its end.
type faultSource int

const (
	fromKey faultSource = iota // what the key holds
	fromTokens
	fromRead
	fromWrite
	fromSettings // a request for them
	fromMisfit   // settings that do not fit
	fromFeed
	fromGuards // and more, one for each kind of request of each guard
)

// endless are the kinds that are not kept here: events, what is compared once, and what Stats has under another name.
var endless = []error{
	ErrRegressed, ErrClock, ErrSeatsDiffer, ErrBucketDiffers,
	ErrUnreachable, ErrNoMajority, ErrConnectionClosed, ErrCongested, ErrNotReleased, ErrCordoned,
}

// found records a fault that was found.
func (c *Candidate) found(from faultSource, err error) {
	f := lastingFault{from, countedAs(err)}
	if old := c.lastingFaults(); !slices.Contains(endless, f.kind) && !slices.Contains(old, f) {
		all := append(slices.Clone(old), f)
		c.lasting.Store(&all)
	}
}

// over records a sign that the faults of a source are over.
func (c *Candidate) over(from faultSource) {
	is := func(f lastingFault) bool { return f.from == from }
	if old := c.lastingFaults(); slices.ContainsFunc(old, is) {
		all := slices.DeleteFunc(slices.Clone(old), is)
		c.lasting.Store(&all)
	}
}

// lastingFaults returns the faults that last, which are not changed any more.
func (c *Candidate) lastingFaults() []lastingFault {
	if all := c.lasting.Load(); all != nil {
		return *all
	}
	return nil
}

// foundIn takes a fault that the machine has found in an input.
func (a *actor) foundIn(in *machine.Input, err error) {
	from := fromKey
	switch {
	case errors.Is(err, ErrNoFeed):
		from = fromFeed
	case errors.Is(err, ErrTokensExhausted):
		from = fromTokens
	case in.Kind == machine.InSettings && in.Err == nil:
		from = fromMisfit
	case in.Kind == machine.InSettings:
		from = fromSettings
	case in.Kind == machine.InRead && in.Err != nil:
		from = fromRead
	case in.Kind == machine.InWritten && in.Err != nil:
		from = fromWrite
	}
	a.c.found(from, err)
}

// notice takes the signs of a step that faults are over. seen is the newest revision of the key that was known before it, and
// fits says that settings have come which fit.
func (a *actor) notice(in *machine.Input, seen uint64, fits bool) {
	s, answered := &a.status, in.Err == nil
	for from, over := range [...]bool{
		fromKey:      s.Reported.Kind != record.EntryForeign,
		fromTokens:   !s.Spent,
		fromRead:     !s.Reads,
		fromWrite:    s.Seen.Revision > seen || s.Suspended, // any client has written; a candidate that waits then does not try
		fromSettings: in.Kind == machine.InSettings && answered,
		fromMisfit:   fits || in.Kind == machine.InWritten && answered, // a leader goes on
		fromFeed:     s.Hears,
	} {
		if over {
			a.c.over(faultSource(from))
		}
	}
	a.noticeGuards()
}

// noticeGuards takes the faults of the guards. What keeps this candidate from raising one is over when another leads, unless
// the guard is another election's.
func (a *actor) noticeGuards() {
	now := a.status.Seen
	led := now.Held() && now.Rec.Phase != record.PhasePending && !a.status.Holds
	for i := range a.guards {
		s := &a.guards[i]
		if led && !s.Taken() {
			s.faults[machine.GuardInRaised] = nil
		}
		for asked, err := range s.faults {
			from := fromGuards + faultSource(i*len(s.faults)+asked)
			if err == nil {
				a.c.over(from)
			} else {
				a.c.found(from, err)
			}
		}
	}
}
