package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// termEnd is the reason for which a term ended.
type termEnd string

const (
	endedReleased    termEnd = "released"    // handed over in order
	endedExpired     termEnd = "expired"     // the lease was not renewed
	endedDeleted     termEnd = "deleted"     // the key was deleted, purged or dropped by the TTL
	endedOverwritten termEnd = "overwritten" // by a record of something else
	endedReplaced    termEnd = "replaced"    // another holder is seen before the lease was over, and what came between is not
	endedUnknown     termEnd = "unknown"     // the history misses what was written then
)

// stateUnknown is the state of a time of which the history has nothing. It is no constant, because no election is in
// it now, and the switches over states have no case for it.
var stateUnknown state = "unknown"

// span is a part of a time line: a term, or the time between two terms. The state is leading,
// unknown, or that of the key while no candidate led.
type span struct {
	State state     `json:"state"`
	ID    string    `json:"id,omitempty"`
	Token uint64    `json:"token,omitempty"`
	Since time.Time `json:"since"`
	Until time.Time `json:"until,omitzero"`  // zero: it still is so
	Ended termEnd   `json:"ended,omitempty"` // of a term
	// Renewed is when the holder was last heard of, if its lease was not renewed.
	Renewed time.Time `json:"renewed,omitzero"`
	Value   string    `json:"value,omitempty"`
	Value64 string    `json:"value64,omitempty"`

	heard time.Time     // its last revision
	lease time.Duration // of the leader
}

// timeline is the history of an election.
type timeline struct {
	Election string    `json:"election"`
	From     time.Time `json:"from"` // nothing is known of the time before
	Spans    []span    `json:"spans"`

	end time.Time
}

// timelineBuilder makes a time line of the revisions of a key, the oldest first. Most of them
// are renewals. Some may be missing: the bucket keeps only the newest revision, so the history
// misses one that was replaced before it was copied.
type timelineBuilder struct {
	election string
	from     time.Time
	spans    []span
	last     electionStatus // revision 0: none yet
	blind    bool           // what came after the last copy is not known
}

