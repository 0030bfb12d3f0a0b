package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats-server/v2/server/ats"
	"go.uber.org/goleak"
)

// binary is the command. It is built once, when a test first runs it: see natsleader.
var binary string

type withBinary struct{ m *testing.M }

func (w withBinary) Run() int {
	ats.Register() // its goroutine must not begin in a bubble
	defer ats.Unregister()
	dir, err := os.MkdirTemp("", "natsleader-test-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	binary = filepath.Join(dir, "natsleader")
	return w.m.Run()
}

// Most of the tests spend most of their time waiting, so many run side by side.
func TestMain(m *testing.M) {
	fisk.EnableFileExpansion = false
	time.Local = time.UTC               //nolint:gosmopolitan // pages and screens show times in the local zone
	superviseIfAsked()                  // if a test starts a supervisor itself, from its own binary
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
	goleak.VerifyTestMain(withBinary{m})
}

// patience is the limit for events that must happen, however busy the machine is. In a mutant
// (package mutation) many of them do not, and it is shorter.
var patience = func() time.Duration {
	if n := os.Getenv(mutantEnv); n != "" && n != "0" {
		return 15 * time.Second
	}
	return time.Minute
}()

// mutantEnv is the variable with the number of the mutant that runs.
const mutantEnv = "NATSLEADER_MUTANT"
