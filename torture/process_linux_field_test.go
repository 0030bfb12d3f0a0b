//go:build field && linux

package torture_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testserver"
)

// The processes are this test binary, which starts itself again with one of these
// variables, so that no other program has to be built.
const (
	serverEnv    = "NATSLEADER_TORTURE_SERVER"
	candidateEnv = "NATSLEADER_TORTURE_CANDIDATE"
)

func init() {
	if config := os.Getenv(serverEnv); config != "" {
		os.Exit(serve(config))
	}
	if config := os.Getenv(candidateEnv); config != "" {
		var spec candidateSpec
		if err := json.Unmarshal([]byte(config), &spec); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		os.Exit(stand(spec))
	}
}

// process is a child. It does not outlive the test. It ends when its standard input is
// closed, and the kernel kills it, stopped or not, when the thread that started it is
// gone. (Go ends no thread before the process, except threads that are locked to a
// goroutine that returns. There is none here.)
type process struct {
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{}
}

func start(tb testing.TB, name, variable, value, output string) *process {
	tb.Helper()
	self := expect.Got(os.Executable())(tb)
	log := expect.Got(os.OpenFile(output, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600))(tb)
	defer func() { _ = log.Close() }()
	p := &process{name: name, cmd: exec.Command(self), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), variable+"="+value)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.stdin = expect.Got(p.cmd.StdinPipe())(tb)
	ok(tb, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	tb.Cleanup(p.kill)
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

func (p *process) pause()    { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }
func (p *process) unpause()  { _ = p.cmd.Process.Signal(syscall.SIGCONT) }
func (p *process) shutdown() { _ = p.stdin.Close(); <-p.ended }

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// freePort returns an address on the loopback interface that stays free while the
// process that is to listen there is down.
func freePort(tb testing.TB) string {
	tb.Helper()
	return fmt.Sprintf("127.0.0.1:%d", testserver.FreePort(tb))
}

// monotonic reads the machine's clock that all processes share: Go's own, with the same
// origin for all.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// patience is the limit for events on a machine that is busy with others. Nothing is
// measured with it.
const patience = 2 * time.Minute

// eventually waits until so reports true.
func eventually(tb testing.TB, what string, so func() bool) {
	tb.Helper()
	start := time.Now()
	defer func() {
		if took := time.Since(start); took > patience/8 {
			tb.Logf("took %v: %s", took.Round(time.Millisecond), what)
		}
	}()
	for ; !so(); time.Sleep(20 * time.Millisecond) {
		expect.Must(tb, time.Since(start) <= patience, "not after %v: %s", patience, what)
	}
}

// keptDir returns a directory for the files of a run, which stays if the test fails.
func keptDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "natsleader-torture-") //nolint:usetesting // that one goes away
	ok(tb, err)
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the journals, stores and logs are in %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}
