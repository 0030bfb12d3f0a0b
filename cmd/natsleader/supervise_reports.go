//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
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
