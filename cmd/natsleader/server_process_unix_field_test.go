//go:build field && unix

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// serverEnv is the configuration of a server that runs as a process of its own, so that it can
// be killed and stopped. The test binary starts itself again with this variable.
const serverEnv = "NATSLEADER_TEST_SERVER"

func init() {
	if config := os.Getenv(serverEnv); config != "" {
		os.Exit(serveNATS(config))
	}
}

// serveNATS runs a server. It ends when its standard input is closed, so that it does not outlive
// the test.
func serveNATS(config string) int {
	opts := &server.Options{}
	if err := opts.ProcessConfigString(config); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 2
	}
	opts.NoSigs, opts.NoLog = true, true
	s, err := server.NewServer(opts)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 2
	}
	s.Start()
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// serverProcess is a server as a process.
type serverProcess struct {
	name, url string
	cmd       *exec.Cmd
	stdin     io.Closer
}

// startProcess starts a server on that port. It is killed when the test ends.
func startProcess(t *testing.T, name, config string, port int) *serverProcess {
	t.Helper()
	self, err := os.Executable()
	expect.OK(t, err)
	p := &serverProcess{name: name, url: fmt.Sprintf("nats://127.0.0.1:%d", port), cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), serverEnv+"="+fmt.Sprintf("server_name: %s, host: 127.0.0.1, port: %d\n%s", name, port, config))
	p.cmd.Stderr = os.Stderr
	p.stdin, err = p.cmd.StdinPipe()
	expect.Must(t, err == nil, "%v", err)
	expect.OK(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = p.stdin.Close()
		_ = p.cmd.Process.Kill() // a process that is stopped dies, too
		_ = p.cmd.Wait()
	})
	eventually(t, name+" answers", func() bool {
		nc, err := nats.Connect(p.url)
		if err == nil {
			nc.Close()
		}
		return err == nil
	})
	return p
}

func (p *serverProcess) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	expect.OK(t, p.cmd.Process.Signal(sig))
	if sig != syscall.SIGSTOP {
		return
	}
	// On a busy machine some threads of the process go on until another has taken the signal.
	var status syscall.WaitStatus
	_, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	expect.Must(t, err == nil && status.Stopped(), "the server has not stopped: %v, status %v", err, status)
}

// processCluster starts three servers as processes, and makes the bucket on all of them.
func processCluster(t *testing.T) map[string]*serverProcess {
	t.Helper()
	all := make(map[string]*serverProcess)
	for i, cluster := range clusterOfThree(t) {
		name := fmt.Sprintf("s%d", i+1)
		all[name] = startProcess(t, name, fmt.Sprintf("jetstream { store_dir: %q }\n%s", testserver.StoreDir(t), cluster), testserver.FreePort(t))
	}
	_, js := connectTo(t, all["s1"].url)
	makes(t, js, leader.BucketConfig{Name: "elections", Replicas: 3})
	eventually(t, "all replicas are current", func() bool { return current(t, js) })
	return all
}

// leadsStream returns the server that leads the bucket's stream, empty if none answers.
func leadsStream(t *testing.T, js jetstream.JetStream) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	s, err := js.Stream(ctx, "KV_elections")
	if err != nil || s.CachedInfo().Cluster == nil {
		return ""
	}
	return s.CachedInfo().Cluster.Leader
}

var anyServer = regexp.MustCompile(`\bs\d\b`)

// productionShows fails the test unless docs/production.md shows, in the transcript that the test
// performs, what doctor prints about the checks. Names of servers may differ.
func productionShows(t *testing.T, url string, checks ...string) {
	t.Helper()
	test, _, _ := strings.Cut(t.Name(), "/")
	text, err := os.ReadFile("../../docs/production.md")
	expect.OK(t, err)
	_, rest, found := strings.Cut(string(text), "<!-- performed by "+test+" -->\n```console\n")
	_, body, shown := strings.Cut(rest, "\n")
	want, _, _ := strings.Cut(body, "```")
	expect.Must(t, found && shown, "no transcript of %s", test)
	out, _, _ := outcome(t, natsleader(t, "doctor", "-s", url))
	var got strings.Builder
	ours := false
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, " ") {
			fields := strings.Fields(line)
			ours = len(fields) > 1 && slices.Contains(checks, fields[1])
		}
		if ours {
			got.WriteString(line)
		}
	}
	expect.That(t, anyServer.ReplaceAllString(got.String(), "sN") == anyServer.ReplaceAllString(want, "sN"),
		"the page says\n%s\nbut it is\n%s", want, got.String())
}
