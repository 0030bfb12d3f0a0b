package leadertest

import (
	"context"
	"errors"

	"github.com/natsleader/natsleader/internal/backend"
	kit "github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// Shard is a shard for the test of code that takes a *shard.Shard. It never ends by itself.
type Shard struct {
	*shard.Shard
	member *Term
	guards []leader.Guard
	end    context.CancelCauseFunc
}

// NewShard returns a shard of that number and token, which ends with the test. Its member has a term of [NewTerm].
// The guards, each a [Link.Guard], stand at the token. NewShard fails the test for guards that cannot be raised to it.
func NewShard(tb TB, number int, token uint64, guards ...leader.Guard) *Shard {
	tb.Helper()
	term, raised, ended := NewTerm(tb, leader.Config{}), make(chan error, 1), make(chan struct{})
	term.Go(func(context.Context) { <-ended }) // a member keeps its key for the work on its shards
	tb.Cleanup(func() { close(ended) })
	answer := func(err error) {
		select {
		case raised <- err:
		default: // of the first fault alone
		}
	}
	made, end := backend.NewShard(term.Context(), number, backend.Subterm{
		Token: token, Owner: "shard", ID: "member", Session: "session", Guards: guards, Lease: term.Remaining(),
		Raised: func() { answer(nil) }, Fault: answer,
	})
	s := made.(*shard.Shard) //nolint:forcetypeassert // package shard has made it
	var err error
	select {
	case err = <-raised:
	case <-s.Context().Done():
		err = context.Cause(s.Context())
	}
	if err != nil {
		tb.Fatalf("leadertest: NewShard: %v", err)
	}
	return &Shard{s, term, guards, end}
}

// End ends the context of the shard with a cause, and returns when it has ended: [shard.ErrMoved], [leader.ErrFenced]
// if it has guards, which a later owner has raised then, or a cause of [Term.End], as that of a member's term. It
// does nothing to a context that has ended. After an orderly end [leader.Grace] lives on until the test ends. For a
// test in which it is to end, take a member of package shard in a bubble of testing/synctest.
func (s *Shard) End(cause error) {
	s.member.tb.Helper()
	switch {
	case s.Context().Err() != nil:
	case errors.Is(cause, shard.ErrMoved):
		s.end(cause)
	case errors.Is(cause, leader.ErrFenced) && len(s.guards) > 0:
		for _, g := range s.guards {
			g.(kit.Guard).Overtake(s.Term()) //nolint:forcetypeassert // Link.Guard has made it
		}
		<-s.Context().Done()
	default:
		if s.member.End(cause); s.member.Context().Err() != nil {
			<-s.Context().Done()
		}
	}
}
