package view

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	expect "github.com/natsleader/natsleader/internal/check"
)

// The key of a one-shot job that was deleted is no trouble.
func TestWatched_OneShotIsIdle(t *testing.T) {
	for oneShot, want := range map[bool]Trouble{false: TroubleDeleted, true: TroubleIdle} {
		x := &Watched{Now: facts.ElectionStatus{Note: facts.Note{OneShot: oneShot}}, As: facts.Deleted}
		expect.Equal(t, x.TroubleOf(time.Now(), nil), want, "trouble %d")
	}
}