// add takes the next revision. With hole, others may be missing before it. A lower revision that is later is of a bucket that
// was restored or made anew.
func (b *timelineBuilder) add(x electionStatus, hole bool) {
	anew := x.entry.Revision < b.last.entry.Revision && x.entry.Created.After(b.last.entry.Created)
	if x.entry.Revision <= b.last.entry.Revision && !anew {
		return
	}
	if x.entry.Created.Before(b.last.entry.Created) {
		x.entry.Created = b.last.entry.Created
	}
	defer func() { b.last = x }()
	st, h, begin := x.at(x.entry.Created), x.holder, x.entry.Created
	if st == stateLeading && !h.Since.IsZero() && h.Since.Before(begin) {
		begin = h.Since
	}
	hole = anew || hole && b.last.entry.Revision != 0 && !b.sameTerm(h.Token, st, begin)
	if now := b.open(); now != nil && !hole && st == now.State && (st != stateLeading || h.Token == now.Token) {
		if now.heard = x.entry.Created; !h.Since.IsZero() && !h.Since.Equal(now.Since) { // its first record has no date
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
	next := span{State: st, Since: begin, heard: x.entry.Created}
	switch st {
	case stateLeading:
		next.ID, next.Token, next.lease = h.ID, h.Token, h.Lease
		next.Value, next.Value64 = text(h.Value)
	case statePending:
		next.ID = h.ID
	case stateReleased, stateExpired, stateDeleted, stateForeign, stateNever, stateUnknown:
	}
	b.spans = append(b.spans, next)
}

// sameTerm reports whether a revision after a hole shows that one term went on in the hole. Its leader may have led, or
// not, in a hole that is longer than its lease, if it does not lead any more.
func (b *timelineBuilder) sameTerm(token uint64, st state, at time.Time) bool {
	return token != 0 && token == b.last.holder.Token && (st == stateLeading || at.Before(b.over()))
}

// over is when the lease of the last revision is over.
func (b *timelineBuilder) over() time.Time { return b.last.entry.Created.Add(b.last.holder.Lease) }

// cut ends spans when the next one begins, and returns when that is. It removes those that began later, but no term: then
// the next one begins with that. Where a revision that ended a term was copied after the next one had begun, it does not
// say when it was written, and nobody knows for how long that term went on.
func cut(spans []span, at time.Time) ([]span, time.Time) {
	late := false
	for n := len(spans) - 1; n >= 0; n-- {
		x := &spans[n]
		switch {
		case x.State == stateLeading:
		case !x.Since.Before(at):
			late = late || !x.State.held() && x.State != stateUnknown && x.Since.Sub(at) > leastGap
			continue
		case x.State == stateExpired && late:
			continue
		}
		if at.Before(x.Since) {
			at = x.Since
		}
		switch {
		case late && x.State == stateLeading && x.heard.Before(at):
			x.lose(x.heard)
			return append(spans[:n+1], span{State: stateUnknown, Since: x.heard, Until: at}), at
		case x.Ended == endedExpired && at.Before(x.Until): // no other term begins before a lease is over
			x.Ended, x.Renewed = endedReplaced, time.Time{}
		}
		x.Until = at
		return spans[:n+1], at
	}
	return nil, at
}

// lose ends a span when it was last known.
func (x *span) lose(at time.Time) {
	if x.Until = at; x.State == stateLeading {
		x.Ended, x.Renewed = endedUnknown, time.Time{}
	}
}

// lose ends the open span with the last revision that is known.
func (b *timelineBuilder) lose() {
	if now := b.open(); now != nil {
		now.lose(b.last.entry.Created)
	}
	b.spans = append(b.spans, span{State: stateUnknown, Since: b.last.entry.Created})
}

// open returns the span that has not ended.
func (b *timelineBuilder) open() *span {
	if n := len(b.spans); n > 0 && b.spans[n-1].Until.IsZero() {
		return &b.spans[n-1]
	}
	return nil
}

// close ends the open span at the revision x, or when its lease was over.
func (b *timelineBuilder) close(x electionStatus, st state, until time.Time) {
	now := b.open()
	if now == nil {
		return
	}
	switch {
	case b.expire(until):
		return
	case now.State != stateLeading:
	case st == stateReleased && (x.holder.Token == 0 || x.holder.Token == now.Token): // or it ends a term that was not seen
		now.Ended = endedReleased
	case st == stateDeleted:
		now.Ended = endedDeleted
	case st == stateForeign:
		now.Ended = endedOverwritten
	default:
		now.Ended = endedReplaced
	}
	now.Until = until
}

// expire ends a span whose holder's lease was over at a moment, and begins the time without one.
func (b *timelineBuilder) expire(at time.Time) bool {
	now := b.open()
	over := b.over()
	if now == nil || !now.State.held() || at.Before(over) {
		return false
	}
	now.Until = over
	if now.State == stateLeading {
		now.Ended, now.Renewed = endedExpired, b.last.entry.Created.UTC()
	}
	if at.After(over) {
		b.spans = append(b.spans, span{State: stateExpired, Since: over, Until: at})
	}
	return true
}

// finish ends the time line now.
func (b *timelineBuilder) finish(now time.Time) timeline {
	switch {
	case len(b.spans) == 0:
	case b.blind:
		b.lose()
	case b.expire(now):
		b.spans[len(b.spans)-1].Until = time.Time{}
	}
	t := timeline{Election: b.election, From: b.from, Spans: []span{}, end: now}
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

// at returns the span of a moment. A moment before the history began has no state.
func (t timeline) at(moment time.Time) span {
	for _, x := range t.Spans {
		if !moment.Before(x.Since) && (x.Until.IsZero() || moment.Before(x.Until)) {
			return x
		}
	}
	return span{Since: moment.UTC()}
}

// leastGap is the shortest time without a leader that people are shown. A handover takes
// less.
const leastGap = time.Second

func (t timeline) table(now time.Time) [][]string {
	rows := [][]string{{"SINCE" + inZone(now), "UNTIL", "FOR", "LEADER", "TOKEN", "ENDED"}}
	for _, x := range t.Spans {
		until, end := "now", t.end
		if !x.Until.IsZero() {
			until, end = formatTime(x.Until), x.Until
		}
		took := end.Sub(x.Since)
		if x.State != stateLeading && !x.Until.IsZero() && took < leastGap {
			continue
		}
		row := []string{formatTime(x.Since), until, formatAge(took), "-", "-", ""}
		if x.State == stateLeading {
			row[3], row[4], row[5] = shorten(printable(x.ID), longID), fmt.Sprint(x.Token), x.ended()
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

// ended describes the end of a term.
func (x span) ended() string {
	switch x.Ended {
	case endedReleased:
		return "handed over"
	case endedExpired:
		return "not renewed since " + formatTime(x.Renewed)
	case endedDeleted:
		return "the key was deleted"
	case endedOverwritten:
		return "the key was overwritten"
	case endedReplaced:
		return "another term followed"
	case endedUnknown:
		return "it is not known how long it led"
	}
	return ""
}

// vacancy describes why nobody led, or why that is not known.
func (x span) vacancy() string {
	why := "no candidate had ever stood"
	switch x.State {
	case stateUnknown:
		return "not known: the history misses what was written then"
	case statePending:
		why = shorten(printable(x.ID), longID) + " held the key, and waited until no other lease could be valid"
	case stateReleased:
		why = "the key was free"
	case stateExpired:
		why = "the lease was over"
	case stateDeleted:
		why = "the key was deleted"
	case stateForeign:
		why = "the key held something that natsleader did not write"
	case stateLeading, stateNever:
	}
	return "nobody led: " + why
}

// sentence says who led at a moment.
func (x span) sentence(election string, at, now time.Time) string {
	when := formatZoned(at)
	if x.State == "" {
		return fmt.Sprintf("it is not known which candidate led %s at %s: the history does not reach back so far", election, when)
	}
	during := "from " + formatTime(x.Since) + " until now"
	if !x.Until.IsZero() {
		during = "from " + formatTime(x.Since) + " until " + formatTime(x.Until)
	}
	what, why, _ := strings.Cut(x.vacancy(), ": ")
	switch {
	case x.State == stateUnknown:
		return fmt.Sprintf("it is %s which candidate led %s at %s, %s: %s", what, election, when, during, why)
	case x.State != stateLeading:
		return fmt.Sprintf("%s %s at %s, %s: %s", what, election, when, during, why)
	}
	text := fmt.Sprintf("%s led %s at %s with token %d, from %s", printable(x.ID), election, when, x.Token, formatTime(x.Since))
	if x.Until.IsZero() {
		return text + ", and still leads"
	}
	return fmt.Sprintf("%s until %s: %s", text, formatTime(x.Until), cmp.Or(x.ended(), formatAge(now.Sub(at))))
}
