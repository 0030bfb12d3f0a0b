package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/link"
	"github.com/natsleader/natsleader/internal/proof"
)

var instant = time.Unix(1_800_000_000, 0)

func at(seconds float64) int64 {
	return instant.Add(time.Duration(seconds * float64(time.Second))).UnixNano()
}

// newStory returns a narrator of an election that a leads since the beginning.
func newStory() *narrator {
	n := newNarrator(3 * time.Second)
	n.heard("a", report{At: at(0), Event: elected, Token: 7})
	return n
}

// What is done to a leader, what follows, and the last sentence of it.
func TestStory(t *testing.T) {
	deposedBecause := func(text string) report { return report{At: at(1), Event: deposed, Token: 7, Text: text} }
	electedB := report{At: at(4), Event: elected, Token: 8}
	for name, c := range map[string]struct {
		tell func(n *narrator) (text, part string)
		want string
		part string
	}{
		"the first leader": {func(*narrator) (string, string) {
			return newNarrator(time.Second).heard("a", report{Event: elected, Token: 7})
		}, "a leads with token 7. The key was free,", partAcquire},
		"resigned": {func(n *narrator) (string, string) {
			n.did(doResign, "a")
			n.heard("a", deposedBecause("resigned"))
			return n.heard("b", electedB)
		}, "b leads with token 8, 3.00 s after the term of a had ended. The context of a had ended before its release was sent", partRelease},
		"killed": {func(n *narrator) (string, string) {
			n.did(doKill, "a")
			n.died("a", instant.Add(time.Second))
			return n.heard("b", electedB)
		}, "b leads with token 8. a might have been alive, so b waited for its whole lease", partReceive},
		"frozen": {func(n *narrator) (string, string) {
			n.did(doFreeze, "a")
			return n.heard("b", electedB)
		}, "b leads with token 8. a has not said that its term is over.", partReceive},
		"thawed": {func(n *narrator) (string, string) {
			n.did(doFreeze, "a")
			n.heard("b", electedB)
			n.did(doThaw, "a")
			return n.heard("a", report{At: at(5), Event: fenced, Token: 7, Text: "the lease is over"})
		}, "a finds that its term is over (the lease is over). By its own clock it was over before b led", partContext},
		"a late write": {func(n *narrator) (string, string) {
			n.did(link.Cut, "a")
			n.heard("b", electedB)
			return n.heard("a", report{At: at(5), Event: refused, Token: 7})
		}, "A late write of a with token 7 has arrived. The guard", partGuards},
		"resigned, and its report is late": {func(n *narrator) (string, string) {
			n.did(doResign, "a")
			return n.heard("b", electedB)
		}, "b leads with token 8, at once. The context of a had ended before", partRelease},
		"asked to resign, but waits": {
			func(n *narrator) (string, string) { return n.did(doResign, "b") },
			"b was asked to resign. It does not lead", partRelease,
		},
		"killed while it is pending": {func(n *narrator) (string, string) {
			n.heard("a", deposedBecause("the key was deleted"))
			n.heard("b", report{At: at(1), Event: pending, Token: 8})
			return n.did(doKill, "b")
		}, "b was killed while it held the key and did not lead yet.", partReceive},
		"frozen while it is pending": {func(n *narrator) (string, string) {
			n.heard("b", report{At: at(1), Event: pending, Token: 8})
			return n.did(doFreeze, "b")
		}, "b is frozen while it holds the key", partReceive},
		"connected again": {func(n *narrator) (string, string) {
			n.did(link.Cut, "b")
			return n.did(doRestore, "b")
		}, "b can connect again", partUnknown},
		"fast again": {func(n *narrator) (string, string) {
			n.did(link.Slow, "b")
			return n.did(doRestore, "b")
		}, "The link of b is fast again.", partAcquire},
		"a zombie writes": {func(n *narrator) (string, string) {
			n.did(doFreeze, "a")
			n.heard("b", electedB)
			return n.heard("a", report{At: at(5), Event: refused, Token: 7})
		}, "a woke up and wrote with token 7. The guard stands at a greater token", partGuards},
		"cut off": {func(n *narrator) (string, string) {
			n.did(link.Cut, "a")
			return n.heard("a", report{At: at(1), Event: fenced, Token: 7, Text: "the deadline"})
		}, "a has ended its term (the deadline). It ends before its lease does, so no other leads yet.", partFenced},
		"cut off, and another leads": {func(n *narrator) (string, string) {
			n.did(link.Cut, "a")
			n.heard("a", report{At: at(1), Event: fenced, Token: 7, Text: "the deadline"})
			return n.heard("b", electedB)
		}, "b leads with token 8, 3.00 s after the term of a had ended, and not before its lease was over.", partReceive},
		"the same leads again": {func(n *narrator) (string, string) {
			n.heard("a", report{At: at(1), Event: fenced, Token: 7})
			return n.heard("a", electedB)
		}, "a leads with token 8, 3.00 s after the term of a had ended. It is a new term with a greater token", partFenced},
		"deleted": {func(n *narrator) (string, string) {
			n.did(doDelete, "")
			return n.heard("a", deposedBecause("the key was deleted"))
		}, "a does not lead any more (the key was deleted).", partWork},
		"taken after it was deleted": {func(n *narrator) (string, string) {
			n.did(doDelete, "")
			n.heard("a", deposedBecause("the key was deleted"))
			return n.heard("b", report{At: at(1), Event: pending, Token: 8})
		}, "b has taken the key and does not lead yet", partPending},
		"leads after it was deleted": {func(n *narrator) (string, string) {
			n.did(doDelete, "")
			n.heard("a", deposedBecause("the key was deleted"))
			return n.heard("b", report{At: at(11), Event: elected, Token: 8})
		}, "b leads with token 8, 10.00 s after the term of a had ended. By then the longest lease", partPending},
	} {
		t.Run(name, func(t *testing.T) {
			if text, part := c.tell(newStory()); !strings.HasPrefix(text, c.want) || part != c.part {
				t.Errorf("%q of %q, not %q of %q", text, part, c.want, c.part)
			}
		})
	}
}

// There is a sentence for whatever a user does, to the leader or to another, and each leads to a part
// of docs/protocol.md that exists.
func TestStory_Links(t *testing.T) {
	page, err := os.ReadFile("../../docs/protocol.md")
	if err != nil {
		proof.Skip(t, "this copy has no docs: ", err)
	}
	parts := map[string]bool{}
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(page), -1) {
		parts[strings.ReplaceAll(strings.ToLower(heading[1]), " ", "-")] = true
	}
	for _, part := range []string{
		partAcquire, partSending, partReceive, partDeadline, partUnknown, partPending, partFenced, partWork, partContext, partRelease, partDeleted, partHint, partGuards,
	} {
		if !parts[part] {
			t.Errorf("docs/protocol.md has no part %q", part)
		}
	}
	told := map[string]bool{}
	for _, what := range []string{
		doResign, doKill, doStart, doFreeze, doThaw, doRestore, link.Cut, link.Held, link.HeldUp, link.HeldDown, link.Slow,
	} {
		for _, id := range []string{"a", "b"} {
			if text, part := newStory().did(what, id); !strings.Contains(text, id) || !parts[part] {
				t.Errorf("%s of %s: %q, %q", what, id, text, part)
			}
		}
	}
	for _, what := range []string{doRestart, doOutage, doUp, doDelete, doLease} {
		text, part := newStory().did(what, "")
		if text == "" || told[text] || !parts[part] {
			t.Errorf("%s: %q, %q", what, text, part)
		}
		told[text] = true
	}
}
