//go:build field && alerts && unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/metrics"
	"github.com/natsleader/natsleader/seats"
)

// scrapedProcess stands for a process: one connection, which can be cut, and its metrics.
type scrapedProcess struct {
	*testing.T
	name      string
	nc        *nats.Conn
	js        jetstream.JetStream
	collector metrics.Collector
	server    *httptest.Server

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func startScraped(t *testing.T, name, urls string) *scrapedProcess {
	t.Helper()
	p := &scrapedProcess{T: t, name: name}
	var err error
	p.nc, err = nats.Connect(urls, nats.MaxReconnects(-1), nats.ReconnectWait(200*time.Millisecond), nats.PingInterval(time.Second),
		nats.SetCustomDialer(p), nats.RetryOnFailedConnect(true), nats.IgnoreAuthErrorAbort(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	expect.OK(t, err)
	t.Cleanup(p.nc.Close)
	p.js = expect.Got(jetstream.New(p.nc))(t)
	page := expect.Got(front.MetricsPage(&p.collector))(t)
	p.server = httptest.NewServer(page)
	t.Cleanup(p.server.Close)
	return p
}

// Dial is part of nats.CustomDialer.
func (p *scrapedProcess) Dial(network, address string) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut {
		return nil, errors.New("the host is cut off")
	}
	c, err := net.DialTimeout(network, address, time.Second)
	if err == nil {
		p.conns = append(p.conns, c)
	}
	return c, err
}

// setCut cuts the process off from NATS, or connects it again.
func (p *scrapedProcess) setCut(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	for _, c := range p.conns {
		if cut {
			_ = c.Close()
		}
	}
}

// stand starts a candidate that is scraped.
func (p *scrapedProcess) stand(bucket, election string, cfg leader.Config) *leader.Candidate {
	p.Helper()
	return p.standOnSeats(bucket, election, 1, cfg)
}

func (p *scrapedProcess) standOnSeats(bucket, election string, n int, cfg leader.Config) *leader.Candidate {
	p.Helper()
	b := expect.Got(leader.OpenBucket(p.js, bucket))(p)
	cfg.ID = p.name
	c, err := leader.Campaign(context.WithoutCancel(p.Context()), seats.Of(b, n), election, cfg)
	if err == nil {
		err = p.collector.Add(c)
	}
	expect.OK(p, err)
	p.Cleanup(func() {
		p.nc.Close() // there may be no server any more
		<-c.Done()
	})
	return c
}

// lead starts a candidate that is scraped, and waits until it leads.
func (p *scrapedProcess) lead(bucket, election string) {
	p.Helper()
	testworld.Eventually(p, p.name+" leads "+election, p.stand(bucket, election, leader.Config{}).IsLeader)
}

// leave stops a candidate and its metrics.
func (p *scrapedProcess) leave(c *leader.Candidate) {
	p.Helper()
	expect.OK(p, c.Stop())
	p.collector.Remove(c)
}

// timesFaster is by how much the hour is compressed.
const timesFaster = 10

// compressed returns the rules with durations that are so much shorter.
func compressed(t *testing.T) string {
	t.Helper()
	text := expect.Got(proof.ReadOutside("../../deploy/prometheus/rules.yml"))(t)
	duration := regexp.MustCompile(`\d+[smh]\b`)
	places := regexp.MustCompile(`\[[\dsmh:]+\]|for: \d+[smh]|offset \d+[smh]`)
	faster := places.ReplaceAllStringFunc(string(text), func(place string) string {
		return duration.ReplaceAllStringFunc(place, func(d string) string {
			return fmt.Sprintf("%dms", (expect.Got(time.ParseDuration(d))(t) / timesFaster).Milliseconds())
		})
	})
	limits := regexp.MustCompile(`(natsleader_(?:silent|candidates_unreleased|shards_busy)_seconds(?:"})?) > 60`)
	n := len(limits.FindAllString(faster, -1))
	// More than a tenth: the 15 s of NatsleaderNoMajority are a lease, which is not shorter here.
	faster = limits.ReplaceAllString(faster, "$1 > 12")
	expect.Must(t, n == 4, "%d limits in seconds were compressed", n)
	return faster
}

// monitor is a Prometheus that scrapes targets and evaluates the rules.
type monitor struct {
	*testing.T
	url string
}

func startPrometheus(t *testing.T, targets map[string]string) monitor {
	t.Helper()
	dir := t.TempDir()
	const interval = 15 * time.Second / timesFaster
	config := fmt.Sprintf("global: {scrape_interval: %dms, evaluation_interval: %[1]dms, scrape_timeout: 1s}\nrule_files: [rules.yml]\nscrape_configs:\n  - job_name: natsleader\n    static_configs:\n", interval.Milliseconds())
	for name, address := range targets {
		config += fmt.Sprintf("      - {targets: [%q], labels: {instance: %q}}\n", strings.TrimPrefix(address, "http://"), name)
	}
	writeFile(t, filepath.Join(dir, "prometheus.yml"), config)
	writeFile(t, filepath.Join(dir, "rules.yml"), compressed(t))
	address := fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(t))
	startDaemon(t, tool(t, "promtool-deb/usr/bin/prometheus"), "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	p := monitor{t, "http://" + address}
	testworld.Eventually(t, "Prometheus scrapes all", func() bool {
		return slices.Equal(p.query("count(up == 1)"), []string{fmt.Sprintf("{} %d", len(targets))})
	})
	return p
}

// result is one series of an answer.
type result struct {
	Metric map[string]string
	Value  [2]any
}

// ask sends a query to an end point of Prometheus.
func (p monitor) ask(endPoint string, parameters url.Values) ([]result, error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: testworld.Patience}
	response, err := client.Get(p.url + "/api/v1/" + endPoint + "?" + parameters.Encode())
	if err != nil {
		return nil, err // it begins
	}
	defer response.Body.Close() //nolint:errcheck // nothing is written
	var answer struct {
		Error string
		Data  struct{ Result []result }
	}
	if err = json.NewDecoder(response.Body).Decode(&answer); err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	return answer.Data.Result, err
}

// series returns how many series a query has had since then.
func (p monitor) series(expr string, since time.Time) (int, error) {
	found, err := p.ask("query_range", url.Values{
		"query": {expr}, "start": {since.Format(time.RFC3339)}, "end": {time.Now().Format(time.RFC3339)}, "step": {"1s"},
	})
	return len(found), err
}

// query returns the results of a query, with their labels in order.
func (p monitor) query(expr string) []string {
	p.Helper()
	found, err := p.ask("query", url.Values{"query": {expr}})
	if err != nil {
		return []string{err.Error()}
	}
	var results []string
	for _, r := range found {
		labels := expect.Got(json.Marshal(r.Metric))(p)
		results = append(results, fmt.Sprintf("%s %v", strings.ReplaceAll(string(labels), `"`, ""), r.Value[1]))
	}
	slices.Sort(results)
	return results
}

// alerts returns the alerts that fire, or that have fired since.
func (p monitor) alerts(since time.Duration) []string {
	p.Helper()
	expr := `ALERTS{alertstate="firing"}`
	if since > 0 {
		expr = fmt.Sprintf("max_over_time(%s[%dms])", expr, since.Milliseconds())
	}
	var found []string
	for _, line := range p.query("max by (alertname, bucket, election, group, instance, kind, seat) (" + expr + ")") {
		name := strings.TrimSuffix(line, " 1")
		found = append(found, strings.TrimPrefix(name, "{alertname:Natsleader"))
	}
	return found
}

// dashboardQueries returns the queries of panels and annotations in the shipped dashboard.
func dashboardQueries(t *testing.T) (queries []string) {
	t.Helper()
	text := expect.Got(proof.ReadOutside("../../deploy/grafana/dashboard.json"))(t)
	for _, found := range regexp.MustCompile(`"expr": ("(?:[^"\\]|\\.)*")`).FindAllSubmatch(text, -1) {
		var query string
		expect.OK(t, json.Unmarshal(found[1], &query))
		queries = append(queries, query)
	}
	return queries
}
