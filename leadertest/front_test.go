package leadertest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
	"github.com/natsleader/natsleader/shard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// verdict is a TB that keeps the failure of a watcher.
type verdict struct {
	*testing.T
	said string
}

func (v *verdict) Fatalf(format string, args ...any) { v.said = fmt.Sprintf(format, args...) }

// campaign starts a candidate, which ends with the test.
func campaign(tb leadertest.TB, clock *leadertest.Clock, store leader.Store, cfg leader.Config) *leadertest.Watcher {
	tb.Helper()
	c, err := leader.Campaign(context.Background(), store, "jobs", cfg)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	return leadertest.Watch(tb, clock, c)
}

// An expected event is compared in its type and in what is set of its cause, its error and its holder.
func TestExpect_ComparesWhatIsSet(t *testing.T) {
	for _, k := range []struct {
		expected leader.Event
		comes    bool
	}{
		{leader.Pending{}, true},
		{leader.Elected{}, true},
		{leader.Observed{}, true},
		{leader.Observed{Holder: leader.Holder{ID: "b"}}, true},
		{leader.Observed{Holder: leader.Holder{ID: "c"}}, false},
		{leader.Faulted{}, true},
		{leader.Faulted{Err: leader.ErrUnreachable}, true},
		{leader.Faulted{Err: leader.ErrPermission}, false},
		{leader.Fenced{}, true},
		{leader.Fenced{Cause: leader.ErrLeaseExpired}, true},
		{leader.Fenced{Cause: leader.ErrResigned}, false},
		{leader.Deposed{}, true},
		{leader.Deposed{Cause: leader.ErrLeaseExpired}, true},
		{leader.Deposed{Cause: leader.ErrStopped}, false},
	} {
		clock := leadertest.NewClock()
		store := leadertest.NewStore(clock)
		v := &verdict{T: t}
		a := campaign(v, clock, store.Link("a"), leader.Config{ID: "a"})
		campaign(t, clock, store.Link("b"), leader.Config{ID: "b"})
		store.Link("a").Cut()
		clock.Advance(20 * time.Second)
		store.Link("a").Restore()
		clock.Advance(time.Second)
		a.Expect(k.expected)
		check.That(t, (v.said == "") == k.comes, "%T: %s", k.expected, v.said)
	}
	clock := leadertest.NewClock()
	v := &verdict{T: t}
	w := campaign(v, clock, leadertest.NewStore(clock), leader.Config{ID: "a"})
	w.Expect(leader.Elected{})
	w.Expect(leader.Pending{})
	check.That(t, v.said != "", "an event is found before the last one that was expected")
}

// Faults of a link end a guarded write as they do in production, after as long a time.
func TestLink_FaultsOfWrites(t *testing.T) {
	for name, k := range map[string]struct {
		fault func(orders *leadertest.Link)
		takes time.Duration
		err   error
	}{
		"none":     {func(*leadertest.Link) {}, 0, nil},
		"slow":     {func(l *leadertest.Link) { l.Delay(time.Second) }, 2 * time.Second, nil},
		"cut":      {func(l *leadertest.Link) { l.Cut() }, 5 * time.Second, leader.ErrUnreachable},
		"frozen":   {func(l *leadertest.Link) { l.Freeze() }, 5 * time.Second, fence.ErrUnknownOutcome},
		"restored": {func(l *leadertest.Link) { l.Freeze(); l.Restore() }, 0, nil},
		"closed":   {func(l *leadertest.Link) { l.Close() }, 0, leader.ErrConnectionClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				orders := leadertest.NewStore(nil)
				link := orders.Link("a")
				w := campaign(t, nil, leadertest.NewStore(nil), leader.Config{ID: "a", Guards: []leader.Guard{link.Guard()}})
				w.Expect(leader.Elected{})
				k.fault(orders.Link("a"))
				begun := time.Now()
				_, err := link.Writer(w.Term()).Put(t.Context(), "order-1", []byte("shipped"))
				check.Is(t, err, k.err)
				check.Equal(t, time.Since(begun), k.takes, "it takes %v", time.Since(begun))
				check.Equal(t, string(orders.Value("order-1")) == "shipped", k.err == nil, "it is written")
			})
		})
	}
}

