//go:build field && unix

package main

import (
	"syscall"
	"testing"
	"time"

	"github.com/natsleader/natsleader/leader"
)

// unread waits until the exporter shows no election, and says why at /connected.
func (e exporter) unread(why string) {
	e.Helper()
	e.shows(`bucket_up{bucket="elections"} 0`, "election_")
	e.notConnected(why)
}

// The exporter shows no election while its server hangs, and while the cluster has lost its quorum: what it has
// read may be wrong by then.
func TestExporter_BucketUnread(t *testing.T) {
	t.Parallel()
	const led = `election_led{bucket="elections",election="billing",seat="1"} 1`
	c := startTrio(t, "")
	c.makes(leader.BucketConfig{Name: "elections"})
	campaigns(t, c.url("admin"), "elections", "billing", leader.Config{LeaseDuration: 5 * time.Second}) // which its Stop waits for
	e := startExporter(t, c.servers[0].url)
	e.shows(led)
	c.servers[0].signal(syscall.SIGSTOP)
	e.unread("the connection was lost")
	c.servers[0].signal(syscall.SIGCONT)
	e.shows(led)
	for _, s := range c.servers[1:] {
		s.kill()
	}
	e.unread("the cluster has lost its quorum")
	e.stop()
}
