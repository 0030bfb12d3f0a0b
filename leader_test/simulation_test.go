package leader_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"runtime/pprof"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
)

var (
	simulations = flag.Int("simulations", 0, "how many seeds to simulate on the test kit; 0: as many as the size of the tests says")
	onlySeed    = flag.Uint64("simulation", 0, "simulate this seed alone, and print what happens")
)

// seeds returns how many seeds a test simulates: all (those of the flag, or the
// default) divided by part.
func seeds(part int) int {
	n := *simulations
	if n == 0 {
		n = proof.Raced(proof.Size(120, 400), 4)
	}
	return max(1, n/part)
}

// course is the simulation of one seed on one ground.
type course func(t *testing.T, seed uint64, trace func(string)) *simulation

// sum is the result of many seeds.
type sum struct {
	seeds     int
	tally     map[string]int
	elections int
	slowest   float64 // the longest recovery, as a part of its bound
}

// simulate runs seeds, each by itself, and logs how to repeat those that failed.
func simulate(t *testing.T, n int, run course) sum {
	t.Helper()
	all := sum{tally: make(map[string]int)}
	if *onlySeed != 0 {
		run(t, *onlySeed, func(line string) { t.Log(line) })
		return all
	}
	t.Setenv("GODEBUG", "tracebacklabels=1,"+os.Getenv("GODEBUG")) // a panic on a candidate's goroutine shows the label
	var before, after runtime.MemStats
	goroutines := ownGoroutines()
	again := ""
	defer func() {
		if t.Failed() && again != "" {
			t.Logf("repeat it with: %s", again)
		}
	}()
	for seed := range uint64(n) {
		again = fmt.Sprintf("go test ./leader_test -run '^%s$' -simulation %d -v", t.Name(), seed+1)
		var s *simulation
		pprof.Do(t.Context(), pprof.Labels("again", again), func(context.Context) { s = run(t, seed+1, nil) })
		for what, k := range s.tally {
			all.tally[what] += k
		}
		all.seeds++
		all.elections += s.elections
		all.slowest = max(all.slowest, s.slowest)
		if seed == uint64(n/5) {
			runtime.GC()
			runtime.ReadMemStats(&before)
		}
	}
	again = ""
	proof.Ran(all.seeds, "simulated seeds")
	proof.Ran(all.elections, "simulated elections")
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%d bytes are in use, %d after a fifth of the seeds", after.HeapAlloc, before.HeapAlloc)
	check.That(t, after.HeapAlloc <= before.HeapAlloc+4<<20,
		"%d bytes are in use, %d after a fifth of the seeds", after.HeapAlloc, before.HeapAlloc)
	now := ownGoroutines()
	check.That(t, now <= goroutines, "%d goroutines of the library and the client, %d before", now, goroutines)
	t.Logf("%d elections in %d seeds; the slowest recovery took %.0f%% of its bound", all.elections, n, 100*all.slowest)
	names := make([]string, 0, len(all.tally))
	for what, k := range all.tally {
		names = append(names, fmt.Sprintf("%8d %s", k, what))
	}
	slices.Sort(names)
	for _, line := range names {
		t.Log(line)
	}
	return all
}

// onKit simulates on the test kit, with the settings of a class.
func onKit(class func(s *simulation)) course {
	return func(t *testing.T, seed uint64, trace func(string)) (s *simulation) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			seedSessions(t, seed)
			s = newSimulation(t, seed, trace)
			class(s)
			m := newMemory(s)
			s.ground = m
			s.run(m.unknown())
		})
		return s
	}
}

// inMemory simulates elections with one leader.
func inMemory(amnesia, guarded bool) course {
	return onKit(func(s *simulation) { s.amnesia, s.guarded = amnesia, guarded || s.chance(4) })
}

