package metrics

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The candidates of a connection report the same queue. It is exported once and is not added
// up, and with several connections the greatest values count.
func TestQueue_IsTheLongest(t *testing.T) {
	var q queue
	for _, s := range []leader.Stats{
		{Queued: 300, QueueAge: 2 * time.Second},
		{Queued: 300, QueueAge: 2 * time.Second}, // of the same connection
		{Queued: 7, QueueAge: 1500 * time.Millisecond},
		{},
	} {
		q.include(s)
	}
	ch := make(chan prometheus.Metric, 10)
	q.send(ch)
	close(ch)
	got := make(map[*prometheus.Desc]float64)
	for metric := range ch {
		var m dto.Metric
		check.OK(t, metric.Write(&m))
		if len(m.GetLabel()) != 0 {
			t.Errorf("%v has labels", metric.Desc())
		}
		got[metric.Desc()] = m.GetGauge().GetValue()
	}
	check.That(t, len(got) == 2 && got[queuedDesc] == 300 && got[queueAgeDesc] == 2, "%v", got)
}
