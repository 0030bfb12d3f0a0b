package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/natsleader/natsleader/leader"
)

// scrape sends the metrics of one candidate. Its samples share their labels. The
// constant metrics of client_golang make the labels anew for each sample, which with
// many candidates is nearly half of the cost of a scrape.
type scrape struct {
	ch       chan<- prometheus.Metric
	election *dto.LabelPair
}

var (
	states = []leader.State{leader.StateCandidate, leader.StateFenced, leader.StateLeader, leader.StatePending} // by name

	stateLabels = byState("state")
	toLabels    = byState("to")
	causeLabels = byName("cause")
	kindLabels  = byName("kind")
	noCause     = label("cause", "none")
	otherCause  = label("cause", "other")
	otherKind   = label("kind", "other")
)

func label(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

func byState(name string) map[leader.State]*dto.LabelPair {
	labels := make(map[leader.State]*dto.LabelPair)
	for _, s := range states {
		labels[s] = label(name, s.String())
	}
	return labels
}

func byName(name string) map[error]*dto.LabelPair {
	labels := make(map[error]*dto.LabelPair)
	for err, value := range names {
		labels[err] = label(name, value)
	}
	return labels
}

// send sends all metrics.
func (to scrape) send(s leader.Stats) {
	own := []*dto.LabelPair{to.election}
	for _, state := range states {
		to.gauge(stateDesc, indicator(s.State == state), []*dto.LabelPair{to.election, stateLabels[state]})
	}
	to.gauge(isLeaderDesc, indicator(s.Remaining > 0), own)
	to.gauge(tokenDesc, float64(s.Token), own)
	to.gauge(leaseRemainingDesc, s.Remaining.Seconds(), own)
	if s.LeaseDuration > 0 {
		to.gauge(leaseDurationDesc, s.LeaseDuration.Seconds(), own)
	}
	if s.SinceRenewal > 0 || s.State != leader.StateCandidate {
		to.gauge(renewalAgeDesc, s.SinceRenewal.Seconds(), own)
	}
	to.ch <- &histogram{s.Writes, own}
	for transition, n := range s.Transitions {
		cause := noCause
		if transition.Cause != nil {
			cause = find(causeLabels, transition.Cause, otherCause)
		}
		to.counter(transitionsDesc, float64(n), []*dto.LabelPair{cause, to.election, toLabels[transition.To]})
	}
	to.counter(writesRefusedDesc, float64(s.Refused), own)
	to.counter(writesUnknownDesc, float64(s.Unknown), own)
	for kind, n := range s.Faults {
		to.counter(faultsDesc, float64(n), []*dto.LabelPair{to.election, find(kindLabels, kind, otherKind)})
	}
	to.counter(feedRebuildsDesc, float64(s.FeedRebuilds), own)
	to.counter(leaderlessDesc, s.Leaderless.Seconds(), own)
	to.counter(logDroppedDesc, float64(s.LogDropped), own)
	to.gauge(silentDesc, s.Silent.Seconds(), own)
}

func find(labels map[error]*dto.LabelPair, err error, other *dto.LabelPair) *dto.LabelPair {
	if l, ok := labels[err]; ok {
		return l
	}
	return other
}

func indicator(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (to scrape) gauge(d *prometheus.Desc, value float64, labels []*dto.LabelPair) {
	to.ch <- &gauge{sample{d, labels, value}}
}

func (to scrape) counter(d *prometheus.Desc, value float64, labels []*dto.LabelPair) {
	to.ch <- &counter{sample{d, labels, value}}
}

type sample struct {
	desc   *prometheus.Desc
	labels []*dto.LabelPair
	value  float64
}

// Desc is part of [prometheus.Metric], as is Write below.
func (s *sample) Desc() *prometheus.Desc { return s.desc }

type gauge struct{ sample }

// Write writes the gauge.
func (g *gauge) Write(m *dto.Metric) error {
	m.Label, m.Gauge = g.labels, &dto.Gauge{Value: &g.value}
	return nil
}

type counter struct{ sample }

// Write writes the counter.
func (c *counter) Write(m *dto.Metric) error {
	m.Label, m.Counter = c.labels, &dto.Counter{Value: &c.value}
	return nil
}

// histogram is the histogram of the acknowledged writes.
type histogram struct {
	writes leader.Latencies
	labels []*dto.LabelPair
}

// Desc is part of [prometheus.Metric], as is Write.
func (h *histogram) Desc() *prometheus.Desc { return renewalDurationDesc }

var bounds = func() (seconds []float64) {
	for _, d := range leader.LatencyBounds() {
		seconds = append(seconds, d.Seconds())
	}
	return seconds
}()

// Write writes the histogram. The count of a Prometheus bucket includes those before it.
func (h *histogram) Write(m *dto.Metric) error {
	var count uint64
	buckets := make([]*dto.Bucket, len(bounds))
	for i := range bounds {
		count += h.writes.Counts[i]
		buckets[i] = &dto.Bucket{UpperBound: &bounds[i], CumulativeCount: new(count)}
	}
	count += h.writes.Counts[len(bounds)]
	sum := h.writes.Sum.Seconds()
	m.Label, m.Histogram = h.labels, &dto.Histogram{SampleCount: &count, SampleSum: &sum, Bucket: buckets}
	return nil
}
