package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/jsapi"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// Bounds of what is read about all elections, besides their first and last records.
const (
	mostReading = 10 * time.Second
	atOnce      = 128 // elections
	perRequest  = 500 // elections; a server answers at most 1024
)

// readAll reads what has changed in all elections from a moment on. It reads the newest changes first. What it leaves out
// is older than the begin of the result.
func (r *historyReader) readAll(ctx context.Context, found pasts, from time.Time) (changes, error) {
	all, err := r.firstAndLast(ctx, found, from)
	if err != nil {
		return changes{}, err
	}
	open := slices.DeleteFunc(slices.Clone(all), (*past).isComplete)
	begun, c := time.Now(), changes{From: from, All: []changed{}}
	for len(open) > 0 {
		slices.SortFunc(open, func(a, b *past) int { return b.reached().Compare(a.reached()) })
		if time.Since(begun) >= mostReading {
			c.From = r.leaveOut(open[0])
			break
		}
		if err := r.back(ctx, open[:min(atOnce, len(open))]); err != nil {
			return changes{}, err
		}
		open = slices.DeleteFunc(open, (*past).isComplete)
	}
	for _, p := range all {
		for _, x := range r.line(p, from).changes(p.newest.note.OneShot) {
			if !x.At.Before(c.From) {
				c.All = append(c.All, x)
			}
		}
	}
	c.All = grouped(c.All)
	if first := r.info.State.FirstTime; c.From.Before(first) {
		c.From = first
	}
	c.From = c.From.UTC()
	return c, nil
}

func (p *past) isComplete() bool { return p.complete }

// reached returns when the oldest record that was read came after another: what is not read is not later.
func (p *past) reached() time.Time {
	x := p.read[len(p.read)-1]
	if x.holder.State == leader.HolderLeading && !x.holder.Since.IsZero() && x.holder.Since.Before(x.entry.Created) {
		return x.holder.Since
	}
	return x.entry.Created
}

// pasts are those of elections, by name.
type pasts map[string]*past

// of returns the past of an election, and reports whether a name is one that is shown. Of the elections of a group, the
// one of its assigner is.
func (all pasts) of(election string) (*past, bool) {
	name, _, inGroup := group.NameOf(election)
	if inGroup && election != group.AssignerKey(name) || checkElection(election) != nil {
		return nil, false
	}
	if all[election] == nil {
		all[election] = &past{election: election, complete: true}
	}
	return all[election], true
}

// past is [pasts.of] for the elections whose names match.
func (r *historyReader) past(all pasts, election string) (*past, bool) {
	shown := election
	if name, _, ok := group.NameOf(election); ok {
		shown = name
	}
	if r.names != nil && !r.names.MatchString(shown) {
		return nil, false
	}
	return all.of(election)
}

// openAll is open for all elections.
func (r *historyReader) openAll(ctx context.Context) (pasts, error) {
	all := make(pasts)
	return all, r.open(ctx, func(ctx context.Context) error {
		newest, err := r.s.all(ctx)
		for _, x := range newest {
			if p, ok := r.past(all, x.election); ok {
				p.newest = x
			}
		}
		return err
	})
}

// firstAndLast reads the state of all elections at a moment and now.
func (r *historyReader) firstAndLast(ctx context.Context, found pasts, from time.Time) ([]*past, error) {
	info, err := answer(ctx, r.s, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		return r.stream.Info(ctx, jetstream.WithSubjectFilter(r.subject(">")))
	})
	if err != nil {
		return nil, err
	}
	var subjects []string
	for subject := range info.State.Subjects {
		if _, ok := r.past(found, strings.TrimPrefix(subject, r.subject(""))); ok {
			subjects = append(subjects, subject)
		}
	}
	slices.Sort(subjects)
	for some := range slices.Chunk(subjects, perRequest) {
		if !from.IsZero() {
			err = r.each(ctx, lastRecords{Subjects: some, UpToTime: from.UTC()}, func(x copied) { found[x.election].first = x })
		}
		if err == nil {
			err = r.each(ctx, lastRecords{Subjects: some}, func(x copied) { found[x.election].begin(x) })
		}
		if err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *past) int { return strings.Compare(a.election, b.election) }), nil
}

