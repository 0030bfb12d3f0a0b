package health_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/health"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// In an outage of NATS, Live answers 200 for ever, for a candidate that led and for one that
// has never reached its bucket. Connected answers 503.
func TestLive_200InAnOutage(t *testing.T) {
	k := newKit(t)
	k.store.Link("b").Cut()
	for _, id := range []string{"a", "b"} {
		c := k.stand(id, leader.Config{})
		k.store.Link(id).Cut()
		for range 60 {
			k.clock.Advance(time.Minute)
			k.is(health.Live(c), 200, `"live":true}`)
			k.is(health.Connected(c), 503, "")
		}
	}
}

// Live answers 200 after Stop, and 503 with the reason after an end with an error.
func TestLive_AfterTheEnd(t *testing.T) {
	k := newKit(t)
	for _, k.seats = range []int{0, 3} {
		a := k.stand("a", leader.Config{})
		check.OK(t, a.Stop())
		k.get(health.Live(a))
	}
	for _, k.seats = range []int{0, 3} {
		b := k.stand("b", leader.Config{})
		k.store.Link("b").Close()
		<-b.Done()
		k.get(health.Live(b))
	}
}

// A candidate whose work hangs is not connected from when it drains on, and not live from when it has
// handed over until the work ends. Another candidate leads meanwhile. The handlers are no sign of work.
func TestLive_503WhileWorkHangs(t *testing.T) {
	k := newKit(t)
	a := k.stand("a", leader.Config{StallTimeout: 20 * time.Second, GracePeriod: 10 * time.Second})
	term, ok := a.Term()
	check.Must(t, ok, "a does not lead")
	end, _ := leadertest.Work(term)
	k.stand("b", leader.Config{})
	k.clock.Advance(19 * time.Second)
	k.get(health.Live(a), health.Connected(a), health.Leader(a))
	k.clock.Advance(time.Second)
	k.get(health.Live(a), health.Connected(a), health.Leader(a))
	k.clock.Advance(10 * time.Second)
	k.get(health.Live(a), health.Connected(a), health.Leader(a))
	end()
	check.Soon(t, "the work ends", func() bool { return !a.Stats().Stalled }, k.clock.Settle)
	k.get(health.Live(a), health.Connected(a))
}

// stuck is a clock that may hang.
type stuck struct {
	leader.Clock
	mu   sync.Mutex
	gate chan struct{} // nil: it does not hang
}

func (c *stuck) set(gate chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gate = gate
}

func (c *stuck) Now() time.Time {
	c.mu.Lock()
	gate := c.gate
	c.mu.Unlock()
	if gate != nil {
		<-gate
	}
	return c.Clock.Now()
}

// Live answers 503 after a second while a call of the clock hangs, and earlier to a client that leaves.
// It leaves no goroutine behind, and answers 200 as soon as the call has returned.
func TestLive_503WhenStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &stuck{Clock: leader.SystemClock()}
		c, err := leader.Campaign(t.Context(), leadertest.NewStore(nil), "billing", leader.Config{Clock: clock})
		check.OK(t, err)
		synctest.Wait()
		patience := time.Hour // of the client
		probe := func(status int, after time.Duration) *httptest.ResponseRecorder {
			t.Helper()
			from := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			w := httptest.NewRecorder()
			health.Live(c).ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", http.NoBody))
			check.That(t, w.Code == status && time.Since(from) == after,
				"%d after %v, want %d after %v", w.Code, time.Since(from), status, after)
			return w
		}
		held := deadline.Held()
		probe(200, 0)
		check.Equal(t, deadline.Held(), held, "%d limits are held")
		gate := make(chan struct{})
		clock.set(gate)
		time.Sleep(time.Minute)
		synctest.Wait()
		before := runtime.NumGoroutine()
		for range 100 {
			w := probe(503, time.Second)
			check.That(t, strings.Contains(w.Body.String(), "does not answer"), "%s", w.Body)
		}
		if after := runtime.NumGoroutine(); after >= before+50 { // the runtime has some of its own
			t.Errorf("%d goroutines, %d before", after, before)
		}
		patience = time.Second / 4
		probe(503, time.Second/4)
		clock.set(nil)
		close(gate)
		probe(200, 0)
		check.OK(t, c.Stop())
	})
}
