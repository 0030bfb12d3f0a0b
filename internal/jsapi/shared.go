package jsapi

import (
	"context"
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/deadline"
)

const (
	// overdue is how long a request holds up the next one at most. It or its answer may be lost.
	overdue = 250 * time.Millisecond
	// crowd is the number of callers from which a shared request is delayed, so that more of them
	// can join it.
	crowd = 16
	// leastPause is the first pause between two requests of a crowd. Each pause is twice as long
	// as the one before, up to mostPause. So thousands of callers that ask over a second share a
	// dozen requests. mostPause and two round trips are less than a leader waits for an answer.
	leastPause = 8 * time.Millisecond
	mostPause  = 128 * time.Millisecond
	// lapse is the time without a question after which no more callers are expected.
	lapse = 5 * time.Second
)

// shared lets callers with the same question share a request. One request is in flight, and
// the callers that come meanwhile gather for the next one. No caller gets the answer to a
// request that was sent before it asked, because that answer may be older than what the
// caller knows. Only a crowd that is expected waits for longer than an answer takes.
type shared[T any] struct {
	mu       sync.Mutex
	last     *round[T]     // sent last
	flying   *round[T]     // the last one, until the next may go; nil: it may go
	next     *round[T]     // not sent yet; nil: no caller waits for it
	expected int           // callers that are still to ask; fewer than a crowd: not known
	pause    time.Duration // the last one for those that are expected
}

// round is one request and the callers that wait for it. It ends with its answer, or when
// the contexts of all its callers have ended.
type round[T any] struct {
	send    func(context.Context) (T, error)
	ctx     context.Context //nolint:containedctx // of the request
	cancel  context.CancelFunc
	waiters int
	done    chan struct{} // closed when value and err are set
	value   T
	err     error
}

// ask returns the result of send. It returns the error of ctx, and ok false, if ctx ends
// before there is a result. The send of another call of ask may be the one that runs.
func (s *shared[T]) ask(ctx context.Context, send func(context.Context) (T, error)) (value T, ok bool, err error) {
	return s.await(ctx, s.join(ctx, send))
}

// await returns the result of a round, for a caller that is one of its waiters.
func (s *shared[T]) await(ctx context.Context, r *round[T]) (value T, ok bool, err error) {
	select {
	case <-r.done:
	case <-ctx.Done():
		s.leave(r)
		return value, false, ctx.Err()
	}
	return r.value, true, r.err
}

// any is ask for a caller that knows nothing. It may get the answer to a request that is on its way.
func (s *shared[T]) any(ctx context.Context, send func(context.Context) (T, error)) (value T, ok bool, err error) {
	s.mu.Lock()
	r := s.flying
	if r != nil {
		r.waiters++
	}
	s.mu.Unlock()
	if r == nil {
		return s.ask(ctx, send)
	}
	return s.await(ctx, r)
}

// waits reports whether a call of ask would wait for an answer to another.
func (s *shared[T]) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flying != nil
}

// join makes the caller one of those that wait for the next request.
func (s *shared[T]) join(ctx context.Context, send func(context.Context) (T, error)) *round[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.next
	if r == nil {
		r = &round[T]{send: send, done: make(chan struct{})}
		r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
		s.next = r
		if s.flying == nil {
			s.depart()
		}
	}
	r.waiters++
	return r
}

// expect prepares for n callers that are about to ask. The connection was made again, so the
// answer to an earlier request may never come.
func (s *shared[T]) expect(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected, s.pause = n, 0
	s.depart()
}

// depart sends the next request, if a caller waits for it. s is locked.
func (s *shared[T]) depart() {
	r := s.next
	s.flying, s.next = r, nil
	if r == nil {
		s.wane()
		return
	}
	s.last = r
	deadline.After(overdue, func() { s.over(r) })
	go func() {
		r.value, r.err = r.send(r.ctx)
		r.cancel()
		close(r.done)
		s.rest(r)
	}()
}

// wane ends the expectation if no caller asks soon. s is locked.
func (s *shared[T]) wane() {
	if last := s.last; s.expected > 0 {
		deadline.After(lapse, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.last == last && s.flying == nil {
				s.expected = 0
			}
		})
	}
}

// rest lets the next request go after the answer to r, at once or after a pause.
func (s *shared[T]) rest(r *round[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flying != r {
		return
	}
	s.expected = max(s.expected-r.waiters, 0)
	if s.expected < crowd {
		s.pause = 0
		s.depart()
		return
	}
	s.pause = min(max(2*s.pause, leastPause), mostPause)
	deadline.After(s.pause, func() { s.over(r) })
}

// over lets the next request go if r was sent last.
func (s *shared[T]) over(r *round[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flying == r {
		s.depart()
	}
}

// leave takes a caller out of its round. Without a caller, a round is given up.
func (s *shared[T]) leave(r *round[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.waiters--; r.waiters > 0 {
		return
	}
	r.cancel()
	switch r {
	case s.next:
		s.next = nil
	case s.flying:
		s.depart()
	}
}
