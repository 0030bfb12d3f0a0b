package leadertest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

const second = time.Second

func setUp(opts ...leadertest.Option) (*journal, *leadertest.Store) {
	clock := leadertest.NewClock()
	return &journal{clock: clock}, leadertest.NewStore(clock, opts...)
}

func TestStore_ComparesAndSets(t *testing.T) {
	j, s := setUp()
	a := newClient(t, j, s, "a")
	ctx := t.Context()
	a.get(ctx)
	a.update(ctx, "x", 0)
	a.update(ctx, "y", 0)
	a.update(ctx, "y", 1)
	a.get(ctx)
	a.settings(ctx)
	j.want(t, `0s a get: 0 "" false <nil>`, "0s a update x: 1 <nil>",
		"0s a update y: 0 leader: compare-and-set refused: the last revision is 1",
		"0s a update y: 2 <nil>", `0s a get: 2 "y" false <nil>`, "0s a settings: true 15s 2 <nil>")
	got := s.Requests()
	check.Must(t, got == (leadertest.Requests{Settings: 1, Reads: 2, Writes: 3}) && got.Total() == 6, "%+v", got)
	e := s.Entry("k")
	check.Must(t, string(e.Value) == "y" && e.Created.Equal(start), "%+v", e)
}

// The store delivers a write to the feeds, in their order, before it acknowledges the
// write.
func TestStore_FeedsBeforeAck(t *testing.T) {
	j, s := setUp(leadertest.WithLatency(second))
	a, b := newClient(t, j, s.Link("a"), "a"), newClient(t, j, s.Link("b"), "b")
	ctx := t.Context()
	b.watch(ctx)
	a.watch(ctx)
	j.clock.Advance(2 * second)
	a.update(ctx, "x", 0)
	j.clock.Advance(2 * second)
	b.send(func() { b.feed.Stop() })
	s.Delete("k")
	j.clock.Advance(second)
	j.want(t, "2s b watches: <nil>", "2s a watches: <nil>",
		`4s b hears: 1 "x" false false <nil>`, `4s a hears: 1 "x" false false <nil>`, "4s a update x: 1 <nil>",
		`5s a hears: 2 "" true false <nil>`)
}

// The store answers every request at the latest when its context ends.
func TestStore_EndOfContext(t *testing.T) {
	for range 20 {
		j, s := setUp()
		a := newClient(t, j, s.Link("a"), "a")
		ctx, cancel := context.WithCancel(context.Background())
		s.Link("a").Freeze()
		a.get(ctx)
		a.update(ctx, "x", 0)
		a.watch(ctx)
		a.settings(ctx)
		j.clock.Advance(second)
		a.send(cancel) // as a candidate does, while it is busy
		j.clock.Advance(second)
		a.get(ctx)
		const lost = "leader: the store did not answer: context canceled"
		j.want(t, `1s a get: 0 "" false `+lost, "1s a update x: 0 "+lost, "1s a watches: "+lost,
			"1s a settings: false 0s 0 "+lost, `2s a get: 0 "" false `+lost)
		s.Link("a").Thaw() // the write arrives after all
		got := s.Entry("k")
		check.Must(t, got.Revision == 1 && string(got.Value) == "x", "%+v", got)
		j.want(t) // and no reply comes twice
		a.stop()
	}
}

// Cut loses the messages that are on their way.
func TestLink_CutLosesMessages(t *testing.T) {
	j, s := setUp(leadertest.WithLatency(second))
	link := s.Link("a")
	a := newClient(t, j, link, "a")
	ctx := t.Context()
	a.watch(ctx)
	j.clock.Advance(2 * second)
	a.update(ctx, "x", 0)
	link.Cut()
	a.get(ctx)
	s.Put("k", []byte("y"))
	j.clock.Advance(5 * second)
	link.Restore()
	j.clock.Advance(second)
	const cut = `leader: the store did not answer: link "a" is cut`
	j.want(t, "2s a watches: <nil>", "2s a update x: 0 "+cut, `2s a get: 0 "" false `+cut,
		`8s a hears: 0 "" false true <nil>`)
	got := s.Entry("k")
	check.Must(t, got.Revision == 1, "%+v", got)
}

// Restore drops the messages that Freeze held up.
func TestLink_RestoreDropsFrozen(t *testing.T) {
	j, s := setUp()
	link := s.Link("a")
	a := newClient(t, j, link, "a")
	ctx, cancel := context.WithCancel(context.Background())
	link.Freeze()
	a.update(ctx, "x", 0)
	link.Restore()
	a.send(cancel)
	j.clock.Advance(second)
	link.Reconnect()
	j.want(t, "0s a update x: 0 leader: the store did not answer: context canceled")
	got := s.Entry("k")
	check.Must(t, got.Revision == 0, "%+v", got)
}

