package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

var update = flag.Bool("update", false, "rewrite testdata/stories.txt")

// stories has stories, with a blank line after each. A line is what a user did ("did kill a"), the death of a process
// ("died a 1"), or a report of a candidate: its name, an event or "leads", a token, seconds, and a text. Below it and
// indented are the sentence that the page shows, with the part of docs/protocol.md to which the sentence leads, and
// the promises that the judge finds broken ("!"). At the end of a story is how many checks the judge has made.
const stories = "testdata/stories.txt"

// The page tells each story as testdata/stories.txt does, and the judge finds each broken promise, and no other.
func TestStories(t *testing.T) {
	text := string(check.Got(os.ReadFile(stories))(t))
	var now strings.Builder
	n, j := newNarrator(3*time.Second), &judge{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, " ") {
			continue
		}
		words := append(strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 5), "", "", "")
		said, part, broken := "", "", len(j.broken)
		switch words[0] {
		case "":
			fmt.Fprintf(&now, "  = %d checks\n", j.checks)
			n, j, broken = newNarrator(3*time.Second), &judge{}, 0
		case "#":
		case "did":
			said, part = n.did(words[1], words[2])
		case "died":
			n.died(words[1], time.Unix(0, at(t, words[2])))
		default:
			r := reported(t, words)
			said, part = n.heard(words[0], r)
			j.heard(words[0], r)
		}
		now.WriteString(line)
		if said != "" {
			fmt.Fprintf(&now, "  %s [%s]\n", said, part)
		}
		for _, promise := range j.broken[broken:] {
			fmt.Fprintf(&now, "  ! %s\n", promise)
		}
	}
	if *update {
		check.OK(t, os.WriteFile(stories, []byte(now.String()), 0o600))
	} else if now.String() != text {
		t.Errorf("it is now (go test -run TestStories -update .)\n%s", now.String())
	}
}

// reported reads a report.
func reported(t *testing.T, words []string) report {
	t.Helper()
	token, _ := strconv.ParseUint(words[2], 10, 64)
	from, to, _ := strings.Cut(words[3], "-")
	r := report{Event: words[1], Token: token, At: at(t, from), Text: words[4]}
	switch r.Event {
	case wrote:
		r.From, r.At = r.At, 0
	case "leads":
		r = report{State: "leader", Token: token, From: at(t, from), To: at(t, to)}
	}
	return r
}

// at reads a time in seconds.
func at(t *testing.T, seconds string) int64 {
	t.Helper()
	s := check.Got(strconv.ParseFloat(seconds, 64))(t)
	return time.Unix(1_800_000_000, 0).Add(time.Duration(s * float64(time.Second))).UnixNano()
}

// Each link of a story leads to a part of docs/protocol.md that exists.
func TestStories_Links(t *testing.T) {
	page := strings.ToLower(string(check.Got(proof.ReadOutside("../../docs/protocol.md"))(t)))
	for _, part := range regexp.MustCompile(`\[([a-z-]+)\]\n`).FindAllStringSubmatch(string(check.Got(os.ReadFile(stories))(t)), -1) {
		heading := regexp.MustCompile(`(?m)^#+ ` + strings.ReplaceAll(part[1], "-", "[ -]") + "$")
		check.That(t, heading.MatchString(page), "docs/protocol.md has no part %q", part[1])
	}
}
