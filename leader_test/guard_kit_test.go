package leader_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// guardedKit returns a kit with buckets that only the leader may write.
func guardedKit(t *testing.T, latency time.Duration, guards int) (kit, []*leadertest.Store) {
	k := newKit(t, leadertest.WithLatency(latency))
	var stores []*leadertest.Store
	for range guards {
		stores = append(stores, leadertest.NewStore(k.clock, leadertest.WithoutPurgeProtection(), leadertest.WithLatency(latency)))
	}
	return k, stores
}

// guarding returns the settings of a candidate.
func guarding(id string, stores ...*leadertest.Store) (cfg leader.Config) {
	for _, s := range stores {
		cfg.Guards = append(cfg.Guards, s.Link(id).Guard())
	}
	return cfg
}

// stands fails the test unless the guard stands at that token.
func (k kit) stands(s *leadertest.Store, token uint64) {
	k.Helper()
	e := s.Entry(fence.DefaultGuardKey)
	check.Must(k, field(e.Value, "token") == fmt.Sprint(token), "the guard is %s, want token %d", e.Value, token)
}

// fenceAt returns the revision that the writes of a's term are conditioned on.
func fenceAt(t *testing.T, w *leadertest.Watcher, s *leadertest.Store) uint64 {
	t.Helper()
	revision, ok := backend.GuardRevision(w.Term(), s.Link("a").Guard())
	check.Must(t, ok, "the term does not know its guard")
	return revision
}

// Issue 4: "adds at most one round trip to an undisturbed election, in parallel for
// several guards".
func TestGuardRaise_OneRoundTrip(t *testing.T) {
	const latency = 10 * time.Millisecond
	handover := func(guards int) time.Duration {
		k, stores := guardedKit(t, latency, guards)
		a, wa := k.stand("a", guarding("a", stores...))
		k.clock.Advance(time.Second)
		wa.Expect(leadertest.Elected())
		_, wb := k.stand("b", guarding("b", stores...))
		k.clock.Advance(time.Second)
		began := k.clock.Elapsed()
		go func() { _ = leadertest.Resign(t.Context(), a) }()
		check.Soon(t, "a no longer leads", func() bool { return !a.IsLeader() }, k.clock.Settle)
		for range 1000 {
			for _, e := range wb.Events() {
				if e, ok := e.(leader.Elected); ok {
					for _, s := range stores {
						k.stands(s, e.Term.Token())
						asked := s.Link("b").Requests() // a check and a look when it began, a look and a raise in its election
						check.That(t, asked.Settings == 1 && asked.Reads == 2 && asked.Writes == 1, "%+v", asked)
					}
					return k.clock.Elapsed() - began
				}
			}
			k.clock.Advance(latency / 10)
		}
		t.Fatalf("not elected: %v", wb.Events())
		return 0
	}
	without := handover(0)
	for _, guards := range []int{1, 3} {
		check.Equal(t, handover(guards), without+2*latency, "%v with %d guards, %v without", guards, without)
	}
}

// A candidate that stops before its guard is raised releases the key.
func TestStop_BeforeGuardIsRaised(t *testing.T) {
	k, orders := guardedKit(t, 0, 1)
	orders[0].Link("a").FailWrites(-1, leader.ErrUnreachable)
	a, wa := k.stand("a", guarding("a", orders...))
	k.clock.Advance(time.Second)
	_, wb := k.stand("b", guarding("b", orders...))
	check.OK(t, a.Stop()) // without moving the clock
	wb.Expect(leadertest.Elected())
	wa.ExpectExactly(leadertest.Pending(), leadertest.Faulted(leader.ErrUnreachable))
}

// The fence of a term follows a guard that is raised in a bucket made anew. The stream
// was deleted and made anew, and revisions are lower in it.
func TestFence_RecreatedGuard(t *testing.T) {
	k, orders := guardedKit(t, 0, 1)
	for range 100 {
		orders[0].Put("k", nil)
	}
	_, wa := k.lead(guarding("a", orders...))
	writer := orders[0].Link("a").Guard().Writer(wa.Term())
	revision, err := writer.Put(t.Context(), "k", nil)
	check.Must(t, revision == 102 && err == nil, "%v %v", revision, err)
	orders[0].Recreate()
	k.clock.Advance(15 * time.Second)
	if revision := fenceAt(t, wa, orders[0]); revision != 1 {
		t.Errorf("the fence is at revision %d, the guard at %d", revision, orders[0].Entry(fence.DefaultGuardKey).Revision)
	}
	if revision, err := writer.Put(t.Context(), "k", nil); revision != 2 || err != nil {
		t.Error(revision, err)
	}
}

