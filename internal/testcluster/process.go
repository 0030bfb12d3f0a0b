//go:build field

package testcluster

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/natsleader/natsleader/internal/check"
)

// serverEnv has the path of a configuration. A test binary that is started with it is a server, so
// that no other program has to be built.
const serverEnv = "NATSLEADER_TEST_CLUSTER_SERVER"

func init() {
	if config := os.Getenv(serverEnv); config != "" {
		if err := serve(config); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(0)
	}
}

// serve runs a server until its standard input is closed. It takes signals if its configuration says
// how long the lame duck mode lasts.
func serve(config string) error {
	opts, err := server.ProcessConfigFile(config)
	if err != nil {
		return err
	}
	opts.NoSigs, opts.NoLog = opts.LameDuckDuration == 0, opts.LogFile == ""
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	s.Start()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		s.Shutdown()
	}()
	s.WaitForShutdown()
	return nil
}

// Process is a child, which does not outlive the test: its standard input ends with the test.
type Process struct {
	Name  string
	Cmd   *exec.Cmd
	Stdin io.WriteCloser
	ended chan struct{}
}

// Self is this test binary with one more variable of the environment.
func Self(tb testing.TB, variable, value string) *exec.Cmd {
	tb.Helper()
	cmd := exec.Command(check.Got(os.Executable())(tb))
	cmd.Env = append(os.Environ(), variable+"="+value)
	return cmd
}

// Start starts a process.
func Start(tb testing.TB, name string, cmd *exec.Cmd) *Process {
	tb.Helper()
	p := &Process{Name: name, Cmd: cmd, Stdin: check.Got(cmd.StdinPipe())(tb), ended: make(chan struct{})}
	check.OK(tb, cmd.Start())
	go func() {
		_ = cmd.Wait()
		close(p.ended)
	}()
	tb.Cleanup(p.Kill)
	return p
}

// StartTo starts a process, and appends its output to a file.
func StartTo(tb testing.TB, name string, cmd *exec.Cmd, output string) *Process {
	tb.Helper()
	log := check.Got(os.OpenFile(output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))(tb)
	defer func() { _ = log.Close() }()
	cmd.Stdout, cmd.Stderr = log, log
	return Start(tb, name, cmd)
}

// Kill ends a process at once.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	p.Wait()
}

// Wait waits until a process has ended.
func (p *Process) Wait() { <-p.ended }

// Alive reports whether a process has not ended.
func (p *Process) Alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// String returns the name of a process, and how it ended.
func (p *Process) String() string {
	if p.Alive() {
		return p.Name
	}
	return fmt.Sprintf("%s: %v", p.Name, p.Cmd.ProcessState)
}
