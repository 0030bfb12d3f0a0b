package leadertest

import (
	"context"
	"errors"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// Shard is a shard for the test of code that takes a *shard.Shard. It never ends by itself.
type Shard struct {
	*shard.Shard
	member *Term
	end    context.CancelCauseFunc
}

// NewShard returns a shard of that number and token, which ends with the test. Its member has a term of [NewTerm].
func NewShard(tb TB, number int, token uint64) *Shard {
	tb.Helper()
	term := NewTerm(tb, leader.Config{})
	s, end := backend.NewShard(term.Context(), number, token)
	return &Shard{s.(*shard.Shard), term, end}
}

// End ends the context of the shard with a cause, and returns when it has ended: [shard.ErrMoved], or a cause of
// [Term.End], as that of a member's term. It does nothing to a context that has ended.
func (s *Shard) End(cause error) {
	s.member.tb.Helper()
	switch {
	case s.Context().Err() != nil:
	case errors.Is(cause, shard.ErrMoved):
		s.end(cause)
	default:
		if s.member.End(cause); s.member.Context().Err() != nil {
			<-s.Context().Done()
		}
	}
}

// Released reports whether the code under test has called [shard.Shard.Release].
func (s *Shard) Released() bool { return backend.Released(s.Term()) }
