package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/wire"
)

// Unworked is for how long nobody worked for an election since a moment, as far as that is trouble: at least and at most,
// and for how long it is not known.
type Unworked struct {
	Least, Most, Unknown time.Duration
	Goes                 bool // the time without work goes on
	Blind                bool // the time that is not known goes on
}

// Unworked returns for how long nobody worked since a moment. Nothing is known of the time before known. The free
// key of a one-shot job is idle, and where keys expire one of whose end nothing is known.
func (t Timeline) Unworked(oneShot, expires bool, since, known time.Time) Unworked {
	x := unworking{end: t.End, begin: since, oneShot: oneShot, expires: expires}
	if known.After(since) {
		x.begin = known
		if x.Unknown = x.end.Sub(since); known.Before(x.end) {
			x.Unknown = known.Sub(since)
		}
	}
	for _, s := range t.Spans {
		switch s.State {
		case facts.Leading:
			x.settle(s.Since, true)
			x.last, x.gap = s, nil
		case StateUnknown:
			x.settle(s.Since, false)
			x.last, x.gap = Span{}, nil
			x.Unknown += x.within(s.Since, s.Until)
			x.Blind = s.Until.IsZero()
		case facts.Pending, facts.Released, facts.Expired, facts.Deleted, facts.Foreign, facts.Never:
			x.gap = append(x.gap, s)
		}
	}
	if n := len(t.Spans); n > 0 && t.Spans[n-1].Until.IsZero() {
		x.settle(time.Time{}, false)
	}
	return x.Unworked
}

// unworking adds up the times without a leader of a time line.
type unworking struct {
	Unworked
	begin, end time.Time
	oneShot    bool
	expires    bool
	last       Span   // the term before the gap; without a state nothing is known of it
	gap        []Span // since the last term, without one that is not known
}

// within is how much of a time counts. The zero time is the end of the time line.
func (x *unworking) within(from, until time.Time) time.Duration {
	if until.IsZero() {
		until = x.end
	}
	if from.Before(x.begin) {
		from = x.begin
	}
	return max(0, until.Sub(from))
}

// settle adds the gap, which is over: another term follows, or a time that is not known, or, with the zero time, nothing.
func (x *unworking) settle(until time.Time, followed bool) {
	from, ended, lease := x.last.Until, x.last.Ended, x.last.Lease
	if x.last.State == "" {
		if len(x.gap) == 0 {
			return
		}
		first := x.gap[0]
		from = first.Since
		switch first.State {
		case facts.Released:
			ended = EndedReleased
		case facts.Foreign:
			ended = endedOverwritten
		case facts.Leading, facts.Pending, facts.Deleted, facts.Expired, facts.Never: // the key may have been given up in order, or a lease be valid
			if idle := x.oneShot || x.expires && first.State == facts.Deleted; !idle {
				x.Unknown += x.within(from, until)
				x.Blind = until.IsZero()
			}
			return
		}
	}
	if from.IsZero() { // the last term goes on
		return
	}
	end := until
	if end.IsZero() {
		end = x.end
	}
	inOrder := ended == EndedReleased || x.oneShot && ended == EndedDeleted
	held := slices.IndexFunc(x.gap, func(s Span) bool { return s.State == facts.Expired || s.State == facts.Foreign })
	if inOrder && held >= 0 { // no candidate wanted the key before: one that waits takes a free one at once
		from = x.gap[held].Since
	}
	gap := end.Sub(from)
	idle := inOrder && held < 0 && (!followed || x.oneShot || gap >= idleLeases*lease)
	died := ended == EndedExpired || ended == EndedDeleted || ended == endedOverwritten
	if idle || gap < leastGap && !died {
		return
	}
	most := gap
	if ended == EndedExpired {
		most = end.Sub(x.last.Renewed)
		lease = x.last.Until.Sub(x.last.Renewed)
	}
	least := most
	if ended != EndedReleased { // the leader may have worked until its renew deadline
		least = max(0, most-wire.RenewDeadline(lease))
	}
	counts := x.within(x.begin, cmp.Or(until, x.end))
	x.Most += min(most, counts)
	x.Least += min(least, counts)
	x.Goes = until.IsZero()
}

// Unworked returns for how long nobody worked for an election since a moment, as far as it was read. Nothing before from
// was read.
func (r *Reader) Unworked(p *past, since, from time.Time) Unworked {
	line := r.Line(p, since)
	known := r.known(p, line)
	if known.Before(from) {
		known = from
	}
	return line.Unworked(p.Newest.Note.OneShot, r.S.TTL > 0, since, known)
}

// Blind reports whether the bucket was not read: it may have elections that are not in the history.
func (r *Reader) Blind() bool { return r.blind }

// known returns since when all about an election is known. The zero time: since the moment from which it was read.
func (r *Reader) known(p *past, line Timeline) time.Time {
	first := r.begins()
	switch now := r.S.Clock.Now(); {
	case !p.complete:
		return p.reached().Add(1)
	case p.first.message != 0, len(line.Spans) == 0:
		return time.Time{}
	case len(p.read) == 0 && now.Sub(p.Newest.Entry.Created) > Lag: // the history has not copied it
		first = now
	}
	if begun := line.Spans[0].Since; begun.Before(first) {
		return begun
	}
	return first
}
