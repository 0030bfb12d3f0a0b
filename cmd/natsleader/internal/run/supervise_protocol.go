//go:build unix

package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supervision holds the settings that a supervisor gets in SupervisorVariable when it
// is started. Its arguments are the command.
type supervision struct {
	Orders, Reports int // descriptors: a pipe to it, and one from it

	Election, Bucket string
	LeaseFile        []byte // a path, of any bytes; none: the command belongs to no term
	StopSignal       int
	stdin            *os.File      // of the command; nil: natsleader's
	Drain            time.Duration // from the stop signal to SIGKILL, if the lease allows
	Credentials      bool          // the environment has the password, the token or the seed of natsleader

	// Stall is how often the command has to give a sign of life, at the socket. 0: it need not.
	Stall  time.Duration
	Socket []byte

	// Won and Lost are the signals to the command. 0: it is started and ended instead.
	Won, Lost int
}

func (s *supervision) notifies() bool { return s.Won != 0 }

// order is one order of natsleader to its supervisor: one line of JSON.
type order struct {
	Do string
	// ID: orderStart; the ID of the candidate.
	ID string `json:",omitempty"`
	// Token, Lease: orderStart (if the candidate leads) and orderLease. orderHold has only the
	// Lease.
	Token uint64 `json:",omitempty"`
	Lease lease  `json:",omitzero"`
	// Signal: orderSignal.
	Signal int `json:",omitempty"`
	// Env: orderStart; what the command finds in its environment besides.
	Env []string `json:",omitempty"`
}

const (
	orderStart  = "start"  // start the command
	orderLease  = "lease"  // the lease was extended
	orderLost   = "lost"   // the term is over
	orderHold   = "hold"   // the term is over, but no other candidate can lead for so long
	orderStop   = "stop"   // end the command
	orderKill   = "kill"   // end it at once
	orderSignal = "signal" // hand a signal on to the command's group
)

// lease has the times at which the leadership and the command end unless the lease is
// renewed.
type lease struct {
	Warn instant       // the term is over: the command is asked to stop
	Kill instant       // no process of the command lives on
	Beat time.Duration // how often the clock is read, so that a pause of the host is noticed
}

// supervisorReport is one report of a supervisor: one line of JSON.
type supervisorReport struct {
	What string
	// PID: reportStarted, reportStuck, reportLeft (0: not known).
	PID int `json:",omitempty"`
	// Cgroup: reportStarted; the path of the command's control group, if it has one.
	Cgroup string `json:",omitempty"`
	// LeaseFile: reportStarted; its path, which is not that of the supervision where no file
	// could be written there.
	LeaseFile []byte `json:",omitempty"`
	// Code: the exit code of a command that cannot be started (reportFailed), or that has
	// ended (reportEnded). After a signal it is 128 plus the signal's number.
	Code int `json:",omitempty"`
	// Error: reportFailed, reportStuck; reportLeft: the name of the process; reportLease: none, if the file is written again.
	Error string `json:",omitempty"`
	// Stopped: reportEnded; the supervisor had asked the command to stop before it ended.
	Stopped bool `json:",omitempty"`
	// At: reportEnded; natsleader may read it much later, if it was stopped.
	At instant `json:",omitempty"`
}

const (
	reportStarted = "started"
	reportFailed  = "failed"
	reportEnded   = "ended"  // and no process of it is left
	reportStuck   = "stuck"  // a process of it cannot be killed
	reportNotSent = "untold" // the command does not handle the signal Won
	reportLeft    = "left"   // the command has ended by itself, and a process that it has started has not
	reportLease   = "lease"  // the file of the lease cannot be written, or is written again
)

// reports are the lines from the pipe of a supervisor. each takes a report out of the
// pipe while it holds the lock, and keeps the lock until it has delivered the report.
// So unread misses none.
type reports struct {
	pipe syscall.RawConn
	lock sync.Mutex
}

// each delivers every report, until the supervisor closes the pipe.
func (r *reports) each(in io.Reader, deliver func(supervisorReport)) {
	var rest []byte // the beginning of a line
	for chunk := make([]byte, 4096); ; {
		if r.pipe.Read(readable) != nil {
			return
		}
		r.lock.Lock()
		n, err := in.Read(chunk) // returns at once
		rest = append(rest, chunk[:n]...)
		for {
			line, after, whole := bytes.Cut(rest, []byte("\n"))
			if !whole {
				break
			}
			rest = after
			var b supervisorReport
			if json.Unmarshal(line, &b) == nil {
				deliver(b)
			}
		}
		r.lock.Unlock()
		if err != nil {
			return
		}
	}
}

// unread reports whether a report waits in the pipe, or is about to be delivered.
func (r *reports) unread() bool {
	if !r.lock.TryLock() {
		return true
	}
	defer r.lock.Unlock()
	waits := false
	_ = r.pipe.Control(func(fd uintptr) { waits = poll(fd)&unix.POLLIN != 0 })
	return waits
}

// readable reports whether a read returns at once, with data or with the end.
func readable(fd uintptr) bool { return poll(fd) != 0 }

func poll(fd uintptr) int16 {
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, 0); !errors.Is(err, unix.EINTR) {
			return fds[0].Revents
		}
	}
}
