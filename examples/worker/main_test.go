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

// interrupter presses Ctrl-C when the output contains at twice.
type interrupter struct {
	bytes.Buffer
	at    string
	press context.CancelFunc
}

func (i *interrupter) Write(b []byte) (int, error) {
	n, err := i.Buffer.Write(b)
	if strings.Count(i.String(), i.at) == 2 {
		i.press()
	}
	return n, err
}

func TestTheLeaderHandsOver(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &interrupter{at: " elected ", press: cancel}
	err := run(ctx, func(string) string { return "" }, out)
	elected, deposed := strings.Count(out.String(), " elected "), strings.Count(out.String(), " deposed ")
	if err != nil || elected < 2 || elected != deposed || strings.Contains(out.String(), "faulted") {
		t.Errorf("%d elected, %d deposed, error %v\n%s", elected, deposed, err, out)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
