//go:build field && linux

package main

import (
	"strings"
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// A command asks a question on a terminal, and reads the answer there. Without a terminal, or without
// standard input, it does not ask.
func TestConfirm_OnTerminal(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	c := campaigns(t, url, "elections", "billing", leader.Config{ID: "a"})
	args := []string{"step-down", "billing", "--force", "-s", url}
	fails(t, natsleader(t, args...), exitUsage, "--force needs --yes where it cannot ask")
	closed := natsleader(t)
	closed.Path, closed.Args = "/bin/sh", append([]string{"sh", "-c", `exec "$@" <&-`, "sh", binary}, args...)
	fails(t, closed, exitUsage, "--force needs --yes where it cannot ask")
	expect.Must(t, c.IsLeader(), "the key was deleted")
	for _, x := range []struct {
		answer string
		code   int
		says   string
	}{{"n", exitFailed, "natsleader: error: nothing was deleted"}, {"y", 0, "deleted"}} {
		near, far := terminal(t, 24, 80)
		cmd := natsleader(t, args...)
		cmd.Stdin = far
		out := started(t, cmd)
		out.says(t, "- Until then nobody leads.") // the prompt follows, in a line without an end
		_, err := near.WriteString(x.answer + "\n")
		expect.Must(t, err == nil, "%v", err)
		code := endOf(t, cmd)
		<-out.ended
		if code != x.code || !strings.HasSuffix(out.text(), x.says) {
			t.Errorf("%q: exit code %d\n%s", x.answer, code, out.text())
		}
	}
}
