package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// interrupter presses Ctrl-C when the output contains at.
type interrupter struct {
	bytes.Buffer
	at    string
	press context.CancelFunc
}

func (i *interrupter) Write(b []byte) (int, error) {
	if i.at != "" && strings.Contains(string(b), i.at) {
		i.press()
	}
	return i.Buffer.Write(b)
}

// runUntil runs the example, and presses Ctrl-C when the output contains at.
func runUntil(t *testing.T, at string) string {
	t.Helper()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &interrupter{at: at, press: cancel}
	err := run(ctx, func(string) string { return "" }, out)
	elected, deposed := strings.Count(out.String(), " elected "), strings.Count(out.String(), " deposed ")
	if err != nil || elected != deposed || strings.Contains(out.String(), "faulted") {
		t.Errorf("%d elected, %d deposed, error %v\n%s", elected, deposed, err, out)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	return out.String()
}

func TestAZombieIsRefusedAndWithoutTheCheckDepositsAreLost(t *testing.T) {
	out := runUntil(t, "")
	checked, unchecked, _ := strings.Cut(out, "the same, and")
	for _, x := range []struct {
		in, want string
	}{
		{checked, "elected    token 5000000000000001"}, // above what the database has seen
		{checked, "refused    token 5000000000000001: a later leader has been here"},
		{checked, "100 and 5 deposits of 10 make 150: nothing is lost"},
		{unchecked, "100 and 6 deposits of 10, but the balance is 140: 20 lost"},
	} {
		if strings.Count(x.in, x.want) != 1 {
			t.Errorf("the output should say once %q", x.want)
		}
	}
	if strings.Contains(unchecked, "refused") {
		t.Error("refused without the check")
	}
	if t.Failed() {
		t.Log(out)
	}
}

func TestCtrlCEndsItCleanly(t *testing.T) {
	for _, at := range []string{"elected", "took over", "HELD UP", "GOES ON", "refused"} {
		t.Run(at, func(t *testing.T) {
			if out := runUntil(t, at); strings.Contains(out, "deposits of") {
				t.Errorf("it went on to the end:\n%s", out)
			}
		})
	}
}
