//go:build field && unix

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// unread waits until the exporter shows no election, and says why at /connected.
func (e exporter) unread(why string) {
	e.Helper()
	e.shows(`bucket_up{bucket="elections"} 0`, "election_")
	e.notConnected(why)
}

// The exporter shows no election while its connection lives, and the bucket cannot be read: what it
// has read may be wrong by then.
func TestExporter_BucketUnread(t *testing.T) {
	t.Parallel()
	const led = `election_led{bucket="elections",election="billing",seat="1"} 1`
	t.Run("the server hangs", func(t *testing.T) {
		t.Parallel()
		p := startProcess(t, "s1", fmt.Sprintf("jetstream { store_dir: %q }", testserver.StoreDir(t)), testserver.FreePort(t))
		newBucket(t, p.url, "elections", leader.BucketConfig{})
		campaigns(t, p.url, "elections", "billing", leader.Config{})
		e := startExporter(t, p.url)
		e.shows(led)
		p.signal(t, syscall.SIGSTOP)
		e.unread("the connection was lost")
		p.signal(t, syscall.SIGCONT)
		e.shows(led)
	})
	t.Run("two servers of three are lost", func(t *testing.T) {
		t.Parallel()
		all := processCluster(t)
		campaigns(t, all["s1"].url, "elections", "billing", leader.Config{LeaseDuration: 5 * time.Second}) // which its Stop waits for
		e := startExporter(t, all["s1"].url)
		e.shows(led)
		for _, name := range []string{"s2", "s3"} {
			all[name].signal(t, syscall.SIGKILL)
		}
		e.unread("the cluster has lost its quorum")
	})
	t.Run("a permission is revoked", func(t *testing.T) {
		t.Parallel()
		var options *server.Options
		denying := func(o *server.Options, subjects ...string) *server.Options {
			o.Users = []*server.User{{Username: "u", Password: "x", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: subjects}}}}
			return o
		}
		s := startServer(t, func(o *server.Options) { options = denying(o).Clone() })
		url := strings.Replace(s.ClientURL(), "//", "//u:x@", 1)
		newBucket(t, url, "elections", leader.BucketConfig{})
		campaigns(t, url, "elections", "billing", leader.Config{})
		e := startExporter(t, url)
		e.shows(led)
		if err := s.ReloadOptions(denying(options.Clone(), "$JS.API.STREAM.INFO.>")); err != nil {
			t.Fatal(err)
		}
		e.unread("permission denied")
		if err := s.ReloadOptions(denying(options.Clone())); err != nil {
			t.Fatal(err)
		}
		e.shows(led)
	})
}
