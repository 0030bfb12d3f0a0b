//go:build field && linux

package testworld

import (
	"os"
	"testing"

	"github.com/natsleader/natsleader/internal/proof"
)

// Nobody is a user who has nothing to do with these tests.
const Nobody = 65534

// NeedsRoot skips a test that makes files of other users.
func NeedsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		proof.Skip(t, "needs root, to make files of another user")
	}
}
