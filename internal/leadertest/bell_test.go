package leadertest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
)

// Calls from other goroutines do not make a candidate late. A wake-up that was already
// served once left the candidate computing its next deadline while the clock took it to
// be at rest.
func TestCalls_DelayNoCandidate(t *testing.T) {
	at := map[time.Duration]int{}
	for range 300 {
		func() {
			clock := leadertest.NewClock()
			s := leadertest.NewStore(clock)
			ca, a := campaign(t, clock, s, "a")
			cb, b := campaign(t, clock, s, "b")
			defer func() { s.Link("a").Close(); s.Link("b").Close(); <-ca.Done(); <-cb.Done() }()
			a.Expect(leadertest.Elected())
			clock.Advance(6 * time.Second)
			s.Link("a").Cut()
			clock.Advance(13 * time.Second)
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 5 {
						_ = leadertest.Resign(t.Context(), cb)
					}
				})
			}
			for range 200 {
				clock.Advance(100 * time.Microsecond)
			}
			wg.Wait()
			for range 20 {
				clock.Advance(100 * time.Microsecond)
			}
			clock.Advance(20*time.Second - 1 - clock.Elapsed())
			clock.Advance(1)
			for range 3000 {
				if es := b.Events(); isElected(es[len(es)-1]) {
					break
				}
				clock.Advance(100 * time.Microsecond)
			}
			at[clock.Elapsed()]++
		}()
	}
	check.That(t, len(at) == 1 && at[20*time.Second] != 0, "elected after, and how often: %v; want 20s every time", at)
}