// "At any instant at most one leadership context per election is alive", "every term
// has a fencing token greater than that of every earlier term", "cancelled before the
// event that reports the loss is offered", "no write after Stop but the release". This
// holds under all faults of the store, the network, the processes and their clocks.
// When the faults have ceased, a candidate leads, and all agree on it.
func TestWhateverHappens_ContractHolds(t *testing.T) {
	all := simulate(t, seeds(1), inMemory(false, false))
	subject(t, all, "Wipe", "Drop", "Recreate", "Rollback")
	for _, what := range []string{"a log handler that blocks", "a store call held up", "no reader", "a request that waits for the slot"} {
		check.That(t, all.seeds < 200 || all.tally[what] != 0, "%s: never", what)
	}
}

// "An accepted write always carries the newest raised token of the moment", "once
// Elected has been received, no write of an earlier term can ever be accepted any
// more". This holds under all faults of guards, links and processes, however long a
// write is on its way, and although no worker looks at its context. No writer gets
// ErrFenced that is not fenced. When all faults have ceased, the writes of the leader
// are accepted.
func TestWhateverHappens_GuardsHold(t *testing.T) {
	all := simulate(t, seeds(5), inMemory(false, true))
	if all.seeds < 200 {
		return
	}
	for _, outcome := range []string{"accepted", "fenced", "refused", "of unknown outcome"} {
		check.That(t, all.tally["a write "+outcome] >= all.seeds/4,
			"only %d writes were %s in %d seeds", all.tally["a write "+outcome], outcome, all.seeds)
	}
	caused(t, all, "guard: ", slices.Concat(ofFeeds, []string{"Close", "Erase", "Expire", "Wipe", "Drop", "Recreate", "Rollback"}))
}

// Each seat of an election with several leaders has at most one leader, and no candidate leads on two
// seats. When the faults have ceased, all seats are taken. The goroutines of the seats of a candidate run
// in no particular order, so a seed is not the same every time.
func TestWhateverHappens_OneSeatEach(t *testing.T) {
	all := simulate(t, seeds(20), onKit(func(s *simulation) {
		s.seats, s.racing = 2+s.rng.IntN(3), true
		s.ids = []string{"a", "b", "c", "d", "e", "f", "g", "h"}[:s.seats+s.rng.IntN(4)]
	}))
	check.That(t, all.elections >= 4*all.seeds, "only %d elections in %d seeds", all.elections, all.seeds)
}

// A store that forgets takes away the promise of one leader, and no other. The events
// of every candidate are well-formed, and in the end one leads.
func TestForgetfulStore_OneLeads(t *testing.T) {
	subject(t, simulate(t, seeds(8), inMemory(true, false)), append(ofRoster[:len(ofRoster):len(ofRoster)], "Forge")...)
}

// subject fails the test if the simulation has lost its subject: a fault of the
// test kit that it does not inject, or too few elections.
func subject(t *testing.T, all sum, except ...string) {
	t.Helper()
	if all.seeds < 200 {
		return
	}
	check.That(t, all.elections >= 2*all.seeds && all.tally["event fenced"] >= all.seeds,
		"only %d elections and %d fences in %d seeds", all.elections, all.tally["event fenced"], all.seeds)
	caused(t, all, "", except)
}

// caused fails the test if a fault of the test kit was never injected. The prefix names
// the part that it should have struck.
func caused(t *testing.T, all sum, prefix string, except []string) {
	t.Helper()
	for _, of := range []any{(*leadertest.Link)(nil), (*leadertest.Store)(nil)} {
		typ := reflect.TypeOf(of)
		for i := range typ.NumMethod() {
			name := prefix + typ.Elem().Name() + "." + typ.Method(i).Name
			if all.tally[name] == 0 && !slices.Contains(except, typ.Method(i).Name) && !slices.Contains(harmless, typ.Method(i).Name) {
				t.Errorf("%s was never called", name)
			}
		}
	}
}

// harmless are the methods of links and stores that are no faults.
var harmless = []string{"Backend", "RecreateRoster", "StepDown", "Clock", "Requests", "Link", "Guard", "Entry", "Holder", "Leader", "Snapshot"}
