package recipes_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/bridges/otelslog"
	prometheusbridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
	"github.com/natsleader/natsleader/metrics"
)

// observed sends the log and the metrics of a candidate to OpenTelemetry. collector is that of the
// process, for all candidates.
func observed(logs log.LoggerProvider, collector *metrics.Collector, store leader.Store, election string) (*leader.Candidate, error) {
	c, err := leader.Campaign(context.Background(), store, election, leader.Config{
		Logger: slog.New(otelslog.NewHandler("natsleader", otelslog.WithLoggerProvider(logs))),
	})
	if err != nil {
		return nil, err
	}
	return c, collector.Add(c)
}

// meter lets a reader of OpenTelemetry, such as a metric.PeriodicReader, read the collector.
func meter(collector *metrics.Collector) (metric.Producer, error) {
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector); err != nil {
		return nil, err
	}
	return prometheusbridge.NewMetricProducer(prometheusbridge.WithGatherer(registry)), nil
}

// kept keeps the texts of log records.
type kept struct {
	mu    sync.Mutex
	texts []string
}

func (k *kept) OnEmit(_ context.Context, r *sdklog.Record) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.texts = append(k.texts, r.Body().AsString())
	return nil
}
func (*kept) Enabled(context.Context, sdklog.EnabledParameters) bool { return true }
func (*kept) Shutdown(context.Context) error                         { return nil }
func (*kept) ForceFlush(context.Context) error                       { return nil }

// The log and the metrics of a leader arrive.
func TestObserved_LogAndMetrics(t *testing.T) {
	var records kept
	logs := sdklog.NewLoggerProvider(sdklog.WithProcessor(&records))
	var collector metrics.Collector
	c := check.Got(observed(logs, &collector, leadertest.NewStore(nil), "billing"))(t)
	for e := range c.Events(t.Context()) {
		if _, elected := e.(leader.Elected); elected {
			break
		}
	}
	producer := check.Got(meter(&collector))(t)
	reader := metric.NewManualReader(metric.WithProducer(producer))
	_ = metric.NewMeterProvider(metric.WithReader(reader))
	var all metricdata.ResourceMetrics
	check.OK(t, reader.Collect(t.Context(), &all))
	var names []string
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			names = append(names, m.Name)
		}
	}
	check.That(t, slices.Contains(names, "natsleader_is_leader"), "metrics %q", names)
	check.OK(t, c.Stop())
	records.mu.Lock()
	defer records.mu.Unlock()
	check.That(t, slices.Contains(records.texts, "elected"), "log %q", records.texts)
}
