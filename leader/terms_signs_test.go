package leader_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// logged runs use with a candidate whose RenewInterval is 1500 ms, and returns how many of its warnings begin with a text.
func logged(t *testing.T, text string, use func(c *leader.Candidate)) (n int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var log lines
		cfg := leader.Config{LeaseDuration: 9 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))}
		c := check.Got(leader.Campaign(t.Context(), leadertest.NewStore(nil).Link("a"), "e", cfg))(t)
		use(c)
		_ = c.Stop()
		n = strings.Count(log.text.String(), `msg="`+text)
	})
	return n
}

// Bodies that return at once, three in a row, are told once. Their terms end with a cause of their own.
func TestTerms_WorkReturnsAtOnce(t *testing.T) {
	for _, c := range []struct {
		bodies []time.Duration
		want   int
	}{
		{[]time.Duration{0, 0}, 0},
		{[]time.Duration{0, 0, 0, 0, 0}, 1},
		{[]time.Duration{0, 1400 * time.Millisecond, 0}, 1},
		{[]time.Duration{0, 0, 1500 * time.Millisecond, 0, 0}, 0},
		{[]time.Duration{0, 0, 1500 * time.Millisecond, 0, 0, 0}, 1},
	} {
		n := logged(t, "the work returns at once", func(candidate *leader.Candidate) {
			terms := 0
			for term := range candidate.Terms() {
				time.Sleep(c.bodies[terms])
				if terms++; terms == len(c.bodies) {
					time.AfterFunc(time.Second, func() { _ = candidate.Stop() }) // after the term: a Stop that ends it is no sign of work that returns
				}
				go func() {
					<-term.Context().Done()
					cause := leader.Err(term.Context())
					check.That(t, errors.Is(cause, leader.ErrResigned) && strings.Contains(cause.Error(), "the work of the term has returned"), "%v", cause)
				}()
			}
		})
		check.Equal(t, n, c.want, "%v: %d warnings", c.bodies)
	}
}

// Work that begins by Go in a body that returns is the work of the term, and so is a body that resigns.
func TestTerms_WorkByGo(t *testing.T) {
	n := logged(t, "the work returns at once", func(c *leader.Candidate) {
		time.AfterFunc(5*time.Minute, func() { _ = c.Stop() })
		for term := range c.Terms() {
			term.Go(func(context.Context) { time.Sleep(10 * time.Second) })
		}
	})
	check.Equal(t, n, 0, "%d warnings")
}

// A loop that begins while the body of another runs, perhaps in that body, is told once. A loop after another is not.
func TestTerms_LoopInABody(t *testing.T) {
	const text = "a loop over Terms begins beside the body of another"
	check.Equal(t, logged(t, text, func(c *leader.Candidate) {
		time.AfterFunc(time.Minute, func() { _ = c.Stop() })
		for range c.Terms() {
			for range 2 {
				for range c.Terms() { // until the candidate has ended
					t.Error("a term in a term")
				}
			}
		}
	}), 1, "%d warnings")
	check.Equal(t, logged(t, text, func(c *leader.Candidate) {
		for range 2 {
			for range c.Terms() {
				break
			}
		}
	}), 0, "%d warnings")
}
