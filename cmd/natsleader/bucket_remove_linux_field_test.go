//go:build field && linux

package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/natsleader/natsleader/leader"
)

// On a terminal bucket rm asks, and deletes nothing unless the answer is yes.
func TestBucketRemove_Asks(t *testing.T) {
	t.Parallel()
	url := startServer(t).ClientURL()
	_, js := connectTo(t, url)
	newBucket(t, url, "elections", leader.BucketConfig{})
	for _, x := range []struct {
		answer string
		code   int
		says   string
		left   []string
	}{
		{"", exitFailed, "natsleader: error: nothing was deleted", []string{"KV_elections"}},
		{"yes", 0, "deleted", []string{}},
	} {
		near, far := terminal(t, 24, 80)
		cmd := natsleader(t, "bucket", "rm", "elections", "-s", url)
		cmd.Stdin = far
		out := started(t, cmd)
		out.says(t, "- stream KV_elections with 0 elections.") // the prompt follows, in a line without an end
		if _, err := near.WriteString(x.answer + "\n"); err != nil {
			t.Fatal(err)
		}
		code := endOf(t, cmd)
		<-out.ended
		if code != x.code || !strings.HasSuffix(out.text(), x.says) || !slices.Equal(streamsOf(t, js), x.left) {
			t.Errorf("%q: exit code %d\n%s", x.answer, code, out.text())
		}
	}
}
