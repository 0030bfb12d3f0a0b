// Package torture_test runs elections and groups between processes on servers that are processes,
// injects faults of every kind, and checks the journals that the candidates wrote.
//
// A run is repeated with its -seed: the same faults in the same order, though not with
// the same interleaving. An hour of it:
//
//	go test -tags field,prove ./torture -run Torture -v -duration 1h -timeout 2h
package torture_test

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/proof"
)

var (
	duration = flag.Duration("duration", time.Duration(proof.Size(10, 90))*time.Second, "how long faults are injected")
	ping     = flag.Duration("ping", time.Second, "nats.PingInterval of the candidates at default settings")
	seed     = flag.Uint64("seed", 0, "of the plan of faults; 0 is a new one")
)

// TestMain lets all tests run at once unless -parallel says otherwise: they wait
// most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "test.parallel" })
	if !told {
		_ = flag.Set("test.parallel", "8")
	}
	os.Exit(proof.Main(m).Run())
}
