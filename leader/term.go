package leader

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/record"
)

// Term is one leadership: from an [Elected] event to the [Deposed] event of the same
// term. The zero value is a term that is over, ended with [ErrStopped].
type Term struct {
	ctx      leadership
	cancel   context.CancelCauseFunc
	token    uint64
	seat     int
	last     record.PackedLast // the last leader before
	timeline                   // of its candidate: until counts from its start
	until    *atomic.Int64     // the lease is valid until this long after start
	box      *mailbox          // of its candidate; nil: it has none
	within   *Term             // the term around a subterm
	number   uint64            // the machine's number of the term
	release  func()            // of a subterm: is called once, when its work has ended
	freed    atomic.Bool       // a subterm was released
	offered  bool              // to the loops of Terms; only the candidate's goroutine uses it
	ahead    atomic.Int64      // by which the time of day was ahead of the clock when it was last looked at
	fences   []*fence          // one for each guard of its candidate
	work     workWatch

	// The candidate's goroutine holds mu while it steps the machine and prolongs the lease.
	// A reader of the context, or the watchdog, that finds the lease over holds mu while it
	// looks again and ends the context. So the candidate never leads on a context that has
	// ended. No code of the application runs under mu but the methods of the watchdog's timer,
	// so nothing that holds up the candidate's goroutine holds up a reader or the watchdog.
	mu       sync.Mutex
	watchdog Timer // nil: the clock has none
	lapsed   bool  // a reader or the watchdog has ended the context
	known    termWork
	grace    grace
}

// watch starts the watchdog, which ends the context when the lease is over, even if the
// candidate's goroutine is held up. The watchdog is armed once. When it fires, it is
// armed again for the time by which the lease was prolonged meanwhile, so a renewal costs
// nothing.
func (t *Term) watch() {
	left := t.left(t.elapsed())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.watchdog = backend.AfterFunc(t.clock, left, t.look)
}

// look is called by the watchdog.
func (t *Term) look() {
	if t.lapse() > 0 {
		elapsed := t.elapsed()
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.ctx.ended() == nil {
			t.watchdog.Reset(t.left(elapsed))
		}
		return
	}
	t.lookGrace()
}

// lapse ends the context if the lease is over, and returns how long the lease is valid
// otherwise. The candidate's goroutine, as soon as it runs, finds the lease over, too, and
// emits the events. So nothing need wake it.
func (t *Term) lapse() (left time.Duration) {
	elapsed := t.elapsed() // a clock that blocks must not do so under the lock
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.ended() != nil {
		return 0
	}
	if left = t.left(elapsed); left == 0 {
		t.lapsed = true
		t.cancel(ErrLeaseExpired)
		t.grace.end(ErrLeaseExpired)
	}
	return left
}

// end ends the context. The lock is held.
func (t *Term) end(cause error) {
	t.cancel(cause)
	if t.watchdog != nil {
		t.watchdog.Stop()
	}
}

// hold sets until when the lease is valid. The watchdog, which was armed for a longer one, is armed again. The lock is held.
func (t *Term) hold(elapsed, until time.Duration) {
	if was := t.until.Swap(int64(until)); int64(until) < was && t.watchdog != nil {
		t.watchdog.Reset(max(0, until-elapsed))
	}
}

// left returns how long the lease is valid from that time after start on.
func (t *Term) left(elapsed time.Duration) time.Duration {
	return max(0, time.Duration(t.until.Load())-elapsed)
}

// Context returns the context of the leadership. It ends when the term does, before another candidate can be elected.
// [context.Cause] returns one of the errors from [ErrResigned] to [ErrConnectionClosed]. The context carries the
// values of the context given to [Campaign], and has no Deadline.
//
// Err and Done ask the clock, and end the context with [ErrLeaseExpired] if the lease is over, also after a SIGSTOP. A select
// that called Done before that is late. Ask Err before each item. For derived contexts see [Exact].
func (t *Term) Context() context.Context {
	if t == nil || t.ctx.term == nil {
		return termOver
	}
	return &t.ctx
}

// termOver is the context of a zero Term.
var termOver = endedWith(ErrStopped)

func endedWith(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

// Token returns the fencing token, greater than that of every earlier term.
func (t *Term) Token() uint64 {
	if t == nil { // of a zero event
		return 0
	}
	return t.token
}

// Seat returns the number of the seat (seats.Key) that the term leads, or 1.
func (t *Term) Seat() int {
	if t == nil {
		return 0
	}
	return t.seat
}

// Previous returns the last leader before this term, as its candidate found it in the key, without a request. The
// State is [HolderReleased] if it gave the key up, [HolderExpired] if its lease expired, and [HolderNone] if none is
// known: in the first term, and after the key was deleted or held a foreign record. The Value is its last one
// (docs/contract.md). Renewed, the server's time of its last write, may be zero if the same candidate led before.
func (t *Term) Previous() Holder {
	if t == nil {
		return Holder{}
	}
	return pastHolder(t.last.Unpack(), t.seat)
}

// ask returns nil while the term leads, and then the cause with which the context has ended. It is the
// question of the work. Once it has returned a cause, the contexts that package context has derived
// from that of the term have ended, too.
func (t *Term) ask() error {
	if ctx := t.Context(); ctx.Err() != nil {
		return context.Cause(ctx) // waits until those contexts have ended
	}
	return nil
}

// over returns nil while the term leads, and then the cause with which the context has ended. Unlike
// ask it is no sign that the work goes on.
func (t *Term) over() error {
	if _, err := t.ctx.check(); err != nil {
		return context.Cause(&t.ctx)
	}
	return nil
}

// Remaining returns how long the lease is valid if not renewed; 0 at its end.
func (t *Term) Remaining() time.Duration {
	if t == nil || t.ctx.term == nil || t.ctx.ended() != nil {
		return 0
	}
	return t.left(t.elapsed())
}

func (t *Term) send(kind machine.InputKind) {
	if t != nil && t.box != nil {
		t.box.note(kind, t.number)
	}
}

func init() {
	backend.ClockOf = func(candidate any) any { return candidate.(*Candidate).clock }
	backend.ElapsedOf = func(candidate any) time.Duration { return candidate.(*Candidate).since() }
	backend.StoreOf = func(candidate any) backend.Store { return candidate.(*Candidate).store }
	backend.Report = func(candidate any, fault error) { candidate.(*Candidate).box.put(mail{fault: fault}) }
	backend.Release = func(term any) { term.(*Term).free() }
	backend.GiveUp = func(term any) { term.(*Term).depose(ErrNotReleased) }
	backend.Idle = func(term any) <-chan struct{} { return term.(*Term).idle() }
}
