package metrics

import (
	"slices"
	"strconv"
	"time"

	"github.com/natsleader/natsleader/leader"
)

// The metrics of all candidates of a bucket have names of their own. One name with two sets of labels would give queries
// by election an election without a name, and a registry does not take two collectors that label one name differently.
var (
	ofBucket       = describeCounted("candidates_", "bucket")
	candidatesDesc = describeAll("candidates",
		"Candidates by their state.", "bucket", "state")
	inTroubleDesc = describeAll("candidates_in_trouble",
		"Candidates by what is wrong with them.", "bucket", "trouble")
	troubleInfoDesc = describeAll("candidates_trouble_info",
		"Elections whose candidate is in trouble: of each trouble the first by name.", "bucket", "election", "trouble")
	leastRemainingDesc = describeAll("candidates_lease_remaining_seconds",
		"The shortest time for which a leadership is good if it is not renewed, if a candidate leads.", "bucket")
	leastLeaseDesc = describeAll("candidates_lease_duration_seconds",
		"The shortest lease, once one is known.", "bucket")
	renewalRatioDesc = describeAll("candidates_renewal_age_ratio",
		"The greatest share of a lease since its last acknowledged renewal was sent.", "bucket")
	allLeaderlessDesc = describeAll("candidates_leaderless_seconds_total",
		"Time during which candidates knew of no leader, added up.", "bucket")
	longestUnreleasedDesc = describeAll("candidates_unreleased_seconds",
		"For how long the work of a term has gone on after the end of the term, the longest.", "bucket")
	longestSilentDesc = describeAll("candidates_silent_seconds",
		"For how long no sign of a majority of the servers has come, the longest.", "bucket")
	allFaultedDesc = describeAll("candidates_faulted",
		"Candidates of which a fault lasts: it was reported, and no sign has come since that it is over.", "bucket", "kind", "led")
	connErrorsDesc = describeAll("candidates_connection_error",
		"Candidates whose connection is down, by the kind of its last error.", "bucket", "kind")
)

// view is a candidate as a scrape sees it.
type view struct {
	leader.Stats
	leaders int
	lately  recent
}

// over reports whether the candidate has ended.
func (v view) over() bool { return v.State == leader.StateEnded || v.State == 0 }

// silent reports whether no sign has come for so long that [leader.Stats.Connected] is an error.
func (v view) silent() bool { return !v.over() && v.Silent > v.LeaseDuration/2 }

// informed reports whether the candidate knows who leads, because the servers answer. Of one that is cut off or has ended
// nothing follows: other processes may lead the election, which a scrape of this one cannot tell.
func (v view) informed() bool { return !v.over() && !v.silent() }

// trouble is a value of the label trouble.
type trouble struct {
	name string
	is   func(view) bool
}

// troubles are sorted by name. Their limits are those of the alerts on the metrics of each candidate.
var troubles = []trouble{
	{"feed_unsteady", func(v view) bool { return v.lately.feeds > 2 }},
	{"flapping", func(v view) bool { return v.lately.elected > 4*uint64(max(v.Seats, 1)) }},
	{"late", func(v view) bool { return v.SinceRenewal > v.LeaseDuration/4 }},
	{"leaderless", func(v view) bool { return v.informed() && v.leaders == 0 }},
	{"refused", func(v view) bool { return v.lately.refused > 10 }},
	{"seat_empty", func(v view) bool { return v.informed() && v.leaders > 0 && v.leaders < v.Seats }},
	{"silent", view.silent},
	{"unreleased", func(v view) bool { return v.Unreleased > time.Minute }},
}

// maxNamed is how many elections are named for each trouble.
const maxNamed = 10

// recent are counters whose rise tells of trouble. A sum does not show the rise of one among thousands.
type recent struct{ elected, refused, feeds uint64 }

func recentOf(s leader.Stats) recent { return recent{s.Elected, s.Refused, s.FeedRebuilds} }

func (r recent) since(before recent) recent {
	return recent{r.elected - before.elected, r.refused - before.refused, r.feeds - before.feeds}
}

// window is the least time over which the rise of these counters counts. At most it is twice as long.
const window = 15 * time.Minute

// collected is a candidate of a collector.
type collected struct {
	*leader.Candidate
	marks [2]recent // what it had counted when each of the two last windows began
}

// crowds returns the candidates of each bucket, which are sorted. The caller holds the lock: no candidate that
// is removed meanwhile is missing from a sum, or in it twice. Prometheus takes a sum that falls for one that began anew.
func (c *Collector) crowds(candidates []*collected, longest *queue) []*crowd {
	now := time.Now() //nolint:forbidigo // the window of an alert, and no lease
	turn := now.Sub(c.turned) >= window
	if turn {
		c.turned = now
	}
	var all []*crowd
	for _, each := range candidates {
		s := each.Stats()
		longest.include(s)
		counts := recentOf(s)
		all = c.count(all, each.Election(), view{s, len(each.Leaders()), counts.since(each.marks[0])})
		if turn {
			each.marks = [2]recent{each.marks[1], counts}
		}
	}
	return all
}

