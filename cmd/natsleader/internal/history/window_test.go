package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	expect "github.com/natsleader/natsleader/internal/check"
)

// lives is for how many random keys a property is tested.
const lives = 1000

// lifeOf returns what candidates and other programs may write to a key in the first minutes.
func lifeOf(r *rand.Rand) []string {
	var all []string
	holder, token, at := "", 7, 0.0
	write := func(what string) {
		if r.IntN(8) == 0 && len(all) > 0 {
			what = "(hole) " + what
		}
		all = append(all, fmt.Sprintf("%g %s", at, what))
	}
	for range 3 + r.IntN(8) {
		switch next := string("abc"[r.IntN(3)]); {
		case r.IntN(4) == 0:
			write("hello")
			holder = ""
		case r.IntN(6) == 0:
			write("DEL")
			holder = ""
		case holder != "" && r.IntN(3) == 0:
			write(fmt.Sprintf("released %s %d", holder, token))
			holder = ""
		case holder != "" && r.IntN(3) > 0:
			write(fmt.Sprintf("leading %s %d", holder, token))
		case r.IntN(4) == 0:
			write("pending " + next + " 0")
			holder = ""
		default:
			holder, token = next, token+1
			write(fmt.Sprintf("leading %s %d", next, token))
		}
		at += 1 + float64(r.IntN(8))
		if r.IntN(5) == 0 {
			at += 20
			holder = ""
		}
	}
	return all
}

// windowOf returns the revisions that are read from a moment on: the last one before it, and what was written before that,
// back to a record that is dated.
func windowOf(all []string, from float64) []string {
	n := 0
	for i, x := range all {
		text, _, _ := strings.Cut(x, " ")
		if at, _ := strconv.ParseFloat(text, 64); at < from {
			n = i
		}
	}
	for ; n > 0 && !strings.Contains(all[n], "leading") && !strings.Contains(all[n], "released"); n-- {
	}
	return all[n:]
}

// Changes of the time from a moment on, and trouble that went on then, are the same whether or not older records are read.
func TestChanges_OfWindow(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range lives {
		all, from := lifeOf(r), float64(r.IntN(100))+0.5
		shown := func(revisions []string) (lines []string) {
			line := timelineOf(strings.Join(revisions, ", "), 200)
			line.Spans[0].Before = false // that is not known without older records
			for _, c := range line.Changes(false) {
				if c.In(second(from)) {
					lines = append(lines, fmt.Sprintf("%s %v %s", c.At.Format(time.TimeOnly), c.Trouble, c.Text()))
				}
			}
			return lines
		}
		got, want := shown(windowOf(all, from)), shown(all)
		expect.Must(t, slices.Equal(got, want), "%s from %v:\n%s\nwant\n%s", strings.Join(all, ", "), from, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Each span of a time line is one of its changes, or follows from one.
func TestChanges_TellEachSpan(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range lives {
		text := strings.Join(lifeOf(r), ", ")
		line := timelineOf(text, 200)
		changes := line.Changes(false)
		for i, x := range line.Spans {
			var before, after Span
			if i > 0 {
				before = line.Spans[i-1]
			}
			if i+1 < len(line.Spans) {
				after = line.Spans[i+1]
			}
			told := slices.ContainsFunc(changes, func(c Changed) bool {
				ends := before.Ended != "" && c.From == before.ID && c.Ended == before.Ended
				switch x.State {
				case facts.Leading:
					return c.To == x.ID && c.At.Equal(x.Since)
				case StateUnknown:
					return c.Ended == EndedUnknown && (c.At.Equal(x.Since) || c.At.Equal(x.Until))
				case facts.Released:
					return c.Ended == EndedReleased
				case facts.Pending:
					return c.State == x.State && c.At.Equal(x.Since) || after.ID == x.ID
				case facts.Foreign, facts.Deleted, facts.Expired, facts.Never:
				}
				return c.State == x.State && c.At.Equal(x.Since) || ends
			})
			expect.Must(t, told, "%s: no change tells %+v", text, x)
		}
	}
}