// A leader that is overtaken at its guard begins a term with a greater token.
func TestGuard_Overtaken(t *testing.T) {
	k, orders := guardedKit(t, 0, 2)
	_, wa := k.lead(guarding("a", orders...))
	first := wa.Term()
	orders[1].Put(fence.DefaultGuardKey, []byte(`{"v":1,"election":"e","token":41,"id":"x","session":"X"}`))
	k.clock.Advance(15 * time.Second)
	wa.ExpectExactly(leadertest.Fenced(leader.ErrFenced), leadertest.Deposed(leader.ErrFenced), leadertest.Pending(), leadertest.Elected())
	if first.Context().Err() == nil || wa.Term().Token() != 42 {
		t.Errorf("its token is %d", wa.Term().Token())
	}
	for _, s := range orders {
		k.stands(s, 42)
	}
}

// A guard is checked again after a reconnection.
func TestGuardRecheck_Reconnection(t *testing.T) {
	k, orders := guardedKit(t, 0, 1)
	_, wa := k.lead(guarding("a", orders...))
	k.clock.Advance(59 * time.Second)
	before := orders[0].Link("a").Requests().Settings
	k.store.Link("a").Reconnect()
	k.clock.Settle()
	now := orders[0].Link("a").Requests().Settings
	check.That(t, before == 1 && now == 2, "checked %d times, then %d", before, now)
	wa.ExpectExactly()
}

// The leader and each waiting candidate check their guards again every minute. No event
// reports that another server leads a guard's stream, or that its settings have changed.
func TestGuardRecheck_EveryMinute(t *testing.T) {
	k, orders := guardedKit(t, 0, 1)
	a, wa := k.lead(guarding("a", orders...))
	_, wb := k.stand("b", guarding("b", orders...))
	wb.Expect(leadertest.Observed("a"))
	k.clock.Advance(time.Minute - 1)
	checks := func(id string) int { return orders[0].Link(id).Requests().Settings }
	if checks("a") != 1 || checks("b") != 1 {
		t.Fatalf("checked %d and %d times", checks("a"), checks("b"))
	}
	for i := range 3 {
		k.clock.Advance(1)
		if checks("a") != i+2 || checks("b") != i+2 {
			t.Errorf("%d minutes: checked %d and %d times", i+1, checks("a"), checks("b"))
		}
		k.clock.Advance(time.Minute - 1)
	}
	wa.ExpectExactly()
	wb.ExpectExactly()
	// If the stream is not fit any more, the leader reports it and leads on, and the
	// other candidate does not try for the key.
	for _, id := range []string{"a", "b"} {
		orders[0].Link(id).FailSettings(-1, leader.ErrIncompatibleBucket)
	}
	k.clock.Advance(1)
	wa.ExpectExactly(leadertest.Faulted(leader.ErrIncompatibleBucket))
	wb.ExpectExactly(leadertest.Faulted(leader.ErrIncompatibleBucket))
	check.Must(t, a.IsLeader(), "a does not lead on")
	k.store.Link("a").Cut()
	k.clock.Advance(time.Minute)
	check.Equal(t, k.store.Link("b").Requests().Writes, 0, "b has written %d times")
	orders[0].Link("b").Heal()
	k.clock.Advance(10 * time.Second)
	wb.Expect(leadertest.Elected())
}

// A check without an answer does not keep a candidate from trying, and a candidate that
// stops does not wait for the check.
func TestGuardRecheck_WithoutAnswer(t *testing.T) {
	k, orders := guardedKit(t, 0, 1)
	k.lead(guarding("a", orders...))
	b, wb := k.stand("b", guarding("b", orders...))
	wb.Expect(leadertest.Observed("a"))
	k.clock.Advance(time.Minute - time.Second)
	k.store.Link("a").Cut() // 15 s later b finds the lease over
	orders[0].Link("b").Freeze()
	k.clock.Advance(20 * time.Second)
	wb.Expect(leadertest.Pending())
	orders[0].Link("b").Thaw()
	k.clock.Advance(5 * time.Second)
	wb.Expect(leadertest.Elected())
	orders[0].Link("b").Freeze()
	k.clock.Advance(time.Minute)
	stopped := make(chan error, 1)
	go func() { stopped <- b.Stop() }()
	check.Soon(t, "b no longer leads", func() bool { return !b.IsLeader() }, k.clock.Settle)
	k.clock.Advance(10 * time.Second)
	check.Is(t, <-stopped, nil)
}

