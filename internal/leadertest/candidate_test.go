package leadertest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// campaign makes a real candidate on a link of its own, and stops it when the
// test is over.
func campaign(t *testing.T, clock *leadertest.Clock, s *leadertest.Store, id string) (*leader.Candidate, *leadertest.Watcher) {
	t.Helper()
	return campaignAs(t, clock, s, leader.Config{ID: id})
}

func campaignAs(t *testing.T, clock *leadertest.Clock, s *leadertest.Store, cfg leader.Config, marks ...mark) (*leader.Candidate, *leadertest.Watcher) {
	t.Helper()
	store := leader.Store(s.Link(cfg.ID))
	for _, with := range marks {
		store = with(store)
	}
	c := check.Got(leader.Campaign(context.Background(), store, "jobs", cfg))(t)
	return c, leadertest.Watch(t, clock, c)
}

// mark is a function like kvelect.Beside.
type mark = func(leader.Store) leader.Store

func isElected(e leader.Event) bool { _, ok := e.(leader.Elected); return ok }

// story runs three candidates through many faults, and returns their events as text.
func story(t *testing.T) string {
	t.Helper()
	clock := leadertest.NewClock()
	s := leadertest.NewStore(clock, leadertest.WithLatency(3*time.Millisecond))
	var lines []string
	watchers := map[string]*leadertest.Watcher{}
	candidates := map[string]*leader.Candidate{}
	seen := map[string]int{}
	ids := []string{"a", "b", "c"}
	for _, id := range ids {
		candidates[id], watchers[id] = campaign(t, clock, s, id)
	}
	step := func(d time.Duration) {
		for end := clock.Elapsed() + d; clock.Elapsed() < end; clock.Advance(250 * time.Millisecond) {
			for _, id := range ids {
				all := watchers[id].Events()
				for _, e := range all[seen[id]:] {
					lines = append(lines, fmt.Sprintf("%v %s %v", clock.Elapsed(), id, e))
				}
				seen[id] = len(all)
			}
		}
		lines = append(lines, fmt.Sprintf("%v %+v", clock.Elapsed(), s.Requests()))
	}
	step(10 * time.Second)
	s.Link("a").LoseReplies(2)
	s.Link("b").StaleReads(2)
	step(10 * time.Second)
	s.Link("a").Cut()
	step(30 * time.Second)
	s.Link("a").Restore()
	s.Delete("jobs")
	step(40 * time.Second)
	for _, id := range ids {
		s.Link(id).Freeze()
	}
	step(20 * time.Second)
	for _, id := range ids {
		s.Link(id).Thaw()
	}
	step(40 * time.Second)
	s.Recreate()
	step(time.Minute)
	return strings.Join(lines, "\n")
}

// The same test of candidates has the same events every time.
func TestCandidate_IsDeterministic(t *testing.T) {
	var first string
	for i := range 50 {
		t.Run("", func(t *testing.T) {
			got := story(t)
			switch {
			case i == 0:
				first = got
				t.Log(got)
			case got != first:
				t.Fatalf("first\n%s\nthen\n%s", first, got)
			}
		})
	}
}

// A candidate works in a bubble with a clock of the kit.
func TestCandidate_InBubbleWithClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := leadertest.NewClock()
		s := leadertest.NewStore(clock)
		_, a := campaign(t, clock, s, "a")
		_, b := campaign(t, clock, s, "b")
		a.Expect(leadertest.Elected())
		s.Link("a").Cut()
		clock.Advance(15 * time.Second)
		a.Expect(leadertest.Fenced())
		b.Expect(leadertest.Elected())
	})
}

// A candidate works in the time of a bubble.
func TestCandidate_InBubbleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		s := leadertest.NewStore(nil)
		_, a := campaign(t, nil, s, "a")
		a.Expect(leadertest.Elected())
		_, b := campaign(t, nil, s, "b")
		synctest.Wait()
		time.Sleep(6 * time.Second)
		s.Link("a").Cut()
		b.Expect(leadertest.Elected())
		got := time.Since(begin)
		check.Must(t, got == 20*time.Second, "elected at %v", got)
		synctest.Wait()
		a.Ignore(leadertest.Faulted(), leadertest.Observed()).ExpectExactly(leadertest.Fenced(leader.ErrLeaseExpired))
	})
}
