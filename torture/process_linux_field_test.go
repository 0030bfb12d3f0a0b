//go:build field && linux

package torture_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	expect "github.com/natsleader/natsleader/internal/check"
)

// candidateEnv has the configuration of a candidate, whose process is this test binary.
const candidateEnv = "NATSLEADER_TORTURE_CANDIDATE"

func init() {
	if config := os.Getenv(candidateEnv); config != "" {
		var spec candidateSpec
		must(0, json.Unmarshal([]byte(config), &spec))
		stand(spec)
		os.Exit(0)
	}
}

// must is the value of a call without an error. An error ends the process.
func must[T any](v T, err error) T {
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return v
}

// monotonic reads the machine's clock that all processes share: Go's own, with the same
// origin for all.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// keptDir returns a directory for the files of a run, which stays if the test fails.
func keptDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "natsleader-torture-") //nolint:usetesting // that one goes away
	expect.OK(tb, err)
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("the journals, stores and logs are in %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}
