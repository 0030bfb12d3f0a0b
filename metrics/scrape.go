package metrics

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/schedule"
	"github.com/natsleader/natsleader/shard"
)

// scrape sends the metrics of one candidate, or of all of a bucket. Its samples share their labels. The
// constant metrics of client_golang make the labels anew for each sample, which with
// many candidates is nearly half of the cost of a scrape.
type scrape struct {
	ch       chan<- prometheus.Metric
	of       *counted
	bucket   *dto.LabelPair
	election *dto.LabelPair // nil: of all of the bucket
	causes   labels
	kinds    labels
}

// labels are pairs of one label by value, made when they are first needed.
type labels map[string]*dto.LabelPair

func (l labels) pair(name, value string) *dto.LabelPair {
	p := l[value]
	if p == nil {
		p = label(name, value)
		l[value] = p
	}
	return p
}

var (
	states = []leader.State{leader.StateCandidate, leader.StateEnded, leader.StateFenced, leader.StateLeader, leader.StatePending} // by name

	stateLabels = byState("state")
	toLabels    = byState("to")
	noCause     = label("cause", "none")
)

func label(name, value string) *dto.LabelPair { return &dto.LabelPair{Name: &name, Value: &value} }

func byState(name string) map[leader.State]*dto.LabelPair {
	labels := make(map[leader.State]*dto.LabelPair)
	for _, s := range states {
		labels[s] = label(name, s.String())
	}
	return labels
}

// errorNames are the values of the labels cause and kind. They stay when the text of an error changes.
var errorNames = map[error]string{
	leader.ErrRegressed:          "regressed",
	leader.ErrFenced:             "fenced",
	leader.ErrGuardTaken:         "guard_taken",
	leader.ErrGuardDeleted:       "guard_deleted",
	leader.ErrNotReleased:        "not_released",
	leader.ErrCordoned:           "cordoned",
	leader.ErrNoFeed:             "no_feed",
	leader.ErrCongested:          "congested",
	leader.ErrClock:              "clock",
	leader.ErrNoBucket:           "no_bucket",
	leader.ErrNoRoster:           "no_roster",
	leader.ErrIncompatibleBucket: "incompatible_bucket",
	leader.ErrTokensExhausted:    "tokens_exhausted",
	leader.ErrForeignRecord:      "foreign_record",
	leader.ErrValueTooLarge:      "value_too_large",
	leader.ErrFull:               "full",
	leader.ErrPermission:         "permission",
	leader.ErrConnectionClosed:   "connection_closed",
	leader.ErrNoMajority:         "no_majority",
	leader.ErrUnreachable:        "unreachable",
	leader.ErrSeatsDiffer:        "seats_differ",
	leader.ErrBucketDiffers:      "bucket_differs",
	leader.ErrResigned:           "resigned",
	leader.ErrStalled:            "stalled",
	leader.ErrStopped:            "stopped",
	leader.ErrLeaseExpired:       "lease_expired",
	leader.ErrPreempted:          "preempted",
	leader.ErrDeleted:            "deleted",
	schedule.ErrClock:            "schedule_clock",
	schedule.ErrAhead:            "schedule_ahead",
	schedule.ErrChanged:          "schedule_changed",
	schedule.ErrCalendar:         "schedule_calendar",
	schedule.ErrMark:             "schedule_mark",
}

// named returns counts by the names of their errors. All without a name are one, other.
func named(counts map[error]uint64) map[string]uint64 {
	sums := make(map[string]uint64, len(counts))
	for err, n := range counts {
		name, ok := errorNames[err]
		if !ok {
			name = "other"
		}
		sums[name] += n
	}
	return sums
}

