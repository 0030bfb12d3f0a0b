package shard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/golden"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// tape has the events of members and what their Stats say.
type tape struct {
	strings.Builder
	from time.Time
}

// events writes down what a channel has, by shards: those of different shards have no order at one instant.
func (to *tape) events(of string, ch <-chan shard.Event) {
	synctest.Wait()
	var lines []string
	for len(ch) > 0 {
		lines = append(lines, fmt.Sprintf("%s: %v\n", of, <-ch))
	}
	number := regexp.MustCompile(`shard=\d+|$`)
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(number.FindString(a), number.FindString(b)) })
	to.WriteString(regexp.MustCompile(`token.\d+`).ReplaceAllString(strings.Join(lines, ""), "token T"))
}

// stats writes down the figures of members.
func (to *tape) stats(of ...*shard.Member) {
	synctest.Wait()
	for _, m := range of {
		s := m.Stats()
		_, _ = fmt.Fprintf(to, "%v %s of %s: connected: %v, owned %d, granted %d, draining %d for %v, assigner %q %v, moves %v, %v ago; %d members, unowned %d, moving %d, uneven %d\n",
			time.Since(to.from), m.ID(), m.Group(), s.Election.Connected(), s.Owned, s.Granted, s.Draining, s.Busy.Round(time.Second/10), s.Assigner, s.Assigns, s.Moves, s.SinceRebalance.Round(time.Second/10), s.Members, s.Unowned, s.Moving, s.Uneven)
	}
}

// bodies runs the work of a member. That of one of two shards beside each other goes on for some time after they have moved.
func bodies(m *shard.Member, hangs time.Duration) {
	runs(m, func(lead context.Context, s *shard.Shard) {
		<-lead.Done()
		if s.Number()%2 == 1 && errors.Is(context.Cause(lead), shard.ErrMoved) {
			time.Sleep(hangs)
		}
	})
}

// Members report each step of a shard, the assigner what it moves and why, and Stats agree. A reader that comes later
// reads the same.
func TestEventsAndStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, to := leadertest.NewStore(nil, leadertest.WithLatency(oneWay)), tape{from: time.Now()}
		a, link := member(t, store, shard.Config{Shards: 4, ID: "a", GracePeriod: drain})
		events := a.Events(t.Context())
		bodies(a, drain+time.Minute)
		time.Sleep(2 * time.Second)
		to.events("a", events)
		to.stats(a)
		b, _ := member(t, store, shard.Config{Shards: 4, ID: "b", GracePeriod: drain})
		bodies(b, 0)
		time.Sleep(time.Second)
		to.stats(a, b)
		time.Sleep(drain)
		to.stats(a, b)
		to.events("a", events)
		to.events("b", b.Events(t.Context()))
		link.Cut()
		time.Sleep(12*time.Second + time.Millisecond)
		to.stats(a)
		time.Sleep(lease)
		to.stats(b)
		link.Restore()
		time.Sleep(lease)
		check.Is(t, a.Stop(), leader.ErrNotReleased)
		time.Sleep(time.Until(to.from.Add(51 * time.Second))) // it takes a write more or less
		to.stats(a)
		to.events("a", events)
		check.That(t, check.Now(events), "the channel is open after the end")
		time.Sleep(time.Second)
		to.stats(b)
		check.OK(t, b.Stop())
		to.events("b", b.Events(t.Context()))
		time.Sleep(2 * time.Minute) // for the work that goes on
		golden.Check(t, to.String())
	})
}

// Each reason of a move has its name.
func TestRebalanced_Reasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 6, leadertest.WithLatency(oneWay))
		f.config = func(id string, cfg *shard.Config) {
			if id == "held" {
				cfg.Hold = time.Minute
			}
		}
		first := f.start("first")
		time.Sleep(time.Second)
		is := func(want string) {
			t.Helper()
			time.Sleep(2 * lease)
			check.Equal(t, fmt.Sprint(first.member.Stats().Moves), want, "%s")
		}
		is("map[unowned:6]")
		held := f.start("held")
		is("map[unowned:6 uneven:3]")
		held.leave()
		time.Sleep(time.Second)
		f.start("held")
		is("map[unowned:6 uneven:3 returned:3]")
		third := f.start("third")
		is("map[unowned:6 uneven:5 returned:3]")
		third.leave()
		is("map[unowned:6 uneven:5 left:2 returned:3]")
		third = f.start("third")
		is("map[unowned:6 uneven:7 left:2 returned:3]")
		third.kill()
		is("map[unowned:6 uneven:7 left:2 died:2 returned:3]")
		check.OK(t, shard.Drain(t.Context(), f.store, named, "held"))
		is("map[unowned:6 uneven:7 left:2 died:2 returned:3 asked:3]")
		f.stop()
	})
}

