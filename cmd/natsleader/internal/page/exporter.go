package page

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/wire"
)

// electionMetrics are the metrics of all elections of a bucket. As a renderer they get what
// a watcher reports, and as a collector they show what they know of the bucket. A scrape neither waits for the
// watcher nor asks the server. The lines of an election are written when it changes, because client_golang takes
// a quarter of a second of a processor for 10,000 elections.
type electionMetrics struct {
	view.OffScreen
	bucket string
	most   int // elections that are shown
	log    *front.LineLog

	mu       sync.Mutex
	shows    map[string]*exportedElection // by key
	groups   []string                     // a line of groupInfo for each group
	judged   time.Time                    // when the groups were, by the server's clock
	left     map[string]bool              // keys that are not shown: too many, or no name of an election
	cordoned []string
	streams  map[string]view.StreamState // beside the bucket
	up       bool                        // the watcher has read all keys, and hears of changes
	err      error                       // why it does not; nil: not known
	beat     time.Time                   // when the watcher last worked
}

// exportedElection is an election, or one seat of it.
type exportedElection struct {
	shown        view.ElectionChange
	token, terms uint64   // of the last term that was counted
	lines        []string // one for each of electionSeries
}

// series is a metric of an election, or of one seat of it.
type series struct {
	name, help string
	labels     []string // after that of the bucket
}

// shows reports whether the lines say a state.
func (x *exportedElection) shows(c view.ElectionChange) bool {
	if x == nil || x.shown.State != c.State {
		return false
	}
	was, is := &x.shown.Now, &c.Now
	if c.State.Held() {
		return was.Holder.ID == is.Holder.ID && was.Holder.Token == is.Holder.Token
	}
	return was.Entry.Created.Equal(is.Entry.Created) && was.Note.OneShot == is.Note.OneShot && was.Note.Unread == is.Note.Unread && x.shown.Expires == c.Expires
}

func electionDesc(name, help string, labels ...string) series {
	return series{"natsleader_" + name, help, labels}
}

var electionSeries = []series{
	electionDesc("election_info", "State of the election, what is wrong with it as in the JSON of status, and ID of the leader or of the last holder.", "election", "id", "seat", "state", "trouble"),
	electionDesc("election_led", "Whether the election has a leader with a valid lease, by the server's clock.", "election", "seat"),
	electionDesc("election_since_timestamp_seconds", "When the election came into its state, as the server's Unix time.", "election", "seat"),
	electionDesc("election_terms_total", "Terms of the election that the exporter saw begin.", "election", "seat"),
	electionDesc("election_token", "Fencing token of the term that leads, or of the last one that the key names, 0 if none.", "election", "seat"),
}

// groupInfo is the metric of a group. What is counted of its shards the members export.
var groupInfo = electionDesc("group_info", "What is wrong with the group of shards, as in the JSON of status.", "group", "trouble")

// judgeEvery is the time from one judgement of the groups to the next. Each decodes their maps.
const judgeEvery = 2 * time.Second

// labelValue escapes a text as the value of a label.
var labelValue = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func newElectionMetrics(bucket string, most int, log *front.LineLog) *electionMetrics {
	return &electionMetrics{bucket: bucket, most: most, log: log, shows: make(map[string]*exportedElection), left: make(map[string]bool), beat: time.Now()}
}

// Changed is part of renderer, as are shown and trouble.
func (e *electionMetrics) Changed(changes ...view.Change) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range changes {
		if c, ok := c.(view.ElectionChange); ok {
			e.take(c)
		}
	}
	return nil
}

