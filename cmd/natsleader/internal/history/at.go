package history

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// moment is what was so in all elections of a bucket at one time.
type moment struct {
	At        time.Time      `json:"at"`
	Elections []momentaryOne `json:"elections"`
}

// momentaryOne is what was so in one election.
type momentaryOne struct {
	Election string      `json:"election"`
	State    facts.State `json:"state"`
	ID       string      `json:"id,omitempty"`
	Token    uint64      `json:"token,omitempty"`
	Since    time.Time   `json:"since,omitzero"`
	Before   bool        `json:"before,omitempty"` // it began before Since, and the history does not have when
	Until    time.Time   `json:"until,omitzero"`   // of a time without a leader; zero: it still is so, or it is not known
	Idle     bool        `json:"idle,omitempty"`   // the key was free, and no candidate waited

	why   string
	lasts bool // nobody leads to this day
}

// readAt reads what was so at a moment. It reads two records of each election, of those that have changed since then
// one more, and further ones only where nobody led, or if they were copied after the moment and written before it.
func (r *Reader) readAt(ctx context.Context, found pasts, at time.Time) (moment, error) {
	all, err := r.firstAndLast(ctx, found, at)
	if err != nil {
		return moment{}, err
	}
	open := slices.DeleteFunc(slices.Clone(all), (*past).isComplete)
	for some := range slices.Chunk(open, AtOnce) {
		if err := forEach(some, func(p *past) error { return r.after(ctx, p, at) }); err != nil {
			return moment{}, err
		}
	}
	for some := range slices.Chunk(all, AtOnce) {
		read := func(p *past) error {
			p.complete = true // as far as is asked for
			return r.beyond(ctx, p)
		}
		if err := forEach(some, read); err != nil {
			return moment{}, err
		}
	}
	m := moment{At: at.UTC(), Elections: []momentaryOne{}}
	for _, p := range all {
		line := r.Line(p, at)
		x := line.At(at)
		if !x.Until.IsZero() && line.At(x.Until).State == StateUnknown { // it may have gone on
			x.Until, p.cut = time.Time{}, true
		}
		if x.State == facts.Never {
			continue
		}
		m.Elections = append(m.Elections, p.momentary(x, line.End))
	}
	return m, nil
}

// mostAfter is how many records of an election that were written after a moment are read. One is enough, unless nobody
// led: a program that overwrites the key may do so again and again.
const mostAfter = 64

// after reads, in place of the last record, the next ones up to the first that ends what was so at the moment.
func (r *Reader) after(ctx context.Context, p *past, at time.Time) error {
	last, then := p.read[0], p.first
	if p.read = nil; p.first.message != 0 {
		p.read = []copied{p.first}
	}
	for later := 0; ; {
		x, err := r.next(ctx, p.Election, p.newestRead()+1)
		if err != nil {
			return err
		}
		if x.message == 0 || x.message > last.message { // another replica has answered before
			x = last
		}
		p.read = slices.Insert(p.read, 0, x)
		if !x.Entry.Created.After(at) {
			then = x
		} else {
			later++
		}
		switch st := then.At(then.Entry.Created); {
		case x.message == last.message:
			return nil
		case later == mostAfter, later > 0 && (st == facts.Leading || st != x.At(x.Entry.Created)):
			p.Newest.Entry, p.Newest.Holder, p.cut = x.Entry, x.Holder, true // what came later is not asked for
			return nil
		}
	}
}

// newestRead returns the newest message that was read, or 0.
func (p *past) newestRead() uint64 {
	if len(p.read) == 0 {
		return 0
	}
	return p.read[0].message
}

// momentary returns what the span of a moment says of it. now is the end of a span that goes on. For how long a leader led on was
// not read.
func (p *past) momentary(x Span, now time.Time) momentaryOne {
	m := momentaryOne{State: x.State, ID: x.ID, Token: x.Token, Since: x.Since, Before: x.Before}
	m.Election, _ = shownAs(p.Election)
	switch {
	case x.State == "":
		m.State, m.Since, m.why = StateUnknown, time.Time{}, "not known: the history does not reach back so far"
	case x.State != facts.Leading:
		m.Until, m.why = x.Until, x.vacancy()
		m.lasts = x.Until.IsZero() && !p.cut
		until := x.Until
		if m.lasts {
			until = now
		}
		oneShot := p.Newest.Note.OneShot || group.MemberOf(p.Election) != ""
		m.Idle = x.State == facts.Released && (oneShot || until.Sub(x.Since) >= idleLeases*p.lease())
	}
	return m
}

// lease returns the lease of a record that was read, also of one that was released, or that of Changes if none has one.
func (p *past) lease() time.Duration {
	for _, x := range p.read {
		if lease := record.DecodeEntry(x.Entry).Rec.Lease; lease > 0 {
			return lease
		}
	}
	return wire.DefaultLease
}

// code returns the exit code: 1 if nobody led an election that was not idle, otherwise 66 if that is not known of one.
func (m moment) code() int {
	code := 0
	for _, x := range m.Elections {
		switch {
		case x.State == StateUnknown:
			code = max(code, front.ExitUnknown)
		case x.State != facts.Leading && !x.Idle:
			return front.ExitFailed
		}
	}
	if len(m.Elections) == 0 {
		return front.ExitUnknown
	}
	return code
}

func (m moment) table(now time.Time) [][]string {
	rows := [][]string{{"ELECTION", "LEADER AT " + front.FormatZoned(m.At), "TOKEN", "SINCE" + front.InZone(now), "UNTIL", ""}}
	for _, x := range m.Elections {
		row := []string{front.Printable(x.Election), "-", "-", "-", "", x.why}
		if x.State == facts.Leading {
			row[1], row[2] = front.Shorten(front.Printable(x.ID), front.LongID), fmt.Sprint(x.Token)
		}
		if !x.Since.IsZero() {
			row[3] = Span{Since: x.Since, Before: x.Before}.since()
		}
		switch {
		case !x.Until.IsZero():
			row[4] = front.FormatTime(x.Until)
		case x.lasts:
			row[4] = "now"
		}
		if x.Idle {
			row[5] = strings.Replace(x.why, "nobody led", "idle", 1)
		}
		rows = append(rows, row)
	}
	if len(rows) == 1 {
		return [][]string{{"the history has no election at " + front.FormatZoned(m.At)}}
	}
	return rows
}