// each reads the last record of each of some elections.
func (r *historyReader) each(ctx context.Context, what lastRecords, take func(copied)) error {
	request, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return r.s.within(ctx, func(ctx context.Context) error {
		inbox := r.s.nc.NewInbox()
		answers, err := r.s.nc.SubscribeSync(inbox)
		if err != nil {
			return err
		}
		defer answers.Unsubscribe() //nolint:errcheck // it may have gone with the connection
		if err := r.s.nc.PublishRequest(r.direct(), inbox, request); err != nil {
			return err
		}
		for {
			m, err := answers.NextMsgWithContext(ctx)
			if err != nil {
				return err
			}
			if m.Header.Get("Status") == "204" { // the end
				return nil
			}
			subject := jsapi.LastValue(m.Header, jetstream.SubjectHeader)
			x, err := r.copyOf(strings.TrimPrefix(subject, r.subject("")), m)
			if err != nil || x.message == 0 {
				return err
			}
			take(x)
		}
	})
}

// changes are what has changed in all elections, the newest first.
type changes struct {
	From time.Time `json:"from"` // nothing is known of the time before
	All  []changed `json:"changes"`
}

// changed is one change of a leader, or several that belong together.
type changed struct {
	At    time.Time `json:"at"`    // of the newest
	Began time.Time `json:"began"` // the oldest
	From  string    `json:"from,omitempty"`
	To    string    `json:"to,omitempty"`    // empty: nobody leads
	Ended termEnd   `json:"ended,omitempty"` // why the leader before does not lead; unknown: it is not known who led
	Gap   float64   `json:"gap_seconds"`     // the longest time that nobody led, or that is not known
	// Silent and Unworked: Ended is expired; for how long the leader had not renewed its lease, in seconds, and for how long
	// nobody worked at least.
	Silent    float64  `json:"silent_seconds,omitempty"`
	Unworked  float64  `json:"unworked_seconds,omitempty"`
	Trouble   bool     `json:"trouble,omitempty"`
	Elections []string `json:"elections"`
}

// idleLeases is for how many leases a key is free when no candidate waits for it. One that waits takes it within a lease.
const idleLeases = 10

// changes returns the changes of the leader, the oldest first. The free key of a one-shot job is idle.
func (t timeline) changes(oneShot bool) (all []changed) {
	name := t.Election
	if of, _, ok := group.NameOf(name); ok {
		name = of
	}
	var last, hole span
	free := false // the last leader gave the key up, and nothing else held it since
	add := func(at time.Time, from, to string, ended termEnd, gap time.Duration) {
		c := changed{At: at, Began: at, From: from, To: to, Ended: ended, Gap: gap.Seconds(), Elections: []string{name}}
		idle := free && (oneShot || gap >= idleLeases*last.lease)
		c.Trouble = gap >= leastGap && !idle || ended == endedExpired || ended == endedDeleted || ended == endedOverwritten
		if ended == endedUnknown {
			c.Trouble = gap >= leastApart
		}
		all = append(all, c)
	}
	for _, x := range t.Spans {
		switch {
		case x.State == stateUnknown && hole.State == "":
			hole = x
		case x.State != stateLeading:
			free = free && x.State != stateExpired && x.State != stateForeign
		case hole.State != "":
			add(x.Since, last.ID, x.ID, endedUnknown, x.Since.Sub(hole.Since))
		case last.ID == "":
			add(x.Since, "", x.ID, "", 0)
		default:
			add(x.Since, last.ID, x.ID, last.Ended, x.Since.Sub(last.Until))
			all[len(all)-1].silence(last, x.Since)
		}
		if x.State == stateLeading {
			last, hole, free = x, span{}, x.Ended == endedReleased
		}
	}
	switch {
	case hole.State != "":
		add(hole.Since, last.ID, "", endedUnknown, t.end.Sub(hole.Since))
	case last.ID != "" && !last.Until.IsZero():
		add(last.Until, last.ID, "", last.Ended, 0)
	}
	return all
}

// silence takes from a term whose lease ran out for how long its leader was silent until the next one led, and for how long
// nobody worked at least: a leader ends its work at the renew deadline, and may have stopped at any time before.
func (c *changed) silence(last span, next time.Time) {
	if last.Ended != endedExpired || last.Renewed.IsZero() {
		return
	}
	silent := next.Sub(last.Renewed)
	c.Silent, c.Unworked = silent.Seconds(), max(0, silent-wire.RenewDeadline(last.Until.Sub(last.Renewed))).Seconds()
}

