package group

import (
	"os"
	"runtime/debug"
	"testing"

	"github.com/natsleader/natsleader/internal/proof"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the exploration has little memory in use, and makes much garbage
	os.Exit(proof.Main(m).Run())
}
