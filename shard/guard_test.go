package shard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// guarded is a group of two shards, each with a guard of its own in the bucket of the group.
type guarded struct {
	*testing.T
	*leadertest.Store
	logs   logs
	weight int // of the members that join from now on
}

func newGuarded(t *testing.T) *guarded { return &guarded{T: t, Store: leadertest.NewStore(nil)} }

func guardKey(n int) string { return fmt.Sprint("guard", n) }

// resource is what only the owner of a shard may write, over a link of its own.
func (g *guarded) resource(id string, n int) leadertest.Guard {
	return g.Link(fmt.Sprint(id, n)).Guard(guardKey(n))
}

// join lets a member join, and returns the shards that it gets.
func (g *guarded) join(id string) <-chan *shard.Shard {
	m := g.member(id)
	shards := make(chan *shard.Shard, 100)
	runs(m, func(lead context.Context, s *shard.Shard) {
		shards <- s
		<-lead.Done()
	})
	return shards
}

func (g *guarded) member(id string) *shard.Member {
	return check.Got(shard.Join(g.Context(), g.Link(id), named, shard.Config{
		Shards: 2, ID: id, Weight: g.weight, LeaseDuration: lease, GracePeriod: drain, Logger: g.logs.logger(),
		Guards: func(n int) []leader.Guard { return []leader.Guard{g.resource(id, n)} },
	}))(g)
}

func (g *guarded) writer(id string, s *shard.Shard) fence.KVWriter {
	return g.resource(id, s.Number()).Writer(s.Term())
}

func (g *guarded) guard(n int) record.GuardObservation {
	e := g.Entry(guardKey(n))
	return record.DecodeGuard(backend.Entry{Revision: e.Revision, Value: e.Value})
}

// Only the owner of a shard writes to its resource, also while an earlier one has not noticed that it is not the owner.
func TestGuards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		as := g.join("a")
		time.Sleep(time.Second)
		check.Must(t, len(as) == 2, "a has %d shards", len(as))
		var moved *shard.Shard
		held := [2]*shard.Shard{<-as, <-as}
		for _, s := range held {
			term, _ := leader.FromContext(s.Context())
			check.That(t, term == s.Term() && term.Token() == s.Token(), "the term of shard %d has token %d, and not %d", s.Number(), term.Token(), s.Token())
			check.That(t, term.Remaining() > 0 && term.Remaining() <= 12*time.Second, "it remains %v", term.Remaining())
			check.OK(t, leader.Err(s.Context()))
			_, err := g.writer("a", s).Put(t.Context(), "k", []byte("a"))
			check.OK(t, err)
			check.Equal(t, g.guard(s.Number()).Rec.Token, s.Token(), "the guard stands at %d")
			check.Equal(t, g.guard(s.Number()).Rec.Election, group.ShardName(named, s.Number()), "the guard stands for %s")
		}
		bs := g.join("b")
		time.Sleep(time.Second)
		check.Equal(t, len(bs), 1, "b has %d shards")
		b := <-bs
		for _, s := range held {
			if s.Number() == b.Number() {
				moved = s
			}
		}
		check.Is(t, leader.Err(moved.Context()), shard.ErrMoved)
		_, err := g.writer("a", moved).Put(t.Context(), "k", []byte("late"))
		check.Is(t, err, leader.ErrFenced)
		_, err = g.writer("b", b).Put(t.Context(), "k", []byte("b"))
		check.OK(t, err)
		check.That(t, b.Token() > moved.Token(), "%d after %d", b.Token(), moved.Token())
	})
}

// The work of a shard begins when its guard stands, and not before. The other shards do not wait for it. After a lease a view
// shows which one waits.
func TestGuards_WorkWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		link := g.Link("a1")
		link.Freeze()
		m := g.member("a")
		as := hold(t, m)
		shows := func(want string) {
			t.Helper()
			synctest.Wait()
			owners := check.Got(shard.Lookup(t.Context(), g.Store, named))(t).Owners
			check.Equal(t, fmt.Sprint(owners[0].ID, " ", owners[0].State, ", ", owners[1].ID, " ", owners[1].State), want, "%s")
		}
		time.Sleep(800*time.Millisecond + lease - 1) // shard 1 is in the second portion of the cold start
		shows("a works, a works")
		time.Sleep(time.Nanosecond)
		shows("a works, a granted")
		check.OK(t, m.Ping(t.Context())) // a new process would wait, too
		check.Equal(t, len(as), 1, "%d shards have begun")
		s := <-as
		check.Equal(t, s.Number(), 0, "shard %d has begun")
		context.AfterFunc(s.Context(), s.Release)
		check.That(t, g.logs.count("err=\"shard 1, whose work does not begin before its guards stand: guard of ") > 0, "nothing is logged")
		g.weight = group.MaxWeight
		bs := g.join("b") // both shards move, also the one that has not begun
		time.Sleep(time.Second)
		check.Equal(t, len(bs), 2, "b has %d shards")
		shows("b works, b works")
		link.Restore()
		time.Sleep(lease)
		check.Equal(t, len(as), 0, "a has %d shards more")
	})
}

