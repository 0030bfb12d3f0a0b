package leader

import (
	"context"
	"fmt"
	"time"
)

// grace is the context of the work in hand. It outlives the context of the term while the candidate keeps the key for that
// work, or the member the shard. The term's mu guards it.
type grace struct {
	ctx    context.Context //nolint:containedctx // nil: it was not asked for
	cancel context.CancelCauseFunc
	by     time.Duration // since the start: the key, or the shard, is kept until then; 0: it is not
	over   error         // the cause of its end
}

// end ends the context.
func (g *grace) end(cause error) {
	if g.over == nil {
		g.over = cause
		if g.cancel != nil {
			g.cancel(cause)
		}
	}
}

// Grace returns a context for the work in hand, as a transaction, in a term to whose context ctx belongs. While the
// context of the term is alive, the next item may begin. While that of Grace is, the item in hand may go on: after an
// orderly end, as by [Candidate.Stop] or the move of a shard, Grace lives on while the key or the shard is kept for
// its work, and ends with [ErrNotReleased] at the end of [Config].GracePeriod. It ends with the lease, as the context
// of the term does, and asks the clock in the same way. After a loss it ends at once.
//
// Grace has the values of ctx, but not its end or its deadline. For a ctx of no term, it has ended with
// [ErrNotLeader].
func Grace(ctx context.Context) context.Context {
	t, ok := FromContext(ctx)
	if !ok {
		return noTerm
	}
	_ = t.over() // ends both contexts if the lease is over
	grace := t.inHand()
	t.lookGrace()
	return &graceful{Context: grace, values: context.WithoutCancel(ctx), term: t}
}

// inHand returns the context of the work in hand. That of a subterm is derived from that of the term around it.
func (t *Term) inHand() context.Context {
	around := context.Background()
	if t.within != nil {
		around = t.within.inHand()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := &t.grace; g.ctx == nil {
		g.ctx, g.cancel = context.WithCancelCause(around)
		if g.over != nil {
			g.cancel(g.over)
		}
	}
	return t.grace.ctx
}

// graceful is the context of the work in hand, with the values of another. As leadership does, it shows the context inside
// by Value, so that derived contexts add no goroutine, and have the cause.
type graceful struct {
	context.Context                 //nolint:containedctx // that of grace
	values          context.Context //nolint:containedctx // has the values, and no end
	term            *Term
}

// Err implements [context.Context].
func (g *graceful) Err() error {
	g.term.askGrace()
	return g.Context.Err()
}

// Done implements [context.Context].
func (g *graceful) Done() <-chan struct{} {
	_ = g.Err() // ends the context if its time is up
	return g.Context.Done()
}

// Value implements [context.Context].
func (g *graceful) Value(key any) any {
	if v := g.values.Value(key); v != nil {
		return v
	}
	return g.Context.Value(key)
}

// String names the context in the texts of contexts that are derived from it.
func (g *graceful) String() string { return fmt.Sprintf("leader.Grace(%v)", &g.term.ctx) }

// drain begins or prolongs the time for the work in hand, after the end of the term's context. The lock is held.
func (t *Term) drain(elapsed, by time.Duration) {
	t.grace.by = by
	t.settleGrace(elapsed)
}

// depose ends the time for the work in hand, because the term is over. The time may be up, which is the better cause.
func (t *Term) depose(cause error) {
	t.lookGrace()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.grace.end(cause)
	if t.watchdog != nil {
		t.watchdog.Stop()
	}
}

// askGrace is the question of the work in hand. It ends the contexts of the term and of Grace by the clock.
func (t *Term) askGrace() {
	if t.ask() != nil {
		t.lookGrace()
	}
}

// lookGrace ends Grace by the clock.
func (t *Term) lookGrace() {
	if t.within != nil {
		t.within.lookGrace()
	}
	elapsed := t.elapsed() // a clock that blocks must not do so under the lock
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settleGrace(elapsed)
}

// settleGrace ends Grace if its time is up. Otherwise the watchdog does. The lock is held.
func (t *Term) settleGrace(elapsed time.Duration) {
	g := &t.grace
	switch left := t.left(elapsed); {
	case t.ctx.ended() == nil || g.over != nil:
	case left == 0:
		g.end(ErrLeaseExpired)
	case g.by == 0:
		g.end(context.Cause(&t.ctx))
	case elapsed >= g.by:
		g.end(ErrNotReleased)
	case t.watchdog != nil && g.ctx != nil:
		t.watchdog.Reset(min(left, g.by-elapsed))
	}
}
