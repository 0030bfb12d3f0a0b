//go:build field

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

var buildBinary = sync.OnceValues(func() ([]byte, error) {
	return exec.Command("go", "build", "-buildvcs=false", "-o", binary, ".").CombinedOutput()
})

// natsleader returns the built binary in an environment without settings for NATS. It
// is killed when the test ends.
func natsleader(tb testing.TB, args ...string) *exec.Cmd {
	tb.Helper()
	out, err := buildBinary()
	expect.Must(tb, err == nil, "go build: %v\n%s", err, out)
	home := tb.TempDir()
	cmd := exec.CommandContext(tb.Context(), binary, args...)
	cmd.Dir = home
	cmd.Env = []string{
		"HOME=" + home, "XDG_CONFIG_HOME=" + home, "XDG_DATA_HOME=" + home, "TMPDIR=" + home,
		"PATH=" + os.Getenv("PATH"), "TZ=UTC", "LC_ALL=C.UTF-8",
	}
	if mutant, ok := os.LookupEnv(testworld.MutantEnv); ok { // package mutation has built the binary with mutants
		cmd.Env = append(cmd.Env, "NATSLEADER_MUTANT="+mutant)
	}
	cmd.WaitDelay = testworld.Patience // for a grandchild that keeps the output open
	return cmd
}

