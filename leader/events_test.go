package leader_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// stage is a store in memory with candidates that end with the test.
type stage struct {
	*testing.T
	clock *leadertest.Clock
	store *leadertest.Store
	seats int // of the elections of the candidates that it starts
}

func newStage(t *testing.T, opts ...leadertest.Option) *stage {
	clock := leadertest.NewClock()
	return &stage{T: t, clock: clock, store: leadertest.NewStore(clock, opts...)}
}

// stand starts a candidate on the link of its ID, which ends with the test.
func (s *stage) stand(id string, cfg leader.Config) *leader.Candidate {
	s.Helper()
	cfg.ID = id
	c := check.Got(leader.Campaign(context.Background(), seats.Of(s.store.Link(id), s.seats), "jobs", cfg))(s)
	s.Cleanup(func() {
		s.store.Link(id).Close()
		<-c.Done()
	})
	return c
}

// watched is stand with a watcher.
func (s *stage) watched(id string, cfg leader.Config) (*leader.Candidate, *leadertest.Watcher) {
	s.Helper()
	c := s.stand(id, cfg)
	return c, leadertest.Watch(s, s.clock, c)
}

// lastOf returns the last of the events that have the type.
func lastOf[E leader.Event](t *testing.T, events []leader.Event) E {
	t.Helper()
	for i := len(events) - 1; i >= 0; i-- {
		if e, ok := events[i].(E); ok {
			return e
		}
	}
	t.Fatalf("there is none among %v", events)
	panic("not reached")
}

// Pending gives the reason why the candidate may not lead yet.
func TestPending_Reason(t *testing.T) {
	deleted := "the key was deleted or has expired"
	for name, k := range map[string]struct {
		opts   []leadertest.Option
		cfg    leader.Config
		guard  bool
		before func(s *stage)
		after  func(s *stage) // while a leads
		want   string
	}{
		"at once":        {},
		"released":       {before: func(s *stage) { c := s.stand("b", leader.Config{}); s.clock.Settle(); _ = c.Stop() }},
		"PendingPeriod":  {cfg: leader.Config{PendingPeriod: 3 * time.Second}, want: "PendingPeriod"},
		"guards":         {guard: true, want: "guards"},
		"never seen":     {opts: []leadertest.Option{leadertest.WithoutPurgeProtection()}, want: "not purge-protected"},
		"deleted before": {before: func(s *stage) { s.store.Delete("jobs") }, want: deleted},
		"deleted":        {after: func(s *stage) { s.store.Delete("jobs") }, want: deleted},
		"restored": {after: func(s *stage) {
			snap := s.store.Snapshot()
			s.clock.Advance(10 * time.Second)
			s.store.Rollback(snap)
		}, want: "lost acknowledged writes"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, k.opts...)
			if k.before != nil {
				k.before(s)
			}
			if k.guard {
				k.cfg.Guards = []leader.Guard{s.store.Link("a").Guard()}
			}
			c, w := s.watched("a", k.cfg)
			s.clock.Settle()
			if k.after != nil {
				k.after(s)
			}
			s.clock.Advance(time.Minute)
			e := lastOf[leader.Pending](t, w.Events())
			if k.want == "" && e.Reason != "" || !strings.Contains(e.Reason, k.want) || !strings.HasSuffix(e.String(), e.Reason) {
				t.Errorf("%q, not %q: %s", e.Reason, k.want, e)
			}
			check.That(t, c.IsLeader(), "it does not lead in the end")
		})
	}
}

// The time without a leader ends with the election, and not with the next input.
func TestPending_Leaderless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(map[string]answers{"Listen": whenGivenUp})
		c := l.stand(t.Context(), t, leader.Config{PendingPeriod: 500 * time.Millisecond})
		time.Sleep(time.Second)
		if d := c.Stats().Leaderless; !c.IsLeader() || d != 500*time.Millisecond {
			t.Errorf("leads: %v, leaderless for %v", c.IsLeader(), d)
		}
	})
}

// A fault while a candidate drains leaves it no time, because it does not lead.
func TestFaulted_DrainingHasNoTime(t *testing.T) {
	s := newStage(t)
	c, w := s.watched("a", leader.Config{GracePeriod: time.Minute})
	s.clock.Settle()
	end, _ := leadertest.Work(leadertest.Led(c))
	defer end()
	check.OK(s, leadertest.Led(c).Resign(s.Context()))
	s.store.Link("a").FailWrites(1, leader.ErrPermission)
	s.clock.Advance(10 * time.Second)
	if f := lastOf[leader.Faulted](t, w.Events()); f.Remaining != 0 || c.State() != leader.StateFenced {
		t.Errorf("%v: %s", c.State(), f)
	}
}

