package leader

import (
	"context"
	"fmt"
	"time"
)

// leadership is the context of a term. Its Err and Done ask the clock before they answer, so
// the end of the lease is seen at once by a process that was paused.
//
// It adds no goroutine for contexts that are derived from it. The context package finds the
// context inside by Value, and sees by the channel of Done that both end together. So a
// derived context also has the cause. An AfterFunc method would lose that.
type leadership struct {
	context.Context //nolint:containedctx // ended by the term, with the cause
	term            *Term
}

// ended is Err without a look at the clock.
func (l *leadership) ended() error { return l.Context.Err() }

// Err implements [context.Context].
func (l *leadership) Err() error {
	elapsed, err := l.check()
	if w := &l.term.work; w.timeout > 0 && err == nil {
		w.asked.Store(int64(elapsed))
	}
	return err
}

// check is Err for code that is not the work of the term. It also returns the time since the start.
func (l *leadership) check() (elapsed time.Duration, err error) {
	if err = l.ended(); err != nil {
		return 0, err
	}
	t := l.term
	if elapsed = t.elapsed(); t.left(elapsed) > 0 || t.lapse() > 0 {
		t.noticePause()
		return elapsed, nil
	}
	return elapsed, l.ended()
}

// Done implements [context.Context].
func (l *leadership) Done() <-chan struct{} {
	_ = l.Err() // ends the context if the lease is over
	return l.Context.Done()
}

// Value implements [context.Context].
func (l *leadership) Value(key any) any {
	if key == (termKey{}) {
		return l.term
	}
	return l.Context.Value(key)
}

// String names the context in the texts of contexts that are derived from it. Without it,
// package fmt would read the fields of the term, and those are not for all goroutines.
func (l *leadership) String() string {
	return fmt.Sprintf("leader.Term(token %d).Context", l.term.token)
}

// termKey is the key of the term in its context.
type termKey struct{}

// FromContext returns the term to whose context ctx belongs, or false. ctx may be derived from that
// context in any way, also by [context.WithoutCancel].
func FromContext(ctx context.Context) (*Term, bool) {
	t, ok := ctx.Value(termKey{}).(*Term)
	return t, ok
}

// Exact returns ctx with an Err and a Done that ask the clock, as those of [Term.Context] do. It is for contexts
// derived from that of a term, by [context.WithTimeout] or an errgroup, whose own Err and Done are late after a pause
// of the process. The result ends when ctx does, with the same cause. Contexts that are derived from it need an Exact
// of their own. For a ctx of no term, it has ended with [ErrNotLeader].
func Exact(ctx context.Context) context.Context {
	t, ok := FromContext(ctx)
	if !ok {
		return noTerm
	}
	return &exact{Context: ctx, term: t}
}

// noTerm is what [Exact] returns for a context of no term.
var noTerm = endedWith(ErrNotLeader)

// exact is a context that is derived from that of a term, and asks the clock.
type exact struct {
	context.Context //nolint:containedctx // it is one
	term            *Term
}

// Err implements [context.Context].
func (e *exact) Err() error {
	e.term.askGrace()
	return e.Context.Err()
}

// Done implements [context.Context].
func (e *exact) Done() <-chan struct{} {
	e.term.askGrace()
	return e.Context.Done()
}

// String names the context in the texts of contexts that are derived from it.
func (e *exact) String() string { return fmt.Sprintf("leader.Exact(%v)", e.Context) }

// Err returns nil while ctx is alive and the term to which it belongs leads. It asks the clock, so it is exact for
// all contexts that are derived from that of a term, also by [Grace]. Otherwise it returns the cause of the end of
// the term, or, if only ctx has ended, the cause of that. It returns [ErrNotLeader] if ctx belongs to no term.
func Err(ctx context.Context) error {
	t, ok := FromContext(ctx)
	if !ok {
		return ErrNotLeader
	}
	if err := t.ask(); err != nil {
		return err
	}
	return context.Cause(ctx)
}
