package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// binary is the command. It is built once, when a test first runs it: see natsleader.
var binary string

var buildBinary = sync.OnceValues(func() ([]byte, error) {
	return exec.Command("go", "build", "-buildvcs=false", "-o", binary, ".").CombinedOutput()
})

type withBinary struct{ m *testing.M }

func (w withBinary) Run() int {
	ats.Register() // its goroutine must not begin in a bubble
	defer ats.Unregister()
	dir, err := os.MkdirTemp("", "natsleader-test-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	binary = filepath.Join(dir, "natsleader")
	return w.m.Run()
}

// Most of the tests spend most of their time waiting, so many run side by side.
func TestMain(m *testing.M) {
	fisk.EnableFileExpansion = false
	superviseIfAsked()                  // if a test starts a supervisor itself, from its own binary
	_ = flag.Set("test.parallel", "16") // unless the command line says otherwise
	// The commands that the tests start would inherit a signal that is ignored here (by
	// nohup, or in a background job), and the tests send it to them.
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	goleak.VerifyTestMain(withBinary{m})
}

// patience is the limit for events that must happen, however busy the machine is. In a mutant
// (package mutation) many of them do not, and it is shorter.
var patience = func() time.Duration {
	if n := os.Getenv(mutantEnv); n != "" && n != "0" {
		return 15 * time.Second
	}
	return time.Minute
}()

// mutantEnv is the variable with the number of the mutant that runs.
const mutantEnv = "NATSLEADER_MUTANT"

// natsleader returns the built binary in an environment without settings for NATS. It
// is killed when the test ends.
func natsleader(tb testing.TB, args ...string) *exec.Cmd {
	tb.Helper()
	if out, err := buildBinary(); err != nil {
		tb.Fatalf("go build: %v\n%s", err, out)
	}
	home := tb.TempDir()
	cmd := exec.CommandContext(tb.Context(), binary, args...)
	cmd.Dir = home
	cmd.Env = []string{
		"HOME=" + home, "XDG_CONFIG_HOME=" + home, "XDG_DATA_HOME=" + home, "TMPDIR=" + home,
		"PATH=" + os.Getenv("PATH"), "TZ=UTC", "LC_ALL=C.UTF-8",
	}
	if mutant, ok := os.LookupEnv(mutantEnv); ok { // package mutation has built the binary with mutants
		cmd.Env = append(cmd.Env, "NATSLEADER_MUTANT="+mutant)
	}
	cmd.WaitDelay = patience // for a grandchild that keeps the output open
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
	if code != 0 {
		tb.Fatalf("natsleader %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
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
	s, err := server.NewServer(o)
	if err != nil {
		tb.Fatal(err)
	}
	s.Start()
	tb.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		tb.Fatal("the server is not ready")
	}
	return s
}

// connectTo returns a connection of the test itself.
func connectTo(tb testing.TB, url string) (*nats.Conn, jetstream.JetStream) {
	tb.Helper()
	nc, err := nats.Connect(url, nats.Timeout(patience))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		tb.Fatal(err)
	}
	return nc, js
}

// newBucket makes a bucket for elections.
func newBucket(tb testing.TB, url, name string, cfg leader.BucketConfig) {
	tb.Helper()
	nc, js := connectTo(tb, url)
	defer nc.Close()
	cfg.Name = name
	if _, err := leader.CreateBucket(tb.Context(), js, cfg); err != nil {
		tb.Fatal(err)
	}
}

// eventually waits until so reports true.
func eventually(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	for end := time.Now().Add(patience); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// campaigns starts a candidate in the test's process and waits until it leads.
func campaigns(tb testing.TB, url, bucket, election string, cfg leader.Config) *leader.Candidate {
	tb.Helper()
	c := standsIn(tb, url, bucket, election, cfg)
	eventually(tb, election+" has a leader", c.IsLeader)
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
	b, err := leader.OpenBucket(js, bucket)
	if err != nil {
		tb.Fatal(err)
	}
	c, err := leader.Campaign(context.WithoutCancel(tb.Context()), b, election, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			tb.Error(err)
		}
	})
	return c
}

func TestUsageErrors_ExitWith64(t *testing.T) {
	for _, args := range [][]string{
		{"nonsense"},
		{"--nonsense"},
		{"--timeout", "soon"},
	} {
		out, errs, code := outcome(t, natsleader(t, args...))
		if code != exitUsage || out != "" || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: exit code %d\n%s%s", args, code, out, errs)
		}
	}
}