// outcome runs a command to its end.
func outcome(tb testing.TB, cmd *exec.Cmd) (stdout, stderr string, code int) {
	tb.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		tb.Fatalf("%v: %v", cmd.Args[1:], err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// succeeds runs the binary and returns what it printed.
func succeeds(tb testing.TB, args ...string) string {
	tb.Helper()
	out, errs, code := outcome(tb, natsleader(tb, args...))
	expect.Must(tb, code == 0, "natsleader %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	return out
}

// startServer starts a server with JetStream that ends with the test.
func startServer(tb testing.TB, opts ...func(*server.Options)) *server.Server {
	tb.Helper()
	o := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: testserver.StoreDir(tb),
		DisableJetStreamBanner: true, NoLog: true, NoSigs: true,
	}
	for _, opt := range opts {
		opt(o)
	}
	s := expect.Got(server.NewServer(o))(tb)
	s.Start()
	tb.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	expect.Must(tb, s.ReadyForConnections(testworld.Patience), "the server is not ready")
	return s
}

// connectTo returns a connection of the test itself.
func connectTo(tb testing.TB, url string) (*nats.Conn, jetstream.JetStream) {
	tb.Helper()
	testworld.EmptyTimerPool() // a test before this one may have run in a bubble
	nc := expect.Got(nats.Connect(url, nats.Timeout(testworld.Patience)))(tb)
	tb.Cleanup(nc.Close)
	js := expect.Got(jetstream.New(nc))(tb)
	return nc, js
}

// newBucket makes a bucket for elections.
func newBucket(tb testing.TB, url, name string, cfg leader.BucketConfig) {
	tb.Helper()
	nc, js := connectTo(tb, url)
	defer nc.Close()
	cfg.Name = name
	_, err := leader.CreateOrUpdateBucket(tb.Context(), js, cfg)
	expect.Must(tb, err == nil, "%v", err)
}

// campaigns starts a candidate in the test's process and waits until it leads.
func campaigns(tb testing.TB, url, bucket, election string, cfg leader.Config) *leader.Candidate {
	tb.Helper()
	c := standsIn(tb, url, bucket, election, cfg)
	testworld.Eventually(tb, election+" has a leader", c.IsLeader)
	return c
}

// stands starts a candidate in the test's process.
func stands(tb testing.TB, url, election string, cfg leader.Config) *leader.Candidate {
	tb.Helper()
	return standsIn(tb, url, "elections", election, cfg)
}

func standsIn(tb testing.TB, url, bucket, election string, cfg leader.Config) *leader.Candidate {
	tb.Helper()
	_, js := connectTo(tb, url)
	b := expect.Got(leader.OpenBucket(js, bucket))(tb)
	cfg.StopTimeout = cmp.Or(cfg.StopTimeout, time.Minute) // the server may be busy
	c := expect.Got(leader.Campaign(context.WithoutCancel(tb.Context()), b, election, cfg))(tb)
	tb.Cleanup(func() {
		err := c.Stop()
		expect.That(tb, err == nil, "%v", err)
	})
	return c
}

// inLine waits until these candidates stand, in that order.
func inLine(tb testing.TB, url, election string, ids ...string) {
	tb.Helper()
	_, js := connectTo(tb, url)
	b := expect.Got(leader.OpenBucket(js, "elections"))(tb)
	testworld.Eventually(tb, "in line are "+strings.Join(ids, ", "), func() bool {
		var got []string
		all, err := roster.Lookup(tb.Context(), b, election)
		for _, s := range all {
			got = append(got, s.ID)
		}
		return err == nil && slices.Equal(got, ids)
	})
}

// endOf waits for the end of a command that was started.
func endOf(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the exit code has it
	}()
	ctx, cancel := context.WithTimeout(context.Background(), testworld.Patience)
	defer cancel()
	select {
	case <-ended:
	case <-ctx.Done():
		t.Fatalf("%v goes on", cmd.Args[1:])
	}
	return cmd.ProcessState.ExitCode()
}

// recorded waits until the stream itself has as many messages of the election. It begins a
// moment after it was made, and the bucket keeps only the newest.
func recorded(t *testing.T, url, election string, messages uint64) {
	t.Helper()
	_, js := connectTo(t, url)
	subject := "$KV.elections." + election
	testworld.Eventually(t, "the history has it", func() bool {
		stream := expect.Got(js.Stream(t.Context(), facts.HistoryStream("elections")))(t)
		info, err := stream.Info(t.Context(), jetstream.WithSubjectFilter(subject))
		return err == nil && info.State.Subjects[subject] >= messages
	})
}

// fails runs the binary and checks how it fails: with one line that has all of the
// texts.
func fails(t *testing.T, cmd *exec.Cmd, code int, says ...string) {
	t.Helper()
	out, errs, got := outcome(t, cmd)
	expect.That(t, got == code && strings.Count(errs, "\n") == 1, "%v: exit code %d, not %d\n%s%s", cmd.Args[1:], got, code, out, errs)
	for _, s := range says {
		expect.That(t, strings.Contains(errs, s), "%v: does not say %q\n%s", cmd.Args[1:], s, errs)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
}

func withEnv(cmd *exec.Cmd, env ...string) *exec.Cmd {
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// output collects the output of a running command.
type output struct {
	mu    sync.Mutex
	lines []string
	ended chan struct{} // closed when no process is left that could print
}

func (o *output) collect(r io.Reader) {
	for s := bufio.NewScanner(r); s.Scan(); {
		o.mu.Lock()
		o.lines = append(o.lines, s.Text())
		o.mu.Unlock()
	}
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.lines, "\n")
}

// started starts a command, and collects its output, in order.
func started(tb testing.TB, cmd *exec.Cmd) *output {
	tb.Helper()
	r, w, err := os.Pipe()
	expect.OK(tb, err)
	cmd.Stdout, cmd.Stderr = w, w
	err = cmd.Start()
	_ = w.Close()
	expect.OK(tb, err)
	o := output{ended: make(chan struct{})}
	go func() {
		defer close(o.ended)
		o.collect(r)
	}()
	tb.Cleanup(func() {
		<-o.ended
		_ = r.Close()
	})
	return &o
}

func (o *output) says(tb testing.TB, what string) {
	tb.Helper()
	testworld.Eventually(tb, "it prints "+what, func() bool { return strings.Contains(o.text(), what) })
}

// interrupted ends a command as Control-C does.
func interrupted(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	expect.OK(t, cmd.Process.Signal(os.Interrupt))
	if code := endOf(t, cmd); code != 0 {
		t.Errorf("%v: exit code %d", cmd.Args[1:], code)
	}
}

// startExporter starts an exporter, and returns its address.
func startExporter(tb testing.TB, url, bucket string) string {
	tb.Helper()
	cmd := natsleader(tb, "--server", url, "serve", "--metrics", "127.0.0.1:0", "--bucket", bucket)
	out := started(tb, cmd)
	tb.Cleanup(func() { _ = cmd.Wait() }) // the test's context has killed it
	out.says(tb, "serves metrics at http://")
	_, rest, _ := strings.Cut(out.text(), "serves metrics at ")
	address, _, _ := strings.Cut(rest, "\n")
	return address
}
