package leader_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// persistent runs a test with each kind of bucket that keeps its records across a
// restart.
func persistent(t *testing.T, test func(w *world)) {
	t.Helper()
	for _, k := range []struct {
		name string
		make func(*world)
	}{{"sealed", (*world).sealed}, {"ordinary", (*world).ordinary}} {
		in(k.make).run(t, k.name, func(_ *testing.T, w *world) {
			test(w)
		})
	}
}

// A leader outlives a quick restart of the server. Fault 16 of docs/faults.md: the leader
// goes on.
func TestRestart_QuickKeepsLeader(t *testing.T) {
	persistent(t, func(w *world) {
		a, b := w.veterans()
		term := a.lastTerm(w.T)
		w.stopServer()
		w.at(23 * time.Second)
		w.startServer()
		w.at(time.Minute)
		a.turned(w.T)
		b.turned(w.T)
		now, ok := a.Term()
		check.That(w, ok && now == term, "a leads another term")
		w.leads(a, b)
		w.at(60500 * time.Millisecond)
		w.ok(a.Resign(w.Context())) // the feeds work again
		b.turned(w.T, "1m0.5s pending", "1m0.5s elected")
	})
}

// After a long outage of the server, one of the same candidates leads. Fault 16 of
// docs/faults.md: the leader is fenced and elected again.
func TestRestart_LongOutage(t *testing.T) {
	persistent(t, func(w *world) {
		a, b := w.veterans()
		w.stopServer()
		w.at(time.Minute)
		a.turned(w.T, "24.8s fenced expired")
		w.startServer()
		w.at(61 * time.Second)
		w.leads(a, b)
		w.at(2 * time.Minute)
		w.leads(a, b)
	})
}

// A lone leader is elected again when the server is back.
func TestRestart_LoneLeader(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.lone()
		w.stopServer()
		w.at(30050 * time.Millisecond)
		w.startServer()
		w.at(31 * time.Second)
		a.turned(t, "7.8s fenced expired", "30.1s deposed expired", "30.1s pending", "30.1s elected")
	})
}

// A store that is rolled back has no leader for one unknown lease. Fault 12 of
// docs/faults.md: rolled back.
func TestRollback_IsWaitedFor(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.veterans()
		before := a.lastTerm(t).Token()
		w.stopServer()
		backup := t.TempDir()
		w.ok(os.CopyFS(backup, os.DirFS(w.dir)))
		w.startServer()
		w.at(40500 * time.Millisecond)
		a.turned(t)
		w.stopServer()
		w.dir = backup
		w.startServer()
		// They connect at 40.6s, and find old records.
		w.at(40600 * time.Millisecond)
		for ; w.now() < 2*time.Minute; w.at(w.now() + 100*time.Millisecond) {
			for _, c := range []*candidate{a, b} {
				check.Must(t, !c.IsLeader() || w.now() <= 41*time.Second || w.now() >= 40600*time.Millisecond+lease,
					"%v: %s leads", w.now(), c.ID())
			}
		}
		w.leads(a, b)
		if got := a.without("observed"); len(got) < 2 || !strings.HasSuffix(got[len(got)-1], "deposed regressed") && !strings.Contains(strings.Join(got, "|"), "deposed regressed") {
			t.Errorf("a saw %q", got)
		}
		token := w.leads(a, b).lastTerm(t).Token()
		check.That(t, token > before, "token %d after %d", token, before)
	})
}

// A candidate whose first connection fails is elected without help. Fault 18 of
// docs/faults.md.
func TestFirstConnection_Fails(t *testing.T) {
	inSealed(t, func(w *world) {
		w.stopServer()
		cl := w.dial("a", nats.RetryOnFailedConnect(true))
		a := w.campaign(w.Context(), cl, "e", leader.Config{ID: "a"})
		w.at(20 * time.Second)
		a.saw(t, "0s faulted unreachable")
		w.startServer()
		w.at(40 * time.Second) // its pauses have grown to 15s, give or take a quarter
		got := a.transitions()
		check.That(t, len(got) == 2 && a.IsLeader(), "a saw %q", got)
	})
}

// A candidate whose bucket appears later is elected without help. Fault 18 of
// docs/faults.md.
func TestLateBucket_IsUsed(t *testing.T) {
	for _, k := range []func(*world){(*world).sealed, (*world).expiring, (*world).ordinary} {
		bubble(t, func(w *world) {
			a, b := w.stand("a"), w.stand("b")
			w.at(time.Minute)
			a.saw(t, "0s faulted no bucket")
			b.saw(t, "0s faulted no bucket")
			k(w)
			w.at(2 * time.Minute)
			w.leads(a, b)
			check.Equal(t, len(a.transitions())+len(b.transitions()), 2, "%d transitions")
		})
	}
}

// A memory bucket that is lost in a restart and made anew is used.
func TestMemoryBucket_Recreated(t *testing.T) {
	bubble(t, func(w *world) {
		w.expiring() // in memory
		a, b := w.stand("a"), w.stand("b")
		w.at(20500 * time.Millisecond)
		before := w.leads(a, b).lastTerm(t).Token()
		w.stopServer()
		w.at(22 * time.Second)
		w.startServer()
		w.at(40 * time.Second)
		w.at(41 * time.Second)
		for _, c := range []*candidate{a, b} {
			check.That(t, !c.IsLeader(), "%s leads without a bucket", c.ID())
		}
		if _, err := w.ops.js.KeyValue(w.Context(), "E"); err != nil {
			w.expiring()
		}
		w.at(2 * time.Minute)
		token := w.leads(a, b).lastTerm(t).Token()
		check.That(t, token > before, "token %d after %d", token, before)
	})
}
