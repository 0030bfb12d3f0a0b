package shard

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
)

// A member does not keep the grants of a page that are of others: with all pages of a large group they are megabytes.
func TestReceive_KeepsNoGrantOfOthers(t *testing.T) {
	l := group.Layout{Shards: 2, PageSize: 2}
	s := &memberTerm{Member: &Member{stored: stored{layout: l}, tokens: make([]uint64, 1)}, machine: group.NewTerm(group.Session{ID: "a", Token: 1}, l, group.Limits{}, nil)}
	p := &page{decoded: decode(
		newFollower(nil, "", 0, nil), func(e backend.Entry) (group.Map, error) { return l.DecodePage(0, e.Value, e.Revision) })}
	p.take(backend.Entry{Revision: 3, Value: l.EncodePage(0, 1, make([]group.Grant, 2))})
	s.receive(p)
	check.That(t, s.machine.Reports()[0].Seen == 3 && p.err == nil && p.value.Grants == nil, "%+v, %v", p.value, p.err)
}

// termOfOne returns the work of a term that has one shard, whose guards stand, which the machine does not know yet, and what ends
// the context of the term.
func termOfOne(t *testing.T) (s *memberTerm, w *Shard, end context.CancelCauseFunc) {
	l, self := group.Layout{Shards: 1, PageSize: 1}, group.Session{ID: "a", Token: 1}
	c := check.Got(leader.Campaign(t.Context(), leadertest.NewStore(nil), "e", leader.Config{ID: "a"}))(t)
	t.Cleanup(func() { check.OK(t, c.Stop()) })
	synctest.Wait()
	s = &memberTerm{
		Member: &Member{
			stored: stored{layout: l}, bell: make(bell, 1), draining: make(map[*Shard]time.Time), unreturned: make(group.Unreturned),
			events: newFeed(), log: slog.New(slog.DiscardHandler), values: t.Context(),
		},
		self: self, works: make(map[*group.Work]*Shard),
	}
	term, _ := c.Term()
	s.lead, end = context.WithCancelCause(term.Context())
	s.machine = group.NewTerm(self, l, group.Limits{Drain: lease, Begin: lease}, s.unreturned)
	s.machine.Received(0, group.Map{Revision: 1, Grants: []group.Grant{{Owner: self, Since: 1}}}, time.Now())
	s.machine.Start(time.Now(), nil)
	s.carryOut()
	synctest.Wait()
	for _, w = range s.works {
	}
	return s, w, end
}

const lease = 15 * time.Second

// Serve takes no shard whose context has ended, also if the goroutine of the term has not looked since then.
func TestTake_AfterTheEnd(t *testing.T) {
	for name, ends := range map[string]func(s *memberTerm, w *Shard, end context.CancelCauseFunc){
		"of the term": func(_ *memberTerm, _ *Shard, end context.CancelCauseFunc) { end(leader.ErrStopped) },
		"by a guard": func(s *memberTerm, w *Shard, _ context.CancelCauseFunc) {
			s.takeRaised()
			w.cancel(leader.ErrFenced)
			s.fenced.Store(true)
		},
		"by a guard, at once": func(s *memberTerm, w *Shard, _ context.CancelCauseFunc) {
			w.cancel(leader.ErrFenced)
			s.fenced.Store(true)
			s.takeFenced()
		},
		"": func(*memberTerm, *Shard, context.CancelCauseFunc) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, w, end := termOfOne(t)
				ends(s, w, end)
				s.takeRaised()
				check.Equal(t, len(s.take()) == 1, name == "", "it takes the shard: %v")
				check.Equal(t, w.Context().Err() == nil, name == "", "its context is alive: %v")
				w.release()
				end(nil)
			})
		})
	}
}

// Work that returns as it is given up is not late, in the event and in what the member publishes.
func TestGiveUp_OfWorkThatReturns(t *testing.T) {
	for _, returns := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s, w, end := termOfOne(t)
			events := s.Events(t.Context())
			s.takeRaised()
			s.take()
			end(leader.ErrStopped)
			s.leave()
			s.machine.Tick(time.Now().Add(lease))
			if returns {
				w.release()
			}
			s.carryOut()
			var late bool
			for len(events) > 0 {
				if r, ok := (<-events).(Released); ok {
					late = r.Late
				}
			}
			check.Equal(t, late, !returns, "the event says that it is late: %v")
			check.Equal(t, len(s.machine.Late()) == 1, !returns, "it is late: %v")
			w.release()
		})
	}
}

// The base for a page lets tokens, which are its sum with a revision, rise above all that the process knows of the page. Where
// no base can, it stays.
func TestLeast_LetsTokensRise(t *testing.T) {
	m := &Member{tokens: make([]uint64, 2)}
	for _, c := range []struct {
		page                 int
		revision, base, want uint64
	}{
		{0, 10, 100, 100}, // token 110
		{0, 20, 100, 100},
		{0, 5, 100, 115}, // the bucket has lost writes
		{0, 25, 95, 95},  // a base that is lower, and a token that is not
		{0, 30, 80, 90},
		{1, 5, 100, 100}, // another page
		{0, 5, record.MaxMinToken - 5, record.MaxMinToken - 5},
		{0, 10, record.MaxMinToken, record.MaxMinToken},
		{0, 4, 7, 7}, // the base would be too great
	} {
		check.Equal(t, m.least(c.page, c.revision, c.base), c.want, "%d is the base for %+v", c)
	}
}

