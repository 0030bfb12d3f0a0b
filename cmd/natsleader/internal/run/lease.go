//go:build unix

package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
)

// instant is a reading of the clock that natsleader, its supervisor and the
// command share, in nanoseconds.
type instant int64

func (i instant) Add(d time.Duration) instant { return i + instant(d) }

func (i instant) sub(o instant) time.Duration { return time.Duration(i - o) }

// ClockNow reads the clock. A test in a bubble replaces it.
var ClockNow = bootTime

// wall returns the wall clock's time at the instant, if the clock is not set meanwhile.
func (i instant) wall() time.Time { return time.Now().Add(i.sub(ClockNow())) }

// LeaseVariable is the environment variable that names the lease file of the command.
const LeaseVariable = "NATSLEADER_LEASE_FILE"

// LeaseNote is the one line of that file.
type LeaseNote struct {
	Token    uint64    `json:"token"` // 0: never led
	Until    time.Time `json:"until"`
	Boottime float64   `json:"boottime,omitempty"` // Until as /proc/uptime counts, which cannot be set
}

// NewLeaseNote returns the note of a lease that ends at that instant.
func NewLeaseNote(token uint64, until instant) LeaseNote {
	return LeaseNote{token, until.wall().UTC(), until.Uptime()}
}

// remaining returns how long the lease is still valid, 0 if it is over. The smaller of the two clocks counts: the time of day
// may be set back, and in a time namespace of its own a process has another boottime.
func (n LeaseNote) remaining() time.Duration {
	left := time.Until(n.Until)
	if n.Boottime > 0 {
		left = min(left, time.Duration((n.Boottime-ClockNow().Uptime())*1e9).Round(time.Millisecond))
	}
	if n.Token == 0 {
		return 0
	}
	return max(0, left)
}

// Write replaces the file.
func (n LeaseNote) Write(path string) error {
	line, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return replaceLeaseFile(path, append(line, '\n'))
}

// leaseFile writes the file for a goroutine that must not wait for a disk.
type leaseFile struct {
	next chan leaseWrite // the newest counts
	// faults has the newest failure of a write that no caller waits for, and then an empty text when one succeeds.
	faults chan string
	began  atomic.Int64 // the instant at which the write began that is not done; 0: all are
	done   chan struct{}
}

// hangs returns for how long a write has not ended.
func (f *leaseFile) hangs(now instant) time.Duration {
	began := instant(f.began.Load())
	if began == 0 {
		return 0
	}
	return now.sub(began)
}

// say puts a fault, or none, in place of an older one.
func (f *leaseFile) say(fault string) {
	select {
	case <-f.faults:
	default:
	}
	f.faults <- fault
}

type leaseWrite struct {
	LeaseNote
	written chan<- leaseWritten // nil: no caller waits for the outcome
}

type leaseWritten struct {
	path string
	err  error
}

func openLeaseFile(path string) *leaseFile {
	f := &leaseFile{next: make(chan leaseWrite, 1), faults: make(chan string, 1), done: make(chan struct{})}
	go func() {
		defer close(f.done)
		first := path
		defer func() { // also if the supervisor has not waited for the new path
			if path != first {
				RemoveLeaseFile(path, nil)
			}
		}()
		fault := ""
		for w := range f.next {
			was, begun := fault, ClockNow()
			f.began.Store(int64(begun))
			if w.written != nil {
				var err error
				path, err = w.WriteAnywhere(path)
				if fault = ""; was != "" { // of the command before
					f.say("")
				}
				f.began.Store(0)
				w.written <- leaseWritten{path, err}
				continue
			}
			fault = textOf(w.Write(path))
			f.began.Store(0)
			if fault != "" || was != "" || ClockNow().sub(begun) >= patienceWithDisk {
				f.say(fault)
			}
		}
	}()
	return f
}

// textOf returns the text of an error, or none.
func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// WriteAnywhere writes the note to a new file if the one of the path cannot be written: its disk may be full, or
// another user may have taken the name of its directory. It returns the path of the file.
func (n LeaseNote) WriteAnywhere(path string) (string, error) {
	err := n.Write(path)
	if err == nil {
		return path, nil
	}
	for _, parent := range leaseParents {
		other, failed := newLeaseFileIn(parent)
		if failed != nil {
			continue
		}
		if n.Write(other) == nil {
			RemoveLeaseFile(path, nil) // the socket stays
			return other, nil
		}
		_ = os.RemoveAll(filepath.Dir(other))
	}
	return path, err
}

// put queues the note, to be written unless a newer one comes before. A note that is
// not written describes a lease that ends earlier.
func (f *leaseFile) put(n LeaseNote) { f.queue(leaseWrite{LeaseNote: n}) }

func (f *leaseFile) queue(w leaseWrite) {
	select {
	case <-f.next:
	default:
	}
	f.next <- w
}

// patienceWithDisk is how long the write of a few bytes may take.
const patienceWithDisk = 5 * time.Second

// write writes the note for a command that has not begun, and returns the path of the file
// when it is written.
func (f *leaseFile) write(n LeaseNote) (path string, err error) {
	written := make(chan leaseWritten, 1)
	f.queue(leaseWrite{n, written})
	select {
	case w := <-written:
		return w.path, w.err
	case <-time.After(patienceWithDisk):
		return "", fmt.Errorf("not done within %v", patienceWithDisk)
	}
}

