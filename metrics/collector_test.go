package metrics_test

import (
	"context"
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

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
	"github.com/natsleader/natsleader/metrics"
)

type kit struct {
	*testing.T
	clock     *leadertest.Clock
	store     *leadertest.Store
	collector *metrics.Collector
}

func newKit(t *testing.T, opts ...leadertest.Option) kit {
	clock := leadertest.NewClock()
	return kit{t, clock, leadertest.NewStore(clock, opts...), new(metrics.Collector)}
}

// stand starts a candidate on the link of its name.
func (k kit) stand(id string, cfg leader.Config) *leader.Candidate {
	k.Helper()
	cfg.ID = id
	link := k.store.Link(id)
	c, err := leader.Campaign(k.Context(), link, "billing", cfg)
	check.OK(k, err)
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

// expect compares the samples of the metrics that begin with one of the names, in
// any order, without prefix and election.
func (k kit) expect(samples string, names ...string) {
	k.Helper()
	k.clock.Settle()
	var got, want []string
	short := strings.NewReplacer(`{bucket="",election="billing"}`, "", `bucket="",`, "", `election="billing",`, "", "natsleader_", "")
	for line := range strings.Lines(scrape(k, k.collector)) {
		line = short.Replace(line)
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(line, name) }) {
			got = append(got, line)
		}
	}
	for line := range strings.Lines(strings.Trim(samples, "\n\t") + "\n") {
		want = append(want, strings.TrimLeft(line, "\t"))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		k.Errorf("at %v, got:\n%swant:\n%s", k.clock.Elapsed(), strings.Join(got, ""), strings.Join(want, ""))
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

// A leader that was elected within 8 ms, over links with a round trip of 2 ms.
const healthy = `
# HELP natsleader_build_info Version of the library natsleader, and of Go, in the program.
# TYPE natsleader_build_info gauge
natsleader_build_info{goversion="GO",version="unknown"} 1
# HELP natsleader_feed_rebuilds_total Feeds of changes that had to be opened again.
# TYPE natsleader_feed_rebuilds_total counter
natsleader_feed_rebuilds_total{bucket="",election="billing"} 0
# HELP natsleader_is_leader Whether the candidate leads at this instant, by its clock.
# TYPE natsleader_is_leader gauge
natsleader_is_leader{bucket="",election="billing"} 1
# HELP natsleader_leaderless_seconds_total Time during which the candidate knew of no leader.
# TYPE natsleader_leaderless_seconds_total counter
natsleader_leaderless_seconds_total{bucket="",election="billing"} 0.008
# HELP natsleader_log_dropped_total Log records that were dropped because the handler of the log blocked.
# TYPE natsleader_log_dropped_total counter
natsleader_log_dropped_total{bucket="",election="billing"} 0
# HELP natsleader_leader_info A leader that the candidate knows, itself included.
# TYPE natsleader_leader_info gauge
natsleader_leader_info{bucket="",election="billing",id="a",seat="1"} 1
# HELP natsleader_leaders Number of leaders that the candidate knows, itself included.
# TYPE natsleader_leaders gauge
natsleader_leaders{bucket="",election="billing"} 1
# HELP natsleader_lease_duration_seconds For how long others wait after a renewal.
# TYPE natsleader_lease_duration_seconds gauge
natsleader_lease_duration_seconds{bucket="",election="billing"} 15
# HELP natsleader_lease_remaining_seconds For how long the leadership is good if it is not renewed, 0 if the candidate does not lead.
# TYPE natsleader_lease_remaining_seconds gauge
natsleader_lease_remaining_seconds{bucket="",election="billing"} 11.006
# HELP natsleader_queue_age_seconds For how long the oldest request has waited for its turn on the connection: the longest of all candidates.
# TYPE natsleader_queue_age_seconds gauge
natsleader_queue_age_seconds 0
# HELP natsleader_queued_requests Requests that wait for their turn on the connection: the most of all candidates.
# TYPE natsleader_queued_requests gauge
natsleader_queued_requests 0
# HELP natsleader_renewal_age_seconds Time since the last acknowledged renewal was sent, while the candidate holds the key.
# TYPE natsleader_renewal_age_seconds gauge
natsleader_renewal_age_seconds{bucket="",election="billing"} 0.994
# HELP natsleader_renewal_duration_seconds How long the store took to acknowledge a write of the key: a renewal, or one that takes it or gives it up.
# TYPE natsleader_renewal_duration_seconds histogram
natsleader_renewal_duration_seconds_bucket{bucket="",election="billing",le="0.001"} 0
natsleader_renewal_duration_seconds_bucket{bucket="",election="billing",le="0.0025"} 3
natsleader_renewal_duration_seconds_bucket{bucket="",election="billing",le="0.005"} 3
natsleader_renewal_duration_seconds_bucket{bucket="",election="billing",le="0.01"} 3
natsleader_renewal_duration_seconds_bucket{bucket="",election="billing",le="0.025"} 3
natsleader_renewal_duration_seconds_bucket{bucket="",election="billing",le="0.05"} 3
natsleader_renewal_duration_seconds_bucket{bucket="",election="billing",le="0.1"} 3
natsleader_renewal_duration_seconds_bucket{bucket="",election="billing",le="0.25"} 3
natsleader_renewal_duration_seconds_bucket{bucket="",election="billing",le="0.5"} 3
natsleader_renewal_duration_seconds_bucket{bucket="",election="billing",le="1"} 3
natsleader_renewal_duration_seconds_bucket{bucket="",election="billing",le="2.5"} 3
natsleader_renewal_duration_seconds_bucket{bucket="",election="billing",le="5"} 3
natsleader_renewal_duration_seconds_bucket{bucket="",election="billing",le="+Inf"} 3
natsleader_renewal_duration_seconds_sum{bucket="",election="billing"} 0.006
natsleader_renewal_duration_seconds_count{bucket="",election="billing"} 3
# HELP natsleader_seat Number of the seat that the candidate leads on at this instant, 0 if it does not lead.
# TYPE natsleader_seat gauge
natsleader_seat{bucket="",election="billing"} 1
# HELP natsleader_seats Number of leaders that the candidate lets the election have.
# TYPE natsleader_seats gauge
natsleader_seats{bucket="",election="billing"} 1
# HELP natsleader_silent_seconds For how long no sign of a majority of the servers has come, 0 unless one is missing.
# TYPE natsleader_silent_seconds gauge
natsleader_silent_seconds{bucket="",election="billing"} 0
# HELP natsleader_state Whether the candidate is in the state.
# TYPE natsleader_state gauge
natsleader_state{bucket="",election="billing",state="candidate"} 0
natsleader_state{bucket="",election="billing",state="ended"} 0
natsleader_state{bucket="",election="billing",state="fenced"} 0
natsleader_state{bucket="",election="billing",state="leader"} 1
natsleader_state{bucket="",election="billing",state="pending"} 0
# HELP natsleader_token Fencing token of the term that the candidate leads, 0 if it does not.
# TYPE natsleader_token gauge
natsleader_token{bucket="",election="billing"} 1
# HELP natsleader_transitions_total Changes of the state, and what ended the term if one ended.
# TYPE natsleader_transitions_total counter
natsleader_transitions_total{bucket="",cause="none",election="billing",to="leader"} 1
natsleader_transitions_total{bucket="",cause="none",election="billing",to="pending"} 1
# HELP natsleader_unreleased_seconds For how long the work of a term has gone on after the end of the term, 0 if it has ended.
# TYPE natsleader_unreleased_seconds gauge
natsleader_unreleased_seconds{bucket="",election="billing"} 0
# HELP natsleader_writes_refused_total Writes of the key whose condition did not hold.
# TYPE natsleader_writes_refused_total counter
natsleader_writes_refused_total{bucket="",election="billing"} 0
# HELP natsleader_writes_unknown_total Writes of the key that were not answered in time.
# TYPE natsleader_writes_unknown_total counter
natsleader_writes_unknown_total{bucket="",election="billing"} 0
`

// A leader shows all its metrics.
func TestCollector_AllMetrics(t *testing.T) {
	k := newKit(t, leadertest.WithLatency(time.Millisecond))
	k.collector.LeaderIDs = true
	k.add(k.stand("a", leader.Config{}))
	k.clock.Advance(6 * time.Second)
	err := testutil.CollectAndCompare(k.collector, strings.NewReader(strings.Replace(healthy, "GO", runtime.Version(), 1)))
	check.That(t, err == nil, "%v", err)
}

// A leader is one until the instant at which its lease ends.
func TestIsLeader_EndsWithTheLease(t *testing.T) {
	k := newKit(t)
	k.add(k.stand("a", leader.Config{}))
	k.store.Link("a").Cut()
	k.clock.Advance(12*time.Second - 1)
	k.expect(`
		is_leader 1
		lease_remaining_seconds 1e-09
		renewal_age_seconds 11.999999999
		silent_seconds 11.999999999
		state{state="candidate"} 0
		state{state="ended"} 0
		state{state="fenced"} 0
		state{state="leader"} 1
		state{state="pending"} 0
		token 1
	`, "is_leader", "lease_remaining", "token", "state", "renewal_age", "silent")
	k.clock.Advance(1)
	k.expect(`
		is_leader 0
		lease_remaining_seconds 0
		renewal_age_seconds 12
		silent_seconds 12
		state{state="candidate"} 0
		state{state="ended"} 0
		state{state="fenced"} 1
		state{state="leader"} 0
		state{state="pending"} 0
		token 0
	`, "is_leader", "lease_remaining", "token", "state", "renewal_age", "silent")
}

// A waiting candidate has no renewal and no leaderless time.
func TestWaiter_HasNoRenewal(t *testing.T) {
	k := newKit(t)
	k.clock.Advance(time.Minute)
	k.stand("a", leader.Config{})
	k.add(k.stand("b", leader.Config{}))
	k.clock.Advance(time.Minute)
	k.expect(`
		is_leader 0
		leaderless_seconds_total 0
		renewal_duration_seconds_sum 0
		renewal_duration_seconds_count 0
		token 0
	`, "is_leader", "leaderless", "renewal_age", "renewal_duration_seconds_sum", "renewal_duration_seconds_count", "token", "transitions")

	k.store.Link("a").Cut()
	k.clock.Advance(25 * time.Second) // b leads after 15
	k.expect(`
		is_leader 1
		leaderless_seconds_total 0
	`, "is_leader", "leaderless")
}

// A candidate that cannot release the key still shows the age of its renewal.
func TestRenewalAge_UntilReleased(t *testing.T) {
	k := newKit(t)
	c := k.stand("a", leader.Config{})
	k.add(c)
	k.store.Link("a").Cut()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = c.Resign(ctx) // and goes on trying
	k.clock.Advance(time.Second)
	k.expect(`
		renewal_age_seconds 1
		state{state="candidate"} 1
	`, "renewal_age", `state{state="candidate"}`)
}

// A renewal that is slower than all bounds is in the last bucket.
func TestRenewalDuration_LastBucket(t *testing.T) {
	k := newKit(t, leadertest.WithMaxLease(10*time.Minute))
	k.add(k.stand("a", leader.Config{}))
	k.store.Link("a").Delay(3 * time.Second)
	k.clock.Advance(106 * time.Second) // a renewal every 100 s
	k.expect(`
		renewal_duration_seconds_bucket{le="0.001"} 1
		renewal_duration_seconds_bucket{le="5"} 1
		renewal_duration_seconds_bucket{le="+Inf"} 2
		renewal_duration_seconds_count 2
		renewal_duration_seconds_sum 6
	`, `renewal_duration_seconds_bucket{le="0.001"}`, `renewal_duration_seconds_bucket{le="5"}`,
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
	k.expect(`
		faults_total{kind="foreign_record"} 1
		faults_total{kind="no_feed"} 1
		faults_total{kind="other"} 1
		faults_total{kind="unreachable"} 1
		feed_rebuilds_total 1
		leaderless_seconds_total 3
		transitions_total{cause="none",to="leader"} 1
		transitions_total{cause="none",to="pending"} 1
		transitions_total{cause="preempted",to="candidate"} 1
		writes_refused_total 3
		writes_unknown_total 2
	`, "faults", "feed_rebuilds", "writes", "leaderless", "transitions")
}

// A change of the state that ends no term has no cause.
func TestALossOfTheKeyBeforeATermHasNoCause(t *testing.T) {
	k := newKit(t, leadertest.WithoutPurgeProtection())
	k.add(k.stand("a", leader.Config{}))
	k.clock.Advance(time.Second)
	k.store.Put("billing", []byte("what is no record"))
	k.clock.Advance(time.Second)
	k.expect(`
		transitions_total{cause="none",to="candidate"} 1
		transitions_total{cause="none",to="pending"} 1
	`, "transitions")
}

// The cause of a transition has a name.
func TestTransition_CauseHasAName(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  leader.Config
		end  func(kit, *leader.Candidate)
		want string
	}{
		{"resigned", leader.Config{}, func(k kit, c *leader.Candidate) {
			check.OK(k, c.Resign(k.Context()))
		}, `candidate resigned`},
		{"drains", leader.Config{DrainTimeout: time.Minute}, func(k kit, c *leader.Candidate) {
			ctx, cancel := context.WithCancel(k.Context())
			cancel()
			_ = c.Resign(ctx) // and goes on
			k.clock.Settle()
		}, `fenced resigned`},
		{"stopped", leader.Config{}, func(k kit, c *leader.Candidate) {
			check.OK(k, c.Stop(k.Context()))
		}, `candidate stopped`},
		{"lease expired", leader.Config{}, func(k kit, _ *leader.Candidate) {
			k.store.Link("a").Cut()
			k.clock.Advance(12 * time.Second)
		}, `fenced lease_expired`},
		{"preempted", leader.Config{}, func(k kit, _ *leader.Candidate) {
			k.store.Put("billing", []byte("{}"))
		}, `candidate preempted`},
		{"deleted", leader.Config{}, func(k kit, _ *leader.Candidate) {
			k.store.Delete("billing")
		}, `candidate deleted`},
		{"regressed", leader.Config{}, func(k kit, _ *leader.Candidate) {
			k.store.Recreate()
			k.clock.Advance(2500 * time.Millisecond)
		}, `candidate regressed; pending none`},
		{"closed", leader.Config{}, func(k kit, c *leader.Candidate) {
			k.store.Link("a").Close()
			<-c.Done()
		}, `candidate connection_closed; fenced connection_closed`},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newKit(t)
			candidate := k.stand("a", c.cfg)
			k.add(candidate)
			c.end(k, candidate)
			var want strings.Builder
			count := map[string]int{}
			for transition := range strings.SplitSeq("pending none; leader none; "+c.want, "; ") {
				count[transition]++
			}
			for transition, n := range count {
				to, cause, _ := strings.Cut(transition, " ")
				fmt.Fprintf(&want, "transitions_total{cause=%q,to=%q} %d\n", cause, to, n)
			}
			k.expect(want.String(), "transitions")
		})
	}
}