// Of more events than there is room for the oldest are lost. A reader leaves with its context, and nothing waits for one
// that does not read.
func TestEvents_SlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := member(t, leadertest.NewStore(nil), shard.Config{Shards: 2100, ID: "a"})
		ctx, cancel := context.WithCancel(t.Context())
		slow, gone := m.Events(t.Context()), m.Events(ctx)
		runs(m, idle)
		time.Sleep(time.Second)
		cancel()
		synctest.Wait()
		check.Equal(t, len(slow), 1024, "%d events")
		check.Equal(t, len(gone), 1024, "%d events")
		for range 1024 {
			<-gone
		}
		check.That(t, check.Now(gone), "the channel is open after the end of its context")
		first := <-slow
		for range 2 {
			check.Equal(t, <-m.Events(check.Ended()), first, "%v first for a later reader")
		}
		check.OK(t, m.Stop())
		n := 1
		for range slow {
			n++
		}
		check.Equal(t, n, 1024+1, "%d events to the end")
	})
}

// A request that the server denies, and a value that is damaged, are faults: reported and logged once while they last,
// and counted.
func TestFaulted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logs
		store := leadertest.NewStore(nil)
		m, link := member(t, store, shard.Config{Shards: 1, ID: "a", Logger: log.logger()})
		runs(m, idle)
		events := m.Events(t.Context())
		faults := func(want ...string) {
			t.Helper()
			time.Sleep(10 * time.Minute)
			var got []string
			for len(events) > 0 {
				if f, ok := (<-events).(shard.Faulted); ok {
					got = append(got, f.Err.Error())
					check.Equal(t, log.count(strconv.Quote(f.Err.Error())), 1, "%d lines of %v", f)
				}
			}
			slices.Sort(got)
			check.Deep(t, got, want)
		}
		time.Sleep(617 * time.Millisecond) // a read that is under way when reads begin to fail succeeds, and ends the fault
		faults()
		link.FailReads(1<<20, leader.ErrPermission)
		faults("read of orders.shard.map: leader: permission denied", "read of orders.shard.page.0: leader: permission denied")
		link.Heal()
		faults()
		link.FailReads(1<<20, leader.ErrPermission)
		time.Sleep(10 * time.Minute)
		check.Equal(t, log.count("read of orders.shard.map: "), 2, "%d reports")
		before := m.Stats().Election.Faults[nil]
		link.Heal()
		for len(events) > 0 {
			<-events
		}
		revision := store.Put(group.PageKey(named, 0), []byte("{"))
		faults(fmt.Sprintf("orders.shard.page.0 at revision %d: replaces a value that is no page of a group: not written by a member of a group: unexpected end of JSON input", revision))
		check.Equal(t, m.Stats().Election.Faults[nil], before+1, "%d faults")
		check.OK(t, m.Stop())
	})
}

// Shards that wait for Serve for a lease are a fault, once. Serve begins all, and releases each when
// its work has returned.
func TestServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := member(t, leadertest.NewStore(nil), shard.Config{Shards: 4, ID: "a"})
		var faults []string
		go func() {
			for e := range m.Events(context.Background()) {
				if f, ok := e.(shard.Faulted); ok {
					check.Is(t, f.Err, shard.ErrNotBegun)
					faults = append(faults, time.Now().String())
				}
			}
		}()
		waiting := func(want, reports int) {
			t.Helper()
			synctest.Wait()
			stats := m.Stats()
			check.That(t, stats.Waiting == want && stats.Owned == 4-want && stats.Granted == 4 && len(faults) == reports, "%+v after faults at %v", stats, faults)
		}
		time.Sleep(lease - 1)
		waiting(4, 0)
		time.Sleep(time.Nanosecond)
		waiting(4, 1)
		time.Sleep(time.Hour)
		waiting(4, 1)
		runs(m, idle)
		waiting(0, 1)
		check.OK(t, m.Stop())

		m, _ = member(t, leadertest.NewStore(nil), shard.Config{Shards: 4, ID: "a"})
		var works, calls atomic.Int32
		served := make(chan error)
		go func() {
			served <- m.Serve(func(lead context.Context, s *shard.Shard) {
				works.Add(1)
				defer works.Add(-1)
				if calls.Add(1) == 1 {
					return // early: the shard begins again
				}
				<-lead.Done()
				time.Sleep(time.Duration(s.Number()) * time.Second)
			})
		}()
		time.Sleep(lease)
		check.That(t, works.Load() == 4 && calls.Load() == 5, "%d work after %d calls", works.Load(), calls.Load())
		begun := time.Now()
		check.OK(t, m.Stop())
		check.OK(t, <-served)
		check.Equal(t, time.Since(begun), 3*time.Second, "Serve returns after %v")
		check.Equal(t, works.Load(), 0, "%d work")
	})
}

