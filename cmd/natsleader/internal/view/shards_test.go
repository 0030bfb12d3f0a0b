package view

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

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
