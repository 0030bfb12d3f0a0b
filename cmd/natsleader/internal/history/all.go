package history

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/jsapi"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// Bounds of what is read about all elections, besides their first and last records.
const (
	MostReading = 10 * time.Second
	AtOnce      = 128 // elections
	perRequest  = 500 // elections; a server answers at most 1024
)

// ReadAll reads what has changed in all elections from a moment on. It reads the newest changes first. What it leaves out
// is older than the begin of the result.
func (r *Reader) ReadAll(ctx context.Context, found pasts, from time.Time) (Changes, error) {
	all, err := r.firstAndLast(ctx, found, from)
	if err != nil {
		return Changes{}, err
	}
	open := slices.DeleteFunc(slices.Clone(all), (*past).isComplete)
	begun, c := time.Now(), Changes{From: from, All: []Changed{}}
	for len(open) > 0 {
		slices.SortFunc(open, func(a, b *past) int { return b.reached().Compare(a.reached()) })
		if time.Since(begun) >= MostReading {
			c.From = r.leaveOut(open[0])
			break
		}
		if err := r.back(ctx, open[:min(AtOnce, len(open))]); err != nil {
			return Changes{}, err
		}
		open = slices.DeleteFunc(open, (*past).isComplete)
	}
	for _, p := range all {
		for _, x := range r.Line(p, from).Changes(p.Newest.Note.OneShot) {
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
	if x.Holder.State == leader.HolderLeading && !x.Holder.Since.IsZero() && x.Holder.Since.Before(x.Entry.Created) {
		return x.Holder.Since
	}
	return x.Entry.Created
}

// pasts are those of elections, by name.
type pasts map[string]*past

// of returns the past of an election, and reports whether a name is one that is shown. Of the elections of a group, the
// one of its assigner is.
func (all pasts) of(election string) (*past, bool) {
	name, _, inGroup := group.NameOf(election)
	if inGroup && election != group.AssignerKey(name) || inspect.CheckElection(election) != nil {
		return nil, false
	}
	if all[election] == nil {
		all[election] = &past{Election: election, complete: true}
	}
	return all[election], true
}

// past is [pasts.of] for the elections whose names match.
func (r *Reader) past(all pasts, election string) (*past, bool) {
	shown := election
	if name, _, ok := group.NameOf(election); ok {
		shown = name
	}
	if r.names != nil && !r.names.MatchString(shown) {
		return nil, false
	}
	return all.of(election)
}

// OpenAll is open for all elections.
func (r *Reader) OpenAll(ctx context.Context) (pasts, error) {
	all := make(pasts)
	return all, r.open(ctx, func(ctx context.Context) error {
		newest, err := r.S.All(ctx)
		for _, x := range newest {
			if p, ok := r.past(all, x.Election); ok {
				p.Newest = x
			}
		}
		return err
	})
}

// firstAndLast reads the state of all elections at a moment and now.
func (r *Reader) firstAndLast(ctx context.Context, found pasts, from time.Time) ([]*past, error) {
	info, err := inspect.Answer(ctx, r.S, func(ctx context.Context) (*jetstream.StreamInfo, error) {
		info, err := r.stream.Info(ctx, jetstream.WithSubjectFilter(r.subject(">")))
		return info, inspect.AboutOne(r.info.Config.Name, err)
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
		of := make([]*past, len(some))
		for i, subject := range some {
			of[i] = found[strings.TrimPrefix(subject, r.subject(""))]
		}
		if !from.IsZero() {
			_, err = r.each(ctx, LastRecords{Subjects: some, UpToTime: from.UTC()}, func(x copied) { found[x.Election].first = x })
		}
		if err == nil {
			err = r.last(ctx, some, of, func(x copied) { found[x.Election].begin(x) })
		}
		if err != nil {
			return nil, err
		}
	}
	return slices.SortedFunc(maps.Values(found), func(a, b *past) int { return strings.Compare(a.Election, b.Election) }), nil
}

// each reads the last record of each of some elections, and returns up to which message of the history. Without a record that
// is 0.
func (r *Reader) each(ctx context.Context, what LastRecords, take func(copied)) (upTo uint64, err error) {
	request, err := json.Marshal(what)
	if err != nil {
		return 0, err
	}
	var read []copied
	upTo, err = answer(ctx, r, func(ctx context.Context) (_ uint64, err error) {
		read = nil
		inbox := r.S.Nc.NewInbox()
		answers, err := r.S.Nc.SubscribeSync(inbox)
		if err != nil {
			return 0, err
		}
		defer answers.Unsubscribe() //nolint:errcheck // it may have gone with the connection
		if err := r.S.Nc.PublishRequest(r.direct(), inbox, request); err != nil {
			return 0, err
		}
		for {
			m, err := answers.NextMsgWithContext(ctx)
			if err != nil {
				return 0, err
			}
			if m.Header.Get("Status") == "204" { // the end
				return strconv.ParseUint(m.Header.Get("Nats-UpTo-Sequence"), 10, 64)
			}
			subject := jsapi.LastValue(m.Header, jetstream.SubjectHeader)
			x, err := r.copyOf(strings.TrimPrefix(subject, r.subject("")), m)
			if err != nil || x.message == 0 {
				return 0, err
			}
			read = append(read, x)
		}
	})
	if err == nil {
		for _, x := range read {
			take(x)
		}
	}
	return upTo, err
}

// Changes are what has changed in all elections, the newest first.
type Changes struct {
	From time.Time `json:"from"` // nothing is known of the time before
	All  []Changed `json:"changes"`
}

// Changed is one change of a leader, or several that belong together.
type Changed struct {
	At    time.Time `json:"at"`    // of the newest
	Began time.Time `json:"began"` // the oldest
	From  string    `json:"from,omitempty"`
	To    string    `json:"to,omitempty"`    // empty: nobody leads
	Ended TermEnd   `json:"ended,omitempty"` // why the leader before does not lead; unknown: it is not known who led
	Gap   float64   `json:"gap_seconds"`     // the longest time that nobody led, or that is not known
	// Silent and Unworked: Ended is expired; for how long the leader had not renewed its lease, in seconds, and for how long
	// nobody worked at least. While a group has no assigner, its members work.
	Silent    float64  `json:"silent_seconds,omitempty"`
	Unworked  float64  `json:"unworked_seconds,omitempty"`
	Trouble   bool     `json:"trouble,omitempty"`
	Elections []string `json:"elections"`

	assigner bool // of groups, whose shards others work on
}

// idleLeases is for how many leases a key is free when no candidate waits for it. One that waits takes it within a lease.
const idleLeases = 10

// Changes returns the changes of the leader, the oldest first. The free key of a one-shot job is idle.
func (t Timeline) Changes(oneShot bool) (all []Changed) {
	name := t.Election
	of, _, inGroup := group.NameOf(name)
	if inGroup {
		name = of
	}
	var last, hole Span
	free := false // the last leader gave the key up, and nothing else held it since
	add := func(at time.Time, from, to string, ended TermEnd, gap time.Duration) {
		c := Changed{At: at, Began: at, From: from, To: to, Ended: ended, Gap: gap.Seconds(), Elections: []string{name}, assigner: inGroup}
		idle := free && (oneShot || gap >= idleLeases*last.Lease)
		c.Trouble = gap >= leastGap && !idle || ended == EndedExpired || ended == EndedDeleted || ended == endedOverwritten
		if ended == EndedUnknown {
			c.Trouble = gap >= leastApart
		}
		all = append(all, c)
	}
	for _, x := range t.Spans {
		switch {
		case x.State == StateUnknown && hole.State == "":
			hole = x
		case x.State != facts.Leading:
			free = free && x.State != facts.Expired && x.State != facts.Foreign
		case hole.State != "":
			add(x.Since, last.ID, x.ID, EndedUnknown, x.Since.Sub(hole.Since))
		case last.ID == "":
			add(x.Since, "", x.ID, "", 0)
		default:
			add(x.Since, last.ID, x.ID, last.Ended, x.Since.Sub(last.Until))
			all[len(all)-1].Silence(last, x.Since)
		}
		if x.State == facts.Leading {
			last, hole, free = x, Span{}, x.Ended == EndedReleased
		}
	}
	switch {
	case hole.State != "":
		add(hole.Since, last.ID, "", EndedUnknown, t.End.Sub(hole.Since))
	case last.ID != "" && !last.Until.IsZero():
		add(last.Until, last.ID, "", last.Ended, 0)
	}
	return all
}

// Silence takes from a term whose lease ran out for how long its leader was silent until the next one led, and for how long
// nobody worked at least: a leader ends its work at the renew deadline, and may have stopped at any time before.
func (c *Changed) Silence(last Span, next time.Time) {
	if last.Ended != EndedExpired || last.Renewed.IsZero() {
		return
	}
	silent := next.Sub(last.Renewed)
	if c.Silent = silent.Seconds(); !c.assigner {
		c.Unworked = max(0, silent-wire.RenewDeadline(last.Until.Sub(last.Renewed))).Seconds()
	}
}

// leastApart is how much later a change is for it to be another one, and how long a time that is not known is for it to
// be trouble.
const leastApart = 10 * time.Second

// grouped puts together changes of the same kind, from the same host to the same host, which came one soon after the other.
func grouped(all []Changed) []Changed {
	slices.SortStableFunc(all, func(a, b Changed) int { return b.At.Compare(a.At) })
	type kind struct {
		from, to string
		ended    TermEnd
		trouble  bool
		assigner bool
	}
	groups, newest := []Changed{}, make(map[kind]int)
	for _, x := range all {
		k := kind{records.HostOf(x.From), records.HostOf(x.To), x.Ended, x.Trouble, x.assigner && x.Silent > 0}
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

// Text describes a change in one line.
func (c Changed) Text() string {
	which, many := front.Printable(c.Elections[0]), len(c.Elections) > 1
	if many {
		which = front.Plural(len(c.Elections), map[bool]string{false: "election", true: "group"}[c.assigner && c.Silent > 0])
	}
	name := func(id string) string { return front.Shorten(front.Printable(cmp.Or(id, "nobody")), front.LongID) }
	gap := time.Duration(c.Gap * float64(time.Second))
	took := formatGap(gap)
	if many {
		took = "up to " + took
	}
	who := name(c.From) + " → " + name(c.To)
	switch {
	case c.Ended == "":
		return fmt.Sprintf("%s leads: %s", name(c.To), which)
	case c.Ended == EndedUnknown && c.To == "":
		return fmt.Sprintf("%s → not known: %s, for %s: the history misses what was written then", name(c.From), which, took)
	case c.Ended == EndedUnknown:
		return fmt.Sprintf("%s: %s, not known how: the history has no records of %s", who, which, took)
	case c.To == "":
		return fmt.Sprintf("%s: %s, %s", who, which, c.why())
	case c.Silent > 0 && c.assigner && many:
		return fmt.Sprintf("%s: %s, not renewed for up to %s, so no shard could move for up to as long", who, which, formatSeconds(c.Silent))
	case c.Silent > 0 && c.assigner:
		return fmt.Sprintf("%s: %s, not renewed for %s, so no shard could move for up to %s", who, which, formatSeconds(c.Silent), formatSeconds(c.Silent))
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
	return front.FormatAge(d)
}

func formatSeconds(s float64) string { return formatGap(time.Duration(s * float64(time.Second))) }

// why describes why a leader does not lead any more.
func (c Changed) why() string {
	switch c.Ended {
	case EndedReleased:
		return "handed over"
	case EndedExpired:
		return "the lease ran out"
	case EndedDeleted, endedOverwritten, EndedReplaced, EndedUnknown:
	}
	return Span{Ended: c.Ended}.ended()
}

// table returns the lines for people. Those of trouble begin with a mark.
func (c Changes) table(now time.Time) [][]string {
	rows := [][]string{{"AT" + front.InZone(now), "", "CHANGE"}}
	for _, x := range c.All {
		mark := ""
		if x.Trouble {
			mark = "!"
		}
		rows = append(rows, []string{front.FormatTime(x.At), mark, x.Text()})
	}
	if len(rows) == 1 {
		return [][]string{{"no leader has changed since " + front.FormatZoned(c.From)}}
	}
	return rows
}
