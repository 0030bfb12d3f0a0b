package leadertest

import (
	"time"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/keyset"
	kit "github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// Clock is a [leader.Clock] that moves only in [Clock.Advance], from one event to the next. No
// event runs before all candidates of the clock are at rest. Candidates and stores work in its time
// by themselves, and what is due now needs no Advance.
//
// The clock waits for candidates, and for no other goroutine: wait for those of your own, by a
// channel or a sync.WaitGroup, before you look at their results. Nor can it see a candidate that
// another goroutine is about to make: test code that calls leader.Campaign itself in a bubble.
//
// A method that has waited for 30 s panics and names what it waits for. Call none from a callback
// of a candidate, for instance a log handler.
type Clock struct {
	leader.Clock
	hidden
	kit *kit.Clock
}

// hidden keeps the optional methods of the clock, which are for package leader, out of the documentation.
type hidden interface {
	Wall() time.Time
	Ahead() time.Duration
	Unarmed() leader.Timer
}

// NewClock returns a clock that shows midnight, 1 January 2000, UTC, as in a bubble.
func NewClock() *Clock {
	c := kit.NewClock()
	return &Clock{c, c, c}
}

// Advance moves the clock by d and returns when all events that were due have run, those that were
// scheduled on the way included. It panics if d is negative.
func (c *Clock) Advance(d time.Duration) { c.kit.Advance(d) }

// Settle returns when all events that are due now have run.
func (c *Clock) Settle() { c.kit.Settle() }

// SetWall sets the wall clocks of all hosts ahead of the time by so much, or behind it if ahead is negative. Now, leases
// and what the store shows as its time do not depend on it. The slots of a schedule do, and so do the instants in events
// and in the log. [Link.SetWall] adds to it for one host.
func (c *Clock) SetWall(ahead time.Duration) { c.kit.SetWall(ahead) }

// of returns the clock of the kit; nil for the time of the process.
func (c *Clock) of() *kit.Clock {
	if c == nil {
		return nil
	}
	return c.kit
}

// Store is a bucket in memory, for any number of elections: a [leader.Store]. Or it is a bucket that
// only the leader may write (see [Link.Guard]), or one of keys (a keys.Bucket).
type Store struct {
	store
	kit *kit.Store
}

// store keeps the methods that are for package leader out of the documentation.
type store interface {
	leader.Store
	Clock() leader.Clock // the default of Config.Clock
	KeySet() keyset.Bucket
}

// NewStore returns an empty store in the time of the clock, or, with a nil clock, in that of the process,
// which in a bubble is the bubble's. It answers as a bucket that [leader.EnsureBucket] made of the zero
// [leader.BucketConfig].
func NewStore(clock *Clock) *Store {
	s := kit.NewStore(clock.of())
	return &Store{s, s}
}

// Configure gives the bucket other settings. Of these, MaxLease and TTL matter to candidates.
func (s *Store) Configure(bucket leader.BucketConfig) {
	var opts []kit.Option
	if bucket.TTL > 0 {
		opts = append(opts, kit.WithTTL(bucket.TTL))
	}
	if bucket.MaxLease > 0 {
		opts = append(opts, kit.WithMaxLease(bucket.MaxLease))
	}
	s.kit.Configure(opts...)
}

// Link returns the connection of that name to the store. The first call makes it. A candidate that is
// to be cut off campaigns on a link of its own, and not on the Store.
func (s *Store) Link(name string) *Link {
	l := s.kit.Link(name)
	return &Link{l, l}
}

// Leader returns the holder of the election that leads by its record: a lease since its last renewal is
// not over. Without one, Leader returns a zero Holder.
func (s *Store) Leader(election string) leader.Holder { return s.kit.Leader(election) }

// StepDown asks the leader of the election to hand over, as [leader.StepDown] does, and does not wait
// for it. It returns [leader.ErrNoLeader] if there is no leader.
func (s *Store) StepDown(election string) error { return s.kit.StepDown(election) }

// Put writes a value over whatever the key holds, as `nats kv put` does.
func (s *Store) Put(key string, value []byte) { s.kit.Put(key, value) }

// Delete deletes the key, as `nats kv del` does.
func (s *Store) Delete(key string) { s.kit.Delete(key) }

// Value returns the value of the key, not to be changed; nil if there is none.
func (s *Store) Value(key string) []byte { return s.kit.Entry(key).Value }

// Link is a connection to a [Store], with faults. It is a [leader.Store] and a keys.Bucket, too. All links of one name are
// the same connection.
//
// Its methods first wait until the candidates of the [Clock] are at rest.
type Link struct {
	store
	kit *kit.Link
}

// Cut breaks the connection. Requests fail with [leader.ErrUnreachable] at once, those under way
// included. A leader that is cut off ends its term at its RenewDeadline.
func (l *Link) Cut() { l.kit.Cut() }

// SetWall is [Clock.SetWall] for the host of this link alone, in a bubble, too. It concerns candidates that campaign on
// the link with no Config.Clock, because the default is the clock of the link's host.
func (l *Link) SetWall(ahead time.Duration) { l.kit.SetWall(ahead) }

// Freeze makes the link a black hole: requests get no answer, and fail with [leader.ErrUnreachable] when
// their time is up. A guarded write fails with [fence.ErrUnknownOutcome].
//
// A link that is frozen for an hour and then restored also stands for a host that sleeps for an hour, because leases count
// the time asleep. Only the end of a term comes sooner: here at its RenewDeadline, there when the host wakes up.
func (l *Link) Freeze() { l.kit.Freeze() }

// Restore ends [Link.Cut] and [Link.Freeze] with a new connection. What was under way is lost.
func (l *Link) Restore() { l.kit.Restore() }

// Delay makes each message to and from this link take d from now on: a round trip 2d.
func (l *Link) Delay(d time.Duration) { l.kit.Delay(d) }

// Close closes the connection for good, as an application does that closes its nats.Conn too early. Its
// candidates end with [leader.ErrConnectionClosed].
func (l *Link) Close() { l.kit.Close() }

// Guard returns the bucket as a resource that only the leader may write, for [leader.Config].Guards of one candidate,
// or for one shard of [shard.Config].Guards. The guard is the key [fence.DefaultGuardKey] of the store, or another
// one. Faults of the link apply to it, and to its writers.
func (l *Link) Guard(key ...string) leader.Guard { return l.kit.Guard(key...) }

// Writer returns a writer of a term whose candidate or shard was given the [Link.Guard] of the same key. It returns the
// errors of a fence.BucketWriter. With a [Clock], a write returns without an Advance if the link has no faults.
func (l *Link) Writer(term *leader.Term, key ...string) fence.KVWriter {
	return l.kit.Guard(key...).Writer(term)
}