// The bucket's settings decide on the lease, and on how long an empty key is waited for.
func TestConfigure_DecidesOnTheLease(t *testing.T) {
	for _, k := range []struct {
		bucket      leader.BucketConfig
		waits, term time.Duration
	}{
		{leader.BucketConfig{}, 0, 12 * time.Second},
		{leader.BucketConfig{MaxLease: 30 * time.Second}, 0, 24 * time.Second},
		{leader.BucketConfig{TTL: 15 * time.Second}, 15 * time.Second, 8 * time.Second},
		{leader.BucketConfig{TTL: 15 * time.Second, MaxLease: 12 * time.Second}, 15 * time.Second, 9600 * time.Millisecond},
	} {
		clock := leadertest.NewClock()
		store := leadertest.NewStore(clock)
		store.Configure(leader.BucketConfig{TTL: time.Hour}) // the last ones count
		store.Configure(k.bucket)
		w := campaign(t, clock, store.Link("a"), leader.Config{ID: "a"})
		for ; store.Leader("jobs").ID == "" && clock.Now().Second() < 59; clock.Advance(time.Second) {
		}
		check.Equal(t, clock.Now().Second(), int(k.waits.Seconds()), "elected after %d s with %+v", k.bucket)
		check.Equal(t, w.Term().Remaining(), k.term, "%v remains with %+v", k.bucket)
	}
}

// SetWall of the clock is for all candidates, also those with this clock as Config.Clock, and that of the link for its
// own. Leases do not depend on it.
func TestSetWall_MovesInstantsOfEvents(t *testing.T) {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock)
	begun := clock.Now()
	clock.SetWall(24 * time.Hour)
	store.Link("a").SetWall(time.Hour)
	for id, k := range map[string]struct {
		clock leader.Clock
		ahead time.Duration
	}{"a": {nil, 25 * time.Hour}, "b": {clock, 24 * time.Hour}, "c": {nil, 24 * time.Hour}} {
		c := check.Got(leader.Campaign(t.Context(), store.Link(id), id, leader.Config{ID: id, Clock: k.clock, PendingPeriod: time.Minute}))(t)
		clock.Settle()
		check.Equal(t, c.State(), leader.StatePending, "%v: %s", id)
		e := (<-c.Events(t.Context(), leader.Pending{})).(leader.Pending)
		check.Equal(t, e.Until.Sub(begun), clock.Now().Sub(begun)+k.ahead+time.Minute, "until %v: %s", id)
		clock.Advance(time.Minute - 1)
		check.That(t, !c.IsLeader(), "%s leads too early", id)
		clock.Advance(1)
		check.That(t, c.IsLeader(), "%s does not lead", id)
		check.That(t, store.Leader(id).Renewed.Equal(clock.Now()), "%s was renewed at %v", id, store.Leader(id).Renewed)
		store.Link(id).Close()
		<-c.Done()
	}
}

// A host that sleeps: its leader leads on after a nap, and finds its term over after an hour.
func TestFreeze_HostSleeps(t *testing.T) {
	for _, k := range []struct {
		sleeps time.Duration
		leads  bool
	}{{11 * time.Second, true}, {time.Hour, false}} {
		clock := leadertest.NewClock()
		store := leadertest.NewStore(clock)
		a := campaign(t, clock, store.Link("a"), leader.Config{ID: "a"})
		a.Expect(leader.Elected{})
		term := a.Term()
		b := campaign(t, clock, store.Link("b"), leader.Config{ID: "b"})
		store.Link("a").Freeze()
		clock.Advance(k.sleeps)
		store.Link("a").Restore()
		clock.Advance(3 * time.Second)
		check.Equal(t, term.Context().Err() == nil, k.leads, "the term goes on: %v, after %v", k.sleeps)
		if !k.leads {
			a.Expect(leader.Fenced{Cause: leader.ErrLeaseExpired}, leader.Deposed{}, leader.Observed{Holder: leader.Holder{ID: "b"}})
			b.Expect(leader.Elected{})
		}
	}
}