// count counts a candidate in the last crowd, or in a new one if it is of another bucket.
func (c *Collector) count(all []*crowd, election string, v view) []*crowd {
	if len(all) == 0 || all[len(all)-1].bucket != v.Bucket {
		all = append(all, newCrowd(v.Bucket, c.gone[v.Bucket]))
	}
	all[len(all)-1].include(election, v)
	return all
}

// crowd are the candidates of a bucket.
type crowd struct {
	bucket     string
	total      leader.Stats // its counters
	states     map[leader.State]int
	inTrouble  []int      // by trouble
	named      [][]string // by trouble: elections, as labels
	remaining  time.Duration
	lease      time.Duration
	ratio      float64
	unreleased time.Duration
	silent     time.Duration
	connErrors map[string]int
	faulted    map[faultOf]int
}

// faultOf is a kind of faults that last, of candidates that know a leader or of others.
type faultOf struct {
	kind string
	led  bool
}

func newCrowd(bucket string, gone leader.Stats) *crowd {
	c := &crowd{
		bucket: bucket, states: make(map[leader.State]int), inTrouble: make([]int, len(troubles)), named: make([][]string, len(troubles)),
		connErrors: make(map[string]int), faulted: make(map[faultOf]int),
	}
	addCounts(&c.total, gone)
	return c
}

// include counts a candidate. Those of a bucket come in the order of their elections' names.
func (c *crowd) include(election string, v view) {
	addCounts(&c.total, v.Stats)
	if v.over() {
		c.states[leader.StateEnded]++
	} else {
		c.states[v.State]++
	}
	c.remaining, c.lease = least(c.remaining, v.Remaining), least(c.lease, v.LeaseDuration)
	c.unreleased, c.silent = max(c.unreleased, v.Unreleased), max(c.silent, v.Silent)
	if v.LeaseDuration > 0 {
		c.ratio = max(c.ratio, v.SinceRenewal.Seconds()/v.LeaseDuration.Seconds())
	}
	for _, kind := range lasting(v.Stats) {
		c.faulted[faultOf{kind, v.leaders > 0}]++
	}
	if v.ConnError != nil {
		c.connErrors[kindOf(v.ConnError)]++
	}
	for i, trouble := range troubles {
		if !trouble.is(v) {
			continue
		}
		c.inTrouble[i]++
		// Names that are cut may be the same, which a registry does not take.
		if name := labelOf(election); len(c.named[i]) < maxNamed && !slices.Contains(c.named[i], name) {
			c.named[i] = append(c.named[i], name)
		}
	}
}

// least returns the lesser of two durations, of which 0 is none.
func least(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// addCounts adds the counters of a candidate to those of others.
func addCounts(sum *leader.Stats, s leader.Stats) {
	if len(sum.WriteCounts) == 0 {
		sum.WriteBounds, sum.WriteCounts = s.WriteBounds, make([]uint64, len(s.WriteCounts))
	}
	for i, n := range s.WriteCounts {
		sum.WriteCounts[i] += n
	}
	sum.WriteSum += s.WriteSum
	sum.Leaderless += s.Leaderless
	sum.Refused += s.Refused
	sum.Unknown += s.Unknown
	sum.FeedRebuilds += s.FeedRebuilds
	sum.LogDropped += s.LogDropped
	sum.Pending += s.Pending
	sum.Elected += s.Elected
	sum.Unelected += s.Unelected
	addErrors(&sum.Fenced, s.Fenced)
	addErrors(&sum.Deposed, s.Deposed)
	addErrors(&sum.Faults, s.Faults)
}

func addErrors(sums *map[error]uint64, counts map[error]uint64) {
	if *sums == nil {
		*sums = make(map[error]uint64)
	}
	for err, n := range counts {
		(*sums)[err] += n
	}
}

// send sends the metrics of all candidates of the bucket.
func (c *crowd) send(to scrape) {
	own := to.with()
	for _, state := range states {
		to.gauge(candidatesDesc, float64(c.states[state]), to.with(stateLabels[state]))
	}
	for i, trouble := range troubles {
		of := label("trouble", trouble.name)
		to.gauge(inTroubleDesc, float64(c.inTrouble[i]), to.with(of))
		for _, election := range c.named[i] {
			to.gauge(troubleInfoDesc, 1, to.with(label("election", election), of))
		}
	}
	if c.remaining > 0 {
		to.gauge(leastRemainingDesc, c.remaining.Seconds(), own)
	}
	if c.lease > 0 {
		to.gauge(leastLeaseDesc, c.lease.Seconds(), own)
	}
	to.gauge(renewalRatioDesc, c.ratio, own)
	to.gauge(longestUnreleasedDesc, c.unreleased.Seconds(), own)
	to.gauge(longestSilentDesc, c.silent.Seconds(), own)
	to.counter(allLeaderlessDesc, c.total.Leaderless.Seconds(), own)
	for f, n := range c.faulted {
		to.gauge(allFaultedDesc, float64(n), to.with(to.kinds.pair("kind", f.kind), label("led", strconv.FormatBool(f.led))))
	}
	for kind, n := range c.connErrors {
		to.gauge(connErrorsDesc, float64(n), to.with(to.kinds.pair("kind", kind)))
	}
	to.counts(c.total)
}
