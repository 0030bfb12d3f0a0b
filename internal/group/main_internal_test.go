package group

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/natsleader/natsleader/internal/proof"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the exploration keeps all that it allocates: a fifth of the time
	os.Exit(proof.Main(m).Run())
}
