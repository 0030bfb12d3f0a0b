package page

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/history"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// For how long nobody worked since a moment is what is trouble and known: not a handover, not a key that nobody wants, not what
// the history misses. A leader that has died may have worked until its renew deadline. Elections of groups have no part in it.
func TestUI_Unworked(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const m, s = time.Minute, time.Second
	term := func(since, until time.Duration, ended history.TermEnd, renewed time.Duration) history.Span {
		x := history.Span{State: facts.Leading, ID: "a", Since: ago(since), Until: ago(until), Ended: ended, Lease: 15 * s}
		if renewed > 0 {
			x.Renewed = ago(renewed)
		}
		return x
	}
	led := history.Span{State: facts.Leading, ID: "b", Since: ago(10 * m)}
	for what, c := range map[string]struct {
		spans       []history.Span
		since       time.Duration
		least, most time.Duration
		goes        bool
	}{
		"handed over":           {[]history.Span{term(20*m, 10*m+5*time.Millisecond, history.EndedReleased, 0), led}, time.Hour, 0, 0, false},
		"idle":                  {[]history.Span{term(40*m, 30*m, history.EndedReleased, 0), led}, time.Hour, 0, 0, false},
		"given up":              {[]history.Span{term(40*m, 30*m, history.EndedReleased, 0)}, time.Hour, 0, 0, false},
		"deleted":               {[]history.Span{term(40*m, 11*m, history.EndedDeleted, 0), led}, time.Hour, m, m, false},
		"died":                  {[]history.Span{term(40*m, 11*m, history.EndedExpired, 11*m+15*s), led}, time.Hour, m + 3*s, m + 15*s, false},
		"died before":           {[]history.Span{term(40*m, 11*m, history.EndedExpired, 11*m+15*s), led}, 10*m + 30*s, 30 * s, 30 * s, false},
		"died long before":      {[]history.Span{term(40*m, 11*m, history.EndedExpired, 11*m+15*s), led}, 5 * m, 0, 0, false},
		"died, none has it yet": {[]history.Span{term(40*m, 2*m, history.EndedExpired, 2*m+15*s), {State: facts.Expired, Since: ago(2 * m)}}, time.Hour, 2*m + 3*s, 2*m + 15*s, true},
		"foreign":               {[]history.Span{{State: facts.Foreign, Since: ago(11 * m)}}, time.Hour, 11 * m, 11 * m, true},
		"foreign before":        {[]history.Span{{State: facts.Foreign, Before: true, Since: ago(40 * m)}}, 10 * m, 10 * m, 10 * m, true},
		"foreign, and deleted":  {[]history.Span{{State: facts.Foreign, Since: ago(40 * m), Until: ago(11 * m)}, {State: facts.Deleted, Since: ago(11 * m)}}, time.Hour, 40 * m, 40 * m, true},
		"foreign, then led":     {[]history.Span{{State: facts.Foreign, Since: ago(11 * m), Until: ago(10 * m)}, led}, time.Hour, m, m, false},
		"free, and foreign":     {[]history.Span{term(40*m, 30*m, history.EndedReleased, 0), {State: facts.Foreign, Since: ago(20 * m)}}, time.Hour, 20 * m, 20 * m, true},
		"free, foreign, led":    {[]history.Span{term(40*m, 30*m, history.EndedReleased, 0), {State: facts.Foreign, Since: ago(20 * m), Until: ago(10 * m)}, led}, time.Hour, 20 * m, 20 * m, false},
		"missed":                {[]history.Span{term(40*m, 30*m, history.EndedUnknown, 0), {State: history.StateUnknown, Since: ago(30 * m), Until: ago(10 * m)}, led}, time.Hour, 0, 0, false},
	} {
		got := unworked(history.Timeline{Election: "billing", Spans: c.spans, End: now}, false, ago(c.since))
		expect.Equal(t, got, webpage.Unworked{Election: "billing", Least: c.least.Milliseconds(), Most: c.most.Milliseconds(), Goes: c.goes}, what+": %+v")
	}
}

// A page that asks for the time since a moment gets a week more than the changes that it asks for at most.
func TestUI_Earliest(t *testing.T) {
	now := time.Now()
	for since, want := range map[time.Duration]time.Duration{-time.Second: 0, time.Second: time.Second, longestPast: longestPast, longestPast + 1: longestPast} {
		expect.Equal(t, now.Sub(earliest(now, now.Add(-since))), want, "%v")
	}
	expect.Equal(t, earliest(now, time.Time{}), now, "without such a moment %v")
}

