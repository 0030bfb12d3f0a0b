//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
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
	code := exitCannotRun
	switch {
	case errors.Is(err, exec.ErrNotFound):
		code, err = exitNotFound, errors.New("not found in PATH")
	case errors.Is(err, unix.ENOENT):
		code = exitNotFound
	}
	return exitError{code, fmt.Errorf("cannot run %s: %w", name, err)}
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
	return 0, usagef("%q is no signal: give a name like TERM, or a number", s)
}

// signalName returns the name by which people know the signal.
func signalName(sig unix.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", sig)
}

// threadsAhead is how many threads natsleader and its supervisor make when they start.
// The Go runtime aborts when it needs another and the limit of processes is used up, by
// the command for instance. Both would die, and no process would be left to end the
// command.
const threadsAhead = 16

// makeThreads makes the runtime create threads, which it keeps.
func makeThreads() {
	var up, down sync.WaitGroup
	up.Add(threadsAhead)
	down.Add(threadsAhead)
	for range threadsAhead {
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
