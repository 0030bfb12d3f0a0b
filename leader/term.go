package leader

import (
	"context"
	"sync/atomic"
	"time"
)

// Term is one leadership: from an [Elected] event to the [Deposed] event of the
// same term.
type Term struct {
	ctx     context.Context //nolint:containedctx // the context of the leadership is what a Term is
	cancel  context.CancelCauseFunc
	token   uint64
	seat    int
	clock   Clock
	start   time.Time    // what deadline counts from
	until   atomic.Int64 // the lease is good until this long after start
	release func()
	fences  []*fence // by the guards of its candidate
}

// Context returns the context of the leadership. It ends when the term does,
// before anybody else can be elected, and [context.Cause] says why:
// [ErrResigned], [ErrStopped], [ErrLeaseExpired], [ErrPreempted], [ErrDeleted],
// [ErrRegressed], [ErrFenced] or [ErrConnectionClosed]. It carries the values of the context
// given to [Campaign].
//
// Timers end it. A process that was stopped for a while finds its context alive
// until they have caught up; [Term.Err] is exact.
func (t *Term) Context() context.Context { return t.ctx }

// Token returns the fencing token: greater than that of every earlier term of
// the election.
func (t *Term) Token() uint64 { return t.token }

// Seat returns the number of the seat that is led: 1 for the election's own key,
// as in every election with one leader, and n for the key that [Seat] names.
func (t *Term) Seat() int { return t.seat }

// Err returns nil while the lease is good now. It reads the clock: a process
// that was paused finds out before its timers do. Afterwards it returns the
// cause with which the context ended, or [ErrLeaseExpired] if the clock is
// ahead of the timers.
func (t *Term) Err() error {
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	if t.Remaining() <= 0 {
		return ErrLeaseExpired
	}
	return nil
}

// Remaining returns for how long the lease is good from now on if it is not
// renewed, 0 if it is over or the context has ended.
func (t *Term) Remaining() time.Duration {
	if t.ctx.Err() != nil {
		return 0
	}
	return max(0, time.Duration(t.until.Load())-t.clock.Now().Sub(t.start))
}

// Fence returns the revision at which the guard stands for this term: a write to
// the guarded resource is the leader's if it is conditioned on that revision being
// the guard's last. It returns false for a guard that was not given to [Campaign].
// The revision changes when the guard is raised again.
//
// The writers of a [GuardedBucket] and a [GuardedStream] do this by themselves.
func (t *Term) Fence(g Guard) (revision uint64, ok bool) {
	f := t.fence(g)
	if f == nil {
		return 0, false
	}
	revision, _ = f.current()
	return revision, true
}

// Release tells that the work of this term is over, so that a leader that is
// stepping down need not wait for the whole DrainTimeout. It may be called more
// than once, from anywhere, and before the term has ended.
func (t *Term) Release() { t.release() }
