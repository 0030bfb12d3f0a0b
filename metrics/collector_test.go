package metrics_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/golden"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/metrics"
	"github.com/natsleader/natsleader/seats"
)

// kit is a fake clock, a store, and what its collector has shown. At the end of the test that must be what
// testdata has.
type kit struct {
	*testing.T
	clock     *leadertest.Clock
	store     *leadertest.Store
	collector *metrics.Collector
	shown     *strings.Builder
	seats     int // of the election
}

func newKit(t *testing.T, opts ...leadertest.Option) kit {
	clock := leadertest.NewClock()
	k := kit{t, clock, leadertest.NewStore(clock, opts...), new(metrics.Collector), new(strings.Builder), 1}
	t.Cleanup(func() {
		if k.shown.Len() > 0 {
			golden.Check(t, k.shown.String())
		}
	})
	return k
}

// anew is a kit for another case of the same test.
func (k kit) anew(name string) kit {
	clock := leadertest.NewClock()
	fmt.Fprintln(k.shown, name)
	return kit{k.T, clock, leadertest.NewStore(clock), &metrics.Collector{LeaderIDs: true}, k.shown, 1}
}

// stand starts a candidate on the link of its name.
func (k kit) stand(id string, cfg leader.Config) *leader.Candidate {
	k.Helper()
	return k.standFor("billing", id, cfg)
}

func (k kit) standFor(election, id string, cfg leader.Config) *leader.Candidate {
	k.Helper()
	cfg.ID = id
	link := k.store.Link(id)
	c := check.Got(leader.Campaign(k.Context(), seats.Of(link, k.seats), election, cfg))(k)
	k.Cleanup(func() {
		link.Close()
		<-c.Done()
	})
	k.clock.Settle()
	return c
}

// add adds the candidate to the collector.
func (k kit) add(c *leader.Candidate) {
	k.Helper()
	check.OK(k, k.collector.Add(c))
}

// show writes down the samples of the metrics that begin with one of the names, without prefix and election.
func (k kit) show(names ...string) {
	k.Helper()
	k.clock.Settle()
	fmt.Fprintf(k.shown, "%v\n", k.clock.Elapsed())
	short := strings.NewReplacer(
		`{bucket="",election="billing"}`, "", `bucket="",`, "", `election="billing",`, "", "natsleader_", "",
	)
	for line := range strings.Lines(scrape(k, k.collector)) {
		line = short.Replace(line)
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(line, name) }) {
			k.shown.WriteString(line)
		}
	}
}

// scrape returns the page that Prometheus reads.
func scrape(tb testing.TB, c *metrics.Collector) string {
	tb.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	check.Must(tb, w.Code == http.StatusOK, "%d: %s", w.Code, w.Body)
	return w.Body.String()
}

// A leader that was elected within 8 ms, over links with a round trip of 2 ms, shows all its metrics.
func TestCollector_AllMetrics(t *testing.T) {
	k := newKit(t, leadertest.WithLatency(time.Millisecond))
	k.collector.LeaderIDs = true
	k.add(k.stand("a", leader.Config{}))
	k.clock.Advance(6 * time.Second)
	k.shown.WriteString(strings.ReplaceAll(scrape(t, k.collector), runtime.Version(), "GO"))
}

// A leader is one until the instant at which its lease ends.
func TestIsLeader_EndsWithTheLease(t *testing.T) {
	k := newKit(t)
	k.add(k.stand("a", leader.Config{}))
	k.store.Link("a").Cut()
	k.clock.Advance(12*time.Second - 1)
	k.show("is_leader", "lease_remaining", "token", "state", "renewal_age", "silent")
	k.clock.Advance(1)
	k.show("is_leader", "lease_remaining", "token", "state", "renewal_age", "silent")
}

// A waiting candidate has no renewal and no leaderless time.
func TestWaiter_HasNoRenewal(t *testing.T) {
	k := newKit(t)
	k.clock.Advance(time.Minute)
	k.stand("a", leader.Config{})
	k.add(k.stand("b", leader.Config{}))
	k.clock.Advance(time.Minute)
	k.show("is_leader", "leaderless", "renewal_age", "renewal_duration_seconds_sum", "renewal_duration_seconds_count",
		"token", "transitions")

	k.store.Link("a").Cut()
	k.clock.Advance(25 * time.Second) // b leads after 15
	k.show("is_leader", "leaderless")
}

// A candidate that cannot release the key still shows the age of its renewal.
func TestRenewalAge_UntilReleased(t *testing.T) {
	k := newKit(t)
	c := k.stand("a", leader.Config{})
	k.add(c)
	k.store.Link("a").Cut()
	_ = leadertest.Led(c).Resign(check.Ended()) // and goes on trying
	k.clock.Advance(time.Second)
	k.show("renewal_age", `state{state="candidate"}`)
}

// The age of a renewal is 0 at the instant at which it was sent, and has no series after the end.
func TestRenewalAge_BeginsAtZero(t *testing.T) {
	k := newKit(t)
	c := k.stand("a", leader.Config{})
	k.add(c)
	k.show("renewal_age")
	check.OK(t, c.Stop())
	k.show("renewal_age")
}

