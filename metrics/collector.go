// Package metrics exports metrics of candidates to Prometheus:
//
//	collector := new(metrics.Collector)
//	prometheus.MustRegister(collector)
//	...
//	c, err := leader.Campaign(ctx, bucket, "billing", leader.Config{})
//	...
//	err = collector.Add(c)
//
// Every metric but the last three has the labels bucket and election:
//
//	natsleader_state{state}                   1 for the current state, 0 for the four others
//	natsleader_is_leader                      1 if it leads at the instant of the scrape, by its clock
//	natsleader_seat                           number of the seat that it leads on, 0 if none; 1 in an
//	                                          election with one leader
//	natsleader_seats                          number of leaders that it lets the election have
//	natsleader_leaders                        number of leaders that it knows, itself included
//	natsleader_leader_info{seat,id}           1 for each leader that it knows, if LeaderIDs is set
//	natsleader_token                          of the term that it leads, 0 if none
//	natsleader_lease_remaining_seconds        time that its lease is valid without a renewal
//	natsleader_lease_duration_seconds         its LeaseDuration, once that is known
//	natsleader_renewal_age_seconds            since the last acknowledged renewal was sent, while it holds the key
//	natsleader_renewal_duration_seconds       histogram of how long acknowledged writes of the key took:
//	                                          renewals, and those that take it and give it up
//	natsleader_transitions_total{to,cause}    changes of the state; cause is none where no term ended
//	natsleader_writes_refused_total           writes of the key whose condition did not hold
//	natsleader_writes_unknown_total           writes of the key that were not answered in time
//	natsleader_faults_total{kind}             Faulted events
//	natsleader_faulted{kind}                  1 while the fault lasts, of those whose end a candidate sees
//	natsleader_feed_rebuilds_total            feeds that had to be opened again
//	natsleader_leaderless_seconds_total       time without a leader, as seen here
//	natsleader_log_dropped_total              log records dropped because the handler of the log blocked
//	natsleader_unreleased_seconds             for how long work has gone on after its term, 0 if it has ended
//	natsleader_silent_seconds                 for how long no sign of a majority of the servers has come, 0 unless one is missing
//	natsleader_connection_error{kind}         1 while no sign comes and the connection is down; kind is auth, tls, refused,
//	                                          timeout or other. A program of its own sees refused as other errors of
//	                                          nats.ReconnectErrHandler, and not here
//	natsleader_queued_requests                requests that wait for their turn on the connection
//	natsleader_queue_age_seconds              for how long the oldest of them has waited
//	natsleader_build_info{version,goversion}  1: the version of this library in the program
//
// A member of a group of package shard ([Collector.AddMember]) has these, with the labels bucket and group:
//
//	natsleader_shards_owned                   shards that it works on
//	natsleader_shards_granted                 shards that are granted to it, work that has not begun included
//	natsleader_shards_waiting                 shards that could be worked on, and that the program has not begun
//	natsleader_shards_draining                shards whose context has ended, and whose work goes on
//	natsleader_shards_busy_seconds            for how long the longest of that work has gone on
//	natsleader_shards_assigners               1 if it knows the assigner, 0 otherwise
//	natsleader_shards_moves_total{reason}     shards that it, as the assigner, has granted anew; once there is one
//	natsleader_shards_rebalance_age_seconds   since the last of them
//
// The assigner of a group adds
//
//	natsleader_shards_members                 members that live
//	natsleader_shards_unowned                 shards without an owner that lives
//	natsleader_shards_moving                  shards whose owner waits until the work of another member has ended
//	natsleader_shards_uneven                  shards that have to move until the spread is even
//
// Of the election of the member, whose lease all its shards share, a scrape has the metrics of its writes, faults, feeds,
// transitions and silence, with GROUP.shard.member as the election of every member: so no label has the ID.
//
// With [Collector.ByBucket], a scrape has the following of all candidates of a bucket together, in place of what it has of
// each candidate, with the label bucket. Those of the queue and the version, and of members, are as above.
//
//	natsleader_candidates{state}                             candidates in each state
//	natsleader_candidates_in_trouble{trouble}                candidates in each trouble, see below
//	natsleader_candidates_trouble_info{election,trouble}     1 for the elections of at most ten of them, the first by name
//	natsleader_candidates_lease_remaining_seconds            the shortest of those that lead, if there are any
//	natsleader_candidates_lease_duration_seconds             the shortest, once one is known
//	natsleader_candidates_renewal_age_ratio                  the greatest renewal age of those that hold their keys, as a share of the lease
//	natsleader_candidates_unreleased_seconds                 the longest
//	natsleader_candidates_silent_seconds                     the longest
//	natsleader_candidates_connection_error{kind}             candidates with each kind
//	natsleader_candidates_faulted{kind,led}                  candidates of which each fault lasts, and that know a leader or not
//	natsleader_candidates_renewal_duration_seconds           and those that follow, the sums
//	natsleader_candidates_transitions_total{to,cause}
//	natsleader_candidates_writes_refused_total
//	natsleader_candidates_writes_unknown_total
//	natsleader_candidates_faults_total{kind}
//	natsleader_candidates_feed_rebuilds_total
//	natsleader_candidates_leaderless_seconds_total
//	natsleader_candidates_log_dropped_total
//
// A sum goes on when a candidate is removed. The troubles are
//
//	leaderless     it knows no leader, and is not silent: nobody leads the election
//	silent         no sign of a majority of the servers has come for more than half its lease
//	late           its last acknowledged renewal was sent more than a quarter of its lease ago
//	unreleased     work has gone on for more than a minute after its term
//	seat_empty     it knows leaders, but fewer than seats, and is not silent
//	flapping       it was elected more than four times for each seat, in the last 15 to 30 minutes
//	refused        more than ten of its writes were refused in that time
//	feed_unsteady  more than two of its feeds had to be opened again in that time
//
// The queue belongs to a connection, which thousands of candidates may share. A collector
// exports its two metrics once, without a label, as the greatest value of its candidates. Aggregate them
// over collectors and processes with max. The sum would count a connection more than once.
//
// A cause or kind is the name of a key of Fenced, Deposed or Faults in [leader.Stats], as in
// lease_expired for leader.ErrLeaseExpired, or other for nil. Series with a cause or kind appear when they
// are first counted.
//
// A candidate has 33 series, one more once it knows its lease, another while it holds the
// key, another while the connection is down, one for each kind of fault that lasts, and one for each transition and each kind
// of fault that it has seen, of which there are no more than 33. Without LeaderIDs no series depends on IDs, values or other data
// that other clients write. With ByBucket, a bucket has 38 series, one for each transition, each kind of fault that was
// seen or lasts, and each kind of error of the connection, and at most 80 that name elections. A name is cut at 64 bytes.
package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// Collector collects the metrics of candidates, each of another election. Elections of the
// same name in two buckets are two. If the buckets have the same name, too, because they are
// in different accounts, register a collector for each account by
// [prometheus.WrapRegistererWith]. Collector is a [prometheus.Collector]. The zero value has no
// candidates and is ready to use.
type Collector struct {
	// LeaderIDs adds natsleader_leader_info, which has the IDs of the leaders that a candidate
	// knows. A scrape has one series for each seat that has a leader, and none of an earlier
	// leader. But IDs are what other clients have written, and each new ID is a new series for
	// Prometheus. An ID is cut at 64 bytes. Set LeaderIDs before the first scrape.
	LeaderIDs bool
	// ByBucket counts the candidates of each bucket together: for a process with many. LeaderIDs has no effect then. Set
	// ByBucket before the first Add. Do not add a candidate again after Remove: the sums would have it twice.
	ByBucket bool

	mu         sync.Mutex
	candidates map[key]*collected
	members    map[key]*shard.Member
	gone       map[string]leader.Stats // by bucket: the counters of candidates that were removed, with ByBucket
	turned     time.Time               // when the newest window began
}

