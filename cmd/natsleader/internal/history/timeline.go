package history

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/leader"
)

// TermEnd is the reason for which a term ended.
type TermEnd string

// The ends of terms.
const (
	EndedReleased    TermEnd = "released"        // handed over in order
	EndedExpired     TermEnd = "expired"         // the lease was not renewed
	EndedDeleted     TermEnd = "deleted"         // the key was deleted, purged or dropped by the TTL
	endedOverwritten TermEnd = "overwritten"     // by a record of something else
	endedTaken       TermEnd = facts.ReasonTaken // the key of another member of a group was given up again, whose term is over by that
	EndedReplaced    TermEnd = "replaced"        // another holder is seen before the lease was over, and what came between is not
	EndedUnknown     TermEnd = "unknown"         // the history misses what was written then
)

// StateUnknown is the state of a time of which the history has nothing. It is no constant, because no election is in
// it now, and the switches over states have no case for it.
var StateUnknown facts.State = "unknown"

// Span is a part of a time line: a term, or the time between two terms. The state is leading,
// unknown, or that of the key while no candidate led.
type Span struct {
	State facts.State `json:"state"`
	ID    string      `json:"id,omitempty"`
	Token uint64      `json:"token,omitempty"`
	Since time.Time   `json:"since"`
	// Before: it began before Since, and the history does not have when.
	Before bool      `json:"before,omitempty"`
	Until  time.Time `json:"until,omitzero"`  // zero: it still is so
	Ended  TermEnd   `json:"ended,omitempty"` // of a term
	// Renewed is when the holder was last heard of, if its lease was not renewed.
	Renewed time.Time `json:"renewed,omitzero"`
	Value   string    `json:"value,omitempty"`
	Value64 string    `json:"value64,omitempty"`

	heard  time.Time     // its last revision
	Lease  time.Duration `json:"-"` // of the leader
	former *Span         // the term before it, by its own record; nil: that has none
}

// Timeline is the history of an election.
type Timeline struct {
	Election string    `json:"election"`
	From     time.Time `json:"from"` // nothing is known of the time before
	Spans    []Span    `json:"spans"`

	End     time.Time `json:"-"`
	begins  time.Time // the history has all that was led from then on
	expires bool      // keys do, so that one which is idle is deleted
}

// timelineBuilder makes a time line of the revisions of a key, the oldest first. Most of them
// are renewals. Some may be missing: the bucket keeps only the newest revision, so the history
// misses one that was replaced before it was copied.
type timelineBuilder struct {
	election string
	from     time.Time
	spans    []Span
	last     facts.ElectionStatus // revision 0: none yet
	blind    bool                 // what came after the last copy is not known
}

// add takes the next revision. With hole, others may be missing before it. A lower revision that is later is of a bucket that
// was restored or made anew.
func (b *timelineBuilder) add(x facts.ElectionStatus, hole bool) {
	anew := x.Entry.Revision < b.last.Entry.Revision && x.Entry.Created.After(b.last.Entry.Created)
	if x.Entry.Revision <= b.last.Entry.Revision && !anew {
		return
	}
	if x.Entry.Created.Before(b.last.Entry.Created) {
		x.Entry.Created = b.last.Entry.Created
	}
	defer func() { b.last = x }()
	st, h, begin := x.At(x.Entry.Created), x.Holder, x.Entry.Created
	if st == facts.Leading && !h.Since.IsZero() && h.Since.Before(begin) {
		begin = h.Since
	}
	hole = anew || hole && b.last.Entry.Revision != 0 && !b.sameTerm(h.Token, st, begin)
	if now := b.open(); now != nil && !hole && st == now.State && (st != facts.Leading || h.Token == now.Token) {
		if now.heard = x.Entry.Created; !h.Since.IsZero() && !h.Since.Equal(now.Since) { // its first record has no date
			term := *now
			b.spans, term.Since = cut(b.spans[:len(b.spans)-1], h.Since)
			b.spans = append(b.spans, term)
		}
		return
	}
	if hole {
		b.lose()
	} else {
		b.close(x, st, begin)
	}
	b.spans, begin = cut(b.spans, begin)
	next := Span{State: st, Since: begin, heard: x.Entry.Created, former: b.formerOf(h, begin)}
	if len(b.spans) == 0 { // what is neither a term nor a release is written again and again, without the date of its begin
		next.Before = st != facts.Released && st != facts.Leading
	}
	switch st {
	case facts.Leading:
		next.ID, next.Token, next.Lease = h.ID, h.Token, h.Lease
		next.Value, next.Value64 = facts.Value64(h.Value)
	case facts.Pending:
		next.ID = h.ID
	case facts.Released, facts.Expired, facts.Deleted, facts.Foreign, facts.Never, StateUnknown:
	}
	b.spans = append(b.spans, next)
}

