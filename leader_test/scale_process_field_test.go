//go:build field && unix

package leader_test

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testcluster"
)

// The client and the server of the scale benchmarks are processes of their own, because the
// memory, the goroutines and the processor time of each are measured. The test binary starts
// itself again with this variable. A process reads requests from its standard
// input, one JSON value each, and writes one reply to each to its standard output. It exits
// when its standard input is closed, so it does not outlive the test.
const scaleEnv = "NATSLEADER_TEST_SCALE"

func init() {
	if role := os.Getenv(scaleEnv); role != "" {
		scaleProcessMain(role)
		os.Exit(0)
	}
}

func scaleProcessMain(role string) {
	var serve func(scaleRequest) scaleReply
	switch role {
	case "server":
		serve = scaleServer(os.Getenv(scaleEnv + "_STORE"))
	case "client":
		serve = scaleClient(os.Getenv("NATS_URL"))
	case "a", "b":
		serve = benchHandOf(os.Getenv("NATS_URL"), role)
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for q := (scaleRequest{}); in.Decode(&q) == nil; q = (scaleRequest{}) {
		r := serve(q)
		r.CPU = scaleProcessorTime()
		scaleOK(out.Encode(r))
	}
}

// scaleOK ends the process if there is an error. The test reads that in place of a reply.
func scaleOK(err error) {
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, os.Getenv(scaleEnv)+":", err)
		os.Exit(1)
	}
}

// scaleMust is the value of a call without an error.
func scaleMust[T any](v T, err error) T {
	scaleOK(err)
	return v
}

// scaleProcessorTime returns the time that this process has spent on processors.
func scaleProcessorTime() time.Duration {
	var u syscall.Rusage
	scaleOK(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// scaleRequest is a request to a process of either role.
type scaleRequest struct {
	Do     string
	Number int           // of candidates
	OneKey bool          // all of them campaign in one election
	Loop   bool          // a loop over Terms waits for the end of each of their terms
	Lease  time.Duration // 0: the default
	Limit  time.Duration // of waiting
}

// scaleReply is a reply. Each request fills in its own part.
type scaleReply struct {
	CPU time.Duration // spent by the process since its start

	URL    string      // of a server
	Counts scaleCounts // of a server

	At     time.Time // of what was asked for, in BenchmarkHandoverProcesses
	Took   time.Duration
	Leads  int // candidates that lead
	Fences int // Fenced events, since the start
	Faults int // Faulted events, since the start
	Memory scaleMemory

	Resident float64 // bytes, by the kernel; 0: it does not say
}

// scaleCounts are what a server has received and stored since its start.
type scaleCounts struct {
	StreamInfo int64 // requests for the settings of the bucket
	DirectGets int64
	OtherAPI   int64
	Stored     int64 // writes of keys
	NotStored  int64 // writes of keys that the server received and did not store
}

func (c scaleCounts) since(before scaleCounts) scaleCounts {
	return scaleCounts{
		c.StreamInfo - before.StreamInfo, c.DirectGets - before.DirectGets, c.OtherAPI - before.OtherAPI,
		c.Stored - before.Stored,
		max(0, c.NotStored-before.NotStored), // the server counts what it receives later than it stores it
	}
}

// scaleMemory is what a process has in use after a garbage collection.
type scaleMemory struct {
	Heap, HeapSpans, Stack uint64 // bytes; HeapSpans has what lies idle between objects, too
	Goroutines             int
}

// scaleProcess is a process, as the benchmark sees it.
type scaleProcess struct {
	*testcluster.Process
	tb  testing.TB
	out *json.Decoder
}

// scaleStart starts a process, which is killed at the end of the test.
func scaleStart(tb testing.TB, role string, env ...string) *scaleProcess {
	tb.Helper()
	cmd := testcluster.Self(tb, scaleEnv, role)
	cmd.Env, cmd.Stderr = append(cmd.Env, env...), os.Stderr
	out := check.Got(cmd.StdoutPipe())(tb)
	return &scaleProcess{testcluster.Start(tb, role, cmd), tb, json.NewDecoder(out)}
}

// ask sends a request, and returns the reply.
func (p *scaleProcess) ask(q scaleRequest) scaleReply {
	p.tb.Helper()
	var r scaleReply
	err := json.NewEncoder(p.Stdin).Encode(q)
	if err == nil {
		err = p.out.Decode(&r)
	}
	check.Must(p.tb, err == nil, "%s: %s: %v", p.Name, q.Do, err)
	return r
}

// do sends a request without parameters.
func (p *scaleProcess) do(what string) scaleReply {
	p.tb.Helper()
	return p.ask(scaleRequest{Do: what})
}
