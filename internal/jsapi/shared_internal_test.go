package jsapi

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// exam is a question that callers share. Its requests are answered when the test says so.
type exam struct {
	shared[int]
	mu      sync.Mutex
	sent    int
	ended   []int // the requests that were given up
	answers map[int]chan error
}

func newExam() *exam { return &exam{answers: make(map[int]chan error)} }

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

// reply answers a request.
func (e *exam) reply(n int, err error) {
	e.mu.Lock()
	answer := e.answers[n]
	e.mu.Unlock()
	answer <- err
	synctest.Wait()
}

// wantSent checks how many requests were sent so far, and which of them were given up.
func (e *exam) wantSent(t *testing.T, sent int, ended ...int) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	check.That(t, e.sent == sent && slices.Equal(e.ended, ended), "%d requests were sent, given up: %v", e.sent, e.ended)
}

// result is what a caller gets.
type result struct {
	value int
	ok    bool
	err   error
}

// caller asks, and has its result in time.
func (e *exam) caller(ctx context.Context) *atomic.Pointer[result] {
	var got atomic.Pointer[result]
	go func() {
		value, ok, err := e.ask(ctx, e.send)
		got.Store(&result{value, ok, err})
	}()
	synctest.Wait()
	return &got
}

func wantResult(t *testing.T, who string, got *atomic.Pointer[result], want *result) {
	t.Helper()
	switch r := got.Load(); {
	case r == nil && want == nil:
	case r == nil || want == nil || r.value != want.value || r.ok != want.ok || !errors.Is(r.err, want.err):
		t.Errorf("%s: got %+v, want %+v", who, r, want)
	}
}

// A caller never gets the answer to a request that was sent before it asked.
func TestShared_AnswersAreNewer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExam()
		a := e.caller(t.Context())
		b, c := e.caller(t.Context()), e.caller(t.Context())
		e.reply(1, nil)
		wantResult(t, "a", a, &result{value: 1, ok: true})
		wantResult(t, "b", b, nil)
		d := e.caller(t.Context())
		failed := errors.New("failed")
		e.reply(2, failed)
		wantResult(t, "b", b, &result{2, true, failed})
		wantResult(t, "c", c, &result{2, true, failed})
		wantResult(t, "d", d, nil)
		e.reply(3, nil)
		wantResult(t, "d", d, &result{value: 3, ok: true})
		e.wantSent(t, 3)
	})
}

// A caller that gives up takes nothing from the others. A request without a caller is
// given up, and the next one goes at once.
func TestShared_CallersGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExam()
		first, leaveFirst := context.WithCancel(t.Context())
		a := e.caller(first)
		second, leaveSecond := context.WithCancel(t.Context())
		b, c := e.caller(second), e.caller(t.Context())
		leaveSecond()
		synctest.Wait()
		wantResult(t, "b", b, &result{err: context.Canceled})
		wantResult(t, "c", c, nil)
		leaveFirst()
		synctest.Wait()
		wantResult(t, "a", a, &result{err: context.Canceled})
		e.wantSent(t, 2, 1)
		e.reply(2, nil)
		wantResult(t, "c", c, &result{value: 2, ok: true})

		// The next request has lost its only caller, and is not sent.
		a = e.caller(t.Context())
		third, leaveThird := context.WithCancel(t.Context())
		e.caller(third)
		leaveThird()
		synctest.Wait()
		e.reply(3, nil)
		wantResult(t, "a", a, &result{value: 3, ok: true})
		e.wantSent(t, 3, 1)
	})
}

// A request that is not answered holds up the next one for a moment only, and its answer
// still counts for its own callers.
func TestShared_LostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExam()
		a := e.caller(t.Context())
		time.Sleep(overdue / 2)
		b := e.caller(t.Context())
		time.Sleep(overdue/2 - 1)
		synctest.Wait()
		e.wantSent(t, 1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		c := e.caller(t.Context())
		e.reply(1, nil)
		wantResult(t, "a", a, &result{value: 1, ok: true})
		e.wantSent(t, 2)
		e.reply(2, nil)
		wantResult(t, "b", b, &result{value: 2, ok: true})
		time.Sleep(time.Minute)
		d := e.caller(t.Context())
		e.wantSent(t, 4)
		e.reply(3, nil)
		e.reply(4, nil)
		wantResult(t, "c", c, &result{value: 3, ok: true})
		wantResult(t, "d", d, &result{value: 4, ok: true})
	})
}

// After a reconnection, the answer to an earlier request is not waited for.
func TestShared_Reconnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExam()
		a, b := e.caller(t.Context()), e.caller(t.Context())
		e.wantSent(t, 1)
		e.expect(2)
		synctest.Wait()
		e.wantSent(t, 2)
		e.reply(2, nil)
		wantResult(t, "b", b, &result{value: 2, ok: true})
		e.expect(2)
		e.reply(1, nil)
		wantResult(t, "a", a, &result{value: 1, ok: true})
		e.wantSent(t, 2)
	})
}

// A round that several callers share is given up with the last of them. The context of a caller
// that has begun a round does not end it for the others.
func TestShared_LastCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExam()
		a := e.caller(t.Context())
		var ends []context.CancelFunc
		for range 3 {
			ctx, end := context.WithCancel(t.Context())
			ends = append(ends, end)
			e.caller(ctx)
		}
		e.reply(1, nil)
		wantResult(t, "a", a, &result{value: 1, ok: true})
		e.wantSent(t, 2)
		for i, end := range ends {
			end()
			synctest.Wait()
			if i < 2 {
				e.wantSent(t, 2)
			}
		}
		e.wantSent(t, 2, 2)
		b := e.caller(t.Context())
		e.wantSent(t, 3, 2)
		e.reply(3, nil)
		wantResult(t, "b", b, &result{value: 3, ok: true})
	})
}

// The limit of a request that was answered does not let the one after it go too early.
func TestShared_LimitIsOfOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newExam()
		a := e.caller(t.Context())
		e.reply(1, nil)
		wantResult(t, "a", a, &result{value: 1, ok: true})
		time.Sleep(overdue / 2)
		e.caller(t.Context())
		e.caller(t.Context())
		time.Sleep(overdue - 1)
		synctest.Wait()
		e.wantSent(t, 2)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		e.wantSent(t, 3)
		e.reply(2, nil)
		e.reply(3, nil)
	})
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