// take takes in a change of an election.
func (e *electionMetrics) take(c view.ElectionChange) {
	key := c.Now.Election
	x := e.shows[key]
	name, _, ofGroup := group.NameOf(key)
	switch {
	case ofGroup && key != group.AssignerKey(name): // a member: the group takes care of it
		return
	case c.State == facts.Never || !c.Now.Gone.IsZero(): // its key is gone
		delete(e.shows, key)
		delete(e.left, key)
		return
	case x == nil && (len(e.shows) >= e.most || inspect.CheckElection(key) != nil): // anybody may write any key
		e.left[key] = true
		return
	case x == nil:
		delete(e.left, key)
		x = new(exportedElection)
		e.shows[key] = x
	}
	x.shown = c
	if c.State == facts.Leading && c.Now.Holder.Token != x.token {
		x.token = c.Now.Holder.Token
		x.terms++
	}
	led := 0.0
	if c.State == facts.Leading {
		led = 1
	}
	election, seat := wire.SeatOf(key)
	labels := map[string]string{
		"election": election, "id": labelValue.Replace(front.Shorten(front.Printable(c.Now.Holder.ID), front.LongID)), "seat": strconv.Itoa(seat),
		"state": string(c.State), "trouble": string(judge.Election(c.Now, c.State, judge.Around{Now: c.At, Expires: c.Expires}).Code),
	}
	token := c.Now.Holder.Token
	if last := c.Now.Last(); last != nil {
		token = last.Token
	}
	values := []float64{1, led, float64(c.At.UnixMilli()) / 1e3, float64(x.terms), float64(token)}
	x.lines = make([]string, len(electionSeries))
	for i, s := range electionSeries {
		x.lines[i] = e.line(s, labels, values[i])
	}
}

// line returns the line of a series, without its name.
func (e *electionMetrics) line(s series, labels map[string]string, value float64) string {
	line := `{bucket="` + e.bucket + `"`
	for _, l := range s.labels {
		if labels[l] != "" { // an empty label is none
			line += "," + l + `="` + labels[l] + `"`
		}
	}
	return line + "} " + strconv.FormatFloat(value, 'g', -1, 64) + "\n"
}

// judge judges the groups whose assigners are shown, as the page does.
func (e *electionMetrics) judge(w *view.Watcher, now time.Time) {
	if now.Sub(e.judged).Abs() < judgeEvery {
		return
	}
	e.judged, e.groups = now, nil
	in := judge.Around{Now: now}
	for _, key := range slices.Sorted(maps.Keys(e.shows)) {
		name, _, ofGroup := group.NameOf(key)
		x := w.Elections[key]
		if !ofGroup || x == nil {
			continue
		}
		is := judge.WithAssigner(judge.Worst(judge.Group(name, w.Group(name), in)), judge.Election(x.Now, x.As, in))
		e.groups = append(e.groups, e.line(groupInfo, map[string]string{"group": name, "trouble": string(is.Code)}, 1))
	}
}

func (e *electionMetrics) Shown(now time.Time, of view.Viewer) error {
	w, ok := of.(*view.Watcher)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.beat = time.Now()
	if !e.up {
		e.judged = time.Time{} // what was judged before may be of another bucket
	}
	if e.up = ok && w.Complete && w.Feed != nil && !w.Troubled; e.up {
		e.err = nil
		e.cordoned, e.streams = w.Cordoned, w.Streams
		maps.DeleteFunc(e.shows, func(key string, _ *exportedElection) bool { return w.Elections[key] == nil }) // of a watcher before
		maps.DeleteFunc(e.left, func(key string, _ bool) bool { return w.Elections[key] == nil })
		for _, key := range slices.Sorted(maps.Keys(w.Elections)) { // not each change is reported, and none that was missed
			x := w.Elections[key]
			c := view.ElectionChange{At: x.Now.Since(x.As), Now: x.Now, State: x.As, Expires: w.Expires()}
			if x.Last != nil && (!e.left[key] || len(e.shows) < e.most) && !e.shows[key].shows(c) {
				e.take(c)
			}
		}
		e.judge(w, now)
		e.log.NoteTrouble(nil)
	}
	return nil
}

func (e *electionMetrics) NoteTrouble(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err = err; err != nil {
		e.up = false
		e.log.NoteTrouble(err)
	}
}

// ticked records that the exporter works, while it has no watcher.
func (e *electionMetrics) ticked() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.beat, e.up = time.Now(), false
}

// stuck is the time after which an exporter that does nothing counts as stuck. To connect
// takes less, even where several servers do not answer.
const stuck = 2 * time.Minute

// live answers 200 while the exporter works, also without NATS.
func (e *electionMetrics) live(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	ok := time.Since(e.beat) < stuck
	e.mu.Unlock()
	answerHealth(w, ok, map[string]any{"bucket": e.bucket, "live": ok})
}

