package run

import (
	"testing"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
)

func TestMain(m *testing.M) {
	SuperviseIfAsked() // if a test starts a supervisor itself, from its own binary
	testworld.Main(m)
}
