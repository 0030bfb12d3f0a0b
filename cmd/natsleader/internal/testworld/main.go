package testworld

import (
	"flag"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats-server/v2/server/ats"
	"go.uber.org/goleak"
)

// withServers are tests that start servers.
type withServers struct{ m goleak.TestingM }

// Run is part of [goleak.TestingM].
func (w withServers) Run() int {
	ats.Register() // its goroutine must not begin in a bubble
	defer ats.Unregister()
	return w.m.Run()
}

// Main runs the tests of a package, and ends the process. Most of them spend most of their time waiting, so many run side
// by side.
func Main(m goleak.TestingM) {
	fisk.EnableFileExpansion = false
	time.Local = time.UTC               //nolint:gosmopolitan // pages and screens show times in the local zone
	_ = flag.Set("test.parallel", "16") // unless the command line says otherwise
	// The goroutine that receives signals begins here, and not in the bubble of the first test that needs it.
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	signal.Stop(c)
	// The commands that the tests start would inherit a signal that is ignored here (by
	// nohup, or in a background job), and the tests send it to them.
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGHUP} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	goleak.VerifyTestMain(withServers{m})
}