// connected answers 200 while the metrics are up to date.
func (e *electionMetrics) connected(w http.ResponseWriter, _ *http.Request) {
	e.mu.Lock()
	ok := e.up && time.Since(e.beat) < stuck
	body := map[string]any{"bucket": e.bucket, "connected": ok}
	if !ok && e.err != nil {
		body["error"] = front.ErrorText(e.err)
	}
	e.mu.Unlock()
	answerHealth(w, ok, body)
}

// answerHealth answers a health check as package health does.
func answerHealth(w http.ResponseWriter, ok bool, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(body) // the client has gone
}

// exportedDesc makes a description of a metric of an election, of one of its seats, or of
// the bucket.
func exportedDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("natsleader_"+name, help, append([]string{"bucket"}, labels...), nil)
}

var (
	bucketUpDesc = exportedDesc("bucket_up",
		"Whether the exporter reads the bucket. Otherwise it serves no metrics of elections.")
	bucketElectionsDesc = exportedDesc("bucket_elections",
		"Keys of elections and of their seats in the bucket that have metrics.")
	bucketLeftOutDesc = exportedDesc("bucket_elections_left_out",
		"Keys in the bucket that have no metrics: more than --max-elections, or no names of elections.")
	streamLedDesc = exportedDesc("bucket_stream_led",
		"Whether the stream of the bucket's history or roster has a leader; 0 also if it is gone. None: the bucket was made without it, or it may not be asked for.", "stream")
	cordonedDesc = exportedDesc("cordoned", "1 for each name of the bucket's cordon: an ID, or a host.", "name")
)

// Describe sends the descriptions.
func (e *electionMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{bucketUpDesc, bucketElectionsDesc, bucketLeftOutDesc, streamLedDesc, cordonedDesc} {
		ch <- d
	}
}

// Collect sends the metrics of the bucket.
func (e *electionMetrics) Collect(ch chan<- prometheus.Metric) {
	e.mu.Lock()
	defer e.mu.Unlock()
	send := func(d *prometheus.Desc, value int) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), e.bucket)
	}
	if !e.up {
		send(bucketUpDesc, 0)
		return
	}
	send(bucketUpDesc, 1)
	send(bucketElectionsDesc, len(e.shows))
	send(bucketLeftOutDesc, len(e.left))
	for what, state := range e.streams {
		if state != view.StreamUnread {
			led := map[bool]float64{true: 1}[state == view.StreamLed]
			ch <- prometheus.MustNewConstMetric(streamLedDesc, prometheus.GaugeValue, led, e.bucket, what)
		}
	}
	for _, name := range e.cordoned {
		ch <- prometheus.MustNewConstMetric(cordonedDesc, prometheus.GaugeValue, 1, e.bucket, front.Printable(name))
	}
}

// serve answers a scrape: the metrics of a registry, and those of the elections.
func (e *electionMetrics) serve(w http.ResponseWriter, r *http.Request, registry prometheus.Gatherer) {
	families, err := registry.Gather()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	to := io.Writer(w)
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer func() { _ = z.Close() }() // the client has gone, as below
		to = z
	}
	text := bufio.NewWriterSize(to, 64<<10)
	for _, f := range families {
		_, _ = expfmt.MetricFamilyToText(text, f)
	}
	elections, groups := e.encoded()
	family := func(s series) {
		kind := "gauge"
		if strings.HasSuffix(s.name, "_total") {
			kind = "counter"
		}
		_, _ = fmt.Fprintf(text, "# HELP %s %s\n# TYPE %s %s\n", s.name, s.help, s.name, kind)
	}
	for i, s := range electionSeries {
		family(s)
		for _, lines := range elections {
			_, _ = text.WriteString(s.name + lines[i])
		}
	}
	if len(groups) > 0 {
		family(groupInfo)
	}
	for _, line := range groups {
		_, _ = text.WriteString(groupInfo.name + line)
	}
	_ = text.Flush()
}

// encoded returns the lines of all elections and groups that are shown, in the order of their keys.
func (e *electionMetrics) encoded() (elections [][]string, groups []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.up {
		return nil, nil
	}
	elections = make([][]string, 0, len(e.shows))
	for _, key := range slices.Sorted(maps.Keys(e.shows)) {
		elections = append(elections, e.shows[key].lines)
	}
	return elections, e.groups
}