// A line names the first elections of a change.
func TestUI_PastNamesFew(t *testing.T) {
	var names []string
	for i := range namesInLine + 2 {
		names = append(names, fmt.Sprint("e", i))
	}
	got := linesOf(history.Changes{All: []history.Changed{{Elections: names}}})
	expect.Equal(t, got[0].Elections, "e0, e1, e2, e3, e4, e5, e6, e7, e8, e9 and 2 more", "%s")
}

// Pages get how many of its shards each member works on, has not begun, waits for, still has to release, and had when it went,
// and each change with its time. Of many changes they get the newest, and know nothing of the time before.
func TestUI_GroupShown(t *testing.T) {
	peer := func(id string, drained, gone bool) shard.Peer {
		p := shard.Peer{ID: id, Drained: drained, Weight: 1, Holder: leader.Holder{ID: id, State: leader.HolderLeading}}
		if gone {
			p.Holder.State = leader.HolderExpired
		}
		return p
	}
	owner := func(id string, state shard.OwnerState) shard.Owner { return shard.Owner{ID: id, State: state} }
	works := shard.OwnerWorks
	first := shard.View{
		Members: []shard.Peer{peer("h_1_a", false, false), peer("b", false, false), peer("d", false, false)},
		Owners:  []shard.Owner{owner("h_1_a", works), owner("h_1_a", works), owner("h_1_a", works), owner("b", works), owner("d", works), owner("", 0)},
	}
	c := peer("c", false, false)
	c.Weight, c.Most, c.Hold, c.Value = 2, 3, time.Minute, []byte("\u202e")
	drained, gone := peer("h_1_a", true, false), peer("b", false, true)
	drained.Late, gone.Late = []int{1}, []int{3}
	second := shard.View{
		Members: []shard.Peer{drained, gone, c},
		Owners: []shard.Owner{
			owner("h_1_a", works), {ID: "c", State: shard.OwnerWaits, From: "h_1_a"}, owner("c", shard.OwnerGranted), owner("b", shard.OwnerIsGone), owner("", 0), owner("c", works),
		},
	}
	var g Group
	take := func(v shard.View, at int64) *webpage.Sharing {
		g.take(view.Sharing{Group: "orders", Only: -1, View: v}, judge.Around{Now: time.UnixMilli(at)})
		return g.sharing
	}
	shows := func(got *webpage.Sharing, want webpage.Sharing) {
		t.Helper()
		is, wanted := expect.Got(json.Marshal(got))(t), expect.Got(json.Marshal(want))(t)
		expect.Equal(t, string(is), string(wanted), "%s")
	}
	got := take(first, 1000)
	const short = "the other members of group orders take 0 of 6 shards, so 6 would have no owner"
	shows(got, webpage.Sharing{Shards: 6, NoOwner: 1, Since: 1000, Members: []webpage.Member{
		{ID: "h_1_a", Host: "h", State: "lives", Works: 3, Numbers: "0-2"}, {ID: "b", State: "lives", Works: 1, Numbers: "3"}, {ID: "d", State: "lives", Works: 1, Numbers: "4"},
	}})
	got = take(second, 2000)
	shows(got, webpage.Sharing{Shards: 6, NoOwner: 1, Since: 1000, Members: []webpage.Member{
		{ID: "h_1_a", Host: "h", State: "drained", Works: 1, Leaving: 1, Numbers: "0", More: "late work on 1"},
		{ID: "b", State: "gone", Gone: 1, Numbers: "3"},
		{ID: "c", State: "lives", Works: 1, Waits: 1, NotBegun: 1, Numbers: "1-2,5", More: `weight 2, at most 3, holds them for 1m0s, \u202e`, Shortage: short},
	}, Steps: []webpage.Step{
		{At: 2000, Text: "h_1_a is drained"},
		{At: 2000, Text: "b is gone (it had 1 shard)", Trouble: true},
		{At: 2000, Text: "c has joined"},
		{At: 2000, Text: "d is no member any more"},
		{At: 2000, Text: "h_1_a → c: 2 shards, 1-2", Moved: 2, From: "h_1_a", To: "c"},
		{At: 2000, Text: "d → no owner: 1 shard, 4", Moved: 1, From: "d", Trouble: true},
		{At: 2000, Text: "no owner → c: 1 shard, 5", Moved: 1, To: "c"},
	}})
	for i := range int64(mostSteps) {
		second.Members[0].Drained = i%2 == 1
		got = take(second, 3000+i)
	}
	expect.That(t, len(got.Steps) == mostSteps && got.Since == 2000 && got.Steps[0].At == 3000, "in the end %+v", got)
	take(shard.View{}, 9000)
	expect.That(t, g.sharing == nil && g.is.Code == judge.GroupEmpty && take(first, 9001).Since == 9001, "what nothing is known of: %+v", g)
}
