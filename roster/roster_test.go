package roster_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

// lists are those of an observer, which the test reads when it wants to.
type lists struct {
	*testing.T
	from <-chan []roster.Entry
}

// next reads a list, which must name these candidates, if there is one now.
func (l lists) next(want string) {
	l.Helper()
	synctest.Wait()
	got := "nothing"
	select {
	case all, open := <-l.from:
		got = "the end"
		if open {
			got = ""
			for _, e := range all {
				got += e.ID
			}
		}
	default:
	}
	check.Equal(l, got, want, "the observer reports %s")
}

// An observer reports the candidates that wait at once, also if there is none, and then each change once. It
// leaves out the holder, also while its announcement stands. A reader that was slow gets the newest list. A
// view that has ended is opened again after each second. The end of the context or the connection ends the lists.
func TestObserve_EachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		eye := store.Link("eye")
		observe := func(ctx context.Context) lists { return lists{t, check.Got(roster.Observe(ctx, eye, "e"))(t)} }
		stand := func(id string, priority int) *leader.Candidate {
			cfg := leader.Config{ID: id, Succession: leader.Queue{Priority: priority}}
			c := check.Got(leader.Campaign(t.Context(), store.Link(id), "e", cfg))(t)
			synctest.Wait()
			return c
		}
		l := observe(t.Context())
		l.next("")
		l.next("nothing")
		a := stand("a", 0)
		stand("b", 1)
		l.next("b")
		c := stand("c", 2)
		l.next("cb")
		check.OK(t, a.Proclaim(t.Context(), []byte("a holder that changes")))
		l.next("nothing")
		store.Link("c").LoseAnnouncements(1) // its withdrawal
		check.OK(t, a.Resign(t.Context()))
		l.next("b")
		time.Sleep(time.Minute)
		l.next("ba")
		check.OK(t, c.Stop(t.Context()))
		synctest.Wait()
		stand("d", 3)
		l.next("da")
		l.next("nothing")
		eye.FailViews(2, leader.ErrUnreachable)
		eye.EndViews(leader.ErrUnreachable)
		stand("e", 4)
		time.Sleep(2*time.Second - 1)
		l.next("nothing")
		time.Sleep(time.Nanosecond)
		l.next("eda")
		ctx, end := context.WithCancel(t.Context())
		other := observe(ctx)
		end()
		other.next("the end")
		eye.FailViews(1, leader.ErrNoRoster)
		check.Is(t, check.Err(roster.Observe(t.Context(), eye, "e")), leader.ErrNoRoster)
		eye.Close()
		l.next("the end")
	})
}