// Fenced, its text and the line of the log distinguish an expired lease, a leader that drains,
// and a guard that a later term has raised.
func TestFenced_Kinds(t *testing.T) {
	for name, k := range map[string]struct {
		fence func(s *stage, c *leader.Candidate)
		want  string
		cause error
		until time.Duration // since the start
	}{
		"expired": {func(s *stage, _ *leader.Candidate) { s.store.Link("a").Cut(); s.clock.Advance(12 * time.Second) }, "fenced: token 1: ", leader.ErrLeaseExpired, 16 * time.Second},
		"resigns": {func(s *stage, c *leader.Candidate) { check.OK(s, leadertest.Led(c).Resign(s.Context())) }, "draining: token 1: ", leader.ErrResigned, 4 * time.Second},
		"stops":   {func(s *stage, c *leader.Candidate) { s.begin(c, func(context.Context) error { return c.Stop() }) }, "draining: token 1: ", leader.ErrStopped, 4 * time.Second},
		"overtaken": {func(s *stage, c *leader.Candidate) {
			s.store.Put(fence.DefaultGuardKey, []byte(`{"v":1,"election":"jobs","token":9,"id":"b","session":"S"}`))
			s.clock.Advance(2 * time.Minute)
		}, "fenced by a later term: token 1: ", leader.ErrFenced, 19 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			var text lines
			s := newStage(t)
			start := s.clock.Now()
			c, w := s.watched("a", leader.Config{
				GracePeriod: 4 * time.Second, Guards: []leader.Guard{s.store.Link("a").Guard()}, Logger: slog.New(slog.NewTextHandler(&text, nil)),
			})
			s.clock.Settle()
			end, _ := leadertest.Work(leadertest.Led(c))
			defer end()
			k.fence(s, c)
			s.clock.Settle()
			e := lastOf[leader.Fenced](t, w.Events())
			check.That(t, errors.Is(e.Cause, k.cause) && strings.HasPrefix(e.String(), k.want),
				"%s, for %v", e, e.Cause)
			message, _, _ := strings.Cut(k.want, ":")
			if !strings.Contains(text.String(), "msg="+message+" ") && !strings.Contains(text.String(), "msg="+strconv.Quote(message)+" ") {
				t.Errorf("no line %q in\n%s", message, &text)
			}
			check.Equal(t, e.Until.Sub(start), k.until, "until %v")
		})
	}
}

// begin begins a call that ends the leadership and that returns before the test ends.
func (s *stage) begin(c *leader.Candidate, call func(context.Context) error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = call(s.Context())
	}()
	s.Cleanup(func() { backend.Crash(c); <-ended })
	check.Soon(s, "the call ends the leadership", func() bool { return c.State() != leader.StateLeader }, runtime.Gosched)
}

// lines is a text that a log is written to.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A candidate that has ended is in a state of its own.
func TestState_Ended(t *testing.T) {
	for _, seats := range []int{0, 2} {
		s := newStage(t)
		s.seats = seats
		c := s.stand("a", leader.Config{})
		if s.clock.Settle(); c.State() != leader.StateLeader {
			t.Errorf("%d seats: %v", seats, c.State())
		}
		check.OK(t, c.Stop())
		if c.State() != leader.StateEnded || c.Stats().State != leader.StateEnded || c.State().String() != "ended" {
			t.Errorf("%d seats: %v, %v", seats, c.State(), c.Stats().State)
		}
	}
}

// A reader that begins late gets the newest of the events so far, in whole terms, and goes on from
// there. It takes nothing from a reader that has been there from the beginning.
func TestEvents_EachReaderGetsAll(t *testing.T) {
	for _, several := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			c, err := leader.Campaign(t.Context(), seats.Of(leadertest.NewStore(nil), several), "e", leader.Config{})
			check.OK(t, err)
			type read struct{ elected, deposed []uint64 }
			var early, late, after read
			loop := func(r *read) {
				for e := range c.Events(t.Context()) {
					switch e := e.(type) {
					case leader.Elected:
						r.elected = append(r.elected, e.Term.Token())
					case leader.Deposed:
						r.deposed = append(r.deposed, e.Term.Token())
					case leader.Pending, leader.Fenced, leader.Observed, leader.Faulted:
					}
				}
			}
			go loop(&early)
			const terms = 20
			for n := range terms {
				synctest.Wait()
				if n == terms/2 {
					go loop(&late)
				}
				err = leadertest.Resign(t.Context(), c)
				check.OK(t, err)
				time.Sleep(time.Minute)
			}
			err = c.Stop()
			check.That(t, err == nil, "%v", err)
			synctest.Wait()
			got := early.elected
			check.That(t, len(got) == terms+1 && slices.Equal(got, early.deposed),
				"%d seats: the first reader got %+v", several, early)
			// It began with the term that went on then, and with those of the past that the 32 newest events hold.
			if got := late.elected; len(got) < terms/2+9 || !slices.Equal(got, late.deposed) || !slices.Equal(got, early.elected[terms+1-len(got):]) {
				t.Errorf("%d seats: a later reader got %+v of %+v", several, late, early)
			}
			loop(&after)
			if got := after.elected; len(got) < 9 || len(got) > 10 || !slices.Equal(got, after.deposed) || !slices.Equal(got, early.elected[terms+1-len(got):]) {
				t.Errorf("%d seats: after the end a reader got %+v of %+v", several, after, early)
			}
		})
	}
}

// A candidate with readers that have stopped reading ends at once. When Done is closed, their channels are,
// too, and they can read on.
func TestEvents_EndWithoutReaders(t *testing.T) {
	for _, several := range []int{0, 2} {
		synctest.Test(t, func(t *testing.T) {
			c, err := leader.Campaign(t.Context(), seats.Of(leadertest.NewStore(nil), several), "e", leader.Config{})
			check.OK(t, err)
			const terms = 20 // more than the channel has room for
			stopped, unread := c.Events(context.Background()), c.Events(context.Background())
			<-stopped
			for range terms { // from now on the channel has no reader
				synctest.Wait()
				err = leadertest.Resign(t.Context(), c)
				check.OK(t, err)
				time.Sleep(time.Minute)
			}
			before := time.Now()
			err = c.Stop()
			check.That(t, err == nil, "%v", err)
			<-c.Done()
			check.Equal(t, time.Since(before), 0, "it ends after %v")
			for _, events := range []<-chan leader.Event{stopped, unread} {
				n := 0
				var last leader.Event
				for ; len(events) > 0; n++ {
					last = <-events
				}
				check.That(t, check.Now(events), "%d seats: the channel is open", several)
				d, ok := last.(leader.Deposed)
				check.That(t, ok && errors.Is(d.Cause, leader.ErrStopped) && n >= 30 && n <= 32,
					"%d seats: %d events are left, and the last is %v", several, n, last)
			}
		})
	}
}
