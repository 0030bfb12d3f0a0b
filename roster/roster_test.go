package roster_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/deadline"
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

// eye is a link that counts its open views.
type eye struct {
	*leadertest.Link
	views *atomic.Int32
}

func (e eye) Backend() backend.Store { return counting{e.Link.Backend(), e.views} }

type counting struct {
	backend.Store
	views *atomic.Int32
}

func (c counting) View(ctx context.Context, election string, deliver func(backend.Announcement), reply func(backend.Feed, error)) {
	c.Store.View(ctx, election, deliver, func(f backend.Feed, err error) {
		if err != nil {
			reply(nil, err)
			return
		}
		c.views.Add(1)
		reply(stopping{f, sync.OnceFunc(func() { c.views.Add(-1) })}, nil)
	})
}

type stopping struct {
	backend.Feed
	stopped func()
}

func (s stopping) Stop() {
	s.Feed.Stop()
	s.stopped()
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
			cfg := leader.Config{ID: id, Queue: &leader.Queue{Priority: priority}}
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
		check.OK(t, leadertest.Led(a).Proclaim(t.Context(), []byte("a holder that changes")))
		l.next("nothing")
		store.Link("c").LoseAnnouncements(1) // its withdrawal
		check.OK(t, leadertest.Resign(t.Context(), a))
		l.next("b")
		time.Sleep(time.Minute)
		l.next("ba")
		check.OK(t, c.Stop())
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

// An observer reports nothing before its view is complete, also when it knows the holder. It tries to open a view
// again until its context ends, and then leaves neither a view nor the limit of a call behind.
func TestObserve_LeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := deadline.Held()
		e := eye{leadertest.NewStore(nil).Link("eye"), new(atomic.Int32)}
		e.DelayFeed(time.Second)
		var all []lists
		ctx, end := context.WithCancel(t.Context())
		for range 2 {
			all = append(all, lists{t, check.Got(roster.Observe(ctx, e, "e"))(t)})
		}
		for _, l := range all {
			l.next("nothing")
		}
		time.Sleep(time.Second)
		for _, l := range all {
			l.next("")
		}
		e.FailViews(1, leader.ErrUnreachable)
		e.EndViews(leader.ErrUnreachable)
		synctest.Wait()
		check.Equal(t, e.views.Load(), 1, "%d views are open while one cannot be opened")
		time.Sleep(2 * time.Second)
		check.Equal(t, e.views.Load(), 2, "%d views are open")
		e.FailViews(1, leader.ErrUnreachable)
		e.EndViews(leader.ErrUnreachable)
		synctest.Wait()
		end()
		for _, l := range all {
			l.next("the end")
		}
		check.Equal(t, e.views.Load(), 0, "%d views are left")
		check.Equal(t, deadline.Held(), before, "%d limits are held")
	})
}

// mute is a link that does not answer the next so many requests for a view.
type mute struct {
	*leadertest.Link
	views *atomic.Int32
}

func (m mute) Backend() backend.Store { return unanswered{m.Link.Backend(), m.views} }

type unanswered struct {
	backend.Store
	views *atomic.Int32
}

func (u unanswered) View(ctx context.Context, election string, deliver func(backend.Announcement), reply func(backend.Feed, error)) {
	if u.views.Add(-1) >= 0 {
		context.AfterFunc(ctx, func() { reply(nil, leader.ErrUnreachable) })
		return
	}
	u.Store.View(ctx, election, deliver, reply)
}

// A view that is not answered is given up: the first one is an error then, and a later one is tried again.
func TestObserve_SilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		m := mute{store.Link("eye"), new(atomic.Int32)}
		stand := func(id string) {
			check.Got(leader.Campaign(t.Context(), store.Link(id), "e", leader.Config{ID: id, Queue: &leader.Queue{}}))(t)
			synctest.Wait()
		}
		stand("a")
		m.views.Store(1)
		from := time.Now()
		ctx, end := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, end)
		check.Is(t, check.Err(roster.Observe(ctx, m, "e")), leader.ErrUnreachable)
		check.Equal(t, time.Since(from), deadline.Default, "it took %v")
		l := lists{t, check.Got(roster.Observe(t.Context(), m, "e"))(t)}
		l.next("")
		m.views.Store(1)
		m.EndViews(leader.ErrUnreachable)
		stand("b")
		time.Sleep(deadline.Default + time.Second - 1)
		l.next("nothing")
		time.Sleep(time.Nanosecond)
		l.next("b")
	})
}

// Lookup returns what each candidate announces, and closes its view.
func TestLookup_Entries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		from := time.Now().Round(0).UTC() // as an entry has it
		for i, q := range []leader.Queue{{Priority: 9}, {Priority: 2, Preempt: true}} {
			id := string(rune('a' + i))
			cfg := leader.Config{ID: id, Value: []byte("at " + id), Queue: &q}
			check.Got(leader.Campaign(t.Context(), store.Link(id), "e", cfg))(t)
			time.Sleep(time.Minute)
		}
		e := eye{store.Link("eye"), new(atomic.Int32)}
		all := check.Got(roster.Lookup(t.Context(), e, "e"))(t)
		check.Must(t, len(all) == 1, "%+v", all)
		check.Deep(t, all[0], roster.Entry{ID: "b", Value: []byte("at b"), Priority: 2, Preempt: true, Since: from.Add(time.Minute)})
		check.Equal(t, e.views.Load(), 0, "%d views are left")
	})
}

// Lookup and Observe return why they fail. Lookup has as long as any call of a Store.
func TestLookup_Errors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before, e := deadline.Held(), leadertest.NewStore(nil).Link("eye")
		lookup := func() error { return check.Err(roster.Lookup(t.Context(), e, "e")) }
		for _, name := range []string{"", "a b"} {
			check.Is(t, check.Err(roster.Lookup(t.Context(), e, name)), leader.ErrInvalidConfig)
			check.Is(t, check.Err(roster.Observe(t.Context(), e, name)), leader.ErrInvalidConfig)
		}
		e.FailViews(1, leader.ErrNoRoster)
		check.Is(t, lookup(), leader.ErrNoRoster)
		e.DelayFeed(time.Hour)
		from := time.Now()
		err := lookup()
		check.Is(t, err, leader.ErrUnreachable)
		check.Is(t, err, context.DeadlineExceeded)
		check.Equal(t, time.Since(from), deadline.Default, "it took %v")
		time.AfterFunc(time.Second, func() { e.EndViews(leader.ErrPermission) })
		check.Is(t, lookup(), leader.ErrPermission)
		check.Equal(t, deadline.Held(), before, "%d limits are held")
	})
}
