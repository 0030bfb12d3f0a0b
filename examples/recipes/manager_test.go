package recipes_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// manager can be started once.
type manager interface {
	Start(ctx context.Context) error // returns when ctx has ended, and all that it runs
}

// managed runs a new manager in each term. A manager that fails hands over, and its error ends the process.
func managed(c *leader.Candidate, newManager func() (manager, error)) error {
	for term := range c.Terms() {
		m, err := newManager()
		if err == nil {
			err = m.Start(term.Context())
		}
		if err != nil && leader.Err(term.Context()) == nil { // not because the term has ended
			return err
		}
	}
	return c.Err()
}

// once is a manager that works for as long.
type once struct {
	started bool
	broken  <-chan error
}

func (m *once) Start(ctx context.Context) error {
	if m.started {
		return errors.New("started twice")
	}
	m.started = true
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-m.broken:
		return err
	}
}

// Each term has a manager of its own, also after a loss. The next process leads when a manager has failed.
func TestManaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		broken, ended, made := make(chan error), make(chan error, 1), 0
		a := check.Got(leader.Campaign(t.Context(), store.Link("a"), "manager", leader.Config{ID: "a"}))(t)
		go func() {
			ended <- managed(a, func() (manager, error) { made++; return &once{broken: broken}, nil })
		}()
		time.Sleep(time.Minute)
		store.Link("a").Cut()
		time.Sleep(time.Minute)
		check.That(t, !a.IsLeader(), "it leads when it is cut off")
		store.Link("a").Restore()
		time.Sleep(time.Minute)
		synctest.Wait()
		check.That(t, a.IsLeader() && made == 2, "%d managers were made", made)
		b := check.Got(leader.Campaign(t.Context(), store.Link("b"), "manager", leader.Config{ID: "b"}))(t)
		synctest.Wait()
		failed := errors.New("failed")
		broken <- failed
		check.Is(t, <-ended, failed)
		synctest.Wait()
		check.That(t, b.IsLeader(), "the next does not lead")
		check.OK(t, a.Stop())
		check.OK(t, b.Stop())
	})
}
