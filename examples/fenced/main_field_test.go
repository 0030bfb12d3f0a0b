//go:build field

package main

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/examples/internal/exampletest"
	"github.com/natsleader/natsleader/internal/check"
)

// A server (2.15.2) that is shut down while it creates a stream leaves two goroutines behind.
// Ctrl-C may end the example while its second process creates its buckets.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*fileStore).flushStreamStateLoop"),
		goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}

// numbers returns the numbers that the pattern's group finds, in the order of the output.
func numbers(t *testing.T, pattern, out string) (found []int) {
	t.Helper()
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(out, -1) {
		n, err := strconv.Atoi(m[1])
		check.OK(t, err)
		found = append(found, n)
	}
	return found
}

// The server refuses a zombie, and with plain Put the zombie writes over its successor.
func TestZombie_ServerRefuses(t *testing.T) {
	out := exampletest.Run(t, example, "", 0, 2)
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
		check.That(t, strings.Count(x.in, x.want) == 1, "the output should say once %q", x.want)
	}
	check.That(t, !strings.Contains(plain, "refused"), "a plain Put was refused")
	if t.Failed() {
		t.Log(out)
	}
}

func TestCtrlC_EndsItCleanly(t *testing.T) {
	for _, at := range []string{"elected", "RESIGNS", "refused"} {
		t.Run(at, func(t *testing.T) {
			out := exampletest.Run(t, example, at, 1, 0)
			check.That(t, !strings.Contains(out, "plain Put"), "it went on:\n%s", out)
		})
	}
}
