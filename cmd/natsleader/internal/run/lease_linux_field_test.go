//go:build field && linux

package run

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
)

// No file and no directory of the lease stays open: each renewal writes it.
func TestLeaseFile_LeavesNothingOpen(t *testing.T) {
	dir := testworld.OwnDir(t)
	path := filepath.Join(dir, "lease")
	note := NewLeaseNote(7, ClockNow())
	expect.OK(t, note.Write(path))
	_, err := ReadLeaseFile(path)
	expect.Must(t, err == nil, "%v", err)
	stillOpen(t, "written and read", dir, nil)
	expect.OK(t, os.Chmod(dir, 0o777))
	expect.That(t, note.Write(path) != nil, "written where all can write")
	stillOpen(t, "not trusted", dir, nil)
	expect.OK(t, errors.Join(os.Chmod(dir, 0o700), os.WriteFile(path+nextLease, nil, 0o600)))
	RemoveLeaseFile(path, nil)
	stillOpen(t, "removed", dir, nil)
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}
}
