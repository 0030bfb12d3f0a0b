// Package shard shares a fixed number of shards evenly among the members of a group, for partitions, tenants or devices
// on each of which exactly one process must work.
//
//	m, err := shard.Join(ctx, bucket, "orders", shard.Config{Shards: 50, ID: hostname})
//	...
//	return m.Serve(func(lead context.Context, s *shard.Shard) { // for each shard, on a goroutine of its own
//		for lead.Err() == nil { // asks the clock
//			item(lead, s.Number(), s.Token())
//		}
//	}) // nil if ctx has ended
//
// In the repository, docs/howto/shards.md has the rules for the work, what the group does in each fault, a program with
// guards and tests, and the costs. docs/groups.md has the protocol.
package shard

// The files of this package:
//
//	shard.go        the package documentation; Shard: one grant of a shard to this process
//	config.go       Config, and the checks of its fields
//	member.go       Join, Member: its two elections, Serve, its end
//	events.go       Event and its types, their readers and log lines; what is a fault
//	stats.go        Stats, Ping
//	member_term.go  one term of a member: work that begins and stops, what it publishes, its place in the
//	                registry
//	assigner.go     the spread of the shards in a term of the group's election
//	follow.go       the newest entry of a key, by a feed and by reads
//	watch.go        what the records of other members show of their terms; keys of members that are gone
//	view.go         Lookup and Observe: who owns the shards
//	operator.go     what operators ask for: Move, Drain, Undrain

import (
	"context"
	"errors"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
)

// ErrMoved is the cause with which the context of a shard ends that is granted to another member.
var ErrMoved = errors.New("shard: granted to another member")

// Shard is one grant of a shard to this process. Its methods may be called from any goroutine.
type Shard struct {
	number int
	token  uint64
	work   *group.Work // in the machine of the member's term
	term   *leader.Term
	over   context.Context //nolint:containedctx // that of the term is derived from it
	cancel context.CancelCauseFunc
	served func() // ends the wait of Serve for the shard
}

// newShard returns a shard within a term of a member.
func newShard(lead context.Context, number int, token uint64) *Shard {
	s := &Shard{number: number, token: token, served: func() {}}
	s.over, s.cancel = context.WithCancelCause(context.WithValue(lead, shardKey{}, s))
	return s
}

func init() {
	backend.NewShard = func(lead context.Context, number int, sub backend.Subterm) (any, context.CancelCauseFunc) {
		s := newShard(lead, number, sub.Token)
		term, _ := backend.NewSubterm(s.over, sub)
		s.term = term.(*leader.Term) //nolint:forcetypeassert // package leader has made it
		return s, s.cancel
	}
	backend.ShardsIn = func(group string, entry func(string) backend.Entry, holder func(string) any) any {
		return viewOf(group, entry, func(election string) leader.Holder {
			return holder(election).(leader.Holder) //nolint:forcetypeassert // its contract
		})
	}
}

// shardKey is the key of the shard in its context.
type shardKey struct{}

// FromContext returns the shard to whose context ctx belongs, or false. ctx may be derived from that context in any way, also
// by [context.WithoutCancel].
func FromContext(ctx context.Context) (*Shard, bool) {
	s, ok := ctx.Value(shardKey{}).(*Shard)
	return s, ok
}

// Number returns the number of the shard, from 0.
func (s *Shard) Number() int { return s.number }

// Token returns the fencing token of the grant. It is greater than that of each earlier owner of the shard, also if the
// bucket was deleted and made anew: tokens begin with the microseconds since 1970 at which the group was made. So there
// is no MinToken. docs/groups.md has what to do after a restore from a backup.
func (s *Shard) Token() uint64 { return s.token }

// Context returns the context of the work. It ends before another process can own the shard. Err and Done ask the
// clock. [context.Cause] returns [ErrMoved], [leader.ErrFenced] if a guard stands at a later token, or the cause of the
// end of the member's term, for example [leader.ErrLeaseExpired] or [leader.ErrStopped]; when the function of
// [Member.Serve] has returned, [context.Canceled]. That function and those of [leader.Term.Go] have [Config].GracePeriod to
// return, after [leader.ErrLeaseExpired] only the rest of the lease. Then another process can work on the shard, the member
// logs a warning, and [Stats].Busy grows until they return.
func (s *Shard) Context() context.Context { return s.term.Context() }

// Term returns the term of the shard, for package fence and other code that takes one. It has the context and the token of
// the shard, and the lease of the member's term. [leader.FromContext] finds it in the context of the shard.
func (s *Shard) Term() *leader.Term { return s.term }

// release says that the work on the shard is over. Its functions of Go may go on.
func (s *Shard) release() { backend.Release(s.term) }