// key names an election, or a group.
type key struct{ bucket, election string }

func (k key) compare(other key) int {
	return cmp.Or(strings.Compare(k.bucket, other.bucket), strings.Compare(k.election, other.election))
}

// keyOf returns the name of a candidate's election.
func keyOf(c *leader.Candidate) key { return key{c.Stats().Bucket, c.Election()} }

// Add adds a candidate. Its metrics are collected until it is removed, also after its end.
// It takes the place of a candidate of the same election that has ended. While a collected
// candidate of the same election runs, Add returns an error that names the election. Add
// also returns an error if there is no candidate, because it is nil.
func (c *Collector) Add(candidate *leader.Candidate) error {
	if candidate == nil {
		return errors.New("metrics: there is no candidate")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := keyOf(candidate)
	if old := c.candidates[k]; old != nil {
		if lives(old.Done()) {
			return fmt.Errorf("metrics: a candidate of election %q is collected already: remove it first, or use another collector", k.election)
		}
		if old.Candidate == candidate {
			return nil
		}
		c.remove(k)
	}
	if c.candidates == nil {
		c.candidates = make(map[key]*collected)
	}
	c.candidates[k] = &collected{Candidate: candidate}
	return nil
}

// remove removes a candidate, and keeps what it has counted, because a sum that falls looks like one that began anew.
func (c *Collector) remove(k key) {
	if c.ByBucket {
		if c.gone == nil {
			c.gone = make(map[string]leader.Stats)
		}
		sum := c.gone[k.bucket]
		addCounts(&sum, c.candidates[k].Stats())
		c.gone[k.bucket] = sum
	}
	delete(c.candidates, k)
}

func lives(done <-chan struct{}) bool {
	select {
	case <-done:
		return false
	default:
		return true
	}
}

// AddMember adds a member of a group, as Add adds a candidate.
func (c *Collector) AddMember(m *shard.Member) error {
	if m == nil {
		return errors.New("metrics: there is no member")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	k := keyOfMember(m)
	if old := c.members[k]; old != nil && lives(old.Done()) {
		return fmt.Errorf("metrics: a member of group %q is collected already: remove it first, or use another collector", k.election)
	}
	if c.members == nil {
		c.members = make(map[key]*shard.Member)
	}
	c.members[k] = m
	return nil
}

func keyOfMember(m *shard.Member) key { return key{m.Stats().Election.Bucket, m.Group()} }

// RemoveMember removes a member. A member that is not collected, or nil, is ignored.
func (c *Collector) RemoveMember(m *shard.Member) {
	if m == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := keyOfMember(m); c.members[k] == m {
		delete(c.members, k)
	}
}

// Remove removes a candidate. A candidate that is not collected, or nil, is ignored.
func (c *Collector) Remove(candidate *leader.Candidate) {
	if candidate == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := keyOf(candidate); c.candidates[k] != nil && c.candidates[k].Candidate == candidate {
		c.remove(k)
	}
}

// Describe sends the descriptions of all metrics, also without candidates.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range descriptions {
		ch <- d
	}
}

