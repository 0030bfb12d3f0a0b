// Package migration_test holds the code of docs/migration.md. The page's code of this
// library stands here word for word, and the tests run it. With a fake clock they check
// the claims of the page.
package migration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// mainTests runs the tests with the server's access time service, which is never
// stopped by the server that started it.
type mainTests struct{ *testing.M }

func (m mainTests) Run() int {
	ats.Register()
	defer ats.Unregister()
	return m.M.Run()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(mainTests{m}) }

// fake is a store in a time of its own.
type fake struct {
	t     *testing.T
	clock *leadertest.Clock
	store *leadertest.Store
}

func newFake(t *testing.T) fake {
	t.Helper()
	clock := leadertest.NewClock()
	return fake{t, clock, leadertest.NewStore(clock)}
}

// serve runs code of the page over the link of that name, until the end of the test, and
// requires that it ends without an error.
func (f fake) serve(link string, shown func(context.Context, leader.Store) error) {
	f.t.Helper()
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	store := f.store.Link(link)
	go func() {
		defer close(ended)
		if err := shown(ctx, store); err != nil && !f.t.Failed() {
			f.t.Errorf("%s: %v", link, err)
		}
	}()
	f.t.Cleanup(func() {
		cancel()
		if f.t.Failed() {
			store.Close() // whatever it waits for
		}
		<-ended
	})
}

// stand starts another candidate, and ends it with the test.
func (f fake) stand(election, id string) (*leader.Candidate, *leadertest.Watcher) {
	f.t.Helper()
	c, err := leader.Campaign(context.Background(), f.store.Link(id), election, leader.Config{ID: id})
	if err != nil {
		f.t.Fatal(err)
	}
	return c, leadertest.Watch(f.t, f.clock, c)
}

// elected blocks until c leads, by its events.
func elected(ctx context.Context, c *leader.Candidate) (*leader.Term, error) {
	for event := range c.Events(ctx) {
		if e, ok := event.(leader.Elected); ok && leader.Err(e.Term.Context()) == nil {
			return e.Term, nil
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, errors.Join(leader.ErrNotLeader, c.Err())
}

// await returns when c leads. The cause of that is on a goroutine of the page, for which
// the clock does not wait.
func await(t *testing.T, c *leader.Candidate) *leader.Term {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	term, err := elected(ctx, c)
	check.OK(t, err)
	return term
}
