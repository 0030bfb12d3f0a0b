package main

import (
	"context"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/page"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The head shows within a second what trouble brings, and takes it away as soon as the trouble is over.
func TestUI_FindingsFollowTrouble(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		u := page.NewUIState(w.Globals().NewLog())
		s := expect.Got(inspect.New(w.Context(), w.Globals()))(w)
		defer s.Close()
		ctx, end := context.WithCancel(w.Context())
		defer end()
		go u.Examine(ctx, s)
		worst := func() string {
			time.Sleep(time.Second)
			u.Mu.Lock()
			defer u.Mu.Unlock()
			return u.Heading.Findings[0].Severity
		}
		expect.Equal(w, worst(), "warning", "at first %s: one replica")
		expect.OK(w, w.Js.DeleteKeyValue(w.Context(), "elections"))
		u.NoteTrouble(leader.ErrNoBucket)
		expect.Equal(w, worst(), "critical", "without the bucket %s")
		w.Run("bucket add")
		u.NoteTrouble(nil)
		expect.Equal(w, worst(), "warning", "in the end %s")
	})
}
