package torture_test

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// led returns the entries of a term that was claimed from first to last.
func led(token uint64, first, last int64) []entry {
	return []entry{
		{At: first - 2, What: pending, Token: token},
		{At: first - 1, What: elected, Token: token},
		{At: last, What: leads, Token: token, From: first},
	}
}

// section is a case of a file in testdata: a name, and lines of a key and a text.
type section struct {
	name  string
	lines [][2]string
}

// sections reads the cases of a file.
func sections(t *testing.T, name string) (all []section) {
	t.Helper()
	text := expect.Got(os.ReadFile(filepath.Join("testdata", name)))(t)
	for _, part := range strings.Split("\n"+string(text), "\n# ")[1:] {
		lines := strings.Split(strings.TrimSpace(part), "\n")
		s := section{name: lines[0]}
		for _, line := range lines[1:] {
			key, text, _ := strings.Cut(line, ":")
			s.lines = append(s.lines, [2]string{key, strings.TrimSpace(text)})
		}
		all = append(all, s)
	}
	return all
}

// span reads two times in milliseconds.
func span(t *testing.T, text string) (from, to int64) {
	t.Helper()
	first, last, _ := strings.Cut(text, "-")
	return number(t, first), number(t, last)
}

// number reads milliseconds.
func number(t *testing.T, text string) int64 {
	t.Helper()
	n := expect.Got(strconv.ParseFloat(text, 64))(t)
	return int64(math.Round(n * float64(time.Millisecond)))
}

// token reads a token.
func token(t *testing.T, text string) uint64 {
	t.Helper()
	n := expect.Got(strconv.ParseUint(text, 10, 64))(t)
	return n
}

// journalOf reads the journal of a life.
func journalOf(t *testing.T, id, text string) *life {
	t.Helper()
	l := &life{id: id, entries: []entry{{At: 1, What: began}}}
	for step := range strings.SplitSeq(text, "; ") {
		words := strings.Fields(step)
		switch words[0] {
		case leads:
			from, to := span(t, words[2])
			l.entries = append(l.entries, led(token(t, words[1]), from, to)...)
		case "paused":
			from, to := span(t, words[1])
			l.pauses = append(l.pauses, pause{from, to})
		default:
			l.entries = append(l.entries, entryOf(t, words))
		}
	}
	return l
}

// entryOf reads an entry of a journal: a time, what it is, a token, and further fields.
func entryOf(t *testing.T, words []string) entry {
	t.Helper()
	e := entry{At: number(t, words[0]), What: words[1]}
	switch e.What {
	case fenced, deposed:
		e.Text, e.Context = "lost", "lost"
	case faulted:
		e.Text = leader.ErrRegressed.Error()
	}
	for _, word := range words[2:] {
		switch field, text, _ := strings.Cut(word, "="); field {
		case "from":
			e.From = number(t, text)
		case "left":
			e.Left = number(t, text)
		case "id":
			e.ID = text
		case "context":
			e.Context = text
		default:
			e.Token = token(t, word)
		}
	}
	return e
}

// Every kind of fault in a history is found, by the checker or by Porcupine, as listed,
// and nothing is found in a good one.
func TestTheCheckersFindWhatIsWrong(t *testing.T) {
	for _, s := range sections(t, "histories.txt") {
		t.Run(s.name, func(t *testing.T) {
			h := history{fence: 2 * time.Second}
			breaks, lock, notes := "", "", 0
			for _, line := range s.lines {
				switch key, text := line[0], line[1]; key {
				case "breaks":
					breaks = text
				case "lock":
					lock = text
				case "notes":
					notes = int(token(t, text))
				case "forgot":
					from, to := span(t, text)
					h.voids = append(h.voids, void{from: from, to: to, how: "bucket made anew"})
				default:
					h.lives = append(h.lives, journalOf(t, key, text))
				}
			}
			v := check(h)
			found := strings.Join(v.broken, "\n")
			expect.That(t, (breaks != "" || found == "") && strings.Contains(found, breaks),
				"the checker says %q, want %q", found, breaks)
			expect.That(t, len(v.noted) == notes, "noted %q, want %d", v.noted, notes)
			legal := orderly(t, "lock", lockModel, locked(h, v.terms), t.TempDir())
			expect.Equal(t, legal, (lock == ""), "a lock for porcupine: %v, want %q", lock)
		})
	}
}

// Porcupine is fast enough for the history of an hour. A history of a thousand terms, in
// which every candidate stands all the time, is decided in moments.
func TestPorcupine_IsFastEnough(t *testing.T) {
	var h history
	for i := range int64(1000) {
		if i < 5 {
			h.lives = append(h.lives, &life{id: string(rune('a' + i)), entries: []entry{{At: 1, What: began}}})
		}
		n, at := uint64(i+1), ms(1000*i)
		l := h.lives[i%5]
		l.entries = append(l.entries, led(n, at+ms(1000), at+ms(1900))...)
		l.entries = append(l.entries, entry{At: at + ms(2500), What: deposed, Token: n, Text: "lost", Context: "lost"})
	}
	v := check(h)
	expect.Must(t, len(v.broken) == 0, "%v", v.broken)
	expect.That(t, orderly(t, "lock", lockModel, locked(h, v.terms), t.TempDir()), "it is no lock")
}

// Leaderless times are those between terms.
func TestLeaderlessTimes_BetweenTerms(t *testing.T) {
	v := check(history{lives: []*life{
		journalOf(t, "a", "leads 1 1000-2000; 2000 deposed 1"),
		journalOf(t, "b", "leads 2 2300-3000; 3000 deposed 2"),
		journalOf(t, "c", "leads 3 5000-6000"),
	}})
	for _, k := range []struct {
		from, to int64
		want     []time.Duration
	}{
		{1500, 1900, nil},
		{1500, 2500, []time.Duration{300 * time.Millisecond}},
		{2100, 2200, nil},
		{2500, 6000, []time.Duration{2 * time.Second}},
		{1500, 6000, []time.Duration{300 * time.Millisecond, 2 * time.Second}},
		{5500, 9000, nil},
	} {
		got := v.leaderless(ms(k.from), ms(k.to))
		expect.That(t, len(got) == len(k.want) && (len(got) <= 0 || got[0] == k.want[0]),
			"from %d to %d: %v, want %v", k.from, k.to, got, k.want)
	}
}
