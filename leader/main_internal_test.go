package leader

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/internal/proof"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(proof.Main(m)) }

// testEpoch is an instant.
var testEpoch = time.Unix(1<<30, 0).UTC()
