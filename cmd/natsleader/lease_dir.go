//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

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

// readLeaseFile returns the text of the file. The text of another user is an error.
func readLeaseFile(path string) ([]byte, error) {
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

// removeLeaseFile removes the file and its directory, if the disk responds in time. It
// leaves the directory of another user alone.
func removeLeaseFile(path string) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		dir, err := openLeaseDir(filepath.Dir(path))
		if err != nil {
			return
		}
		_ = dir.Remove(filepath.Base(path) + nextLease)
		_ = dir.Remove(filepath.Base(path))
		_ = dir.Close()
		_ = os.Remove(filepath.Dir(path))
	}()
	waitBriefly(done)
}