// Collect asks each candidate and member once for its Stats, so that its metrics agree with
// one another.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	candidates := make([]*collected, 0, len(c.candidates))
	// The registry sorts by labels, which is quick if they are sorted.
	for _, k := range slices.SortedFunc(maps.Keys(c.candidates), key.compare) {
		candidates = append(candidates, c.candidates[k])
	}
	var members []*shard.Member
	for _, k := range slices.SortedFunc(maps.Keys(c.members), key.compare) {
		members = append(members, c.members[k])
	}
	var longest queue
	var crowds []*crowd
	if c.ByBucket {
		crowds, candidates = c.crowds(candidates, &longest), nil
	}
	c.mu.Unlock()
	buckets, causes, kinds := make(labels), make(labels), make(labels)
	for _, of := range crowds {
		of.send(scrape{ch, ofBucket, label("bucket", of.bucket), nil, causes, kinds})
	}
	for _, candidate := range candidates {
		s := candidate.Stats()
		longest.include(s)
		to := scrape{ch, ofCandidate, buckets.pair("bucket", s.Bucket), label("election", candidate.Election()), causes, kinds}
		to.send(s)
		to.leaders(candidate.Leaders(), c.LeaderIDs)
	}
	for _, m := range members {
		s := m.Stats()
		longest.include(s.Election)
		to := scrape{ch, ofCandidate, buckets.pair("bucket", s.Election.Bucket), label("election", m.Group()+".shard.member"), causes, kinds}
		to.works(s.Election)
		to.member(s, label("group", m.Group()))
	}
	if len(crowds)+len(candidates)+len(members) > 0 {
		longest.send(ch)
	}
	ch <- buildInfo()
}

var descriptions []*prometheus.Desc

// counted are the descriptions of what is counted of a candidate, or of all of a bucket.
type counted struct {
	renewalDuration, transitions, writesRefused, writesUnknown, faults, feedRebuilds, logDropped *prometheus.Desc
}

func describeCounted(prefix string, labels ...string) *counted {
	d := func(name, help string, more ...string) *prometheus.Desc {
		return describeAll(prefix+name, help, slices.Sorted(slices.Values(append(more, labels...)))...)
	}
	return &counted{
		renewalDuration: d("renewal_duration_seconds",
			"How long the store took to acknowledge a write of the key: a renewal, or one that takes it or gives it up."),
		transitions: d("transitions_total",
			"Changes of the state, and what ended the term if one ended.", "to", "cause"),
		writesRefused: d("writes_refused_total",
			"Writes of the key whose condition did not hold."),
		writesUnknown: d("writes_unknown_total",
			"Writes of the key that were not answered in time."),
		faults: d("faults_total",
			"Faults of the store that were reported, each once for an outage.", "kind"),
		feedRebuilds: d("feed_rebuilds_total",
			"Feeds of changes that had to be opened again."),
		logDropped: d("log_dropped_total",
			"Log records that were dropped because the handler of the log blocked."),
	}
}

