package history

import (
	"testing"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
)

func TestMain(m *testing.M) {
	testworld.Main(m)
}