// A shard moves when its work and all functions of Go have returned, and Serve waits for them. The return of a function of Go
// before that ends nothing.
func TestServe_Go(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := member(t, leadertest.NewStore(nil), shard.Config{Shards: 1, ID: "a", GracePeriod: time.Second / 2})
		served := make(chan error)
		go func() {
			served <- m.Serve(func(lead context.Context, s *shard.Shard) {
				s.Term().Go(func(context.Context) { time.Sleep(time.Second) })
				time.Sleep(time.Minute)
				check.That(t, lead.Err() == nil || m.Stats().Owned == 0, "the context of the work has ended")
				s.Term().Go(func(lead context.Context) {
					<-lead.Done()
					check.That(t, !s.Term().Go(func(context.Context) {}), "work begins after the end of the work")
					grace := leader.Grace(lead)
					time.Sleep(3 * time.Second)
					if m.Stats().Election.State == leader.StateLeader {
						check.OK(t, grace.Err())
					} else {
						check.Is(t, context.Cause(grace), leader.ErrNotReleased)
					}
				})
			})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		owned := func(want int) {
			t.Helper()
			time.Sleep(time.Second)
			check.Equal(t, m.Stats().Owned, want, "it works on %d shards")
		}
		owned(1) // a second after the work
		time.Sleep(2 * time.Second)
		owned(0) // it begins again 5 s later
		time.Sleep(5 * time.Second)
		owned(1)
		time.Sleep(time.Minute)
		check.Is(t, m.Stop(), leader.ErrNotReleased)
		stopped := time.Now()
		check.OK(t, <-served)
		check.Equal(t, time.Since(stopped), time.Second/2, "Serve returns %v after the member has left") // the rest of the function of Go
	})
}

// Of several calls of Serve each shard goes to one. Work that ends by Goexit releases its shard.
func TestServe_Twice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := member(t, leadertest.NewStore(nil), shard.Config{Shards: 4, ID: "a"})
		var begins, ends atomic.Int32
		served := make(chan error)
		for range 2 {
			go func() {
				served <- m.Serve(func(lead context.Context, _ *shard.Shard) {
					begins.Add(1)
					defer ends.Add(1)
					<-lead.Done()
					runtime.Goexit()
				})
			}()
		}
		time.Sleep(lease)
		check.Equal(t, begins.Load(), 4, "%d calls")
		check.OK(t, m.Stop())
		check.Equal(t, ends.Load(), 4, "%d have ended")
		check.OK(t, <-served)
		check.OK(t, <-served)
		check.OK(t, m.Serve(none(t)))
	})
}

// A member that stops too many shards at once to publish their numbers reports that. They get another owner when the work
// of enough of them has ended.
func TestFaulted_PublicationTooLarge(t *testing.T) {
	proof.Only(t)
	synctest.Test(t, func(t *testing.T) {
		m, _ := member(t, leadertest.NewStore(nil), shard.Config{Shards: 24_000, ID: "a"})
		var got []string
		go func() {
			for e := range m.Events(context.Background()) {
				if f, ok := e.(shard.Faulted); ok {
					got = append(got, f.Err.Error())
				}
			}
		}()
		runs(m, func(lead context.Context, s *shard.Shard) {
			<-lead.Done()
			time.Sleep(time.Duration(s.Number()%2) * time.Second)
		})
		time.Sleep(lease)
		check.OK(t, m.Stop())
		synctest.Wait()
		check.Deep(t, got, []string{"the publication: a member publishes 66675 bytes, which is more than 65536: its value has 0 bytes, and it stops 12000 shards"})
	})
}

// blocked is the handler of a log that does not return before release.
type blocked struct {
	slog.Handler
	release <-chan struct{}
}

func (b blocked) Enabled(context.Context, slog.Level) bool  { return true }
func (b blocked) Handle(context.Context, slog.Record) error { <-b.release; return nil }
func (b blocked) WithAttrs([]slog.Attr) slog.Handler        { return b }

// A handler of the log that blocks holds up nothing, but for a second at the end, and what it misses is counted.
func TestLogger_Blocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, cancel := context.WithTimeout(t.Context(), lease)
		defer cancel()
		b := blocked{slog.DiscardHandler, release.Done()}
		m, _ := member(t, leadertest.NewStore(nil), shard.Config{Shards: 4200, ID: "a", Logger: slog.New(b)})
		var begun sync.WaitGroup
		begun.Add(4200)
		runs(m, func(lead context.Context, s *shard.Shard) {
			begun.Done()
			<-lead.Done()
		})
		begun.Wait()
		synctest.Wait()
		dropped := m.Stats().Election.LogDropped
		check.That(t, dropped > 0, "%d records are dropped", dropped)
		from := time.Now()
		check.OK(t, m.Stop())
		d := time.Since(from)
		check.That(t, d <= 2*time.Second, "the member left after %v", d)
	})
}