// A guard that was lost is raised again. A guard that a later owner has raised ends the context of the shard, and the log
// reports why the work does not begin again.
func TestGuards_LostAndPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		as := g.join("a")
		time.Sleep(time.Second)
		s := <-as
		key, w := guardKey(s.Number()), g.writer("a", s)
		g.Delete(key)
		_, err := w.Put(t.Context(), "k", nil)
		check.That(t, err == nil || errors.Is(err, fence.ErrUnknownOutcome), "%v", err)
		time.Sleep(time.Second)
		check.Equal(t, g.guard(s.Number()).Rec.Token, s.Token(), "the guard stands at %d")
		check.OK(t, s.Context().Err())

		later := g.guard(s.Number()).Rec
		later.Token, later.Session = s.Token()+1, "LATER"
		g.Put(key, later.Encode())
		time.Sleep(2 * lease)
		check.Is(t, context.Cause(s.Context()), leader.ErrFenced)
		check.Equal(t, g.logs.count("does not begin: a guard stands at a later token"), 1, "it is logged %d times")
		_, err = w.Put(t.Context(), "k", nil)
		check.Is(t, err, leader.ErrFenced)
		check.Equal(t, g.guard(s.Number()).Rec.Token, later.Token, "the guard stands at %d")
	})
}

// A guard that stands at a later token from the beginning lets no work begin, so none has returned early.
func TestGuards_PassedBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		m := g.member("a")
		begun := hold(t, m)
		time.Sleep(time.Second)
		s, other := <-begun, <-begun
		later := g.guard(s.Number()).Rec
		s.Release()
		other.Release()
		check.OK(t, m.Stop())
		later.Token, later.Session = later.Token+1<<20, "LATER"
		g.Put(guardKey(s.Number()), later.Encode())
		as := g.join("b")
		time.Sleep(time.Hour)
		check.Equal(t, len(as), 1, "%d shards have begun")
		for range 60 { // its work is tried again and again
			time.Sleep(100 * time.Millisecond)
			states := map[int]shard.OwnerState{s.Number(): shard.OwnerGranted, other.Number(): shard.OwnerWorks}
			for n, o := range check.Got(shard.Lookup(t.Context(), g.Store, named))(t).Owners {
				check.Equal(t, o.State, states[n], "%v")
			}
		}
		check.That(t, g.logs.count("does not begin: a guard stands at a later token") > 0, "nothing is logged")
		check.Equal(t, g.logs.count("has returned within"), 0, "%d returns of work that has not begun are logged")
	})
}

// A guard that passes a shard which waits for Serve ends the wait.
func TestGuards_PassedBeforeServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		m := g.member("a")
		time.Sleep(2 * time.Second)
		check.Equal(t, m.Stats().Waiting, 2, "%d shards wait")
		later := g.guard(0).Rec
		later.Token, later.Session = later.Token+1<<20, "LATER"
		g.Put(guardKey(0), later.Encode())
		time.Sleep(time.Minute)
		check.Equal(t, m.Stats().Waiting, 1, "%d shards wait")
		check.Equal(t, g.logs.count("the work on shard 0 does not begin: a guard stands at a later token"), 1, "it is logged %d times")
		runs(m, func(lead context.Context, s *shard.Shard) {
			check.Equal(t, s.Number(), 1, "the work on shard %d begins")
			<-lead.Done()
		})
		time.Sleep(time.Second)
		check.OK(t, m.Stop())
	})
}

// Work that does not end after a later guard has ended its context is given up after the drain. Then another member has the
// shard, with a token that is greater.
func TestGuards_WorkThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		m := g.member("a")
		begun := hold(t, m)
		time.Sleep(time.Second)
		s, other := <-begun, <-begun
		grace := leader.Grace(s.Context())
		later := g.guard(s.Number()).Rec
		later.Token, later.Session = s.Token()+1, "LATER"
		g.Put(guardKey(s.Number()), later.Encode())
		<-s.Context().Done()
		synctest.Wait()
		check.Is(t, context.Cause(grace), leader.ErrFenced)
		time.Sleep(drain - time.Millisecond)
		stats := m.Stats()
		check.That(t, stats.Owned == 1 && stats.Draining == 1 && stats.Busy == drain-time.Millisecond, "before the drain is over: %+v", stats)
		time.Sleep(time.Second)
		bs := g.join("b")
		time.Sleep(time.Second)
		moved := <-bs
		check.That(t, moved.Number() == s.Number() && moved.Token() > later.Token, "shard %d with token %d after %d", moved.Number(), moved.Token(), later.Token)
		n := 0
		for e := range m.Events(check.Ended()) {
			if r, ok := e.(shard.Revoked); ok && r.Shard == s.Shard {
				check.Is(t, r.Cause, leader.ErrFenced)
				n++
			}
		}
		check.Equal(t, n, 1, "it is revoked %d times")
		s.Release()
		other.Release()
		synctest.Wait() // the functions have returned
		check.OK(t, m.Stop())
	})
}

// A guard that cannot be used is named in the log, and the shard does not begin.
func TestGuards_Invalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, l := leadertest.NewStore(nil), new(logs)
		m := check.Got(shard.Join(t.Context(), store, named, shard.Config{
			Shards: 1, ID: "a", Logger: l.logger(), Guards: func(int) []leader.Guard { return []leader.Guard{nil} },
		}))(t)
		runs(m, none(t))
		time.Sleep(lease)
		check.Equal(t, l.count("Guards[0] is nil"), 1, "it is logged %d times")
	})
}

// Shards whose guards stand only after the member has left are released then, and their work does not begin.
func TestGuards_StandAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		m := check.Got(shard.Join(t.Context(), leadertest.NewStore(nil), named, shard.Config{
			Shards: 8, ID: "a", LeaseDuration: lease, GracePeriod: drain, StopTimeout: stop,
			Guards: func(int) []leader.Guard { <-hang; return nil },
		}))(t)
		runs(m, none(t))
		time.Sleep(2 * time.Second)
		check.Is(t, m.Stop(), leader.ErrNotReleased)
		check.Equal(t, m.Stats().Draining, 8, "%d shards are not released")
		close(hang)
		synctest.Wait()
		check.Equal(t, m.Stats().Draining, 0, "%d shards are never released")
	})
}
