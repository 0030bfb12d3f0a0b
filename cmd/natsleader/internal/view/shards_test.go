package view

import (
	"fmt"
	"io"
	"testing"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// A view of a group remembers so many changes of members.
func TestShards_WatchRemembersFew(t *testing.T) {
	w := &shardsWatcher{s: &inspect.Inspector{}, newest: Sharing{Only: -1}, out: jsonLines{textLines{out: io.Discard}}}
	for i := range mostRecent + 6 {
		w.newest.View.Members = append(w.newest.View.Members, shard.Peer{ID: fmt.Sprint(i)})
		expect.OK(t, w.ticked(t.Context()))
	}
	expect.That(t, len(w.recent) == mostRecent && w.recent[mostRecent-1].ID == fmt.Sprint(mostRecent+5), "%d: %+v", len(w.recent), w.recent)
}

// What gives shards an owner depends on the members that live: one that takes shards will take them, and otherwise each reason
// why none does has its remedy.
func TestSharing_Remedy(t *testing.T) {
	peer := func(id string, most int, drained bool) shard.Peer {
		return shard.Peer{ID: id, Most: most, Drained: drained, Holder: leader.Holder{ID: id, State: leader.HolderLeading}}
	}
	for want, members := range map[string][]shard.Peer{
		"start members": {{ID: "a", Holder: leader.Holder{State: leader.HolderExpired}}},
		"let drained members take shards again (natsleader undrain b), or start members":                       {peer("b", 0, true)},
		"raise Most of a, or start members":                                                                    {peer("a", 3, false)},
		"let drained members take shards again (natsleader undrain b c), or raise Most of a, or start members": {peer("a", 3, false), peer("b", 0, true), peer("c", 1, true)},
		"look again after the lease and the Hold of the members; if it stays, see their logs":                  {peer("a", 0, false), peer("b", 0, true)},
	} {
		x := Sharing{Group: "orders", View: shard.View{Members: members}}
		expect.Equal(t, x.Remedy(), want, "%q; want %q")
	}
}
