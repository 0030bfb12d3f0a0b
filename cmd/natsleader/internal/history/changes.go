package history

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/internal/group"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

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
