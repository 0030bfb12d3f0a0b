//go:build field && linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
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
	testworld.Put(t, js, "df", `{"v":1,"state":"leading","id":"worker-c","session":"s","n":1,"lease":"100ms","token":1}`)
	finds(t, p.url, nil, 1, "\nok store ")

	ballast := fillDisk(t, disk)
	stores := func() bool {
		_, err := nc.Request("$KV.elections.filler", make([]byte, 4096), time.Second)
		return err == nil
	}
	testworld.Eventually(t, "the bucket stores nothing", func() bool { return !stores() })
	finds(t, p.url, nil, 2)
	productionShows(t, p.url, "store", "elections")

	expect.OK(t, os.Remove(ballast))
	if _, err := nc.Request("$KV.elections.filler", nil, time.Second); err == nil || !strings.Contains(err.Error(), nats.ErrTimeout.Error()) {
		proof.Skip(t, "this server goes on when there is room: ", err)
	}
	finds(t, p.url, nil, 1, "\nok store ", "\nwarning elections the lease is over and no candidate takes over in df")
}

// A full disk of one server of three ends its replica, and the server goes on to answer. Doctor tells that from a
// server that is dead, and --save keeps what shows it.
func TestDoctor_FullDiskOfOne(t *testing.T) {
	t.Parallel()
	c := &trio{T: t, users: filepath.Join(t.TempDir(), "users.conf")}
	c.permit()
	disk := smallDisk(t)
	ownStore := regexp.MustCompile(`store_dir: "[^"]*"`)
	for i, part := range clusterOfThree(t) {
		if i == 2 {
			part = ownStore.ReplaceAllString(part, fmt.Sprintf("store_dir: %q, max_file_store: 1GB", filepath.Join(disk, "js")))
		}
		c.servers = append(c.servers, startNATS(t, "", fmt.Sprint("s", i+1), part))
	}
	c.makes(leader.BucketConfig{Name: "elections", MaxLease: 2 * time.Minute})
	witness := c.servers[0].url
	fillDisk(t, disk)
	nc, _ := connectTo(t, witness)
	saved := filepath.Join(t.TempDir(), "facts.json")
	testworld.Eventually(t, "doctor finds the full disk", func() bool {
		_, _ = nc.Request("$KV.elections.filler", make([]byte, 4096), time.Second)
		_ = os.Remove(saved)
		out, _, _ := outcome(t, natsleader(t, "doctor", "-s", witness, "--save", saved))
		return strings.Contains(out, "but the server runs and answers: its disk is or was full, or hangs")
	})
	out, _, code := outcome(t, natsleader(t, "doctor", "--from", saved))
	printed(t, out, "3 replicas, 1 of them missing (s3)", "-> look for \"no space left\" in its log, make room, and then restart it")
	expect.That(t, code == 1 && !strings.Contains(out, "dead, hung"), "exit code %d\n%s", code, out)

	c.servers[2].kill()
	testworld.Eventually(t, "doctor finds that the server is dead", func() bool {
		out, _ := diagnose(t, witness)
		return strings.Contains(out, "the replica on s3 is offline") || strings.Contains(out, "dead, hung or cut off")
	})
}
