package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/internal/group"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// Changes are what has changed in all elections, the newest first.
type Changes struct {
	From time.Time `json:"from"` // nothing is known of the time before, but trouble that went on then
	All  []Changed `json:"changes"`
}

// Changed is one change of a leader or, with a State, of a key without one; or several that belong together.
type Changed struct {
	At     time.Time   `json:"at"`               // of the newest
	Began  time.Time   `json:"began"`            // the oldest
	Before bool        `json:"before,omitempty"` // it was so before that, and the history does not have since when
	From   string      `json:"from,omitempty"`
	To     string      `json:"to,omitempty"`    // empty: nobody leads
	State  facts.State `json:"state,omitempty"` // of the key, if no term began or ended
	Ended  TermEnd     `json:"ended,omitempty"` // why the leader before does not lead; unknown: it is not known who led
	Gap    float64     `json:"gap_seconds"`     // the longest time that nobody led, as far as it is known, or that is not known
	Until  time.Time   `json:"until,omitzero"`  // when it was over, if that was later
	Goes   bool        `json:"goes_on,omitempty"`
	// Silent and Unworked: Ended is expired; for how long the leader had not renewed its lease, in seconds, and for how long
	// nobody worked at least. While a group has no assigner, its members work.
	Silent    float64  `json:"silent_seconds,omitempty"`
	Unworked  float64  `json:"unworked_seconds,omitempty"`
	Trouble   bool     `json:"trouble,omitempty"`
	Elections []string `json:"elections"`

	Alone bool `json:"-"` // it has a State, and no other change has its time in its Gap

	assigner bool   // of groups, whose shards others work on
	member   bool   // of groups, whose shards others take
	more     bool   // the gap is longer than is known
	why      string // of a State
}

// In reports whether a change is one of the time from a moment on: it was made then, or it is trouble that went on then.
func (c Changed) In(from time.Time) bool {
	return !c.At.Before(from) || c.Trouble && (c.Goes || c.Until.After(from))
}

// idleLeases is for how many leases a key is free when no candidate waits for it. One that waits takes it within a lease.
const idleLeases = 10

// Changes returns each change of the leader, and each other span that the end of a term does not say. The free key of a
// one-shot job is idle, and so is that of a member of a group, which has left.
func (t Timeline) Changes(oneShot bool) []Changed {
	s := story{name: t.Election, end: t.End, oneShot: oneShot, expires: t.expires}
	s.name, s.assigner = shownAs(t.Election)
	if group.MemberOf(t.Election) != "" {
		s.member, s.oneShot = true, true
	}
	for i, x := range t.Spans {
		switch {
		case x.State == facts.Leading && facts.Takes(t.Election, x.ID): // it leads nothing
			s.vacant(Span{}, Span{State: facts.Released, Since: x.Since, Until: x.Until}, Span{})
		case x.State == facts.Leading:
			s.leads(x)
		case x.State != StateUnknown:
			var before, after Span
			if i > 0 {
				before = t.Spans[i-1]
			}
			if i+1 < len(t.Spans) {
				after = t.Spans[i+1]
			}
			s.vacant(before, x, after)
		case s.hole.State == "":
			if s.gap.State != "" {
				s.ends(x.Since)
			}
			s.hole = x
		}
	}
	return s.finish()
}

// story makes changes of the spans of an election.
type story struct {
	name     string
	end      time.Time
	assigner bool
	member   bool
	oneShot  bool
	expires  bool

	all   []Changed
	last  Span  // the last term; no ID: not known
	hole  Span  // what is not known since that
	gap   Span  // the first span without a leader since then; no State: there was none
	free  bool  // the last leader gave the key up, and nothing else held it since
	bad   bool  // the gap was trouble for another reason than its length
	alone []int // of the changes with a State in the gap
}

func (s *story) add(at time.Time, from, to string, ended TermEnd, gap time.Duration) *Changed {
	c := Changed{At: at, Began: at, From: from, To: to, Ended: ended, Gap: gap.Seconds(), Elections: []string{s.name}, assigner: s.assigner, member: s.member}
	idle := s.free && (s.oneShot || gap >= idleLeases*cmp.Or(s.last.Lease, wire.DefaultLease))
	c.Trouble = gap >= leastGap && !idle || ended == EndedExpired || ended == EndedDeleted || ended == endedOverwritten
	if ended == EndedUnknown {
		c.Trouble = gap >= leastApart
	}
	s.all = append(s.all, c)
	return &s.all[len(s.all)-1]
}