// A link works off its script in order.
func TestLink_ScriptOrder(t *testing.T) {
	j, s := setUp()
	link := s.Link("a")
	a := newClient(t, j, link, "a")
	ctx, cancel := context.WithCancel(context.Background())
	link.PassWrites(1)
	link.Refuse(1, false)
	link.Refuse(1, true)
	link.FailWrites(1, leader.ErrPermission)
	link.LoseWrites(1)
	link.LoseReplies(1)
	link.ApplyLate(1, time.Minute)
	for i, v := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		a.update(ctx, v, uint64(min(i, 1)))
	}
	j.want(t, "0s a update a: 1 <nil>", "0s a update b: 0 leader: compare-and-set refused",
		"0s a update c: 0 leader: compare-and-set refused: the last revision is 1",
		"0s a update d: 0 leader: permission denied")
	if got := s.Entry("k"); string(got.Value) != "f" {
		t.Fatalf("%+v", got)
	}
	a.send(cancel)
	j.clock.Advance(0)
	const lost = ": 0 leader: the store did not answer: context canceled"
	j.want(t, "0s a update e"+lost, "0s a update f"+lost, "0s a update g"+lost)
	link.Cut()
	s.Rollback(leadertest.Snapshot{})
	s.Put("k", nil)
	j.clock.Advance(time.Minute) // "g" was conditioned on revision 1
	if got := s.Entry("k"); got.Revision != 2 || string(got.Value) != "g" || got.Created.Sub(start) != time.Minute {
		t.Fatalf("%+v", got)
	}
}

// Reads can be stale or lost, and can fail.
func TestLink_ReadFaults(t *testing.T) {
	j, s := setUp()
	link := s.Link("a")
	a := newClient(t, j, link, "a")
	ctx, cancel := context.WithCancel(context.Background())
	s.Put("k", []byte("x"))
	s.Delete("k")
	link.StaleReads(1)
	link.FailReads(1, leader.ErrPermission)
	link.LoseReads(1)
	link.FailSettings(1, leader.ErrIncompatibleBucket)
	link.FailWatches(-1, leader.ErrNoFeed)
	for range 4 {
		a.get(ctx)
	}
	a.settings(ctx)
	a.watch(ctx)
	a.watch(ctx)
	link.Heal()
	a.watch(ctx)
	a.send(cancel)
	j.clock.Settle()
	j.want(t, `0s a get: 1 "x" false <nil>`, `0s a get: 0 "" false leader: permission denied`, `0s a get: 2 "" true <nil>`,
		"0s a settings: false 0s 0 leader: the bucket is not fit for this election",
		"0s a watches: leader: no feed, polling instead", "0s a watches: leader: no feed, polling instead", "0s a watches: <nil>",
		`0s a get: 0 "" false leader: the store did not answer: context canceled`)
	got := link.Requests()
	check.Must(t, got == (leadertest.Requests{Settings: 1, Reads: 4, Watches: 3}), "%+v", got)
}

// Feeds can be deaf, lossy or late, and can end.
func TestLink_FeedFaults(t *testing.T) {
	j, s := setUp()
	link := s.Link("a")
	a := newClient(t, j, link, "a")
	ctx := t.Context()
	a.watch(ctx)
	link.DelayFeed(second)
	s.Put("k", []byte("x"))
	link.DelayFeed(0)
	s.Put("k", []byte("y")) // does not overtake
	link.LoseFeed(1)
	s.Put("k", []byte("lost"))
	j.clock.Advance(second)
	link.DeafFeeds()
	s.Put("k", []byte("unheard"))
	a.watch(ctx)
	s.Put("k", []byte("z"))
	link.EndFeeds(leader.ErrUnreachable)
	s.Put("k", []byte("unheard"))
	j.clock.Advance(second)
	j.want(t, "0s a watches: <nil>", `1s a hears: 1 "x" false false <nil>`, `1s a hears: 2 "y" false false <nil>`,
		"1s a watches: <nil>", `1s a hears: 5 "z" false false <nil>`,
		`1s a hears: 0 "" false false leader: the store did not answer`,
		`1s a hears: 0 "" false false leader: the store did not answer`)
}

func TestLink_CloseIsForGood(t *testing.T) {
	j, s := setUp()
	link := s.Link("a")
	a := newClient(t, j, link, "a")
	ctx := t.Context()
	a.watch(ctx)
	link.Freeze()
	a.get(ctx)
	link.Close()
	link.Close()
	link.Heal()
	a.update(ctx, "x", 0)
	const closed = "leader: the NATS connection is closed"
	j.want(t, "0s a watches: <nil>", `0s a hears: 0 "" false false `+closed, `0s a get: 0 "" false `+closed, "0s a update x: 0 "+closed)
}

