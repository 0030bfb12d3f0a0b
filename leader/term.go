package leader

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// Term is one leadership: from an [Elected] event to the [Deposed] event of the same
// term. The zero value is a term that is over, ended with [ErrStopped].
type Term struct {
	ctx     context.Context //nolint:containedctx // the context of the leadership is what a Term is
	cancel  context.CancelCauseFunc
	token   uint64
	seat    int
	clock   Clock
	start   time.Time    // the time that until counts from
	until   atomic.Int64 // the lease is valid until this long after start
	release func()
	freed   atomic.Bool // Release was called
	fences  []*fence    // one for each guard of its candidate

	// The candidate's goroutine holds mu while it steps the machine and prolongs the lease.
	// The watchdog holds mu while it checks the lease and ends the context. So the candidate
	// never leads on a context that the watchdog has ended. No code of the application runs
	// under mu, so nothing that holds up the candidate's goroutine holds up the watchdog.
	mu       sync.Mutex
	watchdog Timer // nil: the clock has none
	lapsed   bool  // the watchdog has ended the context
}

// watch starts the watchdog, which ends the context when the lease is over, even if the
// candidate's goroutine is held up. The watchdog is armed once. When it fires, it is
// armed again for the time by which the lease was prolonged meanwhile, so a renewal costs
// nothing.
func (t *Term) watch() {
	clock, ok := t.clock.(alarmClock)
	if !ok {
		return
	}
	left := t.left(t.elapsed())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchdog = clock.AfterFunc(left, t.lapse)
}

// lapse is called by the watchdog. It only ends the context. The candidate's goroutine,
// as soon as it runs, finds the lease over, too, and emits the events.
func (t *Term) lapse() {
	elapsed := t.elapsed() // a clock that blocks must not do so under the lock
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return
	}
	if left := t.left(elapsed); left > 0 {
		t.watchdog.Reset(left)
		return
	}
	t.lapsed = true
	t.cancel(ErrLeaseExpired)
}

// end ends the context. The lock is held.
func (t *Term) end(cause error) {
	t.cancel(cause)
	if t.watchdog != nil {
		t.watchdog.Stop()
	}
}

// elapsed returns the time since start.
func (t *Term) elapsed() time.Duration { return t.clock.Now().Sub(t.start) }

// left returns how long the lease is valid from that time after start on.
func (t *Term) left(elapsed time.Duration) time.Duration {
	return max(0, time.Duration(t.until.Load())-elapsed)
}

// Context returns the context of the leadership. It ends when the term does, before
// another candidate can be elected. [context.Cause] returns the reason: [ErrResigned],
// [ErrStopped], [ErrLeaseExpired], [ErrPreempted], [ErrDeleted], [ErrRegressed],
// [ErrFenced] or [ErrConnectionClosed]. The context carries the values of the context
// given to [Campaign].
//
// Two timers end it at the deadline: the candidate's, and one of the term's own. The second
// waits for nothing that holds up the candidate, whatever that is. It needs a method of the
// [Clock], which the system's clock has. Both timers need the scheduler. A process that was
// stopped for a while, or that keeps its processors busy with very many goroutines, finds
// its context alive until the timers have caught up. [Term.Err] is exact.
func (t *Term) Context() context.Context {
	if t.ctx == nil {
		return termOver
	}
	return t.ctx
}

// termOver is the context of a zero Term.
var termOver = func() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(ErrStopped)
	return ctx
}()

// Token returns the fencing token. It is greater than that of every earlier term of the
// election.
func (t *Term) Token() uint64 {
	if t == nil { // of a zero event
		return 0
	}
	return t.token
}

// Seat returns the number of the seat that the term leads: 1 for the election's own key,
// as in every election with one leader, and n for the key that [SeatKey] names.
func (t *Term) Seat() int {
	if t == nil {
		return 0
	}
	return t.seat
}

// Err returns nil while the context is alive and the lease is valid. It reads the clock, so
// a process that was paused finds out before its timers do. Afterwards Err returns the cause
// with which the context ended, or [ErrLeaseExpired] if the clock is ahead of the timers.
func (t *Term) Err() error {
	if ctx := t.Context(); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if t.Remaining() <= 0 {
		return ErrLeaseExpired
	}
	return nil
}

// Remaining returns how long the lease is valid from now on if it is not renewed. It
// returns 0 if the lease is over or the context has ended.
func (t *Term) Remaining() time.Duration {
	if t.Context().Err() != nil {
		return 0
	}
	return t.left(t.elapsed())
}

// Fence returns the revision at which the guard stands for this term. A write to the
// guarded resource is the leader's if it is conditioned on that revision being the
// guard's last. Fence returns false for a guard that was not given to [Campaign]. The
// revision changes when the guard is raised again.
//
// The writers of package fence do this by themselves.
func (t *Term) Fence(g Guard) (revision uint64, ok bool) {
	f := t.fence(g)
	if f == nil {
		return 0, false
	}
	revision, _ = f.Current()
	return revision, true
}

// Suspect reports to the candidate that a write of this term was rejected although the
// guard should stand. The candidate then reads the guard at once, instead of once in a
// lease, and raises it again if it was deleted. Suspect does nothing for a guard that was
// not given to [Campaign].
//
// The writers of package fence call it by themselves.
func (t *Term) Suspect(g Guard) {
	if f := t.fence(g); f != nil {
		f.suspect()
	}
}

// Release reports that the work of this term is over, so that a leader that is stepping
// down need not wait for the whole DrainTimeout. It may be called more than once, from
// any goroutine, and before the term has ended.
func (t *Term) Release() {
	t.freed.Store(true)
	if t.release != nil {
		t.release()
	}
}

func init() {
	backend.Released = func(term any) bool { return term.(*Term).freed.Load() }
}
