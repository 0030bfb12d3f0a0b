//go:build field && linux

package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
)

// The metrics of run show the process of the command, its starts, and how its runs ended.
func TestRunMetrics_OfTheCommand(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	p := s.leads("--http", "127.0.0.1:0")
	p.says("serves ")
	_, rest, _ := strings.Cut(p.text(), "serves ")
	address, _, _ := strings.Cut(rest, "\n")
	shows := func(samples ...string) {
		t.Helper()
		var body string
		eventually(t, strings.Join(samples, ", "), func() bool {
			body = pageOf(t, address+"/metrics")
			for _, sample := range samples {
				if !regexp.MustCompile(`(?m)^` + sample + `$`).MatchString(body) {
					return false
				}
			}
			return true
		})
	}
	const labels = `bucket="elections",election="jobs"`
	shows(`natsleader_command_starts_total{`+labels+`} 1`, `natsleader_command_pid{`+labels+`} [1-9]\d*`,
		`natsleader_command_start_timestamp_seconds{`+labels+`} \d\.\d+e\+09`,
		`natsleader_leader_info{`+labels+`,id="a",seat="1"} 1`)
	succeeds(t, "--server", s.url, "step-down", "jobs")
	shows(`natsleader_command_exits_total{bucket="elections",code="0",election="jobs",stopped="true"} 1`)
	p.waitBegun(2)
	shows(`natsleader_command_starts_total{` + labels + `} 2`)
	if body := pageOf(t, address+"/metrics"); strings.Contains(body, `stopped="false"`) {
		t.Error(fmt.Sprint("it counts an end that natsleader did not ask for:\n", body))
	}
}

// pageOf reads a page of an HTTP server.
func pageOf(t *testing.T, address string) string {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Get(address)
	if err != nil {
		return err.Error() // the caller tries again, or prints it
	}
	defer response.Body.Close() //nolint:errcheck // nothing is written
	return string(expect.Got(io.ReadAll(response.Body))(t))
}
