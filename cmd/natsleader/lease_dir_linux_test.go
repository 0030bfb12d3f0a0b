package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
)

// untouched makes a file, and returns a function that fails if it was written.
func untouched(t *testing.T) (path string, check func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "untouched")
	const text = "as it was"
	expect.OK(t, os.WriteFile(path, []byte(text), 0o600))
	return path, func() {
		t.Helper()
		now, err := os.ReadFile(path)
		expect.That(t, err == nil && string(now) == text, "the file was written: %q, %v", now, err)
	}
}

// ownDir makes a directory as natsleader does, whatever the umask.
func ownDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "natsleader-1")
	expect.OK(t, os.Mkdir(dir, 0o700))
	return dir
}

// The lease file is written through no link, not even one of the same user.
func TestLeaseFile_WrittenThroughNoLink(t *testing.T) {
	file, check := untouched(t)
	path := filepath.Join(ownDir(t), "lease")
	for _, link := range []string{path + ".next", path} {
		expect.OK(t, os.Symlink(file, link))
	}
	note := newLeaseNote(7, clockNow().add(time.Hour))
	expect.OK(t, note.write(path))
	check()
	info, err := os.Lstat(path)
	expect.That(t, err == nil && info.Mode().IsRegular(), "%v, %v", info, err)
}
