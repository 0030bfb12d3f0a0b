//go:build field && linux

package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
)

// remaining trusts no file of another user, even in a directory of its own.
func TestRemaining_FileOfAnotherUser(t *testing.T) {
	testworld.NeedsRoot(t)
	path := filepath.Join(testworld.OwnDir(t), "lease")
	expect.OK(t, NewLeaseNote(7, ClockNow().Add(time.Hour)).Write(path))
	expect.OK(t, os.Chown(path, testworld.Nobody, testworld.Nobody))
	var out strings.Builder
	err := ShowRemaining(&out, path, false)
	expect.That(t, front.CodeOf(err) == front.ExitFailed && out.Len() == 0 && strings.Contains(fmt.Sprint(err), path+" belongs to user 65534"),
		"%q, %v", &out, err)
}
