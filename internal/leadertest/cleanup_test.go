package leadertest_test

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// Watch ends the candidate at the end of the test, whatever holds up a graceful stop: a fake
// clock that stands still, a link that is cut or slow, work that is not released.
func TestWatch_EndsTheCandidate(t *testing.T) {
	for name, hinder := range map[string]func(store *leadertest.Store, link *leadertest.Link){
		"healthy": func(*leadertest.Store, *leadertest.Link) {},
		"cut":     func(_ *leadertest.Store, link *leadertest.Link) { link.Cut() },
		"frozen":  func(_ *leadertest.Store, link *leadertest.Link) { link.Freeze() },
		"slow":    func(_ *leadertest.Store, link *leadertest.Link) { link.Delay(time.Second) },
		"dropped": func(store *leadertest.Store, _ *leadertest.Link) { store.Drop() },
	} {
		for _, n := range []int{0, 3} {
			for _, fake := range []bool{false, true} {
				test := func(t *testing.T) {
					var clock *leadertest.Clock
					if fake {
						clock = leadertest.NewClock()
					}
					store := leadertest.NewStore(clock)
					var c *leader.Candidate
					t.Cleanup(func() { // after that of Watch
						check.That(t, check.Now(c.Done()), "%s, %d seats: it has not ended", name, n)
					})
					link := store.Link("a")
					var err error
					c, err = leader.Campaign(t.Context(), seats.Of(link, n), "jobs", leader.Config{
						ID: "a", GracePeriod: time.Hour, Queue: &leader.Queue{AtOnce: true}, Logger: slog.New(slog.DiscardHandler),
					})
					check.OK(t, err)
					leadertest.Watch(t, clock, c).Expect(leadertest.Elected())
					hinder(store, link)
					if fake {
						clock.Advance(2500 * time.Millisecond) // a renewal is under way
					}
				}
				synctest.Test(t, test)
				if fake {
					t.Run(name, test)
				}
			}
		}
	}
}

// Leader returns the holder while the record in the store keeps others out, and no other.
func TestLeader_ByTheRecord(t *testing.T) {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock)
	leads := func(id string) {
		t.Helper()
		h := store.Leader("jobs")
		check.That(t, h.ID == id && (id != "" || h.Seat == 0 && h.State == leader.HolderNone),
			"%v: %v, want %q", clock.Elapsed(), h, id)
	}
	leads("")
	a, err := leader.Campaign(t.Context(), store.Link("a"), "jobs", leader.Config{ID: "a", PendingPeriod: time.Minute})
	check.OK(t, err)
	leadertest.Watch(t, clock, a)
	leads("") // it is pending
	clock.Advance(time.Minute)
	leads("a")
	store.Link("a").Cut()
	clock.Advance(15*time.Second - 1)
	leads("a")
	clock.Advance(1)
	leads("")
	store.Link("a").Restore()
	clock.Advance(5 * time.Minute)
	leads("a")
	check.OK(t, leadertest.Resign(t.Context(), a))
	leads("")
	store.Put("jobs", []byte("foreign"))
	leads("")
}
