// Package recipes_test holds the code of docs/recipes.md, word for word, and runs it.
package recipes_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pool works on a term with several goroutines. The first error ends all of them.
func pool(lead context.Context, workers int, item func(context.Context) error) error {
	group, ctx := errgroup.WithContext(lead)
	for range workers {
		group.Go(func() error {
			for {
				if err := leader.Err(ctx); err != nil { // asks the clock; ctx.Err may be late
					return err
				}
				if err := item(ctx); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait() // the body of the loop ends after the last goroutine
}

// An error of one goroutine ends all of a pool, and so does the end of the term.
func TestPool_EndsTogether(t *testing.T) {
	broken := errors.New("broken")
	var items atomic.Int32
	err := pool(leadertest.NewTerm(t, leader.Config{}).Context(), 4, func(context.Context) error {
		if items.Add(1) == 10 {
			return broken
		}
		return nil
	})
	check.That(t, errors.Is(err, broken), "%v", err)
	term := leadertest.NewTerm(t, leader.Config{})
	items.Store(0)
	err = pool(term.Context(), 4, func(context.Context) error {
		if items.Add(1) == 1 {
			term.End(leader.ErrLeaseExpired)
		}
		return nil
	})
	check.That(t, errors.Is(err, leader.ErrLeaseExpired), "%v", err)
}
