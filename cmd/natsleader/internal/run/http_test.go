//go:build unix

package run

import (
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// In an hour without NATS the probes of the Kubernetes manifest restart no pod. None is ready.
func TestKubernetes_ProbesInAnOutage(t *testing.T) {
	manifest := expect.Got(os.ReadFile("../../../../deploy/kubernetes/base/deployment.yaml"))(t)
	probes := make(map[string]string)
	for _, m := range regexp.MustCompile(`(liveness|readiness)Probe:\n +httpGet: \{path: (/\w+),`).FindAllStringSubmatch(string(manifest), -1) {
		probes[m[1]] = m[2]
	}
	clock := leadertest.NewClock()
	link := leadertest.NewStore(clock).Link("a")
	c := expect.Got(leader.Campaign(t.Context(), link, "billing", leader.Config{ID: "a"}))(t)
	t.Cleanup(func() {
		link.Close()
		<-c.Done()
	})
	h := expect.Got(answers(c, newCommandMetrics("elections", "billing")))(t)
	probe := func(name string, want int) {
		t.Helper()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, probes[name], http.NoBody))
		expect.That(t, w.Code == want, "%s: %s: %d, want %d: %s", clock.Elapsed(), name, w.Code, want, w.Body)
	}
	clock.Settle()
	probe("liveness", http.StatusOK)
	probe("readiness", http.StatusOK)
	link.Cut()
	for range 60 {
		clock.Advance(time.Minute)
		probe("liveness", http.StatusOK)
		probe("readiness", http.StatusServiceUnavailable)
	}
}
