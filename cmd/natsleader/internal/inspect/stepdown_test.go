package inspect

import (
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
)

// A list of elections counts those that it leaves out.
func TestShortList_LeftOut(t *testing.T) {
	var all []facts.ElectionStatus
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		all = append(all, facts.ElectionStatus{Election: name})
	}
	for n, want := range map[int]string{1: "a", 5: "a, b, c, d, e", 6: "a, b, c, d, e and 1 more", 7: "a, b, c, d, e and 2 more"} {
		got := ShortList(all[:n])
		expect.That(t, got == want, "%d elections: %q, want %q", n, got, want)
	}
}
