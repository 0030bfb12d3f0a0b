package jsapi

import (
	"context"
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/deadline"
)

// overdue is how long a caller waits at most for the answer to an earlier request before its
// own is sent. The earlier request or its answer may be lost.
const overdue = 250 * time.Millisecond

// shared lets callers with the same question share a request. One request is in flight, and
// the callers that come meanwhile gather for the next one. No caller gets the answer to a
// request that was sent before it asked, because that answer may be older than what the
// caller knows.
type shared[T any] struct {
	mu     sync.Mutex
	flying *round[T] // the last one that was sent; nil: it has ended
	next   *round[T] // not sent yet; nil: no caller waits for it
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
	r := s.join(ctx, send)
	select {
	case <-r.done:
	case <-ctx.Done():
		s.leave(r)
		return value, false, ctx.Err()
	}
	return r.value, true, r.err
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
		if before := s.flying; before == nil {
			s.depart()
		} else {
			deadline.After(overdue, func() { s.over(before) })
		}
	}
	r.waiters++
	return r
}

// depart sends the next request. s is locked.
func (s *shared[T]) depart() {
	r := s.next
	s.flying, s.next = r, nil
	if r == nil {
		return
	}
	go func() {
		r.value, r.err = r.send(r.ctx)
		r.cancel()
		close(r.done)
		s.over(r)
	}()
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
