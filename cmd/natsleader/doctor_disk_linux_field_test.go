//go:build field && linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// smallDisk mounts a file system of a few megabytes for the test.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=8m"); err != nil {
		proof.Skip(t, "a tmpfs cannot be mounted here: ", err)
	}
	t.Cleanup(func() {
		expect.OK(t, syscall.Unmount(dir, syscall.MNT_DETACH))
	})
	return dir
}

// fillDisk writes a file until the disk is full, and returns its path.
func fillDisk(t *testing.T, disk string) (ballast string) {
	t.Helper()
	ballast = filepath.Join(disk, "ballast")
	f, err := os.Create(ballast) //nolint:gosec // in the test's directory
	expect.OK(t, err)
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	expect.OK(t, f.Close())
	return ballast
}

// A full disk is found, although the server answers all questions, and refuses an impossible
// write for the right reason. After there is room, the bucket's stream stores nothing until
// the server is restarted; the scratch stream cannot see that, and the elections do.
func TestDoctor_FullDisk(t *testing.T) {
	disk := smallDisk(t)
	p := startNATS(t, "", "s1", fmt.Sprintf("jetstream { store_dir: %q, max_file_store: 1GB }", filepath.Join(disk, "js")))
	newBucket(t, p.url, "elections", leader.BucketConfig{})
	nc, js := connectTo(t, p.url)
	put(t, js, "df", `{"v":1,"state":"leading","id":"worker-c","session":"s","n":1,"lease":"100ms","token":1}`)
	finds(t, p.url, nil, 1, "\nok store ")

	ballast := fillDisk(t, disk)
	stores := func() bool {
		_, err := nc.Request("$KV.elections.filler", make([]byte, 4096), time.Second)
		return err == nil
	}
	eventually(t, "the bucket stores nothing", func() bool { return !stores() })
	finds(t, p.url, nil, 2)
	productionShows(t, p.url, "store", "elections")

	expect.OK(t, os.Remove(ballast))
	if _, err := nc.Request("$KV.elections.filler", nil, time.Second); err == nil || !strings.Contains(err.Error(), nats.ErrTimeout.Error()) {
		proof.Skip(t, "this server goes on when there is room: ", err)
	}
	finds(t, p.url, nil, 1, "\nok store ", "\nwarning elections the lease is over and no candidate takes over in df")
}
