package metrics

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// shown is a collector of what a crowd of views sends.
type shown []*crowd

func (shown) Describe(ch chan<- *prometheus.Desc) { new(Collector).Describe(ch) }

func (s shown) Collect(ch chan<- prometheus.Metric) {
	for _, c := range s {
		c.send(scrape{ch, ofBucket, label("bucket", c.bucket), nil, make(labels), make(labels)})
	}
}

// page returns what Prometheus reads.
func (s shown) page(t *testing.T) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(s)
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	check.Must(t, w.Code == http.StatusOK, "%d: %s", w.Code, w.Body)
	return w.Body.String()
}

// leading are the Stats of a leader in good health.
func leading() leader.Stats {
	return leader.Stats{
		Bucket: "b", State: leader.StateLeader, Seats: 1, Seat: 1, Token: 7, Remaining: 10 * time.Second, SinceRenewal: 2 * time.Second,
		LeaseDuration: 15 * time.Second, Elected: 1, Pending: 1, WriteBounds: []time.Duration{time.Millisecond}, WriteCounts: []uint64{4, 1},
	}
}

// 10,000 leaders cost less than 50 kB, also if they are in every trouble, have had every fault, and have long names that
// begin alike.
func TestByBucket_TenThousandLeaders(t *testing.T) {
	var healthy, worst []*crowd
	every := make(map[error]uint64)
	for err := range errorNames {
		every[err] = 1
	}
	for i := range 10_000 {
		healthy = new(Collector).count(healthy, fmt.Sprintf("service.%05d", i), view{leading(), 1, recent{}})
	}
	for i := range 100 {
		s := leading()
		s.Seats, s.SinceRenewal, s.Unreleased, s.Silent = 2, time.Hour, time.Hour, time.Hour
		s.Faults, s.Fenced, s.Deposed, s.Unelected = every, every, every, 1
		s.ConnError = errors.New("timeout: x")
		v := view{s, 1, recent{100, 100, 100}}
		election := fmt.Sprintf("%05d.%s", i/2, strings.Repeat("é", 100)) // two that are cut alike
		worst = new(Collector).count(worst, election+fmt.Sprint(i), v)
		v.Silent = 0
		worst = new(Collector).count(worst, election+fmt.Sprint(i), v)
		v.leaders = 0
		worst = new(Collector).count(worst, election+fmt.Sprint(i), v)
	}
	for name, crowds := range map[string]shown{"healthy": healthy, "worst": worst} {
		page := crowds.page(t)
		t.Logf("%s: %d bytes", name, len(page))
		check.That(t, len(page) < 50_000, "%s: %d bytes", name, len(page))
		named := 0
		if name == "worst" {
			named = len(troubles) * maxNamed
		}
		check.Equal(t, strings.Count(page, "\nnatsleader_candidates_trouble_info{"), named, "%d elections are named, want %d")
	}
}

// Each bucket has its own sums.
func TestByBucket_SeveralBuckets(t *testing.T) {
	var all []*crowd
	for _, bucket := range []string{"a", "a", "c"} {
		s := leading()
		s.Bucket = bucket
		all = new(Collector).count(all, "e"+fmt.Sprint(len(all)), view{s, 1, recent{}})
	}
	page := shown(all).page(t)
	for _, line := range []string{
		`natsleader_candidates{bucket="a",state="leader"} 2`,
		`natsleader_candidates{bucket="c",state="leader"} 1`,
		`natsleader_candidates_transitions_total{bucket="a",cause="none",to="leader"} 2`,
		`natsleader_candidates_renewal_duration_seconds_bucket{bucket="a",le="0.001"} 8`,
		`natsleader_candidates_renewal_duration_seconds_count{bucket="c"} 5`,
	} {
		check.That(t, strings.Contains(page, line+"\n"), "no %s in %s", line, page)
	}
}