// A raise that arrives late does not lower the guard.
func TestGuardRaise_LateIsHarmless(t *testing.T) {
	k, orders := guardedKit(t, 0, 1)
	orders[0].Link("a").ApplyLate(1, time.Minute)
	_, wa := k.stand("a", guarding("a", orders...))
	k.clock.Advance(2 * time.Second) // the raise is given up after 1 s, and tried again
	wa.Expect(leadertest.Elected())
	_, wb := k.stand("b", guarding("b", orders...))
	k.store.Link("a").Cut()
	k.clock.Advance(20 * time.Second)
	wb.Expect(leadertest.Elected())
	k.clock.Advance(time.Hour)
	k.stands(orders[0], wb.Term().Token())
	check.Equal(t, orders[0].Entry(fence.DefaultGuardKey).Revision, 2, "the guard was raised %d times")
}

// A leader reads its guard once in a lease, checks it once a minute, and reports an
// outage once.
func TestGuard_CostsFewRequests(t *testing.T) {
	k, orders := guardedKit(t, 0, 1)
	_, wa := k.lead(guarding("a", orders...))
	_, wb := k.stand("b", guarding("b", orders...))
	wb.Expect(leadertest.Observed("a"))
	a, b := orders[0].Link("a"), orders[0].Link("b")
	before, waiting := a.Requests(), b.Requests()
	k.clock.Advance(4 * 15 * time.Second)
	got := a.Requests()
	check.That(t, got.Total()-before.Total() == 5 && got.Reads-before.Reads == 4 && got.Settings-before.Settings == 1,
		"four leases took %+v after %+v", got, before)
	waiting.Settings++ // a check each minute
	check.Equal(t, b.Requests(), waiting, "who waits asked: %+v, before %+v", waiting)
	a.Cut()
	k.clock.Advance(time.Hour)
	wa.ExpectExactly(leadertest.Faulted(leader.ErrUnreachable))
	text := wa.Events()[len(wa.Events())-1].String()
	check.That(t, strings.Contains(text, `link "a"`), "the fault does not name the guard: %s", text)
}

// A guard that may not be raised is reported once, and tried less and less often.
// "Faulted is told once for an outage, not once for every try", and "with growing and
// jittered pauses".
func TestGuardRaise_DeniedBacksOff(t *testing.T) {
	k, orders := guardedKit(t, 0, 1)
	orders[0].Link("a").FailWrites(-1, leader.ErrPermission)
	_, wa := k.stand("a", guarding("a", orders...))
	for range 100 {
		k.clock.Advance(100 * time.Millisecond)
		wa.Events() // nothing is coalesced
	}
	n := orders[0].Link("a").Requests().Writes
	check.That(t, n <= 20, "%d raises in 10 s", n)
	wa.Ignore(leadertest.Observed())
	wa.ExpectExactly(leadertest.Pending(), leadertest.Faulted(leader.ErrPermission))
}

// A candidate whose guard is unfit, or another election's, does not try for the key, and does not
// change the guard.
func TestGuard_UnfitBarsCandidate(t *testing.T) {
	for name, c := range map[string]struct {
		spoil, mend func(s *leadertest.Store)
		text        string
	}{
		"unfit": {
			func(s *leadertest.Store) { s.Link("a").FailSettings(-1, leader.ErrIncompatibleBucket) },
			func(s *leadertest.Store) { s.Link("a").Heal() }, "",
		},
		"another election's": {
			func(s *leadertest.Store) {
				s.Put(fence.DefaultGuardKey, []byte(`{"v":1,"election":"other","token":1,"id":"x","session":"X"}`))
			},
			func(s *leadertest.Store) { s.Delete(fence.DefaultGuardKey) }, guardTaken,
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, orders := guardedKit(t, 0, 2)
			c.spoil(orders[1])
			before := orders[1].Entry(fence.DefaultGuardKey).Revision
			_, wa := k.stand("a", guarding("a", orders...))
			k.clock.Advance(time.Minute)
			wa.ExpectExactly(faulted(leader.ErrIncompatibleBucket, c.text))
			writes := k.store.Link("a").Requests().Writes
			after := orders[1].Entry(fence.DefaultGuardKey).Revision
			check.That(t, writes == 0 && after == before, "%d writes, the guard at %d was at %d", writes, after, before)
			c.mend(orders[1])
			k.clock.Advance(time.Minute)
			wa.Expect(leadertest.Elected())
		})
	}
}