// A delay takes as long in each direction.
func TestLink_DelaysBothDirections(t *testing.T) {
	j, s := setUp()
	s.Link("a").Delay(second)
	a := newClient(t, j, s.Link("a"), "a")
	a.update(t.Context(), "x", 0)
	j.clock.Advance(time.Minute)
	j.want(t, "2s a update x: 1 <nil>")
	got := s.Entry("k").Created.Sub(start)
	check.Must(t, got == second, "stored at %v", got)
}

// A purge-protected store refuses each operation that would remove messages.
func TestStore_PurgeProtectedRefuses(t *testing.T) {
	_, s := setUp()
	s.Put("k", nil)
	for _, err := range []error{s.Purge("k"), s.Expire("k"), s.Erase("k"), s.Wipe()} {
		check.That(t, err != nil && strings.Contains(err.Error(), "the bucket is purge-protected"), "%v", err)
	}
	check.Must(t, s.Delete("k") == 2 && s.Entry("k").Marker, "%+v", s.Entry("k"))
}

func TestStore_UnprotectedForgets(t *testing.T) {
	_, s := setUp(leadertest.WithoutPurgeProtection(), leadertest.WithMaxLease(0))
	check := func(err error, revision uint64, marker bool) {
		t.Helper()
		e := s.Entry("k")
		check.Must(t, err == nil && e.Revision == revision && e.Marker == marker, "%+v %v", e, err)
	}
	s.Put("k", []byte("x"))
	check(s.Purge("k"), 2, true)
	check(s.Expire("k"), 0, false)
	s.Put("k", []byte("x"))
	check(s.Expire("k"), 4, true)
	check(s.Erase("k"), 0, false)
	s.Put("k", []byte("x"))
	check(s.Wipe(), 0, false)
	snap := s.Snapshot()
	s.Put("k", []byte("x"))
	check(nil, 6, false)
	s.Rollback(snap)
	check(nil, 0, false)
	s.Put("k", []byte("x"))
	check(nil, 6, false)
	s.Recreate()
	s.Put("k", []byte("x"))
	check(nil, 1, false)
}

// A dropped bucket does not exist.
func TestStore_DroppedBucket(t *testing.T) {
	j, s := setUp(leadertest.WithMaxValue(3))
	a := newClient(t, j, s, "a")
	ctx := t.Context()
	a.update(ctx, "long", 0)
	s.Drop()
	a.settings(ctx)
	a.watch(ctx)
	a.get(ctx)
	a.update(ctx, "x", 0)
	s.Recreate()
	s.Configure(leadertest.WithoutPurgeProtection(), leadertest.WithMaxLease(time.Minute))
	a.settings(ctx)
	const no = "leader: the bucket does not exist"
	j.want(t, "0s a update long: 0 leader: value too large", "0s a settings: false 0s 0 "+no, "0s a watches: "+no,
		`0s a get: 0 "" false `+no, "0s a update x: 0 leader: the store did not answer: no responders",
		"0s a settings: false 1m0s 0 <nil>")
}

// A store with a TTL leaves a marker where a record expires, and then nothing.
func TestStore_TTLLeavesMarker(t *testing.T) {
	j, s := setUp(leadertest.WithTTL(12 * second))
	a := newClient(t, j, s, "a")
	ctx := t.Context()
	a.settings(ctx)
	a.watch(ctx)
	a.update(ctx, "x", 0)
	j.clock.Advance(5 * second)
	a.update(ctx, "y", 1)
	j.clock.Advance(6 * second)
	snap := s.Snapshot()
	j.clock.Advance(7 * second)
	j.clock.Advance(10 * second)
	check.Must(t, s.Entry("k").Revision == 3, "%+v", s.Entry("k"))
	j.clock.Advance(second)
	check.Must(t, s.Entry("k").Revision == 0, "%+v", s.Entry("k"))
	s.Rollback(snap) // its message is overdue
	j.want(t, "0s a settings: false 8s 0 <nil>", "0s a watches: <nil>",
		`0s a hears: 1 "x" false false <nil>`, "0s a update x: 1 <nil>",
		`5s a hears: 2 "y" false false <nil>`, "5s a update y: 2 <nil>",
		`17s a hears: 3 "" true false <nil>`, `29s a hears: 3 "" true false <nil>`)
}

// A store without a clock lives in the time of the bubble.
func TestStore_InBubbleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leadertest.NewStore(nil, leadertest.WithLatency(second))
		begin := time.Now()
		revision := make(chan uint64)
		s.Backend().Update(t.Context(), "k", nil, 0, func(r uint64, _ error) { revision <- r })
		if got := <-revision; got != 1 || time.Since(begin) != 2*second {
			t.Fatal(got, time.Since(begin))
		}
		link := s.Link("a")
		link.Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), second)
		defer cancel()
		failed := make(chan error)
		link.Backend().Get(ctx, "k", func(_ backend.Entry, err error) { failed <- err })
		if err := <-failed; !errors.Is(err, leader.ErrUnreachable) || time.Since(begin) != 3*second {
			t.Fatal(err, time.Since(begin))
		}
	})
}