// close returns when the last note is written, or a moment later.
func (f *leaseFile) close() {
	close(f.next)
	front.WaitBriefly(f.done)
}

// RegisterRemaining adds the command remaining.
func RegisterRemaining(app *fisk.Application, g *front.Globals) {
	asJSON := false
	cmd := app.Command("remaining", `Show for how long the lease of 'run' is good

For use inside the command of 'natsleader run', which names the file of the lease
in NATSLEADER_LEASE_FILE. Prints the time that is left and exits 0, or prints 0s
and exits 1 if the lease is over. No server is asked.

The file is one line of JSON, replaced at every renewal: the token, until by the
wall clock, and on Linux the same instant as boottime, in the seconds of
/proc/uptime. The clock by which less is left counts. A program that reads the file
must check that it and its directory belong to its own user or to root, and that no
other user can write to the directory.

  natsleader remaining && curl --data @next.json https://example.com/orders`)
	cmd.Flag("json", "Print one JSON object: token, until, remaining_seconds").Short('j').UnNegatableBoolVar(&asJSON)
	cmd.Action(func(*fisk.ParseContext) error { return ShowRemaining(g.Out(), os.Getenv(LeaseVariable), asJSON) })
}

// ShowRemaining prints for how long a lease is good.
func ShowRemaining(w io.Writer, path string, asJSON bool) error {
	if path == "" {
		return front.Usagef("%s is not set: 'remaining' works inside the command of 'natsleader run'", LeaseVariable)
	}
	var note LeaseNote
	line, err := ReadLeaseFile(path)
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
		err = front.PrintJSON(w, struct {
			Token     uint64    `json:"token"`
			Until     time.Time `json:"until"`
			Remaining float64   `json:"remaining_seconds"`
		}{note.Token, note.Until, left.Seconds()}, "")
	} else {
		_, err = fmt.Fprintln(w, left)
	}
	return front.ExitIf(left == 0, front.ExitFailed, err)
}

// leaseParents are the directories in which the directory of the lease file may be: that of TMPDIR, and one that a container
// with a read-only file system usually has.
var leaseParents = []string{"", "/dev/shm"}

// newLeaseFile returns the path of the lease file, in a directory of its own.
func newLeaseFile() (path string, err error) {
	for i, parent := range leaseParents {
		switch other, failed := newLeaseFileIn(parent); {
		case failed == nil:
			return other, nil
		case i == 0:
			err = fmt.Errorf("no directory for the file of the lease, set TMPDIR: %w", failed)
		}
	}
	return "", err
}

func newLeaseFileIn(parent string) (path string, err error) {
	dir, err := os.MkdirTemp(parent, "natsleader-") // for the owner only
	return filepath.Join(dir, "lease"), err
}

// openLeaseDir opens the directory of the lease file. Where old directories get cleaned
// away, any user of the host can make one of the same name, or a link. openLeaseDir
// returns an error unless it is a directory, of this user or of root, to which no other
// user can write.
func openLeaseDir(path string) (*os.Root, error) {
	dir, err := os.OpenRoot(path + "/.") // an error for a pipe, which would make the call wait
	if err != nil {
		return nil, err
	}
	opened, err := dir.Stat(".")
	if err == nil {
		err = checkOwner(path, opened)
	}
	if err == nil {
		var named fs.FileInfo
		if named, err = os.Lstat(path); err == nil && !os.SameFile(opened, named) {
			err = fmt.Errorf("%s is a link: it is not trusted", path)
		}
	}
	if err != nil {
		_ = dir.Close()
		return nil, err
	}
	return dir, nil
}

// checkOwner returns an error unless the file is of this user or of root, and no other
// user can write to it.
func checkOwner(path string, info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return fmt.Errorf("%s: its owner is not known", path)
	case stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d, and not to this user or root: it is not trusted", path, stat.Uid)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("%s can be written by other users: it is not trusted", path)
	}
	return nil
}

// nextLease is the end of the name of the file that becomes the lease file.
const nextLease = ".next"

// replaceLeaseFile replaces the file, so that a reader sees the old text or the new one.
func replaceLeaseFile(path string, text []byte) error {
	dir, err := openLeaseDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) { // old directories get cleaned away
		if err = os.Mkdir(filepath.Dir(path), 0o700); err == nil {
			dir, err = openLeaseDir(filepath.Dir(path))
		}
	}
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	name := filepath.Base(path)
	next := name + nextLease
	_ = dir.Remove(next)                                                   // of a supervisor that was killed while it wrote
	f, err := dir.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // through no link
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return dir.Rename(next, name)
}

// ReadLeaseFile returns the text of the file. The text of another user is an error.
func ReadLeaseFile(path string) ([]byte, error) {
	dir, err := openLeaseDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	f, err := dir.Open(filepath.Base(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err == nil {
		err = checkOwner(path, info)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// RemoveLeaseFile removes the file, the socket of --stall if there is one, and their directories when they are empty, if the
// disk responds in time. It leaves the directory of another user alone.
func RemoveLeaseFile(path string, socket []byte) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, name := range []string{string(socket), path + nextLease, path} {
			if name == "" {
				continue
			}
			dir, err := openLeaseDir(filepath.Dir(name))
			if err != nil {
				continue
			}
			_ = dir.Remove(filepath.Base(name))
			_ = dir.Close()
			_ = os.Remove(filepath.Dir(name))
		}
	}()
	front.WaitBriefly(done)
}
