//go:build unix

package run

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/health"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/metrics"
)

// answers returns the handler of --http for a candidate and its command.
func answers(c *leader.Candidate, command *commandMetrics) (http.Handler, error) {
	collector := &metrics.Collector{LeaderIDs: true} // of one election
	if err := collector.Add(c); err != nil {
		return nil, err
	}
	pages, err := front.MetricsPage(collector, command)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/leader", health.Leader(c))
	mux.Handle("/live", health.Live(c))
	mux.Handle("/connected", health.Connected(c))
	mux.Handle("/metrics", pages)
	return mux, nil
}

// pages is the handler of --http. While there is no candidate yet, it shows that the process lives: with
// --retry-connect that may take long, and the process is not to be restarted for it.
type pages struct{ ofCandidate atomic.Pointer[http.Handler] }

func (p *pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch h := p.ofCandidate.Load(); {
	case h != nil:
		(*h).ServeHTTP(w, r)
	case r.URL.Path == "/live":
		_, _ = io.WriteString(w, `{"live":true}`+"\n")
	default:
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":"not connected to NATS yet"}`+"\n")
	}
}

// commandMetrics are the metrics of the command of run. They have one series for each
// outcome that was seen, and three others. A nil commandMetrics counts nothing.
type commandMetrics struct {
	mu     sync.Mutex
	pid    int
	begun  time.Time // of the last run of the command
	starts uint64
	ends   map[commandEnd]uint64
	stale  bool // the file of the lease cannot be written

	pidDesc, startsDesc, beganDesc, exitsDesc, staleDesc *prometheus.Desc
}

// commandEnd is how a run of the command ended.
type commandEnd struct {
	code    int
	stopped bool // natsleader had asked it to stop
}

func newCommandMetrics(bucket, election string) *commandMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("natsleader_command_"+name, help, labels, prometheus.Labels{"bucket": bucket, "election": election})
	}
	return &commandMetrics{
		ends:       make(map[commandEnd]uint64),
		pidDesc:    desc("pid", "Process ID of the command, 0 while it does not run."),
		startsDesc: desc("starts_total", "How often the command was started."),
		beganDesc:  desc("start_timestamp_seconds", "When the command was last started, as a Unix time."),
		staleDesc:  desc("lease_file_stale", "1 while the file of the lease cannot be written, so that the command does not find how long it leads, 0 otherwise."),
		exitsDesc:  desc("exits_total", "Ends of the command, by exit code, and by whether natsleader had asked it to stop. After a signal the code is 128 plus the number of the signal.", "code", "stopped"),
	}
}

// started counts a start of the command.
func (m *commandMetrics) started(pid int) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pid, m.begun, m.stale = pid, time.Now(), false
	m.starts++
}

// leaseWritten records whether the file of the lease is written.
func (m *commandMetrics) leaseWritten(ok bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stale = !ok
}

// ended counts the end of the command, if it had started.
func (m *commandMetrics) ended(outcome error, stopped bool) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pid == 0 {
		return
	}
	m.pid, m.stale = 0, false
	code := front.ExitFailed
	if exit, ok := errors.AsType[front.ExitError](outcome); ok {
		code = exit.Code
	}
	m.ends[commandEnd{code & 0xff, stopped}]++
}

// Describe sends the descriptions.
func (m *commandMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.pidDesc, m.startsDesc, m.beganDesc, m.exitsDesc, m.staleDesc} {
		ch <- d
	}
}

// Collect sends the metrics.
func (m *commandMetrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ch <- prometheus.MustNewConstMetric(m.pidDesc, prometheus.GaugeValue, float64(m.pid))
	ch <- prometheus.MustNewConstMetric(m.startsDesc, prometheus.CounterValue, float64(m.starts))
	if !m.begun.IsZero() {
		ch <- prometheus.MustNewConstMetric(m.beganDesc, prometheus.GaugeValue, float64(m.begun.UnixMilli())/1e3)
	}
	stale := 0.0
	if m.stale {
		stale = 1
	}
	ch <- prometheus.MustNewConstMetric(m.staleDesc, prometheus.GaugeValue, stale)
	for end, n := range m.ends {
		ch <- prometheus.MustNewConstMetric(m.exitsDesc, prometheus.CounterValue, float64(n), strconv.Itoa(end.code), strconv.FormatBool(end.stopped))
	}
}
