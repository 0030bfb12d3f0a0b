package leadertest

import (
	"time"

	kit "github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// Term is a term for the test of code that takes a *leader.Term. It never ends by itself, because its time
// stands still but for Advance, in a bubble, too.
type Term struct {
	*leader.Term
	tb  TB
	kit *kit.Term
}

// NewTerm returns a term that leads, of a candidate with these settings; its token is MinToken + 1. The
// term ends with the test. NewTerm fails the test for settings with which a candidate does not lead at
// once. Clock is not among them.
func NewTerm(tb TB, cfg leader.Config) *Term {
	tb.Helper()
	t := kit.NewTerm(tb, cfg)
	return &Term{t.Term, tb, t}
}

// Advance lets d pass without a renewal, so that the rest of the lease shrinks by d
// ([leader.Term.Remaining], 12 s at first with the default settings). When nothing is left, the term has
// ended with [leader.ErrLeaseExpired].
func (t *Term) Advance(d time.Duration) { t.kit.Advance(d) }

// End ends the term with a cause, as that cause ends a term in production, and returns when the context
// has ended: one of [leader.ErrResigned], ErrStopped, ErrLeaseExpired, ErrPreempted, ErrDeleted,
// ErrRegressed, ErrConnectionClosed, ErrFenced if a guard of this package ([Link.Guard]) is among the
// Guards of the settings, or ErrStalled if they have a StallTimeout. It fails the test for any other
// cause, and does nothing to a term that has ended.
func (t *Term) End(cause error) {
	t.tb.Helper()
	t.kit.End(cause)
}