// describe makes the description of a metric of a candidate. Its labels are in alphabetical
// order, and so are those of its samples, because the registry would sort them each time.
func describe(name, help string, labels ...string) *prometheus.Desc {
	return describeAll(name, help, slices.Sorted(slices.Values(append(labels, "bucket", "election")))...)
}

// describeAll makes the description of a metric that is one for all candidates, or has the
// label of the candidate among its own.
func describeAll(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc("natsleader_"+name, help, labels, nil)
	descriptions = append(descriptions, d)
	return d
}

var (
	ofCandidate = describeCounted("", "bucket", "election")
	stateDesc   = describe("state",
		"Whether the candidate is in the state.", "state")
	isLeaderDesc = describe("is_leader",
		"Whether the candidate leads at this instant, by its clock.")
	seatDesc = describe("seat",
		"Number of the seat that the candidate leads on at this instant, 0 if it does not lead.")
	seatsDesc = describe("seats",
		"Number of leaders that the candidate lets the election have.")
	leadersDesc = describe("leaders",
		"Number of leaders that the candidate knows, itself included.")
	leaderInfoDesc = describe("leader_info",
		"A leader that the candidate knows, itself included.", "seat", "id")
	tokenDesc = describe("token",
		"Fencing token of the term that the candidate leads, 0 if it does not.")
	leaseRemainingDesc = describe("lease_remaining_seconds",
		"For how long the leadership is good if it is not renewed, 0 if the candidate does not lead.")
	leaseDurationDesc = describe("lease_duration_seconds",
		"For how long others wait after a renewal.")
	renewalAgeDesc = describe("renewal_age_seconds",
		"Time since the last acknowledged renewal was sent, while the candidate holds the key.")
	leaderlessDesc = describe("leaderless_seconds_total",
		"Time during which the candidate knew of no leader.")
	unreleasedDesc = describe("unreleased_seconds",
		"For how long the work of a term has gone on after the end of the term, 0 if it has ended.")
	silentDesc = describe("silent_seconds",
		"For how long no sign of a majority of the servers has come, 0 unless one is missing.")
	faultedDesc = describe("faulted",
		"1 while a fault lasts: it was reported, and no sign has come since that it is over.", "kind")
	connErrorDesc = describe("connection_error",
		"1 while the connection is down, with the kind of its last error.", "kind")
	ownedDesc        = describeAll("shards_owned", "Shards that the member works on.", "bucket", "group")
	grantedDesc      = describeAll("shards_granted", "Shards that are granted to the member, work that has not begun included.", "bucket", "group")
	waitingDesc      = describeAll("shards_waiting", "Shards that could be worked on, and that the program has not begun.", "bucket", "group")
	drainingDesc     = describeAll("shards_draining", "Shards whose context has ended, and whose work goes on.", "bucket", "group")
	busyDesc         = describeAll("shards_busy_seconds", "For how long the longest of that work has gone on after the end of its context.", "bucket", "group")
	assignersDesc    = describeAll("shards_assigners", "Whether the member knows the assigner of the group.", "bucket", "group")
	movesDesc        = describeAll("shards_moves_total", "Shards that the member, as the assigner, has granted anew.", "bucket", "group", "reason")
	rebalanceAgeDesc = describeAll("shards_rebalance_age_seconds", "Time since the last of these moves.", "bucket", "group")
	membersDesc      = describeAll("shards_members", "Members that live, as the assigner knows them.", "bucket", "group")
	unownedDesc      = describeAll("shards_unowned", "Shards without an owner that lives.", "bucket", "group")
	movingDesc       = describeAll("shards_moving", "Shards whose owner waits until the work of another member has ended.", "bucket", "group")
	unevenDesc       = describeAll("shards_uneven", "Shards that have to move until the spread is even.", "bucket", "group")
	queuedDesc       = describeAll("queued_requests",
		"Requests that wait for their turn on the connection: the most of all candidates.")
	queueAgeDesc = describeAll("queue_age_seconds",
		"For how long the oldest request has waited for its turn on the connection: the longest of all candidates.")
	buildInfoDesc = describeAll("build_info",
		"Version of the library natsleader, and of Go, in the program.", "goversion", "version")
)
