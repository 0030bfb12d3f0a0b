package view

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	expect "github.com/natsleader/natsleader/internal/check"
)

// The key of a one-shot job that was deleted is no trouble.
func TestWatched_OneShotIsIdle(t *testing.T) {
	for oneShot, want := range map[bool]Trouble{false: TroubleDeleted, true: TroubleIdle} {
		x := &Watched{Now: inspect.ElectionStatus{Note: inspect.ElectionNote{OneShot: oneShot}}, As: inspect.StateDeleted}
		expect.Equal(t, x.TroubleOf(time.Now(), nil), want, "trouble %d")
	}
}
