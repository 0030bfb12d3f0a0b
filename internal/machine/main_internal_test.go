package machine

import (
	"testing"

	"github.com/natsleader/natsleader/internal/proof"
)

func TestMain(m *testing.M) { proof.Main(m).Run() }
