//go:build field

package main

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/examples/internal/exampletest"
	"github.com/natsleader/natsleader/internal/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A zombie is refused, and without the check deposits are lost.
func TestZombie_IsRefused(t *testing.T) {
	out := exampletest.Run(t, example, "", 0, 2)
	checked, unchecked, _ := strings.Cut(out, "the same, and")
	for _, x := range []struct {
		in, want string
	}{
		{checked, "elected    token 5000000000000001"}, // above what the database has seen
		{checked, "refused    token 5000000000000001: a later leader has been here"},
		{checked, "100 and 5 deposits of 10 make 150: nothing is lost"},
		{unchecked, "100 and 6 deposits of 10, but the balance is 140: 20 lost"},
	} {
		check.That(t, strings.Count(x.in, x.want) == 1, "the output should say once %q", x.want)
	}
	check.That(t, !strings.Contains(unchecked, "refused"), "refused without the check")
	if t.Failed() {
		t.Log(out)
	}
}

func TestCtrlC_EndsItCleanly(t *testing.T) {
	for _, at := range []string{"elected", "took over", "HELD UP", "GOES ON", "refused"} {
		t.Run(at, func(t *testing.T) {
			out := exampletest.Run(t, example, at, 1, 0)
			check.That(t, !strings.Contains(out, "deposits of"), "it went on to the end:\n%s", out)
		})
	}
}
