//go:build field && alerts && linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// A full disk fires Blocked with the kind full, until there is room. A store that was restored from a backup fires no alert on
// a fault: it is over when the candidates know it. The server is one process, because all disks of a cluster would have to be
// full.
func TestAlerts_DiskFullAndRestored(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t)
	store := filepath.Join(disk, "js")
	server := startNATS(t, "2.11.8", "s1", fmt.Sprintf("jetstream { store_dir: %q, max_file_store: 1GB }", store))
	a := startScraped(t, "a", server.url)
	makes(t, a.js, leader.BucketConfig{Name: "small", MaxLease: 3 * time.Second})
	server.kill()
	backup := filepath.Join(t.TempDir(), "backup")
	expect.OK(t, os.CopyFS(backup, os.DirFS(store)))
	server.start()
	a.lead("small", "parts")
	s := alertScript{t, startPrometheus(t, map[string]string{"a": a.server.URL}), time.Now()}
	s.quiet("all is well", 20*time.Second)

	ballast := fillDisk(t, disk)
	s.fire("the disk is full", "Blocked,bucket:small,election:parts,kind:full}")
	expect.OK(t, os.Remove(ballast))
	server.kill() // as the runbook says
	server.start()
	s.over("there is room, and the server was restarted", "Blocked", "Faulted")
	s.end("all alerts are over")
	s.quiet("for longer than alerts hide one another", 150*time.Second)

	server.kill()
	expect.OK(t, os.RemoveAll(store))
	expect.OK(t, os.CopyFS(store, os.DirFS(backup)))
	server.start()
	testworld.Eventually(t, "the fault is counted", func() bool {
		return len(s.p.query(`natsleader_faults_total{kind="regressed"} > 0`)) == 1
	})
	time.Sleep(40 * time.Second) // more than six minutes, see fire
	fired := slices.DeleteFunc(s.p.alerts(time.Minute), func(alert string) bool {
		return !strings.HasPrefix(alert, "Faulted") && !strings.HasPrefix(alert, "Blocked")
	})
	expect.That(t, len(fired) == 0, "the store is that of the backup, which fires %q", fired)
}