// A renewal that is slower than all bounds is in the last bucket.
func TestRenewalDuration_LastBucket(t *testing.T) {
	k := newKit(t, leadertest.WithMaxLease(10*time.Minute))
	k.add(k.stand("a", leader.Config{}))
	k.store.Link("a").Delay(3 * time.Second)
	k.clock.Advance(106 * time.Second) // a renewal every 100 s
	k.show(`renewal_duration_seconds_bucket{le="0.001"}`, `renewal_duration_seconds_bucket{le="5"}`,
		`renewal_duration_seconds_bucket{le="+Inf"}`, "renewal_duration_seconds_count", "renewal_duration_seconds_sum")
}

// Failures are counted.
func TestFailures_AreCounted(t *testing.T) {
	k := newKit(t)
	link := k.store.Link("a")
	k.add(k.stand("a", leader.Config{}))
	link.Refuse(2, false)
	k.clock.Advance(3 * time.Second)
	link.LoseReplies(1)
	k.clock.Advance(10 * time.Second)
	link.EndFeeds(leader.ErrUnreachable)
	k.clock.Advance(time.Second)
	link.FailWrites(1, errors.New("what nobody knows"))
	k.clock.Advance(5 * time.Second)
	k.store.Put("billing", []byte("what is no record"))
	k.clock.Advance(3 * time.Second)
	k.show("faults", "feed_rebuilds", "writes", "leaderless", "transitions")
}

// A fault has a series for as long as it lasts.
func TestFaulted_WhileItLasts(t *testing.T) {
	k := newKit(t)
	link := k.store.Link("a")
	k.add(k.stand("a", leader.Config{}))
	k.show("faulted")
	link.FailWrites(1, errors.New("what nobody knows"))
	link.FailWatches(-1, leader.ErrPermission)
	link.EndFeeds(leader.ErrUnreachable)
	k.clock.Advance(2500 * time.Millisecond)
	k.show("faulted")
	k.clock.Advance(6 * time.Second) // the next write succeeds
	k.show("faulted")
	link.Heal()
	k.clock.Advance(10 * time.Second)
	k.show("faulted")
	k.store.Put("billing", []byte("what is no record"))
	k.clock.Advance(10 * time.Second)
	k.show("faulted")
	k.clock.Advance(10 * time.Second)
	k.show("faulted")
}

// A change of the state that ends no term has no cause.
func TestALossOfTheKeyBeforeATermHasNoCause(t *testing.T) {
	k := newKit(t, leadertest.WithoutPurgeProtection())
	k.add(k.stand("a", leader.Config{}))
	k.clock.Advance(time.Second)
	k.store.Put("billing", []byte("what is no record"))
	k.clock.Advance(time.Second)
	k.show("transitions")
}

// The cause of a transition has a name.
func TestTransition_CauseHasAName(t *testing.T) {
	all := newKit(t)
	for _, c := range []struct {
		name string
		cfg  leader.Config
		end  func(kit, *leader.Candidate)
	}{
		{"resigned", leader.Config{}, func(k kit, c *leader.Candidate) {
			check.OK(k, leadertest.Resign(k.Context(), c))
		}},
		{"drains", leader.Config{GracePeriod: time.Minute}, func(k kit, c *leader.Candidate) {
			end, _ := leadertest.Work(leadertest.Led(c))
			k.Cleanup(end)
			check.OK(k, leadertest.Led(c).Resign(k.Context()))
			k.clock.Settle()
		}},
		{"stopped", leader.Config{}, func(k kit, c *leader.Candidate) {
			check.OK(k, c.Stop())
		}},
		{"lease expired", leader.Config{}, func(k kit, _ *leader.Candidate) {
			k.store.Link("a").Cut()
			k.clock.Advance(12 * time.Second)
		}},
		{"preempted", leader.Config{}, func(k kit, _ *leader.Candidate) {
			k.store.Put("billing", []byte("{}"))
		}},
		{"deleted", leader.Config{}, func(k kit, _ *leader.Candidate) {
			k.store.Delete("billing")
		}},
		{"regressed", leader.Config{}, func(k kit, _ *leader.Candidate) {
			k.store.Recreate()
			k.clock.Advance(2500 * time.Millisecond)
		}},
		{"closed", leader.Config{}, func(k kit, c *leader.Candidate) {
			k.store.Link("a").Close()
			<-c.Done()
		}},
	} {
		k := all.anew(c.name)
		candidate := k.stand("a", c.cfg)
		k.add(candidate)
		c.end(k, candidate)
		k.show("transitions")
	}
}

// A term whose guard a later term has raised is counted as fenced.
func TestTransition_GuardRaised(t *testing.T) {
	k := newKit(t)
	orders := leadertest.NewStore(k.clock, leadertest.WithoutPurgeProtection())
	k.add(k.stand("a", leader.Config{Guards: []leader.Guard{orders.Link("a").Guard()}}))
	elsewhere := kit{T: t, clock: k.clock, store: leadertest.NewStore(k.clock)}
	elsewhere.stand("b", leader.Config{MinToken: 100, Guards: []leader.Guard{orders.Link("b").Guard()}})
	k.clock.Advance(15 * time.Second) // a checks its guard once per lease
	k.show(`transitions_total{cause="fenced"`)
}

