package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/link"
	"github.com/natsleader/natsleader/internal/proof"
)

// heard is what a candidate reports.
type heard struct {
	name string
	report
}

// reported reads a report: a name, an event or "leads", a token, seconds, and a text.
func reported(t *testing.T, text string) heard {
	t.Helper()
	words := append(strings.SplitN(text, " ", 5), "", "", "")
	token, _ := strconv.ParseUint(words[2], 10, 64)
	from, to, _ := strings.Cut(words[3], "-")
	r := report{Event: words[1], Token: token, At: at(t, from), Text: words[4]}
	switch r.Event {
	case wrote:
		r.From, r.At = r.At, 0
	case "leads":
		r = report{State: "leader", Token: token, From: at(t, from), To: at(t, to)}
	}
	return heard{words[0], r}
}

// at reads a time in seconds.
func at(t *testing.T, seconds string) int64 {
	t.Helper()
	s, err := strconv.ParseFloat(seconds, 64)
	check.OK(t, err)
	return time.Unix(1_800_000_000, 0).Add(time.Duration(s * float64(time.Second))).UnixNano()
}

// newStory returns a narrator of an election that a leads since the beginning.
func newStory() *narrator {
	n := newNarrator(3 * time.Second)
	n.heard("a", report{Event: elected, Token: 7})
	return n
}

// What is done to a leader, what follows, and the last sentence of it.
func TestStory(t *testing.T) {
	const electedB = "b elected 8 4"
	for name, c := range map[string]struct {
		told string // what was done to whom, who died, and what candidates report
		want string
		part string
	}{
		"resigned": {
			"did resign a; a deposed 7 1 resigned; " + electedB,
			"b leads with token 8, 3.00 s after the term of a had ended. The context of a had ended before its release was sent", partRelease,
		},
		"killed": {
			"did kill a; died a 1; " + electedB,
			"b leads with token 8. a might have been alive, so b waited for its whole lease", partReceive,
		},
		"frozen": {"did freeze a; " + electedB, "b leads with token 8. a has not said that its term is over.", partReceive},
		"thawed": {
			"did freeze a; " + electedB + "; did thaw a; a fenced 7 5 the lease is over",
			"a finds that its term is over (the lease is over). By its own clock it was over before b led", partContext,
		},
		"a late write": {
			"did cut a; " + electedB + "; a refused 7 5",
			"A late write of a with token 7 has arrived. The guard", partGuards,
		},
		"resigned, and its report is late": {
			"did resign a; " + electedB,
			"b leads with token 8, at once. The context of a had ended before", partRelease,
		},
		"asked to resign, but waits": {"did resign b", "b was asked to resign. It does not lead", partRelease},
		"killed while it is pending": {
			"a deposed 7 1 the key was deleted; b pending 8 1; did kill b",
			"b was killed while it held the key and did not lead yet.", partReceive,
		},
		"frozen while it is pending": {"b pending 8 1; did freeze b", "b is frozen while it holds the key", partReceive},
		"connected again":            {"did cut b; did restore b", "b can connect again", partUnknown},
		"fast again":                 {"did slow b; did restore b", "The link of b is fast again.", partAcquire},
		"a zombie writes": {
			"did freeze a; " + electedB + "; a refused 7 5",
			"a woke up and wrote with token 7. The guard stands at a greater token", partGuards,
		},
		"cut off": {
			"did cut a; a fenced 7 1 the deadline",
			"a has ended its term (the deadline). It ends before its lease does, so no other leads yet.", partFenced,
		},
		"cut off, and another leads": {
			"did cut a; a fenced 7 1 the deadline; " + electedB,
			"b leads with token 8, 3.00 s after the term of a had ended, and not before its lease was over.", partReceive,
		},
		"the same leads again": {
			"a fenced 7 1; a elected 8 4",
			"a leads with token 8, 3.00 s after the term of a had ended. It is a new term with a greater token", partFenced,
		},
		"deleted": {
			"did delete ; a deposed 7 1 the key was deleted",
			"a does not lead any more (the key was deleted).", partWork,
		},
		"taken after it was deleted": {
			"did delete ; a deposed 7 1 the key was deleted; b pending 8 1",
			"b has taken the key and does not lead yet", partPending,
		},
		"leads after it was deleted": {
			"did delete ; a deposed 7 1 the key was deleted; b elected 8 11",
			"b leads with token 8, 10.00 s after the term of a had ended. By then the longest lease", partPending,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, text, part := newStory(), "", ""
			for step := range strings.SplitSeq(c.told, "; ") {
				switch words := strings.Split(step, " "); words[0] {
				case "did":
					text, part = n.did(words[1], words[2])
				case "died":
					n.died(words[1], time.Unix(0, at(t, words[2])))
				default:
					h := reported(t, step)
					text, part = n.heard(h.name, h.report)
				}
			}
			check.That(t, strings.HasPrefix(text, c.want) && part == c.part,
				"%q of %q, not %q of %q", text, part, c.want, c.part)
		})
	}
	text, part := newNarrator(time.Second).heard("a", report{Event: elected, Token: 7})
	if want := "a leads with token 7. The key was free,"; !strings.HasPrefix(text, want) || part != partAcquire {
		t.Errorf("the first leader: %q of %q", text, part)
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
		check.That(t, parts[part], "docs/protocol.md has no part %q", part)
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
		check.That(t, text != "" && !told[text] && parts[part], "%s: %q, %q", what, text, part)
		told[text] = true
	}
}
