//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/choria-io/fisk"
)

// instant is a reading of the clock that natsleader, its supervisor and the
// command share, in nanoseconds.
type instant int64

func (i instant) add(d time.Duration) instant { return i + instant(d) }
func (i instant) sub(o instant) time.Duration { return time.Duration(i - o) }

// wall returns the wall clock's time at the instant, if the clock is not set meanwhile.
func (i instant) wall() time.Time { return time.Now().Add(i.sub(clockNow())) }

// leaseVariable is the environment variable that names the lease file of the command.
const leaseVariable = "NATSLEADER_LEASE_FILE"

// leaseNote is the one line of that file.
type leaseNote struct {
	Token    uint64    `json:"token"` // 0: never led
	Until    time.Time `json:"until"`
	Boottime float64   `json:"boottime,omitempty"` // Until as /proc/uptime counts, which cannot be set
}

func newLeaseNote(token uint64, until instant) leaseNote {
	return leaseNote{token, until.wall().UTC(), until.uptime()}
}

// remaining returns how long the lease is still valid, 0 if it is over.
func (n leaseNote) remaining() time.Duration {
	left := time.Until(n.Until)
	if n.Boottime > 0 {
		left = time.Duration((n.Boottime - clockNow().uptime()) * 1e9).Round(time.Millisecond)
	}
	if n.Token == 0 {
		return 0
	}
	return max(0, left)
}

// write replaces the file, so that a reader sees the old line or the new one.
func (n leaseNote) write(path string) error {
	line, err := json.Marshal(n)
	if err != nil {
		return err
	}
	next := path + ".next"
	put := func() error { return os.WriteFile(next, append(line, '\n'), 0o600) }
	if err = put(); errors.Is(err, fs.ErrNotExist) { // old directories get cleaned away
		if err = os.Mkdir(filepath.Dir(path), 0o700); err == nil {
			err = put()
		}
	}
	if err != nil {
		return err
	}
	return os.Rename(next, path)
}

// leaseFile writes the file for a goroutine that must not wait for a disk.
type leaseFile struct {
	path string
	next chan leaseWrite // the newest counts
	done chan struct{}
}

type leaseWrite struct {
	leaseNote
	written chan<- error // nil: no caller waits for the outcome
}

func openLeaseFile(path string) *leaseFile {
	f := &leaseFile{path: path, next: make(chan leaseWrite, 1), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for n := range f.next {
			err := n.write(f.path)
			if n.written != nil {
				n.written <- err
			}
		}
	}()
	return f
}

// put queues the note, to be written unless a newer one comes before. A note that is
// not written describes a lease that ends earlier.
func (f *leaseFile) put(n leaseNote) { f.queue(leaseWrite{leaseNote: n}) }

func (f *leaseFile) queue(w leaseWrite) {
	select {
	case <-f.next:
	default:
	}
	f.next <- w
}

// patienceWithDisk is how long the write of a few bytes may take.
const patienceWithDisk = 5 * time.Second

// write writes the note and returns when it is written.
func (f *leaseFile) write(n leaseNote) error {
	written := make(chan error, 1)
	f.queue(leaseWrite{n, written})
	select {
	case err := <-written:
		return err
	case <-time.After(patienceWithDisk):
		return fmt.Errorf("%s: not done within %v", f.path, patienceWithDisk)
	}
}

func (f *leaseFile) remove() {
	close(f.next)
	waitBriefly(f.done)
	removeLeaseFile(f.path)
}

// newLeaseFile returns the path of the lease file, in a directory of its own.
func newLeaseFile() (string, error) {
	dir, err := os.MkdirTemp("", "natsleader-") // for the owner only
	if err != nil {
		// A container with a read-only file system usually has this directory.
		var failed error
		if dir, failed = os.MkdirTemp("/dev/shm", "natsleader-"); failed != nil {
			return "", fmt.Errorf("no directory for the file of the lease, set TMPDIR: %w", err)
		}
	}
	return filepath.Join(dir, "lease"), nil
}

// removeLeaseFile removes the file and its directory, if the disk responds in time.
func removeLeaseFile(path string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = os.RemoveAll(filepath.Dir(path))
	}()
	waitBriefly(done)
}

func registerRemaining(app *fisk.Application, _ *globals) {
	asJSON := false
	cmd := app.Command("remaining", `Show for how long the lease of 'run' is good

For use inside the command of 'natsleader run', which names the file of the lease
in NATSLEADER_LEASE_FILE. Prints the time that is left and exits 0, or prints 0s
and exits 1 if the lease is over. No server is asked.

  natsleader remaining && curl --data @next.json https://example.com/orders`)
	cmd.Flag("json", "Print one JSON object: token, until, remaining_seconds").Short('j').UnNegatableBoolVar(&asJSON)
	cmd.Action(func(*fisk.ParseContext) error { return showRemaining(os.Getenv(leaseVariable), asJSON) })
}

func showRemaining(path string, asJSON bool) error {
	if path == "" {
		return usagef("%s is not set: 'remaining' works inside the command of 'natsleader run'", leaseVariable)
	}
	var note leaseNote
	line, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the supervisor that wrote it has ended
	case err != nil:
		return err
	default:
		if err = json.Unmarshal(line, &note); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	left := note.remaining()
	if asJSON {
		err = printJSON(os.Stdout, struct {
			Token     uint64    `json:"token"`
			Until     time.Time `json:"until"`
			Remaining float64   `json:"remaining_seconds"`
		}{note.Token, note.Until, left.Seconds()}, "")
	} else {
		_, err = fmt.Println(left)
	}
	if err == nil && left == 0 {
		return exitError{code: exitFailed}
	}
	return err
}
