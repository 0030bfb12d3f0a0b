package migration_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/natsleader/natsleader/health"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// callbacks are those of client-go.
type callbacks struct {
	onStartedLeading func(context.Context)
	onStoppedLeading func()
	onNewLeader      func(identity string)
}

func runOrDie(ctx context.Context, store leader.Store, identity string, on callbacks, mux *http.ServeMux) error {
	c, err := leader.Campaign(ctx, store, "my-controller", leader.Config{
		ID:            identity,
		LeaseDuration: 15 * time.Second,
		RenewDeadline: 10 * time.Second,
		RenewInterval: 2 * time.Second, // RetryPeriod
	})
	if err != nil {
		panic(err)
	}
	mux.Handle("/healthz", health.Live(c)) // NewLeaderHealthzAdaptor
	go func() {
		for event := range c.Events(ctx) { // looks on
			if e, ok := event.(leader.Observed); ok && e.Holder.State == leader.HolderLeading {
				on.onNewLeader(e.Holder.ID)
			}
		}
	}()
	for term := range c.Terms() {
		on.onNewLeader(c.ID())
		on.onStartedLeading(term.Context()) // returns when the context has ended
		on.onStoppedLeading()               // once for each onStartedLeading; many exit here
	}
	return c.Err()
}

// The callbacks of client-go have their counterparts.
func TestClientGo_Callbacks(t *testing.T) {
	f := newFake(t)
	b, w := f.stand("my-controller", "b")
	w.Expect(leadertest.Elected())
	started, told, mux := make(chan context.Context), make(chan string, 100), http.NewServeMux()
	f.serve("a", func(ctx context.Context, store leader.Store) error {
		return runOrDie(ctx, store, "a", callbacks{
			onStartedLeading: func(ctx context.Context) { started <- ctx; <-ctx.Done() },
			onStoppedLeading: func() { told <- "stopped" },
			onNewLeader:      func(identity string) { told <- identity },
		}, mux)
	})
	if first := <-told; first != "b" {
		t.Fatal(first)
	}
	check.OK(t, leadertest.Resign(t.Context(), b))
	if next := <-told; next != "a" {
		t.Fatal(next)
	}
	term := <-started
	f.store.Link("a").Cut()
	f.clock.Advance(10*time.Second - 1)
	if leader.Err(term) != nil {
		t.Fatal("fenced before RenewDeadline")
	}
	f.clock.Advance(1)
	if cause := context.Cause(term); !errors.Is(cause, leader.ErrLeaseExpired) {
		t.Fatal(cause)
	}
	if next := <-told; next != "stopped" {
		t.Fatal(next)
	}
	f.clock.Advance(5 * time.Second)
	w.Expect(leadertest.Elected()) // LeaseDuration after the last renewal, if not sooner
	answer := httptest.NewRecorder()
	f.clock.Advance(time.Minute)
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	if answer.Code != http.StatusOK {
		t.Errorf("cut off for longer than a lease: %d", answer.Code)
	}
	f.store.Link("a").Restore()
	f.clock.Advance(time.Minute)
	if next := <-told; next != "b" {
		t.Error(next)
	}
}
