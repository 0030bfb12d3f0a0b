//go:build field && linux

package torture_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/proof"
)

// Faults of any kind, at any time. Intervals are disjoint, tokens rise, there is one
// loss for each win, and a candidate leads again.
func TestTorture(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	d := newDriver(t, startCluster(t, 3), seeded(t),
		candidateSpec{Lease: lease, Ping: time.Second}, lease*8/10, sealed(lease), expiring(lease))
	for range 4 {
		d.seat()
	}
	defer func() { // also if the test ends early: the journals until then are checked
		d.table(d.check())
	}()
	d.calm()
	d.torture(*duration, func() []fault { return slices.Concat(d.faults(), d.oblivions()) })
	d.close()
}

// seeded returns the source of a plan.
func seeded(tb testing.TB) *rand.Rand {
	tb.Helper()
	n := *seed
	if n == 0 {
		n = rand.Uint64()
	}
	tag := "field"
	if proof.Long {
		tag += ",prove"
	}
	tb.Logf("again with: go test -tags %s ./torture -run '^%s$' -v -duration %v -seed %d", tag, tb.Name(), *duration, n)
	return rand.New(rand.NewPCG(n, 0))
}

// torture goes through all faults in a random order, again and again. The plan depends
// on the seed only.
func (d *driver) torture(duration time.Duration, all func() []fault) {
	d.tb.Helper()
	plan := d.rng
	var bag []fault
	for end := time.Now().Add(duration); time.Now().Before(end); {
		d.rng = rand.New(rand.NewPCG(plan.Uint64(), 0)) // the draws of a fault do not change the plan
		if len(bag) == 0 {
			bag = all()
			plan.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
			var kinds []string
			for _, f := range bag {
				kinds = append(kinds, f.kind)
			}
			d.logf("the plan: %s", strings.Join(kinds, "; "))
		}
		now := bag[:1]
		if two := plan.IntN(3) == 0; two && len(bag) > 1 && bag[0].class != bag[1].class && bag[0].class != "store" && bag[1].class != "store" {
			now = bag[:2]
			if now[1].class == "key" { // a store that is down answers no operator
				now[0], now[1] = now[1], now[0]
			}
		}
		bag = bag[len(now):]
		d.step(now)
		proof.Ran(len(now), "faults between processes")
	}
}

// step injects one fault, or two at once, and waits until it is calm again.
func (d *driver) step(faults []fault) {
	d.tb.Helper()
	s := step{kind: faults[0].kind, from: monotonic()}
	if len(faults) > 1 {
		s.kind = "two at once"
		d.logf("%s, and %s", faults[0].kind, faults[1].kind)
	} else {
		d.logf("%s", s.kind)
	}
	var undo []func()
	for _, f := range faults {
		if u := f.inject(d); u != nil {
			undo = append(undo, u)
		}
		if f.most > 0 {
			d.hold(f.least, f.most)
		}
	}
	for _, u := range undo {
		u()
	}
	d.calm()
	s.to = monotonic()
	d.steps = append(d.steps, s)
}