// leads takes a term.
func (s *story) leads(x Span) {
	s.last.Lease = cmp.Or(s.last.Lease, x.Lease) // a record without a leader has none
	switch {
	case s.hole.State != "":
		s.add(x.Since, s.last.ID, x.ID, EndedUnknown, x.Since.Sub(s.hole.Since))
	case s.last.ID != "":
		s.add(x.Since, s.last.ID, x.ID, s.last.Ended, x.Since.Sub(s.last.Until)).silence(s.last, x.Since)
	case s.gap.State != "":
		c := s.add(x.Since, "", x.ID, "", x.Since.Sub(s.gap.Since))
		c.Trouble, c.more = c.Trouble && s.bad, s.gap.Before
	default:
		s.add(x.Since, "", x.ID, "", 0)
	}
	s.goesOn(x)
}

// goesOn begins anew after a term, or where none is known.
func (s *story) goesOn(last Span) {
	s.last, s.hole, s.gap, s.free, s.bad, s.alone = last, Span{}, Span{}, last.Ended == EndedReleased, false, nil
}

// vacant takes a span without a leader, which is between two others. The end of a term may have its reason.
func (s *story) vacant(before, x, after Span) {
	if s.hole.State != "" {
		s.add(s.hole.Since, s.last.ID, "", EndedUnknown, x.Since.Sub(s.hole.Since)).Until = x.Since
		s.goesOn(Span{})
	}
	if s.last.ID == "" && x.former != nil {
		s.last, s.free = *x.former, x.former.Ended == EndedReleased
	}
	if s.gap.State == "" {
		s.gap = x
	}
	s.free = s.free && x.State != facts.Expired && x.State != facts.Foreign
	shown, bad := false, false
	switch x.State {
	case facts.Foreign:
		shown, bad = before.Ended != endedOverwritten, true
	case facts.Expired:
		shown, bad = before.State != facts.Leading, true
	case facts.Deleted:
		shown, bad = before.Ended != EndedDeleted, !s.free && !s.oneShot && !s.expires
	case facts.Pending:
		shown = after.State != facts.Leading || after.ID != x.ID
	case facts.Released, facts.Leading, facts.Never:
	}
	if s.bad = s.bad || bad; !shown {
		return
	}
	until := cmp.Or(x.Until, s.end)
	c := s.add(x.Since, "", "", "", until.Sub(x.Since))
	c.State, c.Before, c.more, c.Until, c.Goes, c.Trouble = x.State, x.Before, x.Before, x.Until, x.Until.IsZero(), bad
	_, c.why, _ = strings.Cut(x.vacancy(), ": ")
	s.alone = append(s.alone, len(s.all)-1)
}

// ends takes that no leader is known to have followed the last one until then.
func (s *story) ends(until time.Time) {
	counts := false
	if s.last.ID != "" && !s.last.Until.IsZero() {
		c := s.add(s.last.Until, s.last.ID, "", s.last.Ended, until.Sub(s.last.Until))
		if s.last.Ended == EndedReleased && !s.free { // what held the key after that has a change of its own
			c.Trouble = false
		}
		counts, c.Until = c.Trouble, until
		c.silence(s.last, until)
	}
	for _, i := range s.alone {
		s.all[i].Alone = !counts
	}
	s.goesOn(Span{})
}

// finish returns the changes, with what goes on.
func (s *story) finish() []Changed {
	n := len(s.all)
	if s.hole.State != "" {
		s.add(s.hole.Since, s.last.ID, "", EndedUnknown, s.end.Sub(s.hole.Since))
	} else {
		s.ends(s.end)
	}
	for i := range s.all[n:] {
		s.all[n+i].Goes, s.all[n+i].Until = true, time.Time{}
	}
	return s.all
}

// silence takes from a term whose lease ran out for how long its leader was silent until the next one led, and for how long
// nobody worked at least: a leader ends its work at the renew deadline, and may have stopped at any time before.
func (c *Changed) silence(last Span, next time.Time) {
	if last.Ended != EndedExpired || last.Renewed.IsZero() {
		return
	}
	silent := next.Sub(last.Renewed)
	if c.Silent = silent.Seconds(); !c.assigner && !c.member {
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
		state    facts.State
		why      string
		ended    TermEnd
		before   bool
		goes     bool
		trouble  bool
		assigner bool
		member   bool
	}
	groups, newest := []Changed{}, make(map[kind]int)
	for _, x := range all {
		k := kind{records.HostOf(x.From), records.HostOf(x.To), x.State, x.why, x.Ended, x.Before, x.Goes, x.Trouble, x.ofGroup(), x.member}
		i, some := newest[k]
		if !some || groups[i].Began.Sub(x.At) > leastApart {
			newest[k] = len(groups)
			groups = append(groups, x)
			continue
		}
		g := &groups[i]
		g.Began, g.Gap, g.Elections = x.At, max(g.Gap, x.Gap), append(g.Elections, x.Elections...)
		g.Silent, g.Unworked = max(g.Silent, x.Silent), max(g.Unworked, x.Unworked)
		if g.more = g.more || x.more; x.Until.After(g.Until) {
			g.Until = x.Until
		}
		if g.From != x.From {
			g.From = k.from
		}
		if g.To != x.To {
			g.To = k.to
		}
	}
	return groups
}

