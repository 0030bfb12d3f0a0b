//go:build field

package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/leader"
)

// exporter is a natsleader exporter.
type exporter struct {
	*testing.T
	address string
	cmd     *exec.Cmd
}

func startExporter(t *testing.T, url string, args ...string) exporter {
	t.Helper()
	cmd := natsleader(t, append([]string{"--server", url, "exporter", "--http", "127.0.0.1:0"}, args...)...)
	out := started(t, cmd)
	t.Cleanup(func() { _ = cmd.Wait() }) // the test's context has killed it, unless it was stopped
	eventually(t, "it serves", func() bool { return strings.Contains(out.text(), "serves http://") })
	_, rest, _ := strings.Cut(out.text(), "serves ")
	address, _, _ := strings.Cut(rest, "\n")
	return exporter{t, address, cmd}
}

// stop ends it as a terminal does.
func (e exporter) stop() {
	e.Helper()
	if err := e.cmd.Process.Signal(os.Interrupt); err != nil {
		e.Error(err)
	}
	if code := endOf(e.T, e.cmd); code != 0 {
		e.Errorf("exit code %d", code)
	}
}

// notConnected waits until /connected gives the reason.
func (e exporter) notConnected(why string) {
	e.Helper()
	eventually(e.T, "/connected: "+why, func() bool {
		status, body := pageOf(e.T, e.address+"/connected")
		return status == http.StatusServiceUnavailable && strings.Contains(body, why)
	})
}

// shows waits until all samples are there, and none that begins with one of the others.
func (e exporter) shows(samples string, not ...string) {
	e.Helper()
	var page string
	defer func() {
		if e.Failed() {
			e.Log(page)
		}
	}()
	eventually(e, samples, func() bool {
		_, page = pageOf(e.T, e.address+"/metrics")
		for line := range strings.Lines(samples) {
			if line = strings.TrimSpace(line); line != "" && !regexp.MustCompile("(?m)^natsleader_"+line+"$").MatchString(page) {
				return false
			}
		}
		return !slices.ContainsFunc(not, func(s string) bool { return strings.Contains(page, "natsleader_"+s) })
	})
}

// The exporter shows elections with a leader, with several, with dead candidates and without
// candidates, in buckets that go away and come back.
func TestExporter_AllElections(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	e := startExporter(t, url)
	e.shows(`bucket_up{bucket="elections"} 0`, "election_")
	var body string
	eventually(t, "/connected has the error", func() bool {
		var status int
		status, body = pageOf(t, e.address+"/connected")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "bucket elections does not exist")
	})
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "$ curl localhost:9847/connected\n"+body) {
		t.Errorf("%s does not show\n%s%v", page, body, err)
	}

	newBucket(t, url, "elections", leader.BucketConfig{MaxLease: 10 * time.Second})
	e.shows("bucket_up{bucket=\"elections\"} 1\nbucket_elections{bucket=\"elections\"} 0")
	_, js := connectTo(t, url)
	for _, id := range []string{"a", "b"} {
		campaigns(t, url, "elections", "many", leader.Config{ID: id, Seats: 2})
	}
	put(t, js, "dead", record(t, js, "many", "worker-c", 100*time.Millisecond))
	const dead = `bucket="elections",election="dead",`
	e.shows(`
		election_led{bucket="elections",election="many",seat="1"} 1
		election_led{bucket="elections",election="many",seat="2"} 1
		election_info{bucket="elections",election="many",id="[ab]",seat="1",state="leading"} 1
		election_led{` + dead + `seat="1"} 0
		election_info{` + dead + `id="worker-c",seat="1",state="expired"} 1
		election_since_timestamp_seconds{` + dead + `seat="1"} \d\.\d+e\+09
		election_terms_total{bucket="elections",election="many",seat="2"} 1
		bucket_elections_left_out{bucket="elections"} 0`)
	for _, path := range []string{"/live", "/connected"} {
		if status, body := pageOf(t, e.address+path); status != http.StatusOK {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}

	if err := js.DeleteKeyValue(t.Context(), "elections"); err != nil {
		t.Fatal(err)
	}
	e.shows(`bucket_up{bucket="elections"} 0`, "election_")
	e.notConnected("bucket elections is gone; ")
	if status, _ := pageOf(t, e.address+"/live"); status != http.StatusOK {
		t.Errorf("/live: %d", status)
	}
	e.stop()
}

// The exporter shows no election as soon as the connection is lost, and does not wait for the
// server's answer until a timeout. It goes on.
func TestExporter_ConnectionLost(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	newBucket(t, server.ClientURL(), "elections", leader.BucketConfig{})
	campaigns(t, server.ClientURL(), "elections", "billing", leader.Config{LeaseDuration: 2 * time.Second})
	e := startExporter(t, server.ClientURL(), "--timeout", "1h")
	e.shows(`election_led{bucket="elections",election="billing",seat="1"} 1`)
	server.Shutdown()
	e.shows(`bucket_up{bucket="elections"} 0`, "election_")
	e.notConnected("the connection was lost")
	if status, _ := pageOf(t, e.address+"/live"); status != http.StatusOK {
		t.Errorf("/live: %d", status)
	}
	e.stop()
}

// pageOf reads a page of an HTTP server.
func pageOf(t *testing.T, address string) (status int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Get(address)
	if err != nil {
		return 0, err.Error() // the caller tries again, or prints it
	}
	defer response.Body.Close() //nolint:errcheck // nothing is written
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}
