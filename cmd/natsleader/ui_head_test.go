package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

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
		testworld.Put(w.T, w.Js, "billing", strings.Repeat("x", 100))
		w.Change("KV_elections", func(c *jetstream.StreamConfig) { c.MaxBytes = 100 })
		u.NoteTrouble(errors.New("maximum bytes exceeded"))
		expect.Equal(w, worst(), "critical", "of a full bucket %s")
		w.Change("KV_elections", func(c *jetstream.StreamConfig) { c.MaxBytes = -1 })
		u.NoteTrouble(nil)
		expect.Equal(w, worst(), "warning", "of a bucket with room again %s")
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

// A user who may not read the limits of the account is asked once for each connection, and the head says what it does not know.
func TestUI_AccountDenied(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		var asked atomic.Int32
		w.Dialled = func(c net.Conn) net.Conn {
			return &deaf{c, func(b []byte) bool {
				asked.Add(int32(strings.Count(string(b), "PUB $JS.API.INFO"))) //nolint:gosec // few
				return true
			}}
		}
		defer w.Follow("serve -s nats://denied:denied@localhost")()
		w.Dialled = nil
		w.Reads("/api/elections")
		time.Sleep(time.Minute)
		expect.Equal(w, asked.Load(), 1, "it was asked for %d times")
	}, testworld.WithUser("denied", testworld.Denied("$JS.API.INFO")))
}
