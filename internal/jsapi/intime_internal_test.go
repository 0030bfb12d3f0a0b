package jsapi

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/deadline"
)

// observed is a context that counts the functions which wait for its end.
type observed struct {
	context.Context

	mu       sync.Mutex
	watchers int
}

// Value hides what the context is made of, so that package context calls AfterFunc.
func (o *observed) Value(any) any { return nil }

// AfterFunc is called by [context.AfterFunc].
func (o *observed) AfterFunc(f func()) (stop func() bool) {
	o.add(1)
	unwatch := context.AfterFunc(o.Context, func() {
		o.add(-1)
		f()
	})
	return func() bool {
		stopped := unwatch()
		if stopped {
			o.add(-1)
		}
		return stopped
	}
}

func (o *observed) add(n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watchers += n
}

func (o *observed) wantUnwatched(t *testing.T) {
	t.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	check.That(t, o.watchers == 0, "%d functions still wait for the end of the context", o.watchers)
}

// A call of nats.go has a little more time than its context. One that takes longer is left
// behind, sends nothing that it has not begun to send, and releases what it returns too late.
func TestInTime_LeavesBehind(t *testing.T) {
	failed := errors.New("failed")
	for name, tt := range map[string]struct {
		returns time.Duration // the context ends after a second
		err     error
		sends   bool
		after   time.Duration
		late    int // values that are released
	}{
		"at once":                {returns: 0, after: 0},
		"in time":                {returns: time.Second + patience - 1, after: time.Second + patience - 1},
		"in time with an error":  {returns: 1, err: failed, after: 1},
		"late":                   {returns: time.Minute, after: time.Second + patience, late: 1},
		"late with an error":     {returns: time.Minute, err: failed, after: time.Second + patience},
		"late and perhaps sent":  {returns: time.Minute, sends: true, after: time.Second + patience, late: 1},
		"in time, although sent": {returns: time.Second, sends: true, after: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limited, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				ctx := &observed{Context: limited}
				var a Stream
				var late int
				leave := time.Second + patience
				maySend := true
				began := time.Now()
				value, err := waitFor(ctx, &a, func(may func() bool) (int, error) {
					if tt.sends {
						may()
					}
					time.Sleep(tt.returns)
					if !tt.sends {
						maySend = may()
					}
					return 7, tt.err
				}, func(value int) { late += value })
				d := time.Since(began)
				check.That(t, d == tt.after, "returned after %v, not after %v", d, tt.after)
				left := int32(0)
				if tt.returns >= leave {
					left = 1
					if !errors.Is(err, backend.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) || IsUnsent(err) == tt.sends || IsUnanswered(err) != tt.sends || value != 0 {
						t.Errorf("got %d, %v", value, err)
					}
				} else if value != 7 || !errors.Is(err, tt.err) || err != nil && tt.err == nil {
					t.Errorf("got %d, %v", value, err)
				}
				check.Equal(t, a.left.Load(), left, "%d calls are left behind, not %d", left)
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				n := a.left.Load()
				check.That(t, n == 0 && late == 7*tt.late && maySend == (left == 0 || tt.sends),
					"in the end %d calls are left behind, %d was released, may send: %v", n, late, maySend)
				ctx.wantUnwatched(t)
			})
		})
	}
}

// A call that returns after the end of its context, and before it is late, is replied to once.
func TestInTime_RepliesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var replies atomic.Int32
		inTime(ctx, new(Stream), func(func() bool) (int, error) {
			time.Sleep(time.Second + patience/2)
			return 0, nil
		}, nil, func(int, error) { replies.Add(1) })
		time.Sleep(time.Minute)
		check.Equal(t, replies.Load(), 1, "%d replies")
	})
}

// A call that has returned does not wait for the end of its context.
func TestInTime_ForgetsItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := &observed{Context: t.Context()}
		_, err := InTime(ctx, new(Stream), func() (int, error) { return 0, nil }, nil)
		check.That(t, err == nil, "%v", err)
		ctx.wantUnwatched(t)
	})
}

// While as many calls are left behind as a stream may have, others end at once, and nothing is
// sent. When one of them has returned, another call may begin.
func TestInTime_Bound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a Stream
		ctx, cancel := context.WithCancel(t.Context())
		ends := make(chan struct{})
		var replies []error
		var mu sync.Mutex
		for range maxLeft {
			inTime(ctx, &a, func(func() bool) (int, error) { <-ends; return 0, nil }, nil, func(_ int, err error) {
				mu.Lock()
				defer mu.Unlock()
				replies = append(replies, err)
			})
		}
		var begun atomic.Int32
		begin := func() (err error) {
			_, err = InTime(t.Context(), &a, func() (int, error) { begun.Add(1); return 0, nil }, nil)
			return err
		}
		err := begin()
		check.That(t, err == nil, "before any call is late: %v", err)
		cancel()
		time.Sleep(patience + 1)
		synctest.Wait()
		n := len(replies)
		check.Must(t, n == maxLeft, "%d calls of %d are left behind", n, maxLeft)
		if err := begin(); !errors.Is(err, backend.ErrUnreachable) || !IsUnsent(err) {
			t.Errorf("with too many left behind: %v", err)
		}
		synctest.Wait()
		check.Equal(t, begun.Load(), 1, "%d calls were begun")
		ends <- struct{}{}
		synctest.Wait()
		check.Is(t, begin(), nil)
		close(ends)
	})
}

// Soon waits for the function, but for a moment only.
func TestSoon_WaitsForAMoment(t *testing.T) {
	for takes, want := range map[time.Duration]time.Duration{0: 0, patience / 2: patience / 2, time.Minute: patience} {
		synctest.Test(t, func(t *testing.T) {
			held, began, ended := deadline.Held(), time.Now(), false
			Soon(func() {
				time.Sleep(takes)
				ended = true
			})
			if d := time.Since(began); d != want || deadline.Held() != held {
				t.Errorf("a function that takes %v: returned after %v, %d limits are held", takes, d, deadline.Held()-held)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			check.That(t, ended, "the function was not called")
		})
	}
}