// ofGroup reports whether the text of a change is about a group.
func (c Changed) ofGroup() bool { return c.assigner && c.Silent > 0 && c.To != "" }

// Text describes a change in one line.
func (c Changed) Text() string {
	which, many := front.Printable(c.Elections[0]), len(c.Elections) > 1
	if many {
		which = front.Plural(len(c.Elections), map[bool]string{false: "election", true: "group"}[c.ofGroup()])
	}
	name := func(id string) string { return front.Shorten(front.Printable(cmp.Or(id, "nobody")), front.LongID) }
	gap := time.Duration(c.Gap * float64(time.Second))
	took := formatGap(gap)
	if many {
		took = "up to " + took
	}
	if c.more {
		took += " or more"
	}
	who := name(c.From) + " → " + name(c.To)
	switch {
	case c.State != "" && c.Before:
		return fmt.Sprintf("nobody leads: %s, %s, since before then", which, c.why)
	case c.State != "":
		return fmt.Sprintf("nobody leads: %s, %s", which, c.why)
	case c.Ended == "" && c.Trouble:
		return fmt.Sprintf("%s leads: %s, nobody led for %s", name(c.To), which, took)
	case c.Ended == "":
		return fmt.Sprintf("%s leads: %s", name(c.To), which)
	case c.Ended == EndedUnknown && c.From == "" && c.To == "":
		return fmt.Sprintf("not known: %s, for %s: the history misses what was written then", which, took)
	case c.Ended == EndedUnknown && c.From == "":
		return fmt.Sprintf("%s leads: %s, not known what was before: the history has no records of %s", name(c.To), which, took)
	case c.Ended == EndedUnknown && c.To == "":
		return fmt.Sprintf("%s → not known: %s, for %s: the history misses what was written then", name(c.From), which, took)
	case c.Ended == EndedUnknown:
		return fmt.Sprintf("%s: %s, not known how: the history has no records of %s", who, which, took)
	case c.To == "" && (c.Ended != EndedReleased || !c.Trouble):
		return fmt.Sprintf("%s: %s, %s", who, which, c.ending())
	case c.To == "" && c.Goes:
		return fmt.Sprintf("%s: %s, %s, nobody has led for %s", who, which, c.ending(), took)
	case c.Silent > 0 && c.member && many:
		return fmt.Sprintf("%s: %s, not renewed for up to %s", who, which, formatSeconds(c.Silent))
	case c.Silent > 0 && c.member:
		return fmt.Sprintf("%s: %s, not renewed for %s", who, which, formatSeconds(c.Silent))
	case c.Silent > 0 && c.assigner && many:
		return fmt.Sprintf("%s: %s, not renewed for up to %s, so no shard could move for up to as long", who, which, formatSeconds(c.Silent))
	case c.Silent > 0 && c.assigner:
		return fmt.Sprintf("%s: %s, not renewed for %s, so no shard could move for up to %s", who, which, formatSeconds(c.Silent), formatSeconds(c.Silent))
	case c.Silent > 0 && many:
		return fmt.Sprintf("%s: %s, not renewed for up to %s, so nobody worked for up to as long", who, which, formatSeconds(c.Silent))
	case c.Silent > 0:
		return fmt.Sprintf("%s: %s, not renewed for %s, so nobody worked for %s to %s", who, which, formatSeconds(c.Silent), formatSeconds(c.Unworked), formatSeconds(c.Silent))
	case gap < leastGap:
		return fmt.Sprintf("%s: %s, %s, a gap of %s", who, which, c.ending(), took)
	case !c.Trouble:
		return fmt.Sprintf("%s: %s, idle for %s", who, which, took)
	}
	return fmt.Sprintf("%s: %s, %s, nobody led for %s", who, which, c.ending(), took)
}

// formatGap formats a time without a leader, of which a handover takes milliseconds.
func formatGap(d time.Duration) string {
	if d < leastGap {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return front.FormatAge(d)
}

func formatSeconds(s float64) string { return formatGap(time.Duration(s * float64(time.Second))) }

// ending describes why a leader does not lead any more.
func (c Changed) ending() string {
	switch c.Ended {
	case EndedReleased:
		return "handed over"
	case EndedExpired:
		return "the lease ran out"
	case EndedDeleted, endedOverwritten, endedTaken, EndedReplaced, EndedUnknown:
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
