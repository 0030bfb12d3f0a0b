package testworld

import (
	"os"
	"path/filepath"
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"
)

// Untouched makes a file, and returns a function that fails if it was written.
func Untouched(t *testing.T) (path string, check func()) {
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

// OwnDir makes a directory as natsleader does, whatever the umask.
func OwnDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "natsleader-1")
	expect.OK(t, os.Mkdir(dir, 0o700))
	return dir
}
