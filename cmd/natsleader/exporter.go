package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/choria-io/fisk"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/wire"
)

const exporterHelp = `It serves metrics for Prometheus of all elections of a bucket, also of those
whose candidates are all dead: /metrics, and /live and /connected for health
checks. It needs the permissions of watch. One exporter for each bucket is
enough, and a second one does no harm.

It goes on while NATS or the bucket is away, and then serves
natsleader_bucket_up 0 without elections. It ends with exit code 0 at SIGINT or
SIGTERM.

  natsleader exporter --http :9847`

func registerExporter(app *fisk.Application, g *globals) {
	var address string
	var most int
	cmd := app.Command("exporter", "Serve metrics of all elections of a bucket").HelpLong(exporterHelp)
	cmd.Flag("http", "Address to serve /metrics, /live and /connected on").Default(":9847").PlaceHolder("ADDRESS").StringVar(&address)
	cmd.Flag("max-elections", "Elections that get metrics at most; the others are counted").Default("10000").IntVar(&most)
	cmd.Action(func(*fisk.ParseContext) error {
		if err := checkAddress(address); err != nil {
			return err
		}
		if most < 1 {
			return usagef("--max-elections %d is less than 1", most)
		}
		return g.export(address, most)
	})
}

// export serves metrics until SIGINT or SIGTERM.
func (g *globals) export(address string, most int) error {
	ctx, stop := g.untilInterrupted()
	defer stop()
	listener, err := g.serveOn(address)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	e := newElectionMetrics(g.bucket, most)
	page, err := metricsPage(e)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", page)
	mux.HandleFunc("/live", e.live)
	mux.HandleFunc("/connected", e.connected)
	serveHTTP(listener, mux)
	if strings.HasSuffix(address, ":0") {
		_, _ = fmt.Fprintf(g.errs(), "natsleader: serves http://%s\n", listener.Addr())
	}
	return g.followAlways(ctx, e, func(s *inspector) {
		if s == nil {
			e.ticked()
		}
	})
}

// electionMetrics are the metrics of all elections of a bucket. As a renderer they get what
// a watcher reports, and as a collector they show it. A scrape neither waits for the watcher
// nor asks the server.
type electionMetrics struct {
	offScreen
	bucket string
	most   int // elections that are shown

	mu    sync.Mutex
	shows map[string]*exportedElection // by key
	left  map[string]bool              // keys that are not shown: too many, or no name of an election
	up    bool                         // the watcher has read all keys, and hears of changes
	err   error                        // why it does not; nil: not known
	beat  time.Time                    // when the watcher last worked
}

// exportedElection is an election, or one seat of it.
type exportedElection struct {
	election, seat string
	state          state
	id             string
	token, terms   uint64
	since          time.Time // the server's
}

func newElectionMetrics(bucket string, most int) *electionMetrics {
	return &electionMetrics{bucket: bucket, most: most, shows: make(map[string]*exportedElection), left: make(map[string]bool), beat: time.Now()}
}

// changed is part of renderer, as are shown and trouble.
func (e *electionMetrics) changed(changes ...change) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range changes {
		if c, ok := c.(electionChange); ok {
			e.take(c)
		}
	}
	return nil
}

// take takes in a change of an election.
func (e *electionMetrics) take(c electionChange) {
	key := c.now.election
	x := e.shows[key]
	name, _, ofGroup := group.NameOf(key)
	switch {
	case ofGroup && key != group.AssignerKey(name): // a member: the group takes care of it
		return
	case c.state == stateNever || !c.now.gone.IsZero(): // its key is gone
		delete(e.shows, key)
		delete(e.left, key)
		return
	case x == nil && (len(e.shows) >= e.most || checkElection(key) != nil): // anybody may write any key
		e.left[key] = true
		return
	case x == nil:
		delete(e.left, key)
		election, seat := wire.SeatOf(key)
		x = &exportedElection{election: election, seat: strconv.Itoa(seat)}
		e.shows[key] = x
	}
	if c.state == stateLeading && c.now.holder.Token != x.token {
		x.token = c.now.holder.Token
		x.terms++
	}
	x.state, x.since, x.id = c.state, c.at, shorten(printable(c.now.holder.ID), longID)
}

func (e *electionMetrics) shown(_ time.Time, of viewer) error {
	w, ok := of.(*watcher)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.beat = time.Now()
	if e.up = ok && w.complete && w.feed != nil && !w.troubled; e.up {
		e.err = nil
	}
	return nil
}

func (e *electionMetrics) trouble(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err = err; err != nil {
		e.up = false
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
		body["error"] = errorText(e.err)
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
	electionLedDesc = exportedDesc("election_led",
		"Whether the election has a leader with a valid lease, by the server's clock.", "election", "seat")
	electionTokenDesc = exportedDesc("election_token",
		"Fencing token of the last term of the election that the exporter saw, 0 if none.", "election", "seat")
	electionTermsDesc = exportedDesc("election_terms_total",
		"Terms of the election that the exporter saw begin.", "election", "seat")
	electionSinceDesc = exportedDesc("election_since_timestamp_seconds",
		"When the election came into its state, as the server's Unix time.", "election", "seat")
	electionInfoDesc = exportedDesc("election_info",
		"State of the election, and ID of the leader or of the last holder.", "election", "seat", "id", "state")
	bucketUpDesc = exportedDesc("bucket_up",
		"Whether the exporter reads the bucket. Otherwise it serves no metrics of elections.")
	bucketElectionsDesc = exportedDesc("bucket_elections",
		"Keys of elections and of their seats in the bucket that have metrics.")
	bucketLeftOutDesc = exportedDesc("bucket_elections_left_out",
		"Keys in the bucket that have no metrics: more than --max-elections, or no names of elections.")
)

// Describe sends the descriptions.
func (e *electionMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		electionLedDesc, electionTokenDesc, electionTermsDesc, electionSinceDesc, electionInfoDesc, bucketUpDesc, bucketElectionsDesc, bucketLeftOutDesc,
	} {
		ch <- d
	}
}

// Collect sends the metrics: five series for each election or seat, and three of the bucket.
func (e *electionMetrics) Collect(ch chan<- prometheus.Metric) {
	e.mu.Lock()
	defer e.mu.Unlock()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, value, append([]string{e.bucket}, labels...)...)
	}
	number := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	send(bucketUpDesc, prometheus.GaugeValue, number(e.up))
	if !e.up {
		return
	}
	send(bucketElectionsDesc, prometheus.GaugeValue, float64(len(e.shows)))
	send(bucketLeftOutDesc, prometheus.GaugeValue, float64(len(e.left)))
	for _, x := range e.shows {
		send(electionLedDesc, prometheus.GaugeValue, number(x.state == stateLeading), x.election, x.seat)
		send(electionTokenDesc, prometheus.GaugeValue, float64(x.token), x.election, x.seat)
		send(electionTermsDesc, prometheus.CounterValue, float64(x.terms), x.election, x.seat)
		send(electionSinceDesc, prometheus.GaugeValue, float64(x.since.UnixMilli())/1e3, x.election, x.seat)
		send(electionInfoDesc, prometheus.GaugeValue, 1, x.election, x.seat, x.id, string(x.state))
	}
}
