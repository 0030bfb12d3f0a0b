package hazards

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server/ats"
	"go.uber.org/goleak"
)

// mainTests runs the tests with the server's access time service, which must be started outside any bubble.
type mainTests struct{ *testing.M }

func (m mainTests) Run() int {
	ats.Register()
	defer ats.Unregister()
	return m.M.Run()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(mainTests{m}) }