// formerOf returns the last term as a record without a leader has it, which began a span then.
func (b *timelineBuilder) formerOf(h leader.Holder, begin time.Time) *Span {
	if h.Last == nil || facts.Takes(b.election, h.Last.ID) {
		return nil
	}
	x := &Span{State: facts.Leading, ID: h.Last.ID, Token: h.Last.Token, Until: begin, Ended: EndedExpired}
	if h.Last.State == leader.HolderReleased {
		x.Ended = EndedReleased
	}
	if end := h.Last.Renewed; !end.IsZero() && end.Before(begin) {
		x.Until = end
	}
	return x
}

// sameTerm reports whether a revision after a hole shows that one term went on in the hole. Its leader may have led, or
// not, in a hole that is longer than its lease, if it does not lead any more.
func (b *timelineBuilder) sameTerm(token uint64, st facts.State, at time.Time) bool {
	return token != 0 && token == b.last.Holder.Token && (st == facts.Leading || at.Before(b.over()))
}

// over is when the lease of the last revision is over.
func (b *timelineBuilder) over() time.Time { return b.last.Entry.Created.Add(b.last.Holder.Lease) }

// cut ends spans when the next one begins, and returns when that is. It removes those that began later, but no term: then
// the next one begins with that. Where a revision that ended a term was copied after the next one had begun, it does not
// say when it was written, and nobody knows for how long that term went on.
func cut(spans []Span, at time.Time) ([]Span, time.Time) {
	late := false
	for n := len(spans) - 1; n >= 0; n-- {
		x := &spans[n]
		switch {
		case x.State == facts.Leading:
		case !x.Since.Before(at):
			late = late || !x.State.Held() && x.State != StateUnknown && x.Since.Sub(at) > leastGap
			continue
		case x.State == facts.Expired && late:
			continue
		}
		if at.Before(x.Since) {
			at = x.Since
		}
		switch {
		case late && x.State == facts.Leading && x.heard.Before(at):
			x.lose(x.heard)
			return append(spans[:n+1], Span{State: StateUnknown, Since: x.heard, Until: at}), at
		case x.Ended == EndedExpired && at.Before(x.Until): // no other term begins before a lease is over
			x.Ended, x.Renewed = EndedReplaced, time.Time{}
		}
		x.Until = at
		return spans[:n+1], at
	}
	return nil, at
}

// lose ends a span when it was last known.
func (x *Span) lose(at time.Time) {
	if x.Until = at; x.State == facts.Leading {
		x.Ended, x.Renewed = EndedUnknown, time.Time{}
	}
}

// lose ends the open span with the last revision that is known.
func (b *timelineBuilder) lose() {
	if now := b.open(); now != nil {
		now.lose(b.last.Entry.Created)
	}
	b.spans = append(b.spans, Span{State: StateUnknown, Since: b.last.Entry.Created})
}

// open returns the span that has not ended.
func (b *timelineBuilder) open() *Span {
	if n := len(b.spans); n > 0 && b.spans[n-1].Until.IsZero() {
		return &b.spans[n-1]
	}
	return nil
}

// close ends the open span at the revision x, or when its lease was over.
func (b *timelineBuilder) close(x facts.ElectionStatus, st facts.State, until time.Time) {
	now := b.open()
	if now == nil {
		return
	}
	switch {
	case b.expire(until):
		return
	case now.State != facts.Leading:
	case st == facts.Released && (x.Holder.Token == 0 || x.Holder.Token == now.Token): // or it ends a term that was not seen
		if now.Ended = EndedReleased; facts.Takes(b.election, now.ID) {
			now.Ended = endedTaken
		}
	case st == facts.Deleted:
		now.Ended = EndedDeleted
	case st == facts.Foreign:
		now.Ended = endedOverwritten
	default:
		now.Ended = EndedReplaced
	}
	now.Until = until
}

// expire ends a span whose holder's lease was over at a moment, and begins the time without one.
func (b *timelineBuilder) expire(at time.Time) bool {
	now := b.open()
	over := b.over()
	if now == nil || !now.State.Held() || at.Before(over) {
		return false
	}
	now.Until = over
	if now.State == facts.Leading {
		now.Ended, now.Renewed = EndedExpired, b.last.Entry.Created.UTC()
	}
	if at.After(over) {
		b.spans = append(b.spans, Span{State: facts.Expired, Since: over, Until: at})
	}
	return true
}