// leastApart is how much later a change is for it to be another one, and how long a time that is not known is for it to
// be trouble.
const leastApart = 10 * time.Second

// grouped puts together changes of the same kind, from the same host to the same host, which came one soon after the other.
func grouped(all []changed) []changed {
	slices.SortStableFunc(all, func(a, b changed) int { return b.At.Compare(a.At) })
	type kind struct {
		from, to string
		ended    termEnd
		trouble  bool
	}
	groups, newest := []changed{}, make(map[kind]int)
	for _, x := range all {
		k := kind{records.HostOf(x.From), records.HostOf(x.To), x.Ended, x.Trouble}
		i, some := newest[k]
		if !some || groups[i].Began.Sub(x.At) > leastApart {
			newest[k] = len(groups)
			groups = append(groups, x)
			continue
		}
		g := &groups[i]
		g.Began, g.Gap, g.Elections = x.At, max(g.Gap, x.Gap), append(g.Elections, x.Elections...)
		g.Silent, g.Unworked = max(g.Silent, x.Silent), max(g.Unworked, x.Unworked)
		if g.From != x.From {
			g.From = k.from
		}
		if g.To != x.To {
			g.To = k.to
		}
	}
	return groups
}

// text describes a change in one line.
func (c changed) text() string {
	which, many := printable(c.Elections[0]), len(c.Elections) > 1
	if many {
		which = fmt.Sprintf("%d elections", len(c.Elections))
	}
	name := func(id string) string { return shorten(printable(cmp.Or(id, "nobody")), longID) }
	gap := time.Duration(c.Gap * float64(time.Second))
	took := formatGap(gap)
	if many {
		took = "up to " + took
	}
	who := name(c.From) + " → " + name(c.To)
	switch {
	case c.Ended == "":
		return fmt.Sprintf("%s leads: %s", name(c.To), which)
	case c.Ended == endedUnknown && c.To == "":
		return fmt.Sprintf("%s → not known: %s, for %s: the history misses what was written then", name(c.From), which, took)
	case c.Ended == endedUnknown:
		return fmt.Sprintf("%s: %s, not known how: the history has no records of %s", who, which, took)
	case c.To == "":
		return fmt.Sprintf("%s: %s, %s", who, which, c.why())
	case c.Silent > 0 && many:
		return fmt.Sprintf("%s: %s, not renewed for up to %s, so nobody worked for up to as long", who, which, formatSeconds(c.Silent))
	case c.Silent > 0:
		return fmt.Sprintf("%s: %s, not renewed for %s, so nobody worked for %s to %s", who, which, formatSeconds(c.Silent), formatSeconds(c.Unworked), formatSeconds(c.Silent))
	case gap < leastGap:
		return fmt.Sprintf("%s: %s, %s, a gap of %s", who, which, c.why(), took)
	case !c.Trouble:
		return fmt.Sprintf("%s: %s, idle for %s", who, which, took)
	}
	return fmt.Sprintf("%s: %s, %s, nobody led for %s", who, which, c.why(), took)
}

// formatGap formats a time without a leader, of which a handover takes milliseconds.
func formatGap(d time.Duration) string {
	if d < leastGap {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return formatAge(d)
}

func formatSeconds(s float64) string { return formatGap(time.Duration(s * float64(time.Second))) }

// why describes why a leader does not lead any more.
func (c changed) why() string {
	switch c.Ended {
	case endedReleased:
		return "handed over"
	case endedExpired:
		return "the lease ran out"
	case endedDeleted, endedOverwritten, endedReplaced, endedUnknown:
	}
	return span{Ended: c.Ended}.ended()
}

// table returns the lines for people. Those of trouble begin with a mark.
func (c changes) table(now time.Time) [][]string {
	rows := [][]string{{"AT" + inZone(now), "", "CHANGE"}}
	for _, x := range c.All {
		mark := ""
		if x.Trouble {
			mark = "!"
		}
		rows = append(rows, []string{formatTime(x.At), mark, x.text()})
	}
	if len(rows) == 1 {
		return [][]string{{"no leader has changed since " + formatZoned(c.From)}}
	}
	return rows
}
