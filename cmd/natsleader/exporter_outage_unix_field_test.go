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
	all := processCluster(t)
	campaigns(t, all["s1"].url, "elections", "billing", leader.Config{LeaseDuration: 5 * time.Second}) // which its Stop waits for
	e := startExporter(t, all["s1"].url)
	e.shows(led)
	all["s1"].signal(t, syscall.SIGSTOP)
	e.unread("the connection was lost")
	all["s1"].signal(t, syscall.SIGCONT)
	e.shows(led)
	for _, name := range []string{"s2", "s3"} {
		all[name].signal(t, syscall.SIGKILL)
	}
	e.unread("the cluster has lost its quorum")
	e.stop()
}
