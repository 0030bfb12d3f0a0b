package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// untouched makes a file, and returns a function that fails if it was written.
func untouched(t *testing.T) (path string, check func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "untouched")
	const text = "as it was"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, func() {
		t.Helper()
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Errorf("the file was written: %q, %v", now, err)
		}
	}
}

// ownDir makes a directory as natsleader does, whatever the umask.
func ownDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "natsleader-1")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The lease file is written through no link, not even one of the same user.
func TestLeaseFile_WrittenThroughNoLink(t *testing.T) {
	file, check := untouched(t)
	path := filepath.Join(ownDir(t), "lease")
	for _, link := range []string{path + ".next", path} {
		if err := os.Symlink(file, link); err != nil {
			t.Fatal(err)
		}
	}
	note := newLeaseNote(7, clockNow().add(time.Hour))
	if err := note.write(path); err != nil {
		t.Fatal(err)
	}
	check()
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
		t.Errorf("%v, %v", info, err)
	}
}
