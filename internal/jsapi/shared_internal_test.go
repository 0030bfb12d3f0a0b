package jsapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/golden"
)

// The scripts in testdata/shared have a question that callers share, and a server that answers when the script
// says so.
//
//	ask a            a caller asks
//	leave a          and gives up
//	reply 2 [failed] the second request is answered
//	sleep 250ms
//	reconnect 2      and as many callers are expected
//
// Below a line are the callers that have their result, which is the number of the request, and the requests so
// far.
func TestShared(t *testing.T) {
	golden.Scripts(t, "shared", func(t *testing.T, file string) {
		synctest.Test(t, func(t *testing.T) {
			e := &exam{answers: make(map[int]chan error), leave: make(map[string]context.CancelFunc)}
			golden.Script(t, file, func(_ string, words []string) []string { return e.do(t, words) })
		})
	})
}

type exam struct {
	shared[int]
	leave map[string]context.CancelFunc

	mu      sync.Mutex
	sent    int
	ended   []int // the requests that were given up
	answers map[int]chan error
	results []string // since the last line
	was     string   // the requests at the last line
}

func (e *exam) do(t *testing.T, words []string) []string {
	t.Helper()
	switch what := words[1]; words[0] {
	case "ask":
		ctx, leave := context.WithCancel(t.Context())
		e.leave[what] = leave
		go func() {
			value, ok, err := e.ask(ctx, e.send)
			e.mu.Lock()
			defer e.mu.Unlock()
			e.results = append(e.results, fmt.Sprintf("%s: %d %v %v", what, value, ok, err))
		}()
	case "leave":
		e.leave[what]()
	case "reply":
		e.mu.Lock()
		answer := e.answers[check.Got(strconv.Atoi(what))(t)]
		e.mu.Unlock()
		if len(words) > 2 {
			answer <- errors.New(words[2])
		} else {
			answer <- nil
		}
	case "sleep":
		time.Sleep(check.Got(time.ParseDuration(what))(t))
	case "reconnect":
		e.expect(check.Got(strconv.Atoi(what))(t))
	}
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	lines := slices.Sorted(slices.Values(e.results))
	if is := fmt.Sprintf("%d requests, given up %v", e.sent, e.ended); is != e.was {
		lines, e.was = append(lines, is), is
	}
	e.results = nil
	return lines
}

// send sends a request. Its result is its number.
func (e *exam) send(ctx context.Context) (int, error) {
	answer := make(chan error)
	e.mu.Lock()
	e.sent++
	n := e.sent
	e.answers[n] = answer
	e.mu.Unlock()
	select {
	case err := <-answer:
		return n, err
	case <-ctx.Done():
		e.mu.Lock()
		defer e.mu.Unlock()
		e.ended = append(e.ended, n)
		return n, ctx.Err()
	}
}

// A request that is given up lets the next one go at once, although it has not ended yet.
func TestShared_GivenUpEndsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s shared[int]
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, _, _ = s.ask(ctx, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				time.Sleep(patience)
				return 0, nil
			})
		}()
		synctest.Wait()
		go func() {
			time.Sleep(time.Millisecond)
			cancel()
		}()
		began := time.Now()
		_, ok, err := s.ask(t.Context(), func(context.Context) (int, error) { return 0, nil })
		d := time.Since(began)
		check.That(t, ok && err == nil && d == time.Millisecond, "%v, %v after %v", ok, err, d)
		time.Sleep(time.Second)
	})
}
