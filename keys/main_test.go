package keys_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/internal/proof"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(proof.Main(m)) }
