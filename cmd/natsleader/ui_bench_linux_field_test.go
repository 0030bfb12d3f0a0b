//go:build field && linux

package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The memory of a natsleader serve with 20,000 keys of 2 kB, before and while 1,000 connections ask for
// everything and read nothing, and the memory of their sockets in the kernel.
func BenchmarkUI_SlowPages(b *testing.B) {
	url := startServer(b).ClientURL()
	newBucket(b, url, "elections", leader.BucketConfig{})
	campaigns(b, url, "elections", "e00000", leader.Config{ID: "a", Value: bytes.Repeat([]byte("v"), 1400)})
	const many, pages = 20_000, 1000
	putMany(b, url, many)
	for b.Loop() {
		u := startUI(b, url)
		testworld.Eventually(b, "it has read all keys", func() bool { // in their order
			response := expect.Got(http.Get(fmt.Sprintf("%s/api/record?election=e%05d", u.address, many-1)))(b)
			_ = response.Body.Close()
			return response.StatusCode == http.StatusOK
		})
		time.Sleep(5 * time.Second) // the collector of garbage comes to rest
		before, sockets := residentMB(b, u.cmd.Process.Pid), socketMB(b)
		for range pages {
			conn, err := net.Dial("tcp", strings.TrimPrefix(u.address, "http://"))
			expect.OK(b, err)
			defer conn.Close() //nolint:errcheck // nothing was read
			if _, err = fmt.Fprintf(conn, "GET /api/elections HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
				b.Fatal(err)
			}
		}
		most, mostSockets := before, sockets
		for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			most, mostSockets = max(most, residentMB(b, u.cmd.Process.Pid)), max(mostSockets, socketMB(b))
		}
		b.ReportMetric(before, "MB-before")
		b.ReportMetric(most, "MB-most")
		b.ReportMetric(mostSockets-sockets, "MB-kernel")
		b.ReportMetric(0, "ns/op")
		u.kill()
	}
}

// residentMB returns the memory of a process.
func residentMB(b *testing.B, pid int) float64 {
	b.Helper()
	return fieldOf(b, fmt.Sprintf("/proc/%d/status", pid), "VmRSS:") / 1e3
}

// socketMB returns the memory of all TCP sockets of the host.
func socketMB(b *testing.B) float64 {
	b.Helper()
	return fieldOf(b, "/proc/net/sockstat", " mem ") * float64(os.Getpagesize()) / 1e6
}

// fieldOf returns the number after a word in a file.
func fieldOf(b *testing.B, file, word string) float64 {
	b.Helper()
	text, err := os.ReadFile(file)
	expect.OK(b, err)
	_, rest, _ := strings.Cut(string(text), word)
	var n float64
	if _, err = fmt.Sscan(rest, &n); err != nil {
		b.Fatalf("%q in %s: %v", word, file, err)
	}
	return n
}
