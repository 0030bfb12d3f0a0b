//go:build field && linux

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/leader"
)

// On a terminal, step-down --force asks, and reads the key again.
func TestStepDownForce_Asks(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	campaigns(t, url, "elections", "model", leader.Config{ID: "a"})
	_, js := connectTo(t, url)
	a, b := renewal(t, js, "a", time.Hour), renewal(t, js, "b", time.Hour)
	for _, x := range []struct {
		election, meanwhile, answer string
		code                        int
		says                        string
		becomes                     state
	}{
		{"kept", "", "n", exitFailed, "error: nothing was deleted", stateLeading},
		{"silence", "", "", exitFailed, "error: nothing was deleted", stateLeading},
		{"renewed", a, "y", 0, "deleted", stateDeleted},
		{"otherwise", renewal(t, js, "a", 2*time.Hour), "y", 0, "`nats kv del elections otherwise` makes candidates wait for 15s instead.", stateDeleted},
		{"succeeded", b, "yes", exitFailed, "error: b leads succeeded with token 7 by now; nothing was deleted", stateLeading},
	} {
		put(t, js, x.election, a)
		near, far := terminal(t, 24, 80)
		cmd := natsleader(t, "step-down", x.election, "--force", "-s", url)
		cmd.Stdin = far
		out := started(t, cmd)
		out.says(t, "- Until then nobody leads.") // the prompt follows, in a line without an end
		if x.meanwhile != "" {
			put(t, js, x.election, x.meanwhile)
		}
		if _, err := near.WriteString(x.answer + "\n"); err != nil {
			t.Fatal(err)
		}
		code := endOf(t, cmd)
		<-out.ended
		if code != x.code || !strings.HasSuffix(out.text(), x.says) {
			t.Errorf("%s: exit code %d\n%s", x.election, code, out.text())
		}
		if again := "deleted; it was written again meanwhile:\n- Candidates wait for 2h0m0s, the lease on record.\n"; strings.Contains(out.text(), again) != (x.election == "otherwise") {
			t.Errorf("%s:\n%s", x.election, out.text())
		}
		if got, _ := statusJSON(t, url, x.election); got.State != x.becomes {
			t.Errorf("%s: %+v", x.election, got)
		}
	}
}
