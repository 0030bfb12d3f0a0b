// Package exampletest runs the examples in their tests.
package exampletest

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/examples/internal/scaffold"
	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/leader"
)

// Interrupter collects output, and calls Press when the output contains At so many Times.
type Interrupter struct {
	bytes.Buffer
	At    string // empty: never
	Times int
	Press context.CancelFunc
}

// Write implements io.Writer.
func (i *Interrupter) Write(b []byte) (int, error) {
	n, err := i.Buffer.Write(b)
	if i.At != "" && strings.Count(i.String(), i.At) >= i.Times {
		i.Press()
	}
	return n, err
}

// Run runs an example, presses Ctrl-C when the output contains at so many times, and
// returns the output. It fails the test if the example fails, reports a fault, leaves
// something behind, or has not deposed each leader that was elected. At least as many as
// elected have to be.
func Run(t *testing.T, e scaffold.Example, at string, times, elected int) string {
	t.Helper()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &Interrupter{At: at, Times: times, Press: cancel}
	err := e.Start(ctx, func(string) string { return "" }, out)
	began, ended := strings.Count(out.String(), " elected "), strings.Count(out.String(), " deposed ")
	if err != nil || began < elected || began != ended || faulted(out.String()) {
		t.Errorf("%d elected, %d deposed, error %v\n%s", began, ended, err, out)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return out.String()
}

// faulted reports whether there was a fault other than a reply that was late, as it may be on a
// busy machine.
func faulted(out string) bool {
	for line := range strings.Lines(out) {
		if strings.Contains(line, "faulted") && !strings.Contains(line, timeline.Reason(leader.ErrUnreachable)) {
			return true
		}
	}
	return false
}
