//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/leader"
)

// lookUp finds the program of a command as a shell does.
func lookUp(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil || errors.Is(err, exec.ErrDot) { // . in PATH is the user's choice
		return path, nil
	}
	return "", cannotRun(name, err)
}

// cannotRun returns the error of a command that does not start, with the exit code of a
// shell.
func cannotRun(name string, err error) error {
	var inner *exec.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	code := front.ExitCannotRun
	switch {
	case errors.Is(err, exec.ErrNotFound):
		code, err = front.ExitNotFound, errors.New("not found in PATH")
	case errors.Is(err, unix.ENOENT):
		code = front.ExitNotFound
	}
	return front.ExitError{Code: code, Err: fmt.Errorf("cannot run %s: %w", name, err)}
}

// endings are the signals that end a run.
var endings = []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM}

// catch has the signals sent to a channel, except those that the parent of this process
// has set to be ignored, as nohup does. The command is to ignore them, too.
func catch(to chan<- os.Signal, signals ...unix.Signal) {
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(to, sig)
		}
	}
}

// parseSignal takes a signal by its name or number.
func parseSignal(s string) (unix.Signal, error) {
	name := strings.ToUpper(strings.TrimSpace(s))
	var n int
	if _, err := fmt.Sscanf(name, "%d", &n); err == nil && fmt.Sprint(n) == name && n > 0 && n <= 64 {
		return unix.Signal(n), nil
	}
	if sig := unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG")); sig != 0 {
		return sig, nil
	}
	return 0, front.Usagef("%q is no signal: give a name like TERM, or a number", s)
}

// signalName returns the name by which people know the signal.
func signalName(sig unix.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", sig)
}

// ThreadsAhead is how many threads natsleader and its supervisor make when they start.
// The Go runtime aborts when it needs another and the limit of processes is used up, by
// the command for instance. Both would die, and no process would be left to end the
// command.
const ThreadsAhead = 16

// makeThreads makes the runtime create threads, which it keeps.
func makeThreads() {
	var up, down sync.WaitGroup
	up.Add(ThreadsAhead)
	down.Add(ThreadsAhead)
	for range ThreadsAhead {
		go func() {
			defer down.Done()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			up.Done()
			up.Wait()
		}()
	}
	down.Wait()
}

// run is the process of `natsleader run`, from the connection to the exit code.
func (r *run) run() error {
	c := &runLoop{
		run: r, seen: inspect.SeenBucket{Name: r.Bucket}, command: newCommandMetrics(r.Bucket, r.election),
		log: newRunLog(r.Errs(), r.election, r.LogFormat, r.quiet), supervise: newSupervisorProcess, supervisor: &supervisorProcess{},
	}
	defer c.log.close()
	return c.log.outcome(r.Explain(c.runAll()))
}

// runAll returns the error that ends the run. An front.ExitError without one has been printed.
func (c *runLoop) runAll() error {
	r := c.run
	c.manager = newServiceManager()
	if !r.holder {
		makeThreads()
		adoptOrphans()
	}
	signals, reset := r.catchSignals()
	defer reset()
	c.signals = signals
	if r.wait > 0 {
		c.waited = time.After(r.wait)
	}

	var listener net.Listener
	var err error
	served := new(pages)
	if r.http != "" {
		if listener, err = r.Listen("http", r.http); err != nil {
			return err
		}
		defer func() { _ = listener.Close() }()
		front.ServeHTTP(listener, served)
	}
	if !r.holder {
		var path string
		if path, err = newLeaseFile(); err != nil {
			return err
		}
		defer func() { RemoveLeaseFile(string(c.conf.LeaseFile), c.conf.Socket) }()
		c.conf = supervision{
			Election: r.election, Bucket: r.Bucket, LeaseFile: []byte(path),
			StopSignal: int(r.stopSignal), Drain: r.drain, Credentials: r.credentials, Won: int(r.won), Lost: int(r.lost),
		}
		if r.stall > 0 {
			var socket *net.UnixConn
			if socket, err = listenForSigns(filepath.Dir(path)); err != nil {
				return err
			}
			defer func() { _ = socket.Close() }()
			c.conf.Stall, c.conf.Socket, c.signs = r.stall, []byte(socket.LocalAddr().String()), signsOn(socket)
		}
		if err = c.startSupervisor(); err != nil { // it gets ready during the connect
			return err
		}
		defer func() { c.supervisor.shutDown() }()
		reapAdopted(&c.supervisorPID)
	}

	if r.retryConnect {
		c.manager.say("READY=1\nSTATUS=connecting")
	}
	nc, bucket, err := c.reach()
	if err != nil {
		return err
	}
	defer nc.Close()
	if c.candidate, err = leader.Campaign(context.Background(), r.succession.of(bucket), r.election, r.config(c.log)); err != nil {
		return err
	}
	id := c.candidate.ID()
	c.log.Id.Store(&id)
	c.manager.say("READY=1\nSTATUS=stands in " + r.election)
	if listener != nil {
		h, err := answers(c.candidate, c.command)
		if err != nil {
			return err
		}
		served.ofCandidate.Store(&h)
		if strings.HasSuffix(r.http, ":0") {
			c.log.Say("serves http://%s", listener.Addr())
		}
	}
	return c.loop()
}

// catchSignals returns the signals to natsleader, and a function that gives those that end
// it their usual effect. If a test has set life, its end takes the place of SIGINT, and no signal is caught.
func (r *run) catchSignals() (signals chan os.Signal, reset func()) {
	signals = make(chan os.Signal, 8)
	if r.Life != nil {
		stop := context.AfterFunc(r.Life, func() { signals <- unix.SIGINT })
		return signals, func() { stop() }
	}
	catch(signals, append(endings, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH)...)
	catch(make(chan os.Signal, 1), unix.SIGPIPE) // the reader of the messages has ended
	return signals, func() {
		for _, sig := range endings { // nothing is left that has to end in order
			signal.Reset(sig)
		}
	}
}

// ending reports whether a signal ends the run.
func ending(sig os.Signal) (unix.Signal, bool) {
	s, _ := sig.(unix.Signal)
	return s, slices.Contains(endings, s)
}
