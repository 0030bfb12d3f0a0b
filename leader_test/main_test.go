// Package leader_test looks at the library from outside: on a real embedded NATS
// server, most of it in synctest bubbles, where times are exact.
package leader_test

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server/ats"
	"go.uber.org/goleak"
)

// withAccessTime runs the tests with the server's access time service, whose
// goroutine must be started outside any bubble.
type withAccessTime struct{ *testing.M }

func (m withAccessTime) Run() int {
	ats.Register()
	defer ats.Unregister()
	return m.M.Run()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(withAccessTime{m}) }
