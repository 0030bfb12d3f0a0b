// Package leader_test tests the library from outside, on a real embedded NATS server.
// Most of the tests run in synctest bubbles, where times are exact.
package leader_test

import (
	"flag"
	"os"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server/ats"
	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/internal/proof"
)

// withAccessTime runs the tests with the server's access time service, and with the ticker that
// shows whether the machine is late. Their goroutines must be started outside any bubble.
type withAccessTime struct{ *testing.M }

func (m withAccessTime) Run() int {
	ats.Register()
	defer ats.Unregister()
	begun, end := make(chan struct{}), make(chan struct{})
	var ticker sync.WaitGroup
	ticker.Go(func() { machine.run(begun, end) })
	<-begun
	defer ticker.Wait()
	defer close(end)
	defer func() {
		for _, dir := range sharedDirs {
			_ = os.RemoveAll(dir)
		}
	}()
	return m.M.Run()
}

// sharedDirs are directories that several tests use.
var sharedDirs []string

// The tests in real time spend most of it waiting, side by side. They begin when all
// bubbles are over: a test that calls t.Parallel waits for those that do not.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "16") // unless the command line says otherwise
	debug.SetGCPercent(800)             // hundreds of servers are started: a seventh of the time
	goleak.VerifyTestMain(proof.Main(withAccessTime{m}))
}
