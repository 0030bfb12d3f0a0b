package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/group"
)

// moment is what was so in all elections of a bucket at one time.
type moment struct {
	At        time.Time      `json:"at"`
	Elections []momentaryOne `json:"elections"`
}

// momentaryOne is what was so in one election.
type momentaryOne struct {
	Election string    `json:"election"`
	State    state     `json:"state"`
	ID       string    `json:"id,omitempty"`
	Token    uint64    `json:"token,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"` // of a time without a leader; zero: it still is so, or it is not known
	Idle     bool      `json:"idle,omitempty"` // the key was free, and no candidate waited

	why   string
	lasts bool // nobody leads to this day
}

// readAt reads what was so at a moment. It reads two records of each election, of those that have changed since then
// one more, and further ones only where nobody led, or if they were copied after the moment and written before it.
func (r *historyReader) readAt(ctx context.Context, found pasts, at time.Time) (moment, error) {
	all, err := r.firstAndLast(ctx, found, at)
	if err != nil {
		return moment{}, err
	}
	open := slices.DeleteFunc(slices.Clone(all), (*past).isComplete)
	for some := range slices.Chunk(open, atOnce) {
		var asked sync.WaitGroup
		failed := make([]error, len(some))
		for i, p := range some {
			asked.Go(func() { failed[i] = r.after(ctx, p, at) })
		}
		asked.Wait()
		if err := cmp.Or(failed...); err != nil {
			return moment{}, err
		}
	}
	m := moment{At: at.UTC(), Elections: []momentaryOne{}}
	reaches := !r.info.State.FirstTime.After(at)
	for _, p := range all {
		line := r.line(p, at)
		x := line.at(at)
		if !x.Until.IsZero() && line.at(x.Until).State == stateUnknown { // it may have gone on
			x.Until, p.cut = time.Time{}, true
		}
		if x.State == "" && reaches { // no candidate had stood
			continue
		}
		m.Elections = append(m.Elections, p.momentary(x))
	}
	return m, nil
}

// mostAfter is how many records of an election that were written after a moment are read. One is enough, unless nobody
// led: a program that overwrites the key may do so again and again.
const mostAfter = 64

// after reads, in place of the last record, the next ones up to the first that ends what was so at the moment.
func (r *historyReader) after(ctx context.Context, p *past, at time.Time) error {
	last, then := p.read[0], p.first
	if p.read = nil; p.first.message != 0 {
		p.read = []copied{p.first}
	}
	for later := 0; ; {
		x, err := r.next(ctx, p.election, p.newestRead()+1)
		if err != nil {
			return err
		}
		if x.message == 0 || x.message > last.message { // another replica has answered before
			x = last
		}
		p.read = slices.Insert(p.read, 0, x)
		if !x.entry.Created.After(at) {
			then = x
		} else {
			later++
		}
		switch st := then.at(then.entry.Created); {
		case x.message == last.message:
			return nil
		case later == mostAfter, later > 0 && (st == stateLeading || st != x.at(x.entry.Created)):
			p.newest.entry, p.newest.holder, p.cut = x.entry, x.holder, true // what came later is not asked for
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

// momentary returns what the span of a moment says of it. For how long a leader led on was not read.
func (p *past) momentary(x span) momentaryOne {
	m := momentaryOne{Election: p.election, State: x.State, ID: x.ID, Token: x.Token, Since: x.Since}
	if name, _, ok := group.NameOf(p.election); ok {
		m.Election = name
	}
	switch {
	case x.State == "":
		m.State, m.Since, m.why = stateUnknown, time.Time{}, "not known: the history does not reach back so far"
	case x.State != stateLeading:
		m.Until, m.why = x.Until, x.vacancy()
		if x.State == stateForeign || x.State == statePending { // written again and again
			m.Since = time.Time{}
		}
		m.lasts = x.Until.IsZero() && !p.cut
		m.Idle = x.State == stateReleased && (p.newest.note.OneShot || x.Until.Sub(x.Since) >= idleLeases*p.lease())
	}
	return m
}

// lease returns the lease of a record that was read, or the longest time if none has one.
func (p *past) lease() time.Duration {
	for _, x := range p.read {
		if x.holder.Lease > 0 {
			return x.holder.Lease
		}
	}
	return math.MaxInt64 / idleLeases
}

// code returns the exit code: 1 if nobody led an election that was not idle, otherwise 66 if that is not known of one.
func (m moment) code() int {
	code := 0
	for _, x := range m.Elections {
		switch {
		case x.State == stateUnknown:
			code = max(code, exitUnknown)
		case x.State != stateLeading && !x.Idle:
			return exitFailed
		}
	}
	if len(m.Elections) == 0 {
		return exitUnknown
	}
	return code
}

func (m moment) table(now time.Time) [][]string {
	rows := [][]string{{"ELECTION", "LEADER AT " + formatZoned(m.At), "TOKEN", "SINCE" + inZone(now), "UNTIL", ""}}
	for _, x := range m.Elections {
		row := []string{printable(x.Election), "-", "-", "-", "", x.why}
		if x.State == stateLeading {
			row[1], row[2] = shorten(printable(x.ID), longID), fmt.Sprint(x.Token)
		}
		if !x.Since.IsZero() {
			row[3] = formatTime(x.Since)
		}
		switch {
		case !x.Until.IsZero():
			row[4] = formatTime(x.Until)
		case x.lasts:
			row[4] = "now"
		}
		if x.Idle {
			row[5] = strings.Replace(x.why, "nobody led", "idle", 1)
		}
		rows = append(rows, row)
	}
	if len(rows) == 1 {
		return [][]string{{"the history has no election at " + formatZoned(m.At)}}
	}
	return rows
}
