package main

import (
	"encoding/json"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

// benchBuckets returns the buckets of bench that exist.
func benchBuckets(t *testing.T, js jetstream.JetStream) []string {
	t.Helper()
	names := js.KeyValueStoreNames(t.Context())
	var all []string
	for name := range names.Name() {
		if strings.HasPrefix(name, "natsleader_bench_") {
			all = append(all, name)
		}
	}
	if err := names.Error(); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestBench_Measures(t *testing.T) {
	s := startServer(t)
	_, js := connectTo(t, s.ClientURL())
	out := succeeds(t, "bench", "-s", s.ClientURL(), "--rounds", "3", "--lease", "20s")
	printed(t, out, "\n3 rounds on nats-server ", "one replica, file storage",
		"MEDIAN", "P99", "\nelection ", "\nrenewal ", " times update\n", "\nhandover ", " times update, delivery, update\n")
	if left := benchBuckets(t, js); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestBench_ForPrograms(t *testing.T) {
	s := startServer(t)
	_, js := connectTo(t, s.ClientURL())
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{Storage: jetstream.MemoryStorage})
	var told struct {
		Rounds, Replicas int
		Storage          string
		Rows             []distribution
	}
	if err := json.Unmarshal([]byte(succeeds(t, "bench", "-s", s.ClientURL(), "--rounds", "4", "--json")), &told); err != nil {
		t.Fatal(err)
	}
	if told.Rounds != 4 || told.Replicas != 1 || told.Storage != "memory" {
		t.Errorf("%+v", told)
	}
	for _, want := range []struct {
		name  string
		count int
		bare  string
	}{
		{"election", 4, ""},
		{"renewal", 20, "update"},
		{"update", 20, ""},
		{"handover", 4, "update, delivery, update"},
		{"update, delivery, update", 4, ""},
	} {
		i := slices.IndexFunc(told.Rows, func(r distribution) bool { return r.Name == want.name })
		if i < 0 {
			t.Errorf("no row %q in %+v", want.name, told.Rows)
			continue
		}
		r := told.Rows[i]
		ordered := []float64{r.Min, r.Median, r.P90, r.P99, r.Max}
		if r.Count != want.count || r.Min <= 0 || !slices.IsSorted(ordered) || r.Bare != want.bare || (r.Ratio > 0) != (want.bare != "") {
			t.Errorf("%+v", r)
		}
	}
	if left := benchBuckets(t, js); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Flags take precedence over the settings of the bucket.
func TestBench_InItsOwnSettings(t *testing.T) {
	s := startServer(t)
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{Storage: jetstream.MemoryStorage})
	out := succeeds(t, "bench", "-s", s.ClientURL(), "--rounds", "1", "--storage", "file", "--replicas", "1")
	printed(t, out, "\n1 rounds on ", "file storage\n")
	out = succeeds(t, "bench", "-s", s.ClientURL(), "--rounds", "1")
	printed(t, out, "memory storage, as bucket elections\n")
}

// awaitRounds waits until some rounds are over, and returns the name of bench's bucket.
func awaitRounds(t *testing.T, js jetstream.JetStream) (name string) {
	t.Helper()
	eventually(t, "some rounds are over", func() bool {
		left := benchBuckets(t, js)
		if len(left) == 0 {
			return false
		}
		name = left[0]
		stream, err := js.Stream(t.Context(), "KV_"+name)
		return err == nil && stream.CachedInfo().State.Msgs > 9 // three rounds
	})
	return name
}

// An interrupted bench prints its measurements so far, and leaves no bucket.
func TestBench_Interrupted(t *testing.T) {
	for signal, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		s := startServer(t)
		_, js := connectTo(t, s.ClientURL())
		var out strings.Builder
		cmd := natsleader(t, "bench", "-s", s.ClientURL(), "--rounds", "1000000")
		cmd.Stdout, cmd.Stderr = &out, os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		awaitRounds(t, js)
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != code {
			t.Errorf("%v: %v", signal, err)
		}
		printed(t, out.String(), " of 1000000 rounds on ", "\nhandover ")
		if left := benchBuckets(t, js); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// The loss of the server ends bench, with the name of the bucket.
func TestBench_LosesItsServer(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	_, js := connectTo(t, s.ClientURL())
	cmd := natsleader(t, "bench", "-s", s.ClientURL(), "--rounds", "1000000", "--lease", "4s", "--timeout", "1s")
	var errs strings.Builder
	cmd.Stdout, cmd.Stderr = io.Discard, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	name := awaitRounds(t, js)
	s.Shutdown()
	s.WaitForShutdown()
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exitUnreachable {
		t.Errorf("%v", err)
	}
	if got := errs.String(); !strings.Contains(got, "bucket "+name+" is left behind") || strings.Count(got, "\n") != 1 {
		t.Errorf("%s", got)
	}
}

func TestBench_CannotBegin(t *testing.T) {
	with, without := startServer(t), startServer(t, func(o *server.Options) { o.JetStream = false })
	for _, k := range []struct {
		s    *server.Server
		args []string
		code int
	}{
		{with, []string{"--rounds", "0"}, exitUsage},
		{with, []string{"--lease=-1s"}, exitUsage},
		{with, []string{"--replicas", "2"}, exitUsage},
		{with, []string{"--storage", "paper"}, exitUsage},
		{with, []string{"--replicas", "3"}, exitUsage}, // there is one server
		{without, nil, exitUnreachable},
	} {
		out, errs, code := outcome(t, natsleader(t, append([]string{"bench", "-s", k.s.ClientURL()}, k.args...)...))
		if code != k.code || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("%v: exit code %d\n%s%s", k.args, code, out, errs)
		}
	}
	_, js := connectTo(t, with.ClientURL())
	if left := benchBuckets(t, js); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
