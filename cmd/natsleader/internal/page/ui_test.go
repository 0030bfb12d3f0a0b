package page

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/history"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// A page names the elections for which nobody worked longest, and then those of which least is known. The others are one.
func TestUI_WorstUnworked(t *testing.T) {
	var all []webpage.Unworked
	for i := range mostUnworked {
		all = append(all, webpage.Unworked{Election: fmt.Sprint("e", i), Least: 1, Most: 2})
	}
	rest := []webpage.Unworked{{Election: "x", Least: 1, Most: 1, Unknown: 9, Goes: 1}, {Election: "y", Unknown: 20}, {Election: "z", Unknown: 7, Blind: true}}
	got := worst(append(rest, all...))
	expect.That(t, len(got) == mostUnworked+1 && got[0].Election == "e0", "%d, the first of %+v", len(got), got[0])
	expect.Equal(t, got[mostUnworked], webpage.Unworked{Others: 3, Least: 1, Most: 1, Unknown: 20, Goes: 1, Blind: true}, "the others are %+v")
	expect.That(t, len(worst(all)) == mostUnworked && worst(rest)[1].Election == "y", "%+v", rest)
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
	var g sharing
	take := func(v shard.View, at int64) *webpage.Sharing {
		g.take(view.Sharing{Group: "orders", Only: -1, View: v}, judge.Around{Now: time.UnixMilli(at)})
		return g.shown
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
	expect.That(t, g.shown == nil && g.is.Code == judge.GroupEmpty && take(first, 9001).Since == 9001, "what nothing is known of: %+v", g)
	lost := first // the owner of a shard works on while its part of the map is lost
	lost.Owners, lost.Lost = append([]shard.Owner{{}}, first.Owners[1:]...), []int{0}
	for i, v := range []shard.View{lost, first} {
		got = take(v, int64(9002+i))
		expect.That(t, got.NoOwner == 1 && len(got.Steps) == 0, "while the map is lost, and afterwards: %+v", got)
	}
}
