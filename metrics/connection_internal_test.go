package metrics

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The kind of the connection's last error is a label, while there is one.
func TestConnectionError(t *testing.T) {
	kinds := func(s leader.Stats) (all []string) {
		ch := make(chan prometheus.Metric, 100)
		scrape{ch, ofCandidate, label("bucket", "b"), label("election", "e"), make(labels), make(labels)}.works(s)
		close(ch)
		for metric := range ch {
			if metric.Desc() == connErrorDesc {
				var m dto.Metric
				check.OK(t, metric.Write(&m))
				all = append(all, m.GetLabel()[2].GetName()+"="+m.GetLabel()[2].GetValue())
			}
		}
		return all
	}
	check.Deep(t, kinds(leader.Stats{ConnError: errors.New("auth: Authorization Violation: x")}), []string{"kind=auth"})
	check.Deep(t, kinds(leader.Stats{}), []string(nil))
}
