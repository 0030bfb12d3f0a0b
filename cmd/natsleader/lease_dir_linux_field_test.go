//go:build field && linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/run"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
)

// takenOver makes a directory of another user in which links lead to a file. A lease file
// there is valid for an hour.
func takenOver(dir, file string) error {
	return errors.Join(
		os.Mkdir(dir, 0o777),
		run.NewLeaseNote(1, run.ClockNow().Add(time.Hour)).Write(filepath.Join(dir, "lease")),
		os.Chmod(filepath.Join(dir, "lease"), 0o644),
		os.Symlink(file, filepath.Join(dir, "lease.next")),
		os.Lchown(filepath.Join(dir, "lease"), testworld.Nobody, testworld.Nobody),
		os.Lchown(filepath.Join(dir, "lease.next"), testworld.Nobody, testworld.Nobody),
		os.Chown(dir, testworld.Nobody, testworld.Nobody),
		os.Chmod(dir, 0o777),
	)
}

// A directory that is not of this user, or not only, is neither written nor read nor removed.
func TestLeaseFile_UntrustedDirectory(t *testing.T) {
	file, check := testworld.Untouched(t)
	other := testworld.OwnDir(t)
	expect.OK(t, run.NewLeaseNote(7, run.ClockNow().Add(time.Hour)).Write(filepath.Join(other, "lease")))
	for _, k := range []struct {
		name, want string
		make       func(dir string) error
	}{
		{"of another user", "belongs to user 65534", func(dir string) error { return takenOver(dir, file) }},
		{"for all to write", "can be written by other users", func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777))
		}},
		{"for its group to write", "can be written by other users", func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o770))
		}},
		{"a link to an own directory", "is a link", func(dir string) error { return os.Symlink(other, dir) }},
		{"a link to nothing", "", func(dir string) error { return os.Symlink(filepath.Join(other, "nothing"), dir) }},
		{"a pipe", "not a directory", func(dir string) error { return unix.Mkfifo(dir, 0o600) }},
	} {
		t.Run(k.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "natsleader-1")
			if k.name == "of another user" {
				testworld.NeedsRoot(t)
			}
			expect.OK(t, k.make(dir))
			path := filepath.Join(dir, "lease")
			note := run.NewLeaseNote(9, run.ClockNow())
			err := note.Write(path)
			expect.That(t, err != nil && strings.Contains(err.Error(), k.want), "written: %v", err)
			check()
			var out strings.Builder
			err = run.ShowRemaining(&out, path, false)
			expect.That(t, front.CodeOf(err) == front.ExitFailed && (out.Len() == 0 || out.String() == "0s\n") && strings.Contains(fmt.Sprint(err), k.want),
				"remaining: %q, %v", &out, err)
			run.RemoveLeaseFile(path, nil)
			expect.OK(t, expect.Err(os.Lstat(dir)))
			// A command that has not begun gets another file.
			got, err := note.WriteAnywhere(path)
			expect.Must(t, err == nil && got != path, "%s, %v", got, err)
			defer run.RemoveLeaseFile(got, nil)
			expect.OK(t, expect.Err(run.ReadLeaseFile(got)))
		})
	}
	line := expect.Got(run.ReadLeaseFile(filepath.Join(other, "lease")))(t)
	expect.That(t, strings.Contains(string(line), `"token":7`), "the directory behind the link: %s", line)
}

// Another user takes over the directory while natsleader waits. The command gets another
// file, which natsleader removes if the supervisor is killed. Nothing of the other user is
// written, trusted or removed.
func TestRun_LeaseDirectoryTakenOverBeforeStart(t *testing.T) {
	testworld.NeedsRoot(t)
	file, check := testworld.Untouched(t)
	s := newRunFixture(t, 0)
	other := s.another()
	a := s.start("a", "--", "sh", "-c", `echo "file $NATSLEADER_LEASE_FILE"; `+binary+` remaining && echo valid; exec sleep 1000`)
	a.says(`waiting: "other" leads`)
	dir := filepath.Dir(a.leaseFile())
	expect.OK(t, os.RemoveAll(dir))
	expect.OK(t, takenOver(dir, file))
	expect.OK(t, other.Stop())
	a.says("\nvalid\n")
	_ = unix.Kill(a.supervisor(), unix.SIGKILL)
	a.exits(128 + 9)
	check()
	said := a.text()
	expect.That(t, !strings.Contains(said, dir+"/lease") && strings.Contains(said, "file "+a.cmd.Dir+"/natsleader-"),
		"a has said:\n%s", said)
	left, _ := filepath.Glob(filepath.Join(a.cmd.Dir, "natsleader-*"))
	expect.That(t, len(left) == 1 && left[0] == dir, "left behind: %v", left)
}

// Another user takes over the directory while the command runs. `natsleader remaining` fails,
// until the directory is gone and a renewal makes it again.
func TestRun_LeaseDirectoryTakenOverInTerm(t *testing.T) {
	testworld.NeedsRoot(t)
	file, check := testworld.Untouched(t)
	s := newRunFixture(t, 0)
	a := s.leads()
	path := a.leaseFile()
	dir := filepath.Dir(path)
	remaining := func() (errs string, code int) {
		cmd := natsleader(t, "remaining")
		cmd.Env = append(cmd.Env, run.LeaseVariable+"="+path)
		_, errs, code = outcome(t, cmd)
		return errs, code
	}
	errs, code := remaining()
	expect.Must(t, code == 0, "exit code %d: %s", code, errs)
	taken := filepath.Join(s.dir, "taken")
	expect.OK(t, takenOver(taken, file))
	if err := unix.Renameat2(unix.AT_FDCWD, taken, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE); err != nil { // at once, before a renewal makes it again
		t.Fatal(err)
	}
	if errs, code := remaining(); code != front.ExitFailed || !strings.Contains(errs, "belongs to user 65534") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	renewed := s.renewals()
	before := renewed()
	testworld.Eventually(t, "the lease is renewed twice", func() bool { return renewed().Sub(before) > 6*time.Second })
	check()
	expect.OK(t, os.RemoveAll(dir))
	testworld.Eventually(t, "the directory is made again", func() bool { _, code := remaining(); return code == 0 })
	a.terminated()
	_, err := os.Lstat(dir)
	expect.That(t, os.IsNotExist(err), "left behind: %v", err)
}

// The disk of the lease file becomes full while the command runs. natsleader says so and hands over after one lease, and the next
// start writes the file to another disk.
func TestRun_LeaseFileOnAFullDisk(t *testing.T) {
	s := newRunFixture(t, 0)
	full := smallDisk(t)
	a := s.startIn(full, "a", "--lease", "3s", "--", s.script("c", s.prologue()+`
trap 'exit 0' TERM
while :; do sleep 0.1; `+binary+` remaining >/dev/null && echo "leads $NATSLEADER_LEASE_FILE" >>journal; done
`))
	testworld.Eventually(t, "the command finds that it leads", func() bool { return s.count("leads "+full) > 0 })
	fillDisk(t, full)
	a.says("cannot write the file of the lease (")
	a.says("handing over: the file of the lease could not be written for 3s")
	testworld.Eventually(t, "the next command finds that it leads", func() bool { return s.count("leads /dev/shm/natsleader-") > 0 })
	a.terminated()
	for _, line := range s.journal() {
		if path, leads := strings.CutPrefix(line, "leads "); leads {
			_, err := os.Stat(path)
			expect.That(t, os.IsNotExist(err), "left behind: %s, %v", path, err)
		}
	}
}
