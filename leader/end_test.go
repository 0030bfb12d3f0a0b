package leader_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// A feed, a listener and a view that open after the candidate has ended are closed. The candidate waits
// a second for them and no longer.
func TestEnd_ClosesWhatOpensLate(t *testing.T) {
	for _, call := range []string{"Watch", "Listen", "Stands"} {
		for _, after := range []bool{false, true} {
			t.Run(call, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l := newLedger(map[string]answers{call: tooLate})
					c := l.stand(t.Context(), t, leader.Config{Queue: &leader.Queue{AtOnce: true}})
					n := l.awaits(call)
					check.Must(t, n == 1, "in flight: %d of %s", n, call)
					backend.Crash(c)
					if after {
						mustEnd(t, c, time.Second)
						l.release()
					} else {
						time.Sleep(time.Second / 2)
						l.release()
						mustEnd(t, c, 0)
					}
					if call == "Listen" {
						answered := 0
						l.deliver(nil, func([]byte) { answered++ })
						check.Equal(t, answered, 1,
							"a request at the listener of a candidate that has ended was answered %d times")
					}
					l.settled(t)
				})
			})
		}
	}
}

// A candidate that ends gives up its requests, and waits for nothing but the release of its key and, for
// a moment, for its last word in the roster. At the end of StopTimeout it waits for neither.
func TestEnd_GivesUpRequests(t *testing.T) {
	for call, want := range map[string]struct{ stop, hasty time.Duration }{
		"Settings": {}, "Get": {}, "Watch": {}, "Check": {}, "Listen": {},
		"Update":   {time.Second, 0},
		"Stands":   {250 * time.Millisecond, 0},
		"Announce": {250 * time.Millisecond, 0},
		"a sign":   {450 * time.Millisecond, 0}, // for the renewal that is in flight
	} {
		end := func(t *testing.T, stop func(*leader.Candidate), want time.Duration) {
			t.Helper()
			l := newLedger(map[string]answers{call: whenGivenUp})
			cfg, asked := leader.Config{Queue: &leader.Queue{AtOnce: true}}, call
			if call == "Check" {
				cfg.Guards = []leader.Guard{&ledgerGuard{l: l}}
			}
			c := l.stand(t.Context(), t, cfg)
			if call == "a sign" {
				asked = "Settings"
				l.answer("Settings", whenGivenUp)
				l.answer("Update", whenGivenUp)
				time.Sleep(2 * time.Second)
			}
			n := l.awaits(asked)
			check.Must(t, n == 1, "in flight: %d of %s", n, asked)
			l.answer("Update", atOnce)
			go stop(c)
			mustEnd(t, c, want)
			l.settled(t)
		}
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { end(t, func(c *leader.Candidate) { _ = c.Stop() }, want.stop) })
			synctest.Test(t, func(t *testing.T) { end(t, func(c *leader.Candidate) { backend.Crash(c) }, want.hasty) })
		})
	}
}

// A candidate that has ended leaves nothing behind: no timer, no hook on its context, nothing open, no
// context of a request, and no slot.
func TestEnd_LeavesNothing(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, l *ledger, c *leader.Candidate){
		"Stop":  func(t *testing.T, _ *ledger, c *leader.Candidate) { _ = c.Stop() },
		"crash": func(_ *testing.T, _ *ledger, c *leader.Candidate) { backend.Crash(c) },
		"connection closed": func(_ *testing.T, l *ledger, _ *leader.Candidate) {
			l.tellAll(backend.FeedEvent{Err: leader.ErrConnectionClosed})
		},
	} {
		for seats, cfg := range map[int]leader.Config{1: {Queue: &leader.Queue{AtOnce: true}}, 3: {}} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx := &hookedContext{Context: t.Context()}
					l := newLedger(nil)
					l.seats = seats
					clock := newLedgerClock(l)
					l.window = backend.NewWindow(1, 1)
					for range backend.Phases - 1 {
						l.window.Join()
					}
					cfg.Clock = clock
					c := l.stand(ctx, t, cfg)
					time.Sleep(3500 * time.Millisecond) // it has renewed
					check.Must(t, c.IsLeader(), "does not lead")
					l.atRest(t)
					l.tell(backend.FeedEvent{Err: leader.ErrUnreachable})
					time.Sleep(3 * time.Second) // it has another feed
					l.tell(backend.FeedEvent{Err: leader.ErrConnectionClosed})
					open, asked := l.count(l.open, "feed"), l.count(l.asked, "Watch")
					if open != seats || asked != open+1 || !c.IsLeader() {
						t.Errorf("%d feeds are open, %d were opened; it leads: %v", open, asked, c.IsLeader())
					}
					end(t, l, c)
					mustEnd(t, c, 0)
					n, _, _ := clock.armed()
					check.Equal(t, n, 0, "%d timers are armed")
					check.Equal(t, ctx.hooks.Load(), 0, "%d hooks on the context are left")
					l.settled(t)
				})
			})
		}
	}
}

// After the end of a candidate that still held the key, nothing in its Stats goes on.
func TestEnd_StatsStandStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(map[string]answers{})
		c := l.stand(t.Context(), t, leader.Config{GracePeriod: time.Minute})
		time.Sleep(1500 * time.Millisecond)
		end, _ := leadertest.Work(leadertest.Led(c))
		defer end()
		l.answer("Update", whenGivenUp)
		l.answer("Settings", whenGivenUp)
		l.answer("Get", whenGivenUp)
		time.Sleep(time.Minute) // its lease is over, and its work goes on
		if s := c.Stats(); s.Silent == 0 || s.SinceRenewal == 0 || s.Unreleased == 0 || s.Leaderless == 0 {
			t.Errorf("before: %+v", s)
		}
		backend.Crash(c)
		mustEnd(t, c, 0)
		before := c.Stats()
		time.Sleep(time.Minute)
		s := c.Stats()
		if s.Silent != 0 || s.SinceRenewal != 0 || s.Unreleased != 0 || s.Leaderless != before.Leaderless {
			t.Errorf("a minute after the end: silent for %v, renewed %v ago, unreleased for %v, leaderless for %v, %v before", s.Silent, s.SinceRenewal, s.Unreleased, s.Leaderless, before.Leaderless)
		}
	})
}
