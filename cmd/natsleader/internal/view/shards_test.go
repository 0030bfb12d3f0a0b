package view

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/internal/backend"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// A member that the map does not name any more is still one while its own lease runs, and while its key cannot be read. A key
// that another member has taken shows that its term is over.
func TestMember_Unnamed(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	was := MemberSummary{ID: "m2", State: facts.MemberDrained, Shards: []int{3}}
	of := func(state, id string, ago time.Duration) facts.ElectionStatus {
		value := fmt.Appendf(nil, `{"v":1,"state":%q,"id":%q,"session":"s","n":1,"lease":"15s","token":7}`, state, id)
		return facts.NewElectionStatus("orders.shard.member.m2", backend.Entry{Revision: 9, Created: now.Add(-ago), Value: value})
	}
	for what, c := range map[string]struct {
		key    facts.ElectionStatus
		unread error
		want   string
	}{
		"lives":           {of("leading", "m2", time.Second), nil, "drained true"},
		"begins again":    {of("pending", "m2", time.Second), nil, "drained true"},
		"has died":        {of("leading", "m2", 15*time.Second), nil, "gone false"},
		"has left":        {of("released", "m2", time.Second), nil, "left false"},
		"was taken":       {of("leading", "m1", time.Second), nil, "gone false"},
		"cannot be read":  {facts.ElectionStatus{}, leader.ErrUnreachable, "drained true"},
		"its key is gone": {facts.ElectionStatus{Election: "orders.shard.member.m2"}, nil, "gone false"},
	} {
		is, member := was.unnamed(c.key, c.unread, now)
		expect.Equal(t, fmt.Sprint(is.State, " ", member), c.want, what+": %s; want %s")
		expect.Equal(t, is.ID, "m2", what+": %s; want %s")
	}
}

// A view of a group remembers so many changes of members.
func TestShards_WatchRemembersFew(t *testing.T) {
	led := leader.Holder{ID: "0", State: leader.HolderLeading}
	w := &shardsWatcher{pulse: pulse{s: &inspect.Inspector{}, health: health{out: jsonLines{textLines{out: io.Discard}}}, looked: time.Now()}, newest: Sharing{Only: -1, View: shard.View{Assigner: led, Owners: []shard.Owner{{ID: "0", State: shard.OwnerWorks}}}}}
	for i := range mostRecent + 6 {
		w.newest.View.Members = append(w.newest.View.Members, shard.Peer{ID: fmt.Sprint(i), Holder: leader.Holder{ID: fmt.Sprint(i), State: leader.HolderLeading}})
		expect.OK(t, w.ticked(t.Context()))
	}
	expect.That(t, len(w.recent) == mostRecent && w.recent[mostRecent-1].ID == fmt.Sprint(mostRecent+5), "%d: %+v", len(w.recent), w.recent)
}
