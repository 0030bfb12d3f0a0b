package leader_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// A single candidate leads at once in a purge-protected bucket.
func TestCandidate_AloneLeadsAtOnce(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.stand("a")
		a.saw(t, "0s pending", "0s elected")
		w.isAt(0, "elected")
		w.at(time.Hour)
		a.saw(t)
		check.That(t, a.IsLeader() && a.State() == leader.StateLeader, "a is %v", a.State())
	})
}

// A candidate that finds the key empty in an unprotected bucket is pending for one
// unknown lease.
func TestEmptyKey_UnknownLease(t *testing.T) {
	for _, k := range []struct {
		name string
		make func(*world)
		wait time.Duration
	}{
		{"the TTL", (*world).expiring, lease * 3 / 2},
		{"the own lease", (*world).ordinary, lease},
	} {
		in(k.make).run(t, k.name, func(t *testing.T, w *world) {
			a := w.stand("a")
			a.saw(t, fmt.Sprintf("0s pending for %v", k.wait))
			w.at(k.wait)
			a.saw(t, fmt.Sprintf("%v elected", k.wait))
		})
	}
}

func TestTenCandidates_OneLeader(t *testing.T) {
	kinds(t, func(w *world) {
		var all []*candidate
		for i := range 10 {
			all = append(all, w.stand(fmt.Sprintf("c%d", i)))
		}
		w.at(time.Minute)
		w.leads(all...)
	})
}

// leads fails the test unless exactly one of them leads and all report that.
func (w *world) leads(all ...*candidate) *candidate {
	w.Helper()
	var first *candidate
	for _, c := range all {
		if !c.IsLeader() {
			continue
		}
		if first != nil {
			w.Fatalf("%v: %s and %s lead", w.now(), first.ID(), c.ID())
		}
		first = c
	}
	check.Must(w, first != nil, "%v: nobody leads", w.now())
	for _, c := range all {
		h := c.Leader()
		check.That(w, h.State == leader.HolderLeading && h.ID == first.ID() && h.Token == first.lastTerm(w.T).Token(),
			"%v: %s believes that %v", w.now(), c.ID(), h)
	}
	return first
}
