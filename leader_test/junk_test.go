package leader_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/leader"
)

// Records, feed messages and guards that no candidate has written.

// junkRecord returns a record as any client may write it.
func junkRecord(state, session, lease string, token, counter uint64) []byte {
	return fmt.Appendf(nil, `{"v":1,"state":%q,"id":"junk","session":%q,"n":%d,"lease":%q,"token":%d}`, state, session, counter, lease, token)
}

// record fails the test unless the key holds a readable record that names the candidate
// as the leader.
func (k kit) record(id string) leader.Holder {
	k.Helper()
	h := k.store.Holder("e")
	if h.State != leader.HolderLeading || h.ID != id {
		k.Fatalf("the key says that %v, want %s: %s", h, id, k.store.Entry("e").Value)
	}
	return h
}

// The lease of a junk record is forgotten with the record. Issue 12, fault 3.
func TestJunkLease_IsForgotten(t *testing.T) { story(t) }

// Issue 12, fault 3: a candidate respects a junk record as long as it stands, and
// notices by itself that the record does not stand any more.
func TestJunkLease_IsRespected(t *testing.T) { story(t) }

// A forged message on the feed delays no takeover. Issue 12, fault 3.
func TestForgedFeedMessage_Takeover(t *testing.T) {
	for name, e := range map[string]leadertest.Entry{
		"an old revision":             {Revision: 1, Value: junkRecord("leading", "X", "8000h", 0, 1)},
		"the next revision":           {Revision: 2, Value: junkRecord("leading", "X", "8000h", 0, 1)},
		"the greatest revision":       {Revision: math.MaxUint64, Value: junkRecord("leading", "X", "15s", 0, 1)},
		"the greatest token":          {Revision: 2, Value: junkRecord("leading", "X", "15s", 1<<62, 1)},
		"a release":                   {Revision: 2, Value: junkRecord("released", "X", "15s", 0, 1)},
		"a marker":                    {Revision: 2, Marker: true},
		"a marker that carries":       {Revision: 2, Marker: true, Value: junkRecord("leading", "X", "8000h", 0, 1)},
		"a record of the next format": {Revision: 2, Value: []byte(`{"v":2,"session":"X","lease":"8000h"}`)},
		"megabytes":                   {Revision: 2, Value: bytes.Repeat([]byte("x"), 2<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKit(t)
			_, wa := k.stand("a", leader.Config{})
			wa.Expect(leadertest.Elected())
			b, wb := k.stand("b", leader.Config{})
			k.clock.Advance(time.Second)
			k.store.Forge("e", e)
			k.clock.Advance(time.Second)
			k.store.Link("a").Cut() // at 2s: it has not renewed, so b waits until 15s
			k.clock.Advance(13*time.Second - 1)
			check.That(t, !b.IsLeader(), "b leads too early")
			k.clock.Advance(16 * time.Second)
			wb.Ignore(leadertest.Observed()).Expect(leadertest.Elected())
			token := wb.Term().Token()
			check.That(t, token <= 1000, "b's term has token %d", token)
			for _, e := range wb.Events() {
				e, ok := e.(leader.Elected)
				check.That(t, !ok || leader.Err(e.Term.Context()) == nil, "%v ended", e)
			}
		})
	}
}

// Any number of junk messages on the feed does not keep a candidate from its work.
func TestForgedFeedMessages_DelayNoWork(t *testing.T) {
	k := newKit(t)
	_, wa := k.stand("a", leader.Config{})
	wa.Expect(leadertest.Elected())
	b, _ := k.stand("b", leader.Config{})
	k.store.Link("a").Cut()
	before := k.store.Requests()
	for range 2000 {
		k.store.Forge("e", leadertest.Entry{Revision: math.MaxUint64, Value: junkRecord("released", "X", "15s", 0, 1)})
		k.clock.Advance(10 * time.Millisecond)
	}
	check.That(t, b.IsLeader(), "b does not lead")
	after := k.store.Requests()
	reads := after.Reads - before.Reads
	check.That(t, reads <= 100, "%d reads in 20 s", reads)
	writes := after.Writes - before.Writes
	check.That(t, writes <= 40, "%d writes in 20 s", writes)
}

