//go:build field && linux

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/leader"
)

// The memory of a natsleader ui with 20,000 keys of 2 kB, before and while 1,000 connections ask for
// everything and read nothing, and the memory of their sockets in the kernel.
func BenchmarkUI_SlowPages(b *testing.B) {
	url := startServer(b).ClientURL()
	newBucket(b, url, "elections", leader.BucketConfig{})
	campaigns(b, url, "elections", "e00000", leader.Config{ID: "a", Value: bytes.Repeat([]byte("v"), 1400)})
	_, js := connectTo(b, url)
	value := []byte(record(b, js, "e00000", "b", time.Hour))
	const many, pages = 20_000, 1000
	for i := 1; i < many; i++ {
		if _, err := js.PublishAsync(fmt.Sprintf("$KV.elections.e%05d", i), value); err != nil {
			b.Fatal(err)
		}
		if i%1000 == 0 || i == many-1 {
			<-js.PublishAsyncComplete()
		}
	}
	for b.Loop() {
		u := startUI(b, url)
		u.rows(func(rows map[string]webpage.Row, _ uiMessage) bool { return len(rows) == many })
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
		u.cmd.Process.Kill() //nolint:errcheck // it runs
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
