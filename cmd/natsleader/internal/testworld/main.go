package testworld

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

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

// ZoneVariable names a zone for a test that runs the binary of its package once more.
const ZoneVariable = "NATSLEADER_TEST_ZONE"

// inZone begins the process once more, in UTC or in the zone that is asked for: pages and screens show times in the local
// zone. When TestMain begins, a timer of nats-server already reads time.Local, which therefore must not be set here.
func inZone() {
	zone := cmp.Or(os.Getenv(ZoneVariable), "UTC")
	if os.Getenv("TZ") == zone {
		return
	}
	binary, err := os.Executable()
	if err == nil {
		err = os.Setenv("TZ", zone)
	}
	if err == nil {
		err = syscall.Exec(binary, os.Args, os.Environ()) //nolint:gosec // this binary
	}
	panic(fmt.Sprintf("set TZ=%s: %v", zone, err)) // on Windows
}

// Main runs the tests of a package, and ends the process. Most of them spend most of their time waiting, so many run side
// by side.
func Main(m goleak.TestingM) {
	inZone()
	fisk.EnableFileExpansion = false
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
