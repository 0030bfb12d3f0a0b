package run

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
)

// The lease file is written through no link, not even one of the same user.
func TestLeaseFile_WrittenThroughNoLink(t *testing.T) {
	file, check := testworld.Untouched(t)
	path := filepath.Join(testworld.OwnDir(t), "lease")
	for _, link := range []string{path + ".next", path} {
		expect.OK(t, os.Symlink(file, link))
	}
	note := NewLeaseNote(7, ClockNow().Add(time.Hour))
	expect.OK(t, note.Write(path))
	check()
	info, err := os.Lstat(path)
	expect.That(t, err == nil && info.Mode().IsRegular(), "%v, %v", info, err)
}
