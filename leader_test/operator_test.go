package leader_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// Operations on a key or a bucket that an operator may do while a leader lives.

// veterans returns a leader and a waiting candidate, at 20.5s. The last renewal was at
// 20s.
func (w *world) veterans() (a, b *candidate) {
	w.Helper()
	a = w.stand("a")
	w.at(12 * time.Second)
	b = w.stand("b")
	w.at(20500 * time.Millisecond)
	a.news()
	b.saw(w.T, "12s observed a")
	return a, b
}

// A deleted key deposes the leader at once, and is taken after one unknown lease. Fault
// 11 of docs/faults.md: deleted.
func TestDeletedKey_DeposesAtOnce(t *testing.T) {
	forEachKind(t, func(w *world, unknown time.Duration) {
		a, b := w.veterans()
		w.ok(w.kv().Delete(w.Context(), "e"))
		w.at(time.Minute)
		then := 20500*time.Millisecond + unknown
		// Chance decides whether a sees the marker or already the record that replaced
		// it.
		a.sawBut(w.T, "20.5s observed nobody", "20.5s deposed deleted", "20.5s observed b pending", fmt.Sprintf("%v observed b", then))
		b.saw(w.T, "20.5s observed nobody", fmt.Sprintf("20.5s pending for %v", unknown), fmt.Sprintf("%v elected", then))
		w.leads(a, b)
	})
}

// A leader whose key was deleted keeps away for one interval.
func TestDeletedKey_LeaderKeepsAway(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.lone()
		w.ok(w.kv().Delete(w.Context(), "e"))
		w.at(time.Minute)
		a.saw(t, "3.5s deposed deleted", "3.5s observed nobody", "4.5s pending for 5s", "9.5s elected")
	})
}

// Fault 11 of docs/faults.md: purged.
func TestPurgedKey_IsLikeDeleted(t *testing.T) {
	for _, k := range []struct {
		make    func(*world)
		unknown time.Duration
	}{{(*world).expiring, lease * 3 / 2}, {(*world).ordinary, lease}} {
		in(k.make)(t, func(w *world) {
			a, b := w.veterans()
			w.ok(w.kv().Purge(w.Context(), "e"))
			w.at(time.Minute)
			then := 20500*time.Millisecond + k.unknown
			a.sawBut(t, "20.5s observed nobody", "20.5s deposed deleted", "20.5s observed b pending", fmt.Sprintf("%v observed b", then))
			b.saw(t, "20.5s observed nobody", fmt.Sprintf("20.5s pending for %v", k.unknown), fmt.Sprintf("%v elected", then))
		})
	}
}

// The next renewal notices an emptied stream. Fault 11 of docs/faults.md: purged without
// a trace. No feed reports it.
func TestEmptiedStream_IsNoticed(t *testing.T) {
	inOrdinary(t, func(w *world) {
		a, b := w.veterans()
		s := check.Got(w.ops.js.Stream(w.Context(), "KV_E"))(w)
		w.ok(s.Purge(w.Context()))
		w.at(time.Minute)
		a.saw(t, "21s deposed deleted", "21s observed nobody", "22s pending for 6s", "28s elected")
		b.saw(t, "22s observed a pending", "28s observed a")
		w.leads(a, b)
	})
}

// A purge-protected bucket refuses purges.
func TestPurgeProtection_RefusesPurges(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.veterans()
		check.That(t, w.kv().Purge(w.Context(), "e") != nil, "the key was purged")
		s := check.Got(w.ops.js.Stream(w.Context(), "KV_E"))(w)
		check.That(t, s.Purge(w.Context()) != nil, "the stream was purged")
		check.That(t, s.DeleteMsg(w.Context(), s.CachedInfo().State.LastSeq) != nil, "the record was deleted")
		_, err := w.ops.js.PublishMsg(w.Context(), &nats.Msg{
			Subject: "$KV.E.other", Header: nats.Header{"Nats-Rollup": {"all"}}, Data: []byte("x"),
		})
		check.That(t, err != nil, "the bucket was rolled up")
		w.at(time.Minute)
		a.saw(t)
		b.saw(t)
	})
}

// The next renewal notices a bucket that was rolled up by the writer of another key.
// Fault 11 of docs/faults.md: rolled up by a client that may write another key.
func TestRolledUpBucket_IsNoticed(t *testing.T) {
	inOrdinary(t, func(w *world) {
		a, _ := w.veterans()
		_, err := w.ops.js.PublishMsg(w.Context(), &nats.Msg{
			Subject: "$KV.E.other", Header: nats.Header{"Nats-Rollup": {"all"}}, Data: []byte("x"),
		})
		w.ok(err)
		w.at(time.Minute)
		a.saw(t, "21s deposed deleted", "21s observed nobody", "22s pending for 6s", "28s elected")
	})
}