// A trouble begins beyond its limit. One that is cut off, or has ended, does not tell who leads.
func TestTroubles_Limits(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*view)
		want   []string
	}{
		{"in good health", func(*view) {}, nil},
		{"as many leaders as seats", func(v *view) { v.Seats, v.leaders = 2, 2 }, nil},
		{"a seat is empty", func(v *view) { v.Seats = 2 }, []string{"seat_empty"}},
		{"nobody leads", func(v *view) { v.leaders = 0 }, []string{"leaderless"}},
		{"half a lease of silence", func(v *view) { v.Silent, v.leaders = 7500*time.Millisecond, 0 }, []string{"leaderless"}},
		{"more silence", func(v *view) { v.Silent, v.leaders = 7500*time.Millisecond+1, 0 }, []string{"silent"}},
		{"no lease is known", func(v *view) { v.Stats = leader.Stats{State: leader.StateCandidate, Silent: 1} }, []string{"silent"}},
		{"it has ended", func(v *view) { v.State, v.leaders, v.Silent = leader.StateEnded, 0, time.Hour }, nil},
		{"it never was", func(v *view) { v.Stats = leader.Stats{}; v.leaders = 0 }, nil},
		{"a quarter of the lease", func(v *view) { v.SinceRenewal = 3750 * time.Millisecond }, nil},
		{"more of it", func(v *view) { v.SinceRenewal = 3750*time.Millisecond + 1 }, []string{"late"}},
		{"a minute of work", func(v *view) { v.Unreleased = time.Minute }, nil},
		{"more work", func(v *view) { v.Unreleased = time.Minute + 1 }, []string{"unreleased"}},
		{"work after the end", func(v *view) { v.State, v.Unreleased = leader.StateEnded, time.Hour }, []string{"unreleased"}},
		{"all that may happen", func(v *view) { v.lately = recent{4, 10, 2} }, nil},
		{"elections", func(v *view) { v.lately.elected = 5 }, []string{"flapping"}},
		{"elections for two seats", func(v *view) { v.Seats, v.leaders, v.lately.elected = 2, 2, 8 }, nil},
		{"refused writes", func(v *view) { v.lately.refused = 11 }, []string{"refused"}},
		{"feeds", func(v *view) { v.lately.feeds = 3 }, []string{"feed_unsteady"}},
	} {
		v := view{leading(), 1, recent{}}
		c.change(&v)
		var got []string
		for _, trouble := range troubles {
			if trouble.is(v) {
				got = append(got, trouble.name)
			}
		}
		check.That(t, slices.Equal(got, c.want), "%s: %v, want %v", c.name, got, c.want)
	}
	check.That(t, slices.IsSortedFunc(troubles, func(a, b trouble) int { return strings.Compare(a.name, b.name) }), "the troubles are not sorted")
}

// The gauges are the worst of all candidates.
func TestByBucket_Worst(t *testing.T) {
	var all []*crowd
	for i, s := range []leader.Stats{
		{State: leader.StateCandidate, LeaseDuration: time.Minute, Silent: 3 * time.Second, ConnError: errors.New("auth: x")},
		{State: leader.StateLeader, LeaseDuration: 10 * time.Second, Remaining: 7 * time.Second, SinceRenewal: time.Second},
		{State: leader.StateLeader, LeaseDuration: 20 * time.Second, Remaining: 5 * time.Second, SinceRenewal: 5 * time.Second},
		{State: leader.StateLeader, LeaseDuration: time.Minute, Remaining: 50 * time.Second, SinceRenewal: 6 * time.Second},
		{State: leader.StateFenced, Unreleased: 9 * time.Second, Silent: time.Second, ConnError: errors.New("auth: y")},
	} {
		s.WriteCounts = []uint64{0}
		all = new(Collector).count(all, fmt.Sprint(i), view{s, 1, recent{}})
	}
	page := shown(all).page(t)
	for _, line := range []string{
		`lease_duration_seconds{bucket=""} 10`, `lease_remaining_seconds{bucket=""} 5`, `renewal_age_ratio{bucket=""} 0.25`,
		`silent_seconds{bucket=""} 3`, `unreleased_seconds{bucket=""} 9`, `connection_error{bucket="",kind="auth"} 2`,
	} {
		check.That(t, strings.Contains(page, "\nnatsleader_candidates_"+line+"\n"), "no %s in %s", line, page)
	}
}