// The names of the metrics follow the conventions of Prometheus.
func TestMetricNames_AreLinted(t *testing.T) {
	k := newKit(t)
	k.add(k.stand("a", leader.Config{}))
	k.store.Put("billing", []byte("what is no record"))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(k.collector)
	problems := check.Got(testutil.GatherAndLint(registry))(t)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if n, err := testutil.GatherAndCount(registry, "natsleader_faults_total", "natsleader_transitions_total"); err != nil || n == 0 {
		t.Errorf("these were not looked at (%v)", err)
	}
}

// A nil candidate is refused, and a zero Collector works.
func TestCollector_NilAndZero(t *testing.T) {
	var zero metrics.Collector
	for _, c := range []*metrics.Collector{&zero, new(metrics.Collector)} {
		check.That(t, c.Add(nil) != nil, "Add(nil) returns nil")
		c.Remove(nil)
		c.Remove(new(leader.Candidate))
		err := c.Add(new(leader.Candidate))
		check.That(t, err == nil, "Add of one that has ended: %v", err)
		if n, err := testutil.GatherAndCount(registryOf(t, c)); err != nil || n == 0 {
			t.Errorf("%d series, %v", n, err)
		}
	}
}

func registryOf(t *testing.T, c prometheus.Collector) *prometheus.Registry {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	check.OK(t, r.Register(c))
	return r
}

// The number of series is as documented.
func TestSeries_AsManyAsDocumented(t *testing.T) {
	k := newKit(t)
	k.store.Link("a").LoseReads(-1) // so that nothing happens
	k.store.Link("a").FailSettings(-1, leader.ErrNoBucket)
	k.add(k.stand("a", leader.Config{}))
	series := 0
	for line := range strings.Lines(scrape(t, k.collector)) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "natsleader_fault") {
			series++
		}
	}
	if series != 33+3 { // three are of the process: two of the queue, and the versions
		t.Errorf("%d series", series)
	}
}

// The candidates of a collector have different elections.
func TestCollector_DistinctElections(t *testing.T) {
	k := newKit(t)
	a, b := k.stand("a", leader.Config{}), k.stand("b", leader.Config{})
	k.add(a)
	for _, c := range []*leader.Candidate{a, b} {
		err := k.collector.Add(c)
		check.That(t, err != nil && strings.Contains(err.Error(), `"billing"`), "Add: %v", err)
	}
	k.collector.Remove(b) // it was not added
	k.show("is_leader")
	check.OK(t, a.Stop())
	k.clock.Settle()
	k.show("is_leader")
	k.add(b) // a has ended
	k.show("is_leader")
	k.collector.Remove(a) // it has gone already
	k.show("is_leader")
	k.collector.Remove(b)
	lines := scrape(t, k.collector)
	check.That(t, !strings.Contains(lines, "election=") && !strings.Contains(lines, "natsleader_queue"),
		"%v", lines)
	k.collector.Remove(b)
	check.Is(t, k.collector.Add(b), nil)
}

// A collector has candidates of several elections. Their series are in the order of the labels, as those of members.
func TestCollector_SeveralElections(t *testing.T) {
	k := newKit(t)
	for _, election := range []string{"c", "a", "b"} {
		k.add(k.standFor(election, election, leader.Config{}))
	}
	ch := make(chan prometheus.Metric, 1000)
	k.collector.Collect(ch)
	close(ch)
	var order string
	for m := range ch {
		var out dto.Metric
		if strings.Contains(m.Desc().String(), "natsleader_is_leader") {
			check.OK(t, m.Write(&out))
			order += out.GetLabel()[1].GetValue()
		}
	}
	check.Equal(t, order, "abc", "the order is %s")
}

// A scrape that nobody reads keeps no candidate from being added or removed.
func TestCollect_HoldsNoLock(t *testing.T) {
	k := newKit(t)
	c := k.stand("a", leader.Config{})
	k.add(c)
	ch, removed := make(chan prometheus.Metric), make(chan struct{})
	go func() {
		defer close(ch)
		k.collector.Collect(ch)
	}()
	<-ch
	go func() {
		defer close(removed)
		k.collector.Remove(c)
	}()
	select {
	case <-removed:
	case <-time.After(10 * time.Second):
		t.Error("Remove waits for the scrape")
	}
	for range ch { // the rest
	}
	<-removed
}

// A collector may be used by many goroutines at the same time.
func TestCollector_ConcurrentUse(t *testing.T) {
	k := newKit(t)
	c := k.stand("a", leader.Config{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 20 {
				_ = k.collector.Add(c) // only one succeeds
				scrape(t, k.collector)
				k.collector.Remove(c)
			}
		})
	}
	for range 20 {
		k.clock.Advance(time.Second)
	}
	all.Wait()
}
