package main

import (
	"cmp"
	"fmt"
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
)

// span is a part of a time line: a term, or the time between two terms. The state is leading,
// or that of the key while no candidate led.
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
// can miss one that was replaced at once.
type timelineBuilder struct {
	election string
	from     time.Time
	spans    []span
	last     electionStatus // revision 0: none yet
}

func (b *timelineBuilder) add(x electionStatus) {
	if x.entry.Revision <= b.last.entry.Revision {
		return
	}
	st := x.at(x.entry.Created)
	h := x.holder
	if now := b.open(); now != nil && st == now.State && (st != stateLeading || h.Token == now.Token) {
		b.last = x // a renewal, or nothing new
		return
	}
	b.close(x, st)
	next := span{State: st, Since: x.entry.Created}
	switch st {
	case stateLeading:
		next.ID, next.Token = h.ID, h.Token
		next.Value, next.Value64 = text(h.Value)
		if !h.Since.IsZero() && h.Since.Before(next.Since) {
			next.Since = h.Since
		}
		if n := len(b.spans); n > 0 && next.Since.Before(b.spans[n-1].Until) {
			next.Since = b.spans[n-1].Until
		}
	case statePending:
		next.ID = h.ID
	case stateReleased, stateExpired, stateDeleted, stateForeign, stateNever:
	}
	b.spans = append(b.spans, next)
	b.last = x
}

// open returns the span that has not ended.
func (b *timelineBuilder) open() *span {
	if n := len(b.spans); n > 0 && b.spans[n-1].Until.IsZero() {
		return &b.spans[n-1]
	}
	return nil
}

// close ends the open span at the revision x, or when its lease was over.
func (b *timelineBuilder) close(x electionStatus, st state) {
	now := b.open()
	if now == nil {
		return
	}
	until := x.entry.Created
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
	over := b.last.entry.Created.Add(b.last.holder.Lease)
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
	if b.expire(now) {
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

func (t timeline) table() [][]string {
	rows := [][]string{{"SINCE", "UNTIL", "FOR", "LEADER", "TOKEN", "ENDED"}}
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
			row[5] = "nobody led: " + x.vacancy()
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
	}
	return ""
}

// vacancy describes why nobody led.
func (x span) vacancy() string {
	switch x.State {
	case statePending:
		return shorten(printable(x.ID), longID) + " held the key, and waited until no other lease could be valid"
	case stateReleased:
		return "the key was free"
	case stateExpired:
		return "the lease was over"
	case stateDeleted:
		return "the key was deleted"
	case stateForeign:
		return "the key held something that natsleader did not write"
	case stateLeading, stateNever:
	}
	return "no candidate had ever stood"
}

// sentence says who led at a moment.
func (x span) sentence(election string, at, now time.Time) string {
	when := formatTime(at)
	switch {
	case x.State == "":
		return fmt.Sprintf("it is not known which candidate led %s at %s: the history does not reach back so far", election, when)
	case x.State != stateLeading:
		until := "until now"
		if !x.Until.IsZero() {
			until = "until " + formatTime(x.Until)
		}
		return fmt.Sprintf("nobody led %s at %s, from %s %s: %s", election, when, formatTime(x.Since), until, x.vacancy())
	}
	text := fmt.Sprintf("%s led %s at %s with token %d, from %s", printable(x.ID), election, when, x.Token, formatTime(x.Since))
	if x.Until.IsZero() {
		return text + ", and still leads"
	}
	return fmt.Sprintf("%s until %s: %s", text, formatTime(x.Until), cmp.Or(x.ended(), formatAge(now.Sub(at))))
}