// The base of a registry that is made anew is the time, or greater than the last one that is known.
func TestNextBase_Rises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := uint64(time.Now().UnixMicro())
		for base, want := range map[uint64]uint64{0: now, now - 2: now, now - 1: now, now: now + 1, now + 7: now + 8} {
			check.Equal(t, (&Member{base: base}).nextBase(), want, "%d follows %d", base)
		}
	})
}

// denied is a store that answers each request with an error.
type denied struct {
	backend.Store
	err error
}

func (d denied) Get(_ context.Context, _ string, reply func(backend.Entry, error)) {
	reply(backend.Entry{}, d.err)
}

func (d denied) Update(_ context.Context, _ string, _ []byte, _ uint64, reply func(uint64, error)) {
	reply(0, d.err)
}

func (d denied) Watch(_ context.Context, _ string, _ backend.Feed, _ func(backend.FeedEvent), reply func(backend.Feed, error)) {
	reply(nil, d.err)
}

// A request of any kind that fails is a fault, once until it succeeds. A silence, the end of the request, and an earlier write
// of another are none.
func TestRequests_AreFaults(t *testing.T) {
	m := &Member{reported: make(map[string]string), events: newFeed(), log: slog.New(slog.DiscardHandler), values: t.Context()}
	events := m.Events(t.Context())
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want []string
	}{
		{t.Context(), leader.ErrUnreachable, nil},
		{t.Context(), leader.ErrConnectionClosed, nil},
		{t.Context(), &backend.RefusedError{}, nil},
		{check.Ended(), leader.ErrPermission, nil},
		{t.Context(), leader.ErrPermission, []string{"read of k: ", "write of k: ", "feed of k: "}},
		{t.Context(), leader.ErrPermission, nil},
		{t.Context(), leader.ErrUnreachable, nil},
		{t.Context(), leader.ErrNoBucket, nil}, // it has not succeeded meanwhile
		{t.Context(), nil, nil},
		{t.Context(), leader.ErrNoBucket, []string{"read of k: ", "write of k: ", "feed of k: "}},
	} {
		r := requests{denied{err: c.err}, m}
		r.Get(c.ctx, "k", func(_ backend.Entry, err error) { check.Is(t, err, c.err) })
		r.Update(c.ctx, "k", nil, 0, func(_ uint64, err error) { check.Is(t, err, c.err) })
		r.Watch(c.ctx, "k", nil, nil, func(_ backend.Feed, err error) { check.Is(t, err, c.err) })
		var got []string
		for len(events) > 0 {
			got = append(got, (<-events).(Faulted).Err.Error())
		}
		var want []string
		for _, what := range c.want {
			want = append(want, what+c.err.Error())
		}
		check.Deep(t, got, want)
	}
	check.Equal(t, m.faults, 6, "%d faults")
}

// A registry of another base lets a process grant no shards for a lease and 20 s. One that it sees again does not.
func TestMayGrant_AfterAnotherBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := joined(t)
		base := m.base
		check.That(t, base != 0 && m.mayGrant(base).IsZero(), "it waits until %v in the beginning", m.mayGrant(base))
		from := time.Now()
		until := from.Add(15*time.Second + 20*time.Second)
		for range 3 {
			check.Equal(t, m.mayGrant(base+1), until, "it waits until %v")
			time.Sleep(time.Second)
		}
		check.Equal(t, m.mayGrant(base), from.Add(38*time.Second), "it waits until %v for the one before")
	})
}

// joined returns a member that has joined a group by itself.
func joined(t *testing.T) *Member {
	m := check.Got(Join(context.Background(), leadertest.NewStore(nil), "g", Config{Shards: 1, ID: "a"}))(t)
	t.Cleanup(func() { check.OK(t, m.Stop()) })
	time.Sleep(time.Second)
	synctest.Wait()
	return m
}

// Ping waits for the goroutine of the term as long as its context lasts, and for none whose term is over.
func TestPing_OfGoroutineThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := joined(t)
		ping := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return m.Ping(ctx)
		}
		was := m.current.Load()
		check.OK(t, ping())
		check.Is(t, m.Ping(check.Ended()), context.Canceled)
		m.current.Store(&memberTerm{ctx: t.Context()})
		check.Is(t, ping(), context.DeadlineExceeded)
		m.current.Store(&memberTerm{ctx: check.Ended()})
		check.OK(t, ping())
		m.current.Store(nil)
		check.OK(t, ping())
		m.current.Store(was)
	})
}

// An event for which there is no room takes the place of the oldest.
func TestPush_ReplacesTheOldest(t *testing.T) {
	ch := make(chan Event, 2)
	for i := range 4 {
		push(ch, Granted{Shard: i})
	}
	check.Equal(t, (<-ch).(Granted).Shard, 2, "%d is the oldest")
	check.Equal(t, (<-ch).(Granted).Shard, 3, "%d is the newest")
}
