package metrics_test

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/golden"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/metrics"
)

func newBucketKit(t *testing.T, opts ...leadertest.Option) kit {
	k := newKit(t, opts...)
	k.collector.ByBucket = true
	return k
}

// One candidate leads, one waits, one has lost its key to a foreign record, and one has ended.
func TestByBucket_AllMetrics(t *testing.T) {
	k := newBucketKit(t, leadertest.WithLatency(time.Millisecond))
	k.collector.LeaderIDs = true // without effect
	k.standFor("mail", "other", leader.Config{})
	for _, election := range []string{"billing", "mail", "reports", "search"} {
		k.add(k.standFor(election, "a", leader.Config{}))
	}
	ended := k.standFor("users", "b", leader.Config{})
	k.add(ended)
	k.clock.Advance(5 * time.Second)
	k.store.Link("b").Close()
	<-ended.Done()
	k.store.Put("reports", []byte("what is no record"))
	k.clock.Advance(time.Second)
	k.shown.WriteString(strings.ReplaceAll(scrape(t, k.collector), runtime.Version(), "GO"))
}

// The counts follow the candidates as they come and go. The counters never fall.
func TestByBucket_CandidatesComeAndGo(t *testing.T) {
	k := newBucketKit(t)
	show := func() {
		k.show("candidates{", "candidates_transitions_total", "candidates_renewal_duration_seconds_count")
	}
	a := k.standFor("a", "x", leader.Config{})
	k.add(a)
	k.standFor("b", "y", leader.Config{})
	b := k.standFor("b", "x", leader.Config{})
	k.add(b)
	show()
	k.collector.Remove(b) // it has counted nothing
	check.OK(t, a.Stop())
	k.clock.Settle()
	show()
	k.add(a) // it is there
	show()
	again := k.standFor("a", "z", leader.Config{})
	k.add(again) // in place of the one that has ended
	show()
	k.store.Link("z").Cut()
	k.clock.Advance(12 * time.Second)
	show()
	k.collector.Remove(again)
	lines := scrape(t, k.collector)
	check.That(t, !strings.Contains(lines, "natsleader_candidates"), "a bucket without candidates has sums: %s", lines)
	k.add(k.standFor("c", "x", leader.Config{}))
	show()
}

// The names of the metrics of a bucket follow the conventions of Prometheus. None is that of a metric of a candidate, so
// one query never adds a candidate to a bucket.
func TestByBucket_NamesOfTheirOwn(t *testing.T) {
	k := newBucketKit(t)
	name := regexp.MustCompile(`(?m)^# TYPE (\S+)`)
	k.add(k.stand("a", leader.Config{}))
	k.store.Put("billing", []byte("what is no record"))
	k.clock.Advance(time.Minute)
	seen := make(map[string]bool)
	for _, m := range name.FindAllStringSubmatch(scrape(t, k.collector), -1) {
		seen[m[1]] = true
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(k.collector)
	for _, p := range check.Got(testutil.GatherAndLint(registry))(t) {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	var each metrics.Collector
	check.OK(t, each.Add(k.stand("b", leader.Config{})))
	for _, m := range name.FindAllStringSubmatch(scrape(t, &each), -1) {
		switch m[1] {
		case "natsleader_build_info", "natsleader_queue_age_seconds", "natsleader_queued_requests": // of the process
			check.That(t, seen[m[1]], "a scrape by bucket has no %s", m[1])
		default:
			check.That(t, !seen[m[1]], "%s is in both", m[1])
		}
	}
}

// A fault of a candidate is counted, and is there after the candidate was removed.
func TestByBucket_FaultsStay(t *testing.T) {
	k := newBucketKit(t)
	link := k.store.Link("a")
	a := k.standFor("a", "a", leader.Config{})
	k.add(a)
	k.add(k.standFor("b", "a", leader.Config{}))
	link.FailWrites(2, errors.New("what nobody knows"))
	k.clock.Advance(10 * time.Second)
	k.show("candidates_faults_total", "candidates_writes_unknown_total", "candidates_faulted")
	k.collector.Remove(a)
	k.show("candidates_faults_total", "candidates_writes_unknown_total", "candidates_faulted")
}

// A bucket has the number of candidates of which a fault lasts.
func TestByBucket_Faulted(t *testing.T) {
	k := newBucketKit(t)
	for _, election := range []string{"a", "b", "c"} {
		k.add(k.standFor(election, election, leader.Config{}))
	}
	for _, election := range []string{"a", "b"} {
		k.store.Put(election, []byte("what is no record"))
	}
	k.clock.Advance(5 * time.Second)
	k.show("candidates_faulted")
	k.clock.Advance(15 * time.Second)
	k.show("candidates_faulted")
}

// What happens to one election again and again shows for 15 to 30 minutes.
func TestByBucket_FlapsLately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		c := metrics.Collector{ByBucket: true}
		var flaps *leader.Candidate
		for i := range 3 {
			candidate := check.Got(leader.Campaign(t.Context(), store.Link("a"), fmt.Sprint("e", i), leader.Config{}))(t)
			check.OK(t, c.Add(candidate))
			flaps = candidate
			defer func() { check.OK(t, candidate.Stop()) }()
		}
		var shown strings.Builder
		began := time.Now()
		show := func() {
			synctest.Wait()
			for line := range strings.Lines(scrape(t, &c)) {
				if strings.Contains(line, `trouble="flapping"`) {
					fmt.Fprint(&shown, time.Since(began), " ", line)
				}
			}
		}
		pass := func(minutes int) { // with a scrape in each
			for range minutes {
				time.Sleep(time.Minute)
				scrape(t, &c)
			}
		}
		again := func(n int) {
			for range n {
				check.OK(t, leadertest.Resign(t.Context(), flaps))
				pass(1)
			}
		}
		pass(1)
		again(3)
		show() // 4 elections
		again(1)
		show() // 5
		pass(25)
		show() // the window that began with the first scrape is the last but one
		pass(1)
		show() // one has begun after all of them
		golden.Check(t, shown.String())
	})
}
