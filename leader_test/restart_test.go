package leader_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// A leader outlives a quick restart of the server. Fault 16 of docs/faults.md: the leader
// goes on.
func TestRestart_QuickKeepsLeader(t *testing.T) { story(t) }

// After a long outage of the server, one of the same candidates leads. Fault 16 of
// docs/faults.md: the leader is fenced and elected again.
func TestRestart_LongOutage(t *testing.T) { story(t) }

// A lone leader is elected again when the server is back.
func TestRestart_LoneLeader(t *testing.T) { story(t) }

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
func TestFirstConnection_Fails(t *testing.T) { story(t) }

// A candidate whose bucket appears later is elected without help. Fault 18 of
// docs/faults.md.
func TestLateBucket_IsUsed(t *testing.T) { story(t) }

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