// A leader hands over when it is asked, and ends its term when another value is put over its key.
func TestStore_EndsTerms(t *testing.T) {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock)
	check.Is(t, store.StepDown("jobs"), leader.ErrNoLeader)
	w := campaign(t, clock, store, leader.Config{ID: "a"})
	check.OK(t, store.StepDown("jobs"))
	w.Expect(leader.Deposed{Cause: leader.ErrResigned})
	clock.Advance(15 * time.Second)
	w.Expect(leader.Elected{})
	store.Put("jobs", []byte("another's"))
	clock.Settle()
	w.Expect(leader.Deposed{Cause: leader.ErrPreempted})
	check.Deep(t, store.Leader("jobs"), leader.Holder{})
}

// A shard ends with the cause that the test names, once, and its context finds it.
func TestNewShard_EndsAsNamed(t *testing.T) {
	for _, cause := range []error{
		shard.ErrMoved, leader.ErrLeaseExpired, leader.ErrStopped, leader.ErrDeleted, leader.ErrConnectionClosed,
	} {
		s := leadertest.NewShard(t, 12, 7)
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		found, ok := shard.FromContext(ctx)
		check.That(t, ok && found == s.Shard, "the context of the shard finds %v", found)
		check.OK(t, leader.Err(ctx))
		grace := leader.Grace(ctx)
		s.End(cause)
		check.Is(t, context.Cause(s.Context()), cause)
		lives := cause == shard.ErrMoved || cause == leader.ErrStopped //nolint:errorlint // the causes of the table
		check.That(t, (grace.Err() == nil) == lives, "%v: Grace has %v", cause, context.Cause(grace))
		s.End(leader.ErrPreempted)
		check.Is(t, context.Cause(s.Context()), cause)
	}
	v := &verdict{T: t}
	leadertest.NewShard(v, 0, 1).End(leader.ErrStalled)
	check.Equal(t, v.said, "leadertest: this term cannot end with "+leader.ErrStalled.Error(), "%q")
}

// Shards in one bucket each have a guard of their own. A later owner of one does not concern the writes of the other,
// and what was written before is below the revision of the guard.
func TestNewShard_WritesUnderItsGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		orders := leadertest.NewStore(nil)
		link := orders.Link("a")
		orders.Put("7.count", []byte("1"))
		shards := make(map[string]*leadertest.Shard)
		for i, key := range []string{"7.guard", "8.guard"} {
			s := leadertest.NewShard(t, 7+i, 40, link.Guard(key))
			shards[key] = s
			w := link.Writer(s.Term(), key)
			check.That(t, w.GuardRevision() == uint64(2+2*i), "guard %s stands at %d", key, w.GuardRevision())
			revision := check.Got(w.Put(t.Context(), fmt.Sprintf("%d.count", 7+i), []byte("2")))(t)
			check.Equal(t, revision, uint64(3+2*i), "revision %d")
		}
		s, other := shards["7.guard"], link.Writer(shards["8.guard"].Term(), "8.guard")
		check.Is(t, check.Err(link.Writer(s.Term(), "8.guard").Put(t.Context(), "k", nil)), leader.ErrInvalidConfig)
		check.Equal(t, link.Writer(s.Term()).GuardRevision(), 0, "another guard stands at %d")
		s.End(leader.ErrFenced)
		check.Is(t, context.Cause(s.Context()), leader.ErrFenced)
		check.Is(t, check.Err(link.Writer(s.Term(), "7.guard").Put(t.Context(), "7.count", []byte("3"))), leader.ErrFenced)
		check.OK(t, check.Err(other.Put(t.Context(), "8.count", []byte("3"))))
		check.Equal(t, string(orders.Value("7.count"))+string(orders.Value("8.count")), "23", "%s is stored")
		v := &verdict{T: t}
		leadertest.NewShard(v, 7, 39, link.Guard("7.guard"))
		check.That(t, v.said != "", "a guard at a later token is not noticed")
	})
}
