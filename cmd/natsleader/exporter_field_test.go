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

	expect "github.com/natsleader/natsleader/internal/check"
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
	expect.OK(e, e.cmd.Process.Signal(os.Interrupt))
	expect.Equal(e, endOf(e.T, e.cmd), 0, "exit code %d")
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

// pageOf reads a page of an HTTP server.
func pageOf(t *testing.T, address string) (status int, body string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Get(address)
	if err != nil {
		return 0, err.Error() // the caller tries again, or prints it
	}
	defer response.Body.Close() //nolint:errcheck // nothing is written
	text := expect.Got(io.ReadAll(response.Body))(t)
	return response.StatusCode, string(text)
}