// A record that cannot be read counts as held for one unknown lease. Fault 11 of
// docs/faults.md: emptied, filled with junk, or with another application's format.
func TestUnreadableRecord_HoldsKey(t *testing.T) {
	for _, junk := range []string{
		"", " ", "junk", "null", "{}", "[]", "7", `{"v":1}`, `{"leader":"somebody"}`, "\x00\xff",
		`{"v":1,"state":"leading","session":"s","lease":"forever"}`,
		`{"v":1,"state":"leading","session":"s","lease":"-5s"}`,
		`{"v":1,"state":"dancing","session":"s","lease":"5s"}`,
		`{"v":1,"state":"leading","session":"","lease":"5s"}`,
		`{"v":1,"state":"leading","session":"s","lease":"5s","token":18446744073709551615}`,
		`{"v":1,"state":"leading","session":"s","lease":"99999h"}`,
		strings.Repeat("[", 10000),
	} {
		inSealed(t, func(w *world) {
			a := w.lone()
			w.write(w.kv(), "e", junk)
			w.at(time.Minute)
			a.saw(t, "3.5s faulted foreign", "3.5s deposed preempted", "3.5s observed foreign",
				"9.5s observed nobody", "9.5s pending", "9.5s elected")
		})
	}
}

// The unknown lease counts anew from each revision of a foreign record.
func TestForeignRecord_EachRevision(t *testing.T) {
	inOrdinary(t, func(w *world) {
		a, b := w.veterans()
		w.ok(b.Stop(w.Context()))
		for range 3 {
			w.write(w.kv(), "e", "junk")
			w.at(w.now() + 5*time.Second)
		}
		// The last record was put at 30.5s.
		then := 30500*time.Millisecond + lease
		w.at(time.Minute)
		a.saw(w.T, "20.5s faulted foreign", "20.5s deposed preempted", "20.5s observed foreign",
			"25.5s faulted foreign", "30.5s faulted foreign",
			fmt.Sprintf("%v observed nobody", then), fmt.Sprintf("%v pending", then), fmt.Sprintf("%v elected", then))
	})
}

// A record of a later format counts for its lease. Fault 11 of docs/faults.md: the format
// of another application, of a later version.
func TestLaterFormat_HoldsItsLease(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.lone()
		w.write(w.kv(), "e", `{"v":7,"state":{"new":1},"id":["x"],"session":"s","lease":"2s"}`)
		w.at(time.Minute)
		got := a.without("observed")
		want := []string{"3.5s deposed preempted", "5.5s pending", "5.5s elected"}
		check.That(t, strings.Join(got, "|") == strings.Join(want, "|"), "a saw %q, want %q", got, want)
	})
}

// A bucket that was made anew has no leader for one unknown lease. Fault 12 of
// docs/faults.md: deleted and made anew.
func TestRecreatedBucket_IsWaitedFor(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.veterans()
		before := a.lastTerm(t).Token()
		w.ok(w.ops.js.DeleteStream(w.Context(), "KV_E"))
		w.sealed()
		w.at(time.Minute)
		// The renewal of 21s is rejected, because the key is empty.
		a.saw(t, "21s faulted regressed", "21s deposed regressed", "21s observed nobody", "21s pending for 6s", "27s elected")
		got := a.lastTerm(t).Token()
		check.That(t, got > before, "token %d after %d", got, before)
		w.leads(a, b)
		b.turned(t)
	})
	inOrdinary(t, func(w *world) {
		a, b := w.veterans()
		w.ok(w.ops.js.DeleteStream(w.Context(), "KV_E"))
		w.ordinary()
		w.at(time.Minute)
		got := a.without("faulted")
		want := "21s deposed deleted|21s observed nobody|22s pending for 6s|28s elected"
		check.That(t, strings.Join(got, "|") == want, "a saw %q", got)
		w.leads(a, b)
	})
}

// The loss of a deleted bucket fences the leader, and a bucket that is made later is
// used. Fault 12 of docs/faults.md: missing.
func TestDeletedBucket_Fences(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.veterans()
		w.ok(w.ops.js.DeleteStream(w.Context(), "KV_E"))
		w.at(40 * time.Second)
		a.turned(t, "24.8s fenced expired")
		w.sealed()
		w.at(2 * time.Minute)
		w.leads(a, b)
	})
}

// An expired record leaves a marker, and a candidate that finds it is pending for one
// unknown lease. Fault 12 of docs/faults.md: with a TTL, expired.
func TestExpiredRecord_Marker(t *testing.T) {
	inExpiring(t, func(w *world) {
		a := w.stand("a")
		w.at(20500 * time.Millisecond)
		a.cut() // the record of 20s expires at 29s
		w.at(29500 * time.Millisecond)
		check.Is(t, check.Err(w.kv().Get(w.Context(), "e")), jetstream.ErrKeyNotFound)
		b := w.stand("b")
		w.at(time.Minute)
		b.saw(t, "29.5s pending for 9s", "38.5s elected")
	})
}

// An election is not disturbed by changes of another.
func TestElection_IsUndisturbed(t *testing.T) {
	kinds(t, func(w *world) {
		a, b := w.veterans()
		c := w.campaign(w.Context(), w.dial("c"), "e.other", leader.Config{ID: "c"})
		w.at(40 * time.Second)
		c.news()
		w.write(w.kv(), "e.other", "junk")
		w.at(42 * time.Second)
		w.ok(w.kv().Delete(w.Context(), "e.other"))
		w.at(80 * time.Second)
		got := c.transitions()
		check.That(t, len(got) == 3, "c saw %q", got)
		a.saw(t)
		b.saw(t)
	})
}