// finish ends the time line now.
func (b *timelineBuilder) finish(now time.Time) Timeline {
	switch {
	case len(b.spans) == 0:
	case b.blind:
		b.lose()
	case b.expire(now):
		b.spans[len(b.spans)-1].Until = time.Time{}
	}
	t := Timeline{Election: b.election, From: b.from, Spans: []Span{}, End: now}
	for _, x := range b.spans {
		x.Since, x.Until = x.Since.UTC(), x.Until.UTC()
		t.Spans = append(t.Spans, x)
	}
	if len(t.Spans) > 0 && (t.From.IsZero() || t.Spans[0].Since.After(t.From)) {
		t.From = t.Spans[0].Since
	}
	t.From = t.From.UTC()
	return t
}

// At returns the span of a moment. A moment of which the history has nothing has no state.
func (t Timeline) At(moment time.Time) Span {
	for _, x := range t.Spans {
		if !moment.Before(x.Since) && (x.Until.IsZero() || moment.Before(x.Until)) {
			return x
		}
	}
	if len(t.Spans) > 0 && !t.begins.IsZero() && !moment.Before(t.begins) && !t.Spans[0].Before && t.Spans[0].former == nil {
		return Span{State: facts.Never, Since: t.begins.UTC(), Until: t.Spans[0].Since}
	}
	return Span{Since: moment.UTC()}
}

// leastGap is the shortest time without a leader that people are shown. A handover takes
// less.
const leastGap = time.Second

// Table returns the rows of the terms.
func (t Timeline) Table(now time.Time) [][]string {
	rows := [][]string{{"SINCE" + front.InZone(now), "UNTIL", "FOR", "LEADER", "TOKEN", "ENDED"}}
	for _, x := range t.Spans {
		until, end := "now", t.End
		if !x.Until.IsZero() {
			until, end = front.FormatTime(x.Until), x.Until
		}
		took := end.Sub(x.Since)
		if x.State != facts.Leading && !x.Until.IsZero() && took < leastGap {
			continue
		}
		row := []string{x.since(), until, front.FormatAge(took), "-", "-", ""}
		if x.Before {
			row[2] = ">" + row[2]
		}
		if x.State == facts.Leading {
			row[3], row[4], row[5] = front.Shorten(front.Printable(x.ID), front.LongID), fmt.Sprint(x.Token), x.ended()
		} else {
			row[5] = x.vacancy()
		}
		rows = append(rows, row)
	}
	if len(rows) == 1 {
		return [][]string{{"the history has nothing about " + t.Election}}
	}
	return rows
}

// since describes when a span began.
func (x Span) since() string {
	if x.Before {
		return "before " + front.FormatTime(x.Since)
	}
	return front.FormatTime(x.Since)
}

// ended describes the end of a term.
func (x Span) ended() string {
	switch x.Ended {
	case EndedReleased:
		return "handed over"
	case EndedExpired:
		return "not renewed since " + front.FormatTime(x.Renewed)
	case EndedDeleted:
		return "the key was deleted"
	case endedOverwritten:
		return "the key was overwritten"
	case endedTaken:
		return "took the key only to end the term of the member"
	case EndedReplaced:
		return "another term followed"
	case EndedUnknown:
		return "it is not known how long it led"
	}
	return ""
}

// vacancy describes why nobody led, or why that is not known.
func (x Span) vacancy() string {
	why := "no candidate stood, as far as the history knows"
	switch x.State {
	case StateUnknown:
		return "not known: the history misses what was written then"
	case facts.Pending:
		why = front.Shorten(front.Printable(x.ID), front.LongID) + " held the key, and waited until no other lease could be valid"
	case facts.Released:
		why = "the key was free"
	case facts.Expired:
		why = "the lease was over"
	case facts.Deleted:
		why = "the key was deleted"
	case facts.Foreign:
		why = "the key held something that natsleader did not write"
	case facts.Leading, facts.Never:
	}
	return "nobody led: " + why
}

// sentence says who led at a moment.
func (x Span) sentence(election string, at, now time.Time) string {
	when := front.FormatZoned(at)
	if x.State == "" {
		return fmt.Sprintf("it is not known which candidate led %s at %s: the history does not reach back so far", election, when)
	}
	during := "from " + x.since() + " until now"
	if !x.Until.IsZero() {
		during = "from " + x.since() + " until " + front.FormatTime(x.Until)
	}
	what, why, _ := strings.Cut(x.vacancy(), ": ")
	switch {
	case x.State == StateUnknown:
		return fmt.Sprintf("it is %s which candidate led %s at %s, %s: %s", what, election, when, during, why)
	case x.State != facts.Leading:
		return fmt.Sprintf("%s %s at %s, %s: %s", what, election, when, during, why)
	}
	text := fmt.Sprintf("%s led %s at %s with token %d, from %s", front.Printable(x.ID), election, when, x.Token, x.since())
	if x.Until.IsZero() {
		return text + ", and still leads"
	}
	return fmt.Sprintf("%s until %s: %s", text, front.FormatTime(x.Until), cmp.Or(x.ended(), front.FormatAge(now.Sub(at))))
}