// lasting returns the names of the kinds of faults that last.
func lasting(s leader.Stats) (kinds []string) {
	for _, err := range s.Lasting {
		kinds = append(kinds, cmp.Or(errorNames[err], "other"))
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// send sends all metrics.
func (to scrape) send(s leader.Stats) {
	own := []*dto.LabelPair{to.bucket, to.election}
	for _, state := range states {
		to.gauge(stateDesc, indicator(s.State == state), []*dto.LabelPair{to.bucket, to.election, stateLabels[state]})
	}
	to.gauge(isLeaderDesc, indicator(s.Remaining > 0), own)
	to.gauge(seatDesc, float64(s.Seat), own)
	to.gauge(seatsDesc, float64(s.Seats), own)
	to.gauge(tokenDesc, float64(s.Token), own)
	to.gauge(leaseRemainingDesc, s.Remaining.Seconds(), own)
	to.counter(leaderlessDesc, s.Leaderless.Seconds(), own)
	to.works(s)
}

// works sends the metrics that do not say who leads.
func (to scrape) works(s leader.Stats) {
	own := []*dto.LabelPair{to.bucket, to.election}
	if s.LeaseDuration > 0 {
		to.gauge(leaseDurationDesc, s.LeaseDuration.Seconds(), own)
	}
	if s.SinceRenewal > 0 || s.State != leader.StateCandidate && s.State != leader.StateEnded {
		to.gauge(renewalAgeDesc, s.SinceRenewal.Seconds(), own)
	}
	to.counts(s)
	to.gauge(unreleasedDesc, s.Unreleased.Seconds(), own)
	to.gauge(silentDesc, s.Silent.Seconds(), own)
	for _, kind := range lasting(s) {
		to.gauge(faultedDesc, 1, []*dto.LabelPair{to.bucket, to.election, to.kinds.pair("kind", kind)})
	}
	if s.ConnError != nil {
		to.gauge(connErrorDesc, 1, []*dto.LabelPair{to.bucket, to.election, to.kinds.pair("kind", kindOf(s.ConnError))})
	}
}

// kindOf returns the kind of a connection's error, with which its text begins.
func kindOf(err error) string {
	kind, _, _ := strings.Cut(err.Error(), ":")
	return kind
}

// counts sends what is counted alike of one candidate and of all of a bucket.
func (to scrape) counts(s leader.Stats) {
	own := to.with()
	to.ch <- &histogram{to.of.renewalDuration, s.WriteBounds, s.WriteCounts, s.WriteSum, own}
	to.transition(noCause, leader.StatePending, s.Pending)
	to.transition(noCause, leader.StateLeader, s.Elected)
	to.transition(noCause, leader.StateCandidate, s.Unelected)
	for cause, n := range named(s.Fenced) {
		to.transition(to.causes.pair("cause", cause), leader.StateFenced, n)
	}
	for cause, n := range named(s.Deposed) {
		to.transition(to.causes.pair("cause", cause), leader.StateCandidate, n)
	}
	to.counter(to.of.writesRefused, float64(s.Refused), own)
	to.counter(to.of.writesUnknown, float64(s.Unknown), own)
	for kind, n := range named(s.Faults) {
		to.counter(to.of.faults, float64(n), to.with(to.kinds.pair("kind", kind)))
	}
	to.counter(to.of.feedRebuilds, float64(s.FeedRebuilds), own)
	to.counter(to.of.logDropped, float64(s.LogDropped), own)
}

// with returns the labels bucket and election, and those that follow them in alphabetical order.
func (to scrape) with(labels ...*dto.LabelPair) []*dto.LabelPair {
	if to.election == nil {
		return append([]*dto.LabelPair{to.bucket}, labels...)
	}
	return append([]*dto.LabelPair{to.bucket, to.election}, labels...)
}

// member sends the metrics of a member of a group.
func (to scrape) member(s shard.Stats, group *dto.LabelPair) {
	own := []*dto.LabelPair{to.bucket, group}
	to.gauge(ownedDesc, float64(s.Owned), own)
	to.gauge(grantedDesc, float64(s.Granted), own)
	to.gauge(waitingDesc, float64(s.Waiting), own)
	to.gauge(drainingDesc, float64(s.Draining), own)
	to.gauge(busyDesc, s.Busy.Seconds(), own)
	to.gauge(assignersDesc, indicator(s.Assigner != ""), own)
	for reason, n := range s.Moves {
		to.counter(movesDesc, float64(n), []*dto.LabelPair{to.bucket, group, label("reason", reason.String())})
	}
	if len(s.Moves) > 0 {
		to.gauge(rebalanceAgeDesc, s.SinceRebalance.Seconds(), own)
	}
	if s.Assigns {
		to.gauge(membersDesc, float64(s.Members), own)
		to.gauge(unownedDesc, float64(s.Unowned), own)
		to.gauge(movingDesc, float64(s.Moving), own)
		to.gauge(unevenDesc, float64(s.Uneven), own)
	}
}

// leaders sends the leaders that the candidate knows, with their IDs if they are asked for.
func (to scrape) leaders(holders []leader.Holder, ids bool) {
	to.gauge(leadersDesc, float64(len(holders)), []*dto.LabelPair{to.bucket, to.election})
	for _, h := range holders {
		if ids {
			to.gauge(leaderInfoDesc, 1, []*dto.LabelPair{to.bucket, to.election, label("id", labelOf(h.ID)), label("seat", strconv.Itoa(h.Seat))})
		}
	}
}

// maxID is the greatest length of an ID in a label, in bytes.
const maxID = 64

// labelOf returns an ID that others wrote as the value of a label. It is UTF-8, because a record is
// JSON. A value that is not would spoil the whole scrape.
func labelOf(id string) string {
	if len(id) <= maxID {
		return id
	}
	return strings.ToValidUTF8(id[:maxID-len("…")], "") + "…" // without a half of a rune
}

// buildInfo returns the metric of the versions.
var buildInfo = sync.OnceValue(func() prometheus.Metric {
	const module = "github.com/natsleader/natsleader"
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if (m.Path == module || m.Path == module+"/cmd/natsleader") && m.Version != "" {
				version = m.Version
			}
		}
	}
	return &gauge{sample{buildInfoDesc, []*dto.LabelPair{label("goversion", runtime.Version()), label("version", version)}, 1}}
})