// Issue 12, fault 4.
func TestJunkToken(t *testing.T) {
	const bound = 1 << 62
	for _, c := range []struct {
		token     uint64
		exhausted bool
	}{{math.MaxUint64, false}, {math.MaxInt64, false}, {bound + 1, false}, {bound, true}, {bound - 1, true}, {bound - 1<<33, false}, {1 << 61, false}} {
		t.Run(fmt.Sprint(c.token), func(t *testing.T) {
			k := newKit(t)
			_, wa := k.stand("a", leader.Config{})
			wa.Expect(leadertest.Elected())
			k.clock.Advance(time.Second)
			k.store.Put("e", junkRecord("leading", "X", "15s", c.token, 1))
			_, wb := k.stand("b", leader.Config{})
			k.clock.Advance(20 * time.Second)
			if c.exhausted {
				wb.Expect(faulted(leader.ErrForeignRecord, tokensExhausted))
				wb.Ignore(leadertest.Observed()).ExpectExactly()
				k.store.Delete("e")
				k.clock.Advance(16 * time.Second)
			}
			var elected []uint64
			for _, w := range []*leadertest.Watcher{wa, wb} {
				for _, e := range w.Events() {
					if e, ok := e.(leader.Elected); ok {
						elected = append(elected, e.Term.Token())
					}
					e, ok := e.(leader.Faulted)
					check.That(t, !ok || !errors.Is(e.Err, leader.ErrRegressed), "%v", e)
				}
			}
			h := k.store.Holder("e")
			check.Must(t, h.State == leader.HolderLeading && h.Token <= bound && len(elected) == 2, "%v; elected with %d", h, elected)
			check.That(t, c.exhausted || c.token >= bound || h.Token > c.token,
				"token %d follows %d", h.Token, c.token)
			// Its leader can still be asked to hand over, and survives a reconnection.
			k.store.Link(h.ID).Reconnect()
			k.clock.Advance(time.Second)
			k.record(h.ID)
			done := make(chan error, 1)
			go func() {
				_, err := leader.StepDown(context.Background(), k.store.Link("op"), "e", leader.StepDownOptions{By: "test"})
				done <- err
			}()
			for range 100 {
				k.clock.Advance(100 * time.Millisecond)
			}
			err := <-done
			check.That(t, err == nil, "StepDown: %v", err)
		})
	}
}

// Issue 12, fault 4: through a guard.
func TestJunkTokenOfAGuard(t *testing.T) {
	for _, token := range []uint64{math.MaxUint64, 1<<62 + 1, 1 << 62, 1<<62 - 1, 1<<62 - 1<<33, 1 << 61} {
		t.Run(fmt.Sprint(token), func(t *testing.T) {
			k, stores := guardedKit(t, 0, 1)
			guard := stores[0]
			a, wa := k.stand("a", guarding("a", guard))
			k.clock.Advance(time.Second)
			wa.Expect(leadertest.Elected())
			value := fmt.Appendf(nil, `{"v":1,"election":"e","token":%d,"id":"junk","session":"X"}`, token)
			guard.Put(fence.DefaultGuardKey, value)
			k.clock.Advance(20 * time.Second) // it looks once per lease
			exhausted := token == 1<<62 || token == 1<<62-1
			if exhausted {
				wa.Expect(leadertest.Fenced(leader.ErrFenced), faulted(leader.ErrForeignRecord, tokensExhausted))
				k.clock.Advance(100 * time.Second)
				for _, e := range wa.Events()[3:] {
					_, ok := e.(leader.Elected)
					check.That(t, !ok, "%v", e)
				}
				guard.Delete(fence.DefaultGuardKey)
				k.clock.Advance(31 * time.Second) // one lease until it looks, one that it may have to wait
			}
			if !a.IsLeader() {
				t.Fatalf("a does not lead: %v", wa.Events())
			}
			h := k.record("a")
			check.That(t, !exhausted || h.Token <= 1000, "token %d: the junk is remembered", h.Token)
			check.That(t, exhausted || token >= 1<<62 || h.Token > token, "token %d follows %d", h.Token, token)
			k.stands(guard, h.Token)
		})
	}
}

