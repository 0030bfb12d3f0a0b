package main

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"strconv"
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

// numbers returns the numbers that the pattern's group finds, in the order of the output.
func numbers(t *testing.T, pattern, out string) (found []int) {
	t.Helper()
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(out, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, n)
	}
	return found
}

func TestTheServerRefusesAZombieAndWithPlainPutItWritesOverItsSuccessor(t *testing.T) {
	out := runUntil(t, "")
	guarded, plain, _ := strings.Cut(out, "the same with plain Put")
	guards := numbers(t, `the guard stands at revision (\d+)`, guarded)
	last := numbers(t, `the last one as revision (\d+)`, guarded)
	writes := numbers(t, `writes     send-to=\S+, as revision (\d+)`, guarded)
	reads := numbers(t, `reads      send-to=\S+, of revision (\d+)`, guarded)
	switch {
	case len(guards) != 2 || len(last) != 1 || len(writes) != 1 || len(reads) != 1:
		t.Errorf("guards %d, last %d, writes %d, reads %d", guards, last, writes, reads)
	case last[0] < guards[0] || last[0] >= guards[1]:
		t.Errorf("the zombie wrote revision %d, the guards are %d", last, guards)
	case reads[0] != writes[0]:
		t.Errorf("the leader reads revision %d, not its own %d", reads, writes)
	}
	for _, x := range []struct {
		in, want string
	}{
		{guarded, "refused    fenced: the guard of the term does not stand any more"},
		{guarded, "what the leader wrote stands"},
		{plain, "what the leader wrote is lost"},
	} {
		if strings.Count(x.in, x.want) != 1 {
			t.Errorf("the output should say once %q", x.want)
		}
	}
	if strings.Contains(plain, "refused") {
		t.Error("a plain Put was refused")
	}
	if t.Failed() {
		t.Log(out)
	}
}

func TestCtrlCEndsItCleanly(t *testing.T) {
	for _, at := range []string{"elected", "RESIGNS", "refused"} {
		t.Run(at, func(t *testing.T) {
			if out := runUntil(t, at); strings.Contains(out, "plain Put") {
				t.Errorf("it went on:\n%s", out)
			}
		})
	}
}