// A term whose guard a later term has raised is counted as fenced.
func TestTransition_GuardRaised(t *testing.T) {
	k := newKit(t)
	orders := leadertest.NewStore(k.clock, leadertest.WithoutPurgeProtection())
	k.add(k.stand("a", leader.Config{Guards: []leader.Guard{orders.Link("a").Guard()}}))
	elsewhere := kit{t, k.clock, leadertest.NewStore(k.clock), nil}
	elsewhere.stand("b", leader.Config{MinToken: 100, Guards: []leader.Guard{orders.Link("b").Guard()}})
	k.clock.Advance(15 * time.Second) // a checks its guard once per lease
	k.expect(`
		transitions_total{cause="fenced",to="candidate"} 1
		transitions_total{cause="fenced",to="fenced"} 1
	`, `transitions_total{cause="fenced"`)
}

// The names of the metrics follow the conventions of Prometheus.
func TestMetricNames_AreLinted(t *testing.T) {
	k := newKit(t)
	k.add(k.stand("a", leader.Config{}))
	k.store.Put("billing", []byte("what is no record"))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(k.collector)
	problems, err := testutil.GatherAndLint(registry)
	check.OK(t, err)
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
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "natsleader_faults_total") {
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
	k.expect(`is_leader 1`, "is_leader")
	check.OK(t, a.Stop(t.Context()))
	k.clock.Settle()
	k.expect(`is_leader 0`, "is_leader")
	k.add(b) // a has ended
	k.expect(`is_leader 1`, "is_leader")
	k.collector.Remove(a) // it has gone already
	k.expect(`is_leader 1`, "is_leader")
	k.collector.Remove(b)
	lines := scrape(t, k.collector)
	check.That(t, !strings.Contains(lines, "election=") && !strings.Contains(lines, "natsleader_queue"),
		"%v", lines)
	k.collector.Remove(b)
	err := k.collector.Add(b)
	check.That(t, err == nil, "%v", err)
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