// queue has the metrics of the connections that candidates share. With several connections,
// the number and the age may be those of two of them.
type queue struct {
	requests int
	age      time.Duration
}

// include takes in the queue of a candidate's connection.
func (q *queue) include(s leader.Stats) {
	q.requests, q.age = max(q.requests, s.Queued), max(q.age, s.QueueAge)
}

// send sends the metrics, which have no labels.
func (q *queue) send(ch chan<- prometheus.Metric) {
	ch <- &gauge{sample{queuedDesc, nil, float64(q.requests)}}
	ch <- &gauge{sample{queueAgeDesc, nil, q.age.Seconds()}}
}

// transition sends the number of changes to a state, if there were any.
func (to scrape) transition(cause *dto.LabelPair, state leader.State, n uint64) {
	switch {
	case n == 0:
	case to.election == nil:
		to.counter(to.of.transitions, float64(n), []*dto.LabelPair{to.bucket, cause, toLabels[state]})
	default:
		to.counter(to.of.transitions, float64(n), []*dto.LabelPair{to.bucket, cause, to.election, toLabels[state]})
	}
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

// histogram is the histogram of the acknowledged writes, as in [leader.Stats].
type histogram struct {
	desc   *prometheus.Desc
	bounds []time.Duration
	counts []uint64
	sum    time.Duration
	labels []*dto.LabelPair
}

// Desc is part of [prometheus.Metric], as is Write.
func (h *histogram) Desc() *prometheus.Desc { return h.desc }

// Write writes the histogram. The count of a Prometheus bucket includes those before it.
func (h *histogram) Write(m *dto.Metric) error {
	var count uint64
	n := len(h.bounds)
	pointers, buckets := make([]*dto.Bucket, n), make([]dto.Bucket, n)
	seconds, counts := make([]float64, n), make([]uint64, n)
	for i, bound := range h.bounds {
		count += h.counts[i]
		seconds[i], counts[i] = bound.Seconds(), count
		buckets[i].UpperBound, buckets[i].CumulativeCount = &seconds[i], &counts[i]
		pointers[i] = &buckets[i]
	}
	count += h.counts[n]
	sum := h.sum.Seconds()
	m.Label, m.Histogram = h.labels, &dto.Histogram{SampleCount: &count, SampleSum: &sum, Bucket: pointers}
	return nil
}
