//go:build field && linux

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// nobody is a user who has nothing to do with these tests.
const nobody = 65534

// needsRoot skips a test that makes files of other users.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		proof.Skip(t, "needs root, to make files of another user")
	}
}

// takenOver makes a directory of another user in which links lead to a file. A lease file
// there is valid for an hour.
func takenOver(t *testing.T, dir, file string) {
	t.Helper()
	steps := []error{
		os.Mkdir(dir, 0o777),
		newLeaseNote(1, clockNow().add(time.Hour)).write(filepath.Join(dir, "lease")),
		os.Chmod(filepath.Join(dir, "lease"), 0o644),
		os.Symlink(file, filepath.Join(dir, "lease.next")),
		os.Lchown(filepath.Join(dir, "lease"), nobody, nobody),
		os.Lchown(filepath.Join(dir, "lease.next"), nobody, nobody),
		os.Chown(dir, nobody, nobody),
		os.Chmod(dir, 0o777),
	}
	for _, err := range steps {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A directory that is not of this user, or not only, is neither written nor read nor removed.
func TestLeaseFile_UntrustedDirectory(t *testing.T) {
	file, check := untouched(t)
	other := ownDir(t)
	if err := newLeaseNote(7, clockNow().add(time.Hour)).write(filepath.Join(other, "lease")); err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		name, want string
		make       func(t *testing.T, dir string)
	}{
		{"of another user", "belongs to user 65534", func(t *testing.T, dir string) {
			t.Helper()
			needsRoot(t)
			takenOver(t, dir, file)
		}},
		{"for all to write", "can be written by other users", func(t *testing.T, dir string) {
			t.Helper()
			if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)); err != nil {
				t.Fatal(err)
			}
		}},
		{"for its group to write", "can be written by other users", func(t *testing.T, dir string) {
			t.Helper()
			if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o770)); err != nil {
				t.Fatal(err)
			}
		}},
		{"a link to an own directory", "is a link", func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Symlink(other, dir); err != nil {
				t.Fatal(err)
			}
		}},
		{"a link to nothing", "", func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Symlink(filepath.Join(other, "nothing"), dir); err != nil {
				t.Fatal(err)
			}
		}},
		{"a pipe", "not a directory", func(t *testing.T, dir string) {
			t.Helper()
			if err := unix.Mkfifo(dir, 0o600); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(k.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "natsleader-1")
			k.make(t, dir)
			path := filepath.Join(dir, "lease")
			note := newLeaseNote(9, clockNow())
			if err := note.write(path); err == nil || !strings.Contains(err.Error(), k.want) {
				t.Errorf("written: %v", err)
			}
			check()
			cmd := natsleader(t, "remaining")
			cmd.Env = append(cmd.Env, leaseVariable+"="+path)
			if out, errs, code := outcome(t, cmd); code != exitFailed || (out != "" && out != "0s\n") || !strings.Contains(errs, k.want) {
				t.Errorf("remaining: %q, %q, exit code %d", out, errs, code)
			}
			removeLeaseFile(path)
			if _, err := os.Lstat(dir); err != nil {
				t.Errorf("removed: %v", err)
			}
			// A command that has not begun gets another file.
			got, err := note.writeAnywhere(path)
			if err != nil || got == path {
				t.Fatalf("%s, %v", got, err)
			}
			defer removeLeaseFile(got)
			if _, err = readLeaseFile(got); err != nil {
				t.Error(err)
			}
		})
	}
	if line, err := readLeaseFile(filepath.Join(other, "lease")); err != nil || !strings.Contains(string(line), `"token":7`) {
		t.Errorf("the directory behind the link: %s, %v", line, err)
	}
}

// remaining trusts no file of another user, even in a directory of its own.
func TestRemaining_FileOfAnotherUser(t *testing.T) {
	needsRoot(t)
	path := filepath.Join(ownDir(t), "lease")
	if err := newLeaseNote(7, clockNow().add(time.Hour)).write(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if _, err := readLeaseFile(path); err == nil {
		t.Error("it is read")
	}
	cmd := natsleader(t, "remaining")
	cmd.Env = append(cmd.Env, leaseVariable+"="+path)
	if out, errs, code := outcome(t, cmd); code != exitFailed || out != "" || !strings.Contains(errs, path+" belongs to user 65534") {
		t.Errorf("%q, %q, exit code %d", out, errs, code)
	}
}

// Another user takes over the directory while natsleader waits. The command gets another
// file, which natsleader removes if the supervisor is killed. Nothing of the other user is
// written, trusted or removed.
func TestRun_LeaseDirectoryTakenOverBeforeStart(t *testing.T) {
	needsRoot(t)
	file, check := untouched(t)
	s := newRunFixture(t, 0)
	other := campaigns(t, s.url, "elections", "jobs", leader.Config{ID: "other"})
	a := s.start("a", "--", "sh", "-c", `echo "file $NATSLEADER_LEASE_FILE"; `+binary+` remaining && echo valid; exec sleep 1000`)
	a.says(`waiting: "other" leads`)
	dir := filepath.Dir(a.leaseFile())
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	takenOver(t, dir, file)
	if err := other.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.says("\nvalid\n")
	_ = unix.Kill(a.supervisor(), unix.SIGKILL)
	a.exits(128 + 9)
	check()
	if said := a.text(); strings.Contains(said, dir+"/lease") || !strings.Contains(said, "file "+a.cmd.Dir+"/natsleader-") {
		t.Errorf("a has said:\n%s", said)
	}
	if left, _ := filepath.Glob(filepath.Join(a.cmd.Dir, "natsleader-*")); len(left) != 1 || left[0] != dir {
		t.Errorf("left behind: %v", left)
	}
}

// Another user takes over the directory while the command runs. `natsleader remaining` fails,
// until the directory is gone and a renewal makes it again.
func TestRun_LeaseDirectoryTakenOverInTerm(t *testing.T) {
	needsRoot(t)
	file, check := untouched(t)
	s := newRunFixture(t, 0)
	a := s.start("a", "--", s.obedient())
	a.waitBegun(1)
	path := a.leaseFile()
	dir := filepath.Dir(path)
	remaining := func() (errs string, code int) {
		cmd := natsleader(t, "remaining")
		cmd.Env = append(cmd.Env, leaseVariable+"="+path)
		_, errs, code = outcome(t, cmd)
		return errs, code
	}
	if errs, code := remaining(); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	taken := filepath.Join(s.dir, "taken")
	takenOver(t, taken, file)
	if err := unix.Renameat2(unix.AT_FDCWD, taken, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE); err != nil { // at once, before a renewal makes it again
		t.Fatal(err)
	}
	if errs, code := remaining(); code != exitFailed || !strings.Contains(errs, "belongs to user 65534") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	renewed := s.renewals()
	before := renewed()
	eventually(t, "the lease is renewed twice", func() bool { return renewed().Sub(before) > 6*time.Second })
	check()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the directory is made again", func() bool { _, code := remaining(); return code == 0 })
	a.signal(unix.SIGTERM)
	a.exits(128 + 15)
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
}
