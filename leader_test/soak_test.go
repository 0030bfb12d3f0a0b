package leader_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// Of two candidates with the same ID, one leads. Fault 13 of docs/faults.md.
func TestSameID_OneOfTwoLeads(t *testing.T) {
	kinds(t, func(w *world) {
		a, b := w.stand("twin"), w.stand("twin")
		w.at(20500 * time.Millisecond)
		check.Must(w, a.IsLeader() != b.IsLeader(), "they are %v and %v", a.State(), b.State())
		if b.IsLeader() {
			a, b = b, a
		}
		a.news()
		b.news()
		w.ok(leadertest.Resign(w.Context(), a))
		b.saw(w.T, "20.5s observed nobody", "20.5s pending", "20.5s elected")
		b.cut()
		w.at(time.Minute)
		got := a.transitions()
		check.That(w, len(got) == 3 && got[2] == "26.5s elected", "a saw %q", got)
	})
}

// A candidate that is started again with the same ID is another candidate.
func TestSameID_RestartedIsAnother(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.stand("a")
		w.at(3500 * time.Millisecond)
		a.cut() // the process is killed
		again := w.stand("a")
		w.at(20 * time.Second)
		again.saw(t, "3.5s observed a", "9.5s observed nobody", "9.5s pending", "9.5s elected")
		a.open()
		w.at(21 * time.Second)
		w.leads(a, again)
	})
}

// goroutines returns how many goroutines of the library and of the client run when
// everything is at rest. Those of the server come and go.
func goroutines() int {
	synctest.Wait()
	return ownGoroutines()
}

// ownGoroutines returns how many goroutines of the library and of the client run at this
// moment.
func ownGoroutines() int {
	all := make([]byte, 4<<20)
	all = all[:runtime.Stack(all, true)]
	n := 0
	for stack := range strings.SplitSeq(string(all), "\n\n") {
		if strings.Contains(stack, "natsleader/leader.") || strings.Contains(stack, "nats%2ego.") || strings.Contains(stack, "nats.go/jetstream.") {
			n++
		}
	}
	return n
}

// noMore returns a check that no more goroutines run than now.
func noMore(t *testing.T) func() {
	t.Helper()
	before := goroutines()
	return func() {
		t.Helper()
		n := goroutines()
		check.That(t, n <= before, "%d goroutines, %d before", n, before)
	}
}

// A thousand terms leave nothing behind. Fault 14 of docs/faults.md.
func TestSoak_ThousandTerms(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.stand("a"), w.stand("b")
		elected := 0
		var bounded func()
		var mem, after runtime.MemStats
		for rounds := 0; elected < proof.Size(300, 1000); rounds++ {
			check.Must(w, rounds < 2*proof.Size(300, 1000), "%d terms in %d rounds", elected, rounds)
			w.at(w.now() + lease + interval/2)
			for _, c := range []*candidate{a, b} {
				if c.IsLeader() {
					elected++
					w.ok(leadertest.Resign(w.Context(), c))
					break
				}
			}
			a.news()
			b.news()
			if elected == 100 {
				bounded = noMore(t)
				a.forget()
				b.forget()
				runtime.GC()
				runtime.ReadMemStats(&mem)
			}
		}
		a.forget()
		b.forget()
		bounded()
		runtime.GC()
		runtime.ReadMemStats(&after)
		check.That(t, after.HeapAlloc <= mem.HeapAlloc+4<<20, "%d bytes, %d before", after.HeapAlloc, mem.HeapAlloc)
	})
}

// forget drops the terms that the recorder keeps.
func (c *candidate) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.terms = nil
}

// longLease reduces a day to a few thousand renewals.
const longLease = 90 * time.Second

// hours is the length of a day: an eighth of one by default.
func hours() time.Duration { return time.Duration(proof.Size(3, 24)) * time.Hour }

// A day leaves nothing behind. Fault 14 of docs/faults.md.
func TestSoak_OneDay(t *testing.T) {
	for _, k := range []func(*world){
		func(w *world) { w.create(leader.BucketConfig{MaxLease: longLease}) }, (*world).ordinary,
	} {
		in(k)(t, func(w *world) {
			a := w.standAs(leader.Config{ID: "a", LeaseDuration: longLease})
			w.at(longLease)
			b := w.standAs(leader.Config{ID: "b", LeaseDuration: longLease})
			w.at(time.Hour)
			bounded := noMore(t)
			a.news()
			b.news()
			w.at(hours())
			bounded()
			a.saw(t)
			b.saw(t)
			w.leads(a, b)
		})
	}
}

// A day without a server leaves nothing behind. Fault 14 of docs/faults.md: an outage of
// a day.
func TestSoak_DayWithoutServer(t *testing.T) {
	bubble(t, func(w *world) {
		w.create(leader.BucketConfig{MaxLease: longLease})
		var all []*candidate
		for _, id := range []string{"a", "b"} {
			all = append(all, w.campaign(w.Context(), w.dial(id, nats.ReconnectWait(time.Minute)), "e", leader.Config{ID: id, LeaseDuration: longLease}))
		}
		w.at(20500 * time.Millisecond)
		w.leads(all...)
		bounded := noMore(t)
		for _, c := range all {
			c.cut()
		}
		w.at(hours())
		for _, c := range all {
			c.open()
		}
		w.at(hours() + time.Hour)
		w.leads(all...)
		bounded()
	})
}

// Chaos on one key makes no two leaders, and disturbs no other key. Fault 17 of
// docs/faults.md. The checker checks both elections.
func TestChaos_OnOneKey(t *testing.T) {
	kinds(t, func(w *world) {
		var ten []*candidate
		for i := range 10 {
			ten = append(ten, w.stand(fmt.Sprintf("c%d", i)))
		}
		x := w.campaign(w.Context(), w.dial("x"), "calm", leader.Config{ID: "x"})
		w.at(12 * time.Second)
		y := w.campaign(w.Context(), w.dial("y"), "calm", leader.Config{ID: "y"})
		w.at(20500 * time.Millisecond)
		w.leads(ten...)
		x.news()
		y.news()
		rng := rand.New(rand.NewPCG(17, 17))
		kv := w.kv()
		for w.now() < 35500*time.Millisecond {
			w.at(w.now() + 150*time.Millisecond)
			var err error
			switch rng.IntN(3) {
			case 0:
				err = kv.Delete(w.Context(), "e")
			case 1:
				_, err = kv.Put(w.Context(), "e", []byte("junk"))
			case 2:
				_, err = kv.Put(w.Context(), "e", nil)
			}
			w.ok(err)
		}
		w.at(2 * time.Minute)
		w.leads(ten...)
		x.saw(w.T)
		y.saw(w.T)
		w.leads(x, y)
	})
}