// Ping is answered while the member lives, also without NATS and between its terms.
func TestPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, link := member(t, leadertest.NewStore(nil), shard.Config{Shards: 5, ID: "a"})
		ping := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return m.Ping(ctx)
		}
		check.OK(t, ping())
		time.Sleep(time.Second)
		check.OK(t, ping())
		link.Cut()
		for range 60 {
			check.OK(t, ping())
			time.Sleep(time.Second)
		}
		link.Restore()
		time.Sleep(lease)
		check.OK(t, m.Stop())
		check.Is(t, ping(), leader.ErrStopped)
	})
}

// Work that ends with its context is revoked and then released, in this order.
func TestEvents_OfWorkThatEnds(t *testing.T) {
	for range 50 { // a race of goroutines
		synctest.Test(t, func(t *testing.T) {
			m, _ := member(t, leadertest.NewStore(nil), shard.Config{Shards: 16, ID: "a"})
			runs(m, idle)
			time.Sleep(2 * time.Second)
			check.OK(t, m.Stop())
			revoked := 0
			for e := range m.Events(t.Context()) {
				if _, ok := e.(shard.Revoked); ok {
					revoked++
				}
			}
			check.Equal(t, revoked, 16, "%d shards are revoked")
		})
	}
}

// A reader that comes after the end gets the newest events, and its channel is closed. That of a context which has ended is
// closed, too.
func TestEvents_AfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := member(t, leadertest.NewStore(nil), shard.Config{Shards: 2, ID: "a"})
		runs(m, idle)
		time.Sleep(time.Second)
		ended := m.Events(check.Ended())
		synctest.Wait()
		check.That(t, len(ended) > 0, "no events")
		for range ended {
		}
		check.OK(t, m.Stop())
		for range 2 {
			released := 0
			for e := range m.Events(context.Background()) { // never ends in a bubble with a channel that is open
				if _, ok := e.(shard.Released); ok {
					released++
				}
			}
			check.Equal(t, released, 2, "%d shards are released")
		}
	})
}

// slow is the handler of a log that takes some time.
type slow struct{ slog.Handler }

func (s slow) Handle(ctx context.Context, r slog.Record) error {
	time.Sleep(20 * time.Millisecond)
	return s.Handler.Handle(ctx, r)
}

func (s slow) WithAttrs(as []slog.Attr) slog.Handler { return slow{s.Handler.WithAttrs(as)} }

// When a member has left, all its lines are in the log. A grant is a detail, and work that is given up a warning.
func TestLogger_HasAllLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(logs)
		handler := slow{slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})}
		m, _ := member(t, leadertest.NewStore(nil), shard.Config{Shards: 8, ID: "a", GracePeriod: time.Second, Logger: slog.New(handler)})
		hangs := make(chan struct{})
		runs(m, func(lead context.Context, s *shard.Shard) {
			if <-lead.Done(); s.Number() == 0 {
				<-hangs
			} else {
				time.Sleep(time.Second - time.Millisecond) // the lines come just before the end
			}
		})
		time.Sleep(lease)
		check.Is(t, m.Stop(), leader.ErrNotReleased)
		for line, want := range map[string]int{
			"level=DEBUG msg=granted group=orders id=a shard=": 8, "level=INFO msg=started group=orders id=a shard=": 8,
			"level=INFO msg=revoked ": 8, `level=WARN msg="work on a shard goes on, `: 1, "level=INFO msg=released group=orders id=a shard=": 7,
		} {
			check.Equal(t, l.count(line), want, "%d lines of "+line)
		}
		close(hangs)
	})
}

// Busy is of the work that has gone on for the longest time, wherever it is.
func TestStats_BusyOfTheLongest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		m, _ := member(t, store, shard.Config{Shards: 20, ID: "a", GracePeriod: drain})
		hangs := make(chan struct{})
		runs(m, func(lead context.Context, _ *shard.Shard) {
			<-lead.Done()
			<-hangs
		})
		time.Sleep(time.Second)
		other, _ := member(t, store, shard.Config{Shards: 20, ID: "b", GracePeriod: drain})
		runs(other, idle)
		time.Sleep(2 * time.Second)
		third, _ := member(t, store, shard.Config{Shards: 20, ID: "c", GracePeriod: drain})
		runs(third, idle)
		time.Sleep(time.Second)
		for range 20 { // in any order
			s := m.Stats()
			check.That(t, s.Draining > 10 && s.Busy == 3*time.Second, "%d for %v", s.Draining, s.Busy)
		}
		close(hangs)
		check.OK(t, m.Stop())
	})
}
