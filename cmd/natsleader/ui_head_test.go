package main

import (
	"context"
	"errors"
	"fmt"
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

// The head names the server of the connection, also while nothing can be read through it.
func TestUI_HeadFollowsConnection(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		u := page.NewUIState(w.Globals().NewLog())
		u.S = expect.Got(inspect.New(w.Context(), w.Globals()))(w)
		defer u.S.Close()
		shows := func(what, server string, lost bool, fact string) {
			time.Sleep(5 * time.Second)
			u.NoteTrouble(errors.New("no majority"))
			u.Mu.Lock()
			defer u.Mu.Unlock()
			h := u.Heading
			expect.That(w, h.Server == server && h.Lost == lost && fmt.Sprint(h.Facts[0]) == fact, what+": %+v", h)
		}
		shows("at first", "n1", false, "{server n1 }")
		w.S.Shutdown()
		w.S.WaitForShutdown()
		shows("without a server", "n1", true, "{server  there is no connection}")
		w.O.ServerName = "n2"
		w.Restart()
		shows("in the end", "n2", false, "{server n2 }")
	})
}
