package jsapi

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// roundTrip is how long the requests of a census take.
const roundTrip = 15 * time.Millisecond

// census is a question that many callers share. Its requests are answered after a round trip.
type census struct {
	shared[int]
	mu    sync.Mutex
	began time.Time
	sent  []time.Duration // when each request was sent
	waits []time.Duration // of the callers that have an answer
}

// send sends a request. Its result is its number.
func (c *census) send(context.Context) (int, error) {
	c.mu.Lock()
	c.sent = append(c.sent, time.Since(c.began))
	n := len(c.sent)
	c.mu.Unlock()
	time.Sleep(roundTrip)
	return n, nil
}

// callers has n callers ask now, and checks that each gets the answer to a request that was
// sent after that.
func (c *census) callers(t *testing.T, n int) {
	t.Helper()
	asked := time.Since(c.began)
	for range n {
		go func() {
			number, ok, err := c.ask(t.Context(), c.send)
			c.mu.Lock()
			defer c.mu.Unlock()
			check.That(t, ok && err == nil && c.sent[number-1] >= asked,
				"a caller of %v got the answer to request %d: %v, %v", asked, number, ok, err)
			c.waits = append(c.waits, time.Since(c.began)-asked)
		}()
	}
	synctest.Wait()
}

// want checks how many requests were sent, how many callers have their answers, and how long
// the slowest has waited.
func (c *census) want(t *testing.T, requests, callers int, slowest time.Duration) {
	t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sent) != requests || len(c.waits) != callers || slices.Max(c.waits) != slowest {
		t.Errorf("%d requests at %v, %d answers, the last one after %v", len(c.sent), c.sent, len(c.waits), slices.Max(c.waits))
	}
}

// Ten thousand callers that are expected, and ask over a second, share a dozen requests. So do
// those of which the first come slowly. Without a pause between two requests, they need one for
// each round trip.
func TestShared_CrowdSharesRequests(t *testing.T) {
	for _, tt := range []struct {
		name     string
		expected int
		early    int // callers that come first
		apart    time.Duration
		requests int
		slowest  time.Duration
	}{
		{"not expected", 0, 0, 0, 68, 2 * roundTrip},
		{"expected", 10_000, 0, 0, 11, mostPause + 2*roundTrip},
		{"slow at first", 10_000, 50, 10 * time.Millisecond, 15, mostPause + 2*roundTrip},
		{"slower at first", 10_000, 5, lapse - 1, 13, mostPause + 2*roundTrip},
		{"a little faster", 10_000, 5, lapse - 100*time.Millisecond, 13, mostPause + 2*roundTrip},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &census{began: time.Now()}
				c.expect(tt.expected)
				n := 0
				for ; n < tt.early; n++ {
					c.callers(t, 1)
					time.Sleep(tt.apart)
				}
				for ; n < 10_000; n += 10 {
					c.callers(t, 10)
					time.Sleep(time.Millisecond)
				}
				c.want(t, tt.requests, n, tt.slowest)
			})
		})
	}
}

// A few callers wait for no pause, whether they are expected or not.
func TestShared_FewDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &census{began: time.Now()}
		c.expect(crowd)
		c.callers(t, 1)
		c.callers(t, crowd-1)
		time.Sleep(roundTrip + 1)
		c.callers(t, 1)
		c.want(t, 3, crowd+1, 2*roundTrip)
	})
}

// Callers that are expected and do not come hold up no other.
func TestShared_ExpectedDoNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &census{began: time.Now()}
		c.expect(10_000)
		c.callers(t, 1)
		time.Sleep(roundTrip + leastPause + lapse + 1)
		for range 10 {
			c.callers(t, 1)
			time.Sleep(roundTrip + 1)
		}
		c.want(t, 11, 11, roundTrip)
	})
}

// A caller that gives up during a pause leaves at once. Without another, nothing is sent.
func TestShared_GivesUpInPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &census{began: time.Now()}
		c.expect(10_000)
		c.callers(t, 1)
		time.Sleep(roundTrip + 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		began := time.Now()
		_, ok, err := c.ask(ctx, c.send)
		check.That(t, !ok && err != nil && time.Since(began) == time.Millisecond,
			"%v, %v after %v", ok, err, time.Since(began))
		c.want(t, 1, 1, roundTrip)
	})
}

// The pauses of a crowd begin anew with each reconnection.
func TestShared_PauseBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &census{began: time.Now()}
		for range 2 {
			c.expect(10_000)
			for range 4 {
				c.callers(t, 1)
			}
			time.Sleep(time.Second)
			for range 4 {
				c.callers(t, 1)
				time.Sleep(time.Second)
			}
		}
		synctest.Wait()
		var between []time.Duration
		for _, i := range []int{1, 7} {
			between = append(between, c.sent[i]-c.sent[i-1])
		}
		want := roundTrip + leastPause
		check.That(t, between[0] == want && between[1] == want,
			"the first pauses end after %v, not after %v; sent at %v", between, want, c.sent)
	})
}
