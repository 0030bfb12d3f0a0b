package front

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	expect "github.com/natsleader/natsleader/internal/check"
)

// An address of --http that cannot be is wrong usage. One that another process uses may become free.
func TestListen_ExitCodes(t *testing.T) {
	used := expect.Got(Stdio{}.Listen("http", "127.0.0.1:0"))(t)
	defer func() { _ = used.Close() }()
	for address, code := range map[string]int{used.Addr().String(): ExitUnreachable, "127.0.0.1:99999": ExitUsage, "192.0.2.1:1": ExitUsage} {
		_, err := Stdio{}.Listen("http", address)
		expect.That(t, CodeOf(err) == code, "%s: %v", address, err)
	}
}

// hanging is a collector that hangs until it is released.
type hanging struct {
	prometheus.Collector
	until chan struct{}
}

func (h hanging) Collect(ch chan<- prometheus.Metric) {
	<-h.until
	h.Collector.Collect(ch)
}

// Scrapes that hang are answered after 25 s, before the limit of the connection, and there are at most four.
// A page whose scrapes have ended serves again.
func TestMetricsPage_HangingScrapes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hanging{prometheus.NewGauge(prometheus.GaugeOpts{Name: "x"}), make(chan struct{})}
		page := expect.Got(MetricsPage(h))(t)
		began := time.Now()
		scrape := func() string {
			w := httptest.NewRecorder()
			page.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
			return fmt.Sprint(w.Code, " after ", time.Since(began))
		}
		answers := make(chan string, 5)
		for range 4 {
			go func() { answers <- scrape() }()
		}
		synctest.Wait()
		go func() { answers <- scrape() }()
		synctest.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		var got []string
		for len(answers) > 0 {
			got = append(got, <-answers)
		}
		want := []string{"503 after 0s", "503 after 25s", "503 after 25s", "503 after 25s", "503 after 25s"}
		expect.That(t, slices.Equal(got, want), "%q", got)
		close(h.until)
		synctest.Wait()
		expect.Equal(t, scrape(), "200 after 1m0s", "released: %s")
	})
}