// A forged record on the feed does not answer a call of Proclaim. Issue 12, fault 10.
func TestProclaim_ForgedRecord(t *testing.T) {
	for _, state := range []string{"leading", "released"} {
		k := newKit(t)
		a, wa := k.stand("a", leader.Config{})
		wa.Expect(leadertest.Elected())
		k.clock.Advance(time.Second)
		session := field(k.store.Entry("e").Value, "session")
		k.store.Link("a").LoseWrites(1)
		k.store.Put("e", junkRecord(state, session, "15s", 1, math.MaxUint64))
		done := make(chan error, 1)
		go func() { done <- leadertest.Led(a).Proclaim(context.Background(), []byte("news")) }()
		for range 50 {
			k.clock.Advance(100 * time.Millisecond)
		}
		if err := <-done; err == nil && !strings.Contains(string(k.store.Entry("e").Value), "news") {
			t.Errorf("%s: Proclaim returned nil, and the key holds %s", state, k.store.Entry("e").Value)
		}
		if state == "leading" {
			wa.Expect(leadertest.Deposed(leader.ErrPreempted))
		}
		k.clock.Advance(20 * time.Second)
		k.record("a")
	}
}

// Issue 12, fault 13: a marker that carries the record which it replaced keeps a
// candidate out for the record's lease. That includes a candidate that knows a lesser
// bound.
func TestMarkerWithLease_IsWaitedFor(t *testing.T) {
	k := newKit(t)
	a, _ := k.stand("a", leader.Config{})
	k.clock.Advance(time.Second)
	k.store.Link("a").Cut()
	k.store.Configure(leadertest.WithMaxLease(time.Second))
	e := k.store.Entry("e")
	k.store.Backend().Mark(t.Context(), "e", e.Value, e.Revision, func(_ uint64, err error) {
		check.That(t, err == nil, "%v", err)
	})
	b, wb := k.stand("b", leader.Config{})
	holder := b.Leader()
	check.That(t, holder.ID == "", "b believes that %v", holder)
	k.clock.Advance(11 * time.Second)
	check.That(t, !a.IsLeader(), "a leads after its renew deadline")
	k.clock.Advance(4*time.Second - 1)
	wb.ExpectExactly()
	k.clock.Advance(1)
	wb.ExpectExactly(leadertest.Pending(), leadertest.Elected())
	if wb.Term().Token() <= 1 {
		t.Errorf("token %d", wb.Term().Token())
	}
}

// An extremely short lease does not make a candidate or an observer read without end.
func TestShortestLease_CostsNoMore(t *testing.T) {
	k := newKit(t)
	k.store.Put("e", junkRecord("leading", "X", "1ns", 0, 1))
	holders, err := leader.Observe(t.Context(), k.store.Link("o"), "e")
	check.OK(t, err)
	go func() {
		for range holders { // until the end
		}
	}()
	k.clock.Advance(time.Second)
	n := k.store.Link("o").Requests().Reads
	check.That(t, n <= 10, "%d reads in a second", n)
	t.Cleanup(k.store.Link("o").Close)
}

// A record that no candidate can have written is foreign: it is neither decoded nor
// counted.
func TestOversizedRecord_IsForeign(t *testing.T) {
	for name, value := range map[string][]byte{
		"value":   []byte(`{"v":1,"state":"leading","id":"x","session":"X","n":1,"lease":"15s","value":"` + strings.Repeat("x", 2<<20) + `"}`),
		"session": []byte(`{"v":1,"state":"leading","id":"x","session":"` + strings.Repeat("X", 65) + `","n":1,"lease":"15s"}`),
		"ID":      []byte(`{"v":1,"state":"leading","id":"` + strings.Repeat("X", 257) + `","session":"X","n":1,"lease":"15s"}`),
	} {
		h := leader.HolderOf(natskv.KeyValue(backend.Entry{Revision: 1, Value: value}, "e"))
		check.That(t, h.State == leader.HolderForeign, "%s: %v", name, h)
	}
}
