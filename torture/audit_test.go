package torture_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// stored is one message of a ledger.
type stored struct {
	seq    uint64
	what   string // register or list
	guards string // it is the guard of that part: raised by By to Token; 0: deleted
	over   uint64 // the seq of the value that it replaced or followed in the register or the list
	value
}

// books are all writes by the leaders of one election, as the leaders recorded them and
// as they were found in the ledger in the end.
type books struct {
	lives   []*life
	voids   []void
	ledger  []stored // by seq
	guarded bool
}

// deed is an attempt of a process, and the values found of it.
type deed struct {
	attempt
	life  *life
	found []stored
}

func (d *deed) String() string {
	return fmt.Sprintf("%s of %s by %s with token %d, called at %s, ended at %s, %s",
		d.Kind, d.What, d.life.id, d.Token, instant(d.Call), instant(d.End), d.Out)
}

// findings are the result of the audit.
type findings struct {
	broken  []string
	deeds   []*deed        // by call, without those only known not to be stored
	tallies map[string]int // of outcomes
}

func (f *findings) breaks(format string, args ...any) {
	f.broken = append(f.broken, fmt.Sprintf(format, args...))
}

// audit compares the attempts with the stored values.
func audit(b books) findings {
	f := findings{tallies: make(map[string]int)}
	f.order(b)
	f.match(b)
	f.time(b)
	return f
}

// order checks the ledger alone. No value of an older term follows one of a newer term.
// Where there are guards, each value carries the token at which its guard stands at
// that moment, and guards do not fall.
func (f *findings) order(b books) {
	newest := make(map[string]stored)
	guard, raised := make(map[string]stored), make(map[string]uint64)
	last := make(map[string]uint64)
	for i, m := range b.ledger {
		switch {
		case m.guards != "":
			if top := raised[m.guards]; m.Token != 0 && m.Token < top {
				f.breaks("a guard fell: of the %s, from %d to %d at %d", m.guards, top, m.Token, m.seq)
			}
			guard[m.guards], raised[m.guards] = m, max(raised[m.guards], m.Token)
		case m.what == "":
		default:
			if m.Token < newest[m.what].Token {
				f.breaks("an older term's write after a newer one's: token %d by %s at %d of the %s, after %d at %d",
					m.Token, m.By, m.seq, m.what, newest[m.what].Token, newest[m.what].seq)
			} else {
				newest[m.what] = m
			}
			b.ledger[i].over = last[m.what]
			last[m.what] = m.seq
			if g := guard[m.what]; b.guarded && g.Token != m.Token {
				f.breaks("written past the guard: token %d by %s at %d of the %s, whose guard stood at %d since %d", m.Token, m.By, m.seq, m.what, g.Token, g.seq)
			}
		}
	}
}

// name identifies a value.
type name struct {
	by string
	n  uint64
}

// match finds the stored values of each attempt. An acknowledged write is stored once,
// at its revision. A write that was refused or not sent is not stored. A batch is
// stored as a whole and without gaps, or not at all. An update follows the value that
// it was to replace.
func (f *findings) match(b books) {
	found := make(map[name]stored)
	for _, m := range b.ledger {
		if m.what == "" || m.By == "" {
			continue
		}
		if twice, is := found[name{m.By, m.N}]; is {
			f.breaks("stored twice: %d of %s with token %d, at %d and %d", m.N, m.By, m.Token, twice.seq, m.seq)
		}
		found[name{m.By, m.N}] = m
	}
	for _, l := range b.lives {
		for _, a := range l.diary.attempts {
			if a.Kind == waiting {
				continue
			}
			f.tallies[a.Kind+" "+a.Out]++
			d := &deed{attempt: a, life: l}
			for n := a.N; n != 0 && n < a.N+a.Count; n++ {
				if m, is := found[name{l.id, n}]; is {
					d.found = append(d.found, m)
					delete(found, name{l.id, n})
				}
			}
			f.hold(d)
		}
	}
	for _, m := range b.ledger { // in order; the rest was called by killed processes
		if _, left := found[name{m.By, m.N}]; !left {
			continue
		}
		l := lifeOf(b.lives, m.By)
		if l == nil || slices.ContainsFunc(l.entries, func(e entry) bool { return e.What == ended }) {
			f.breaks("stored by who does not know of it: %q with token %d, at %d", m.By, m.Token, m.seq)
			continue
		}
		f.tallies["not told"]++
		f.deeds = append(f.deeds, &deed{life: l, found: []stored{m}, attempt: attempt{
			Kind: put, What: m.what, Token: m.Token, N: m.N, Count: 1, Call: m.Call, End: forever, Out: unknown,
		}})
	}
	slices.SortStableFunc(f.deeds, func(a, b *deed) int { return cmp.Compare(a.Call, b.Call) })
}

func lifeOf(lives []*life, id string) *life {
	for _, l := range lives {
		if l.id == id {
			return l
		}
	}
	return nil
}

// hold compares one attempt with the values found of it.
func (f *findings) hold(d *deed) {
	switch d.Out {
	case accepted:
		if d.N != 0 && (uint64(len(d.found)) != d.Count || d.found[d.Count-1].seq != d.Rev) {
			f.breaks("acknowledged and not there: at %d, %v", d.Rev, d)
			return
		}
	case unknown:
		if len(d.found) == 0 {
			return // it never happened
		}
		f.tallies["unknown, but stored"]++
	default:
		if len(d.found) != 0 {
			f.breaks("stored in spite of that: at %d, %v (%s)", d.found[0].seq, d, d.Text)
		}
		if d.Out != mismatch && d.Out != refused {
			return
		}
	}
	if d.Kind == batch && len(d.found) != 0 &&
		(uint64(len(d.found)) != d.Count || d.found[d.Count-1].seq-d.found[0].seq != d.Count-1) {
		f.breaks("a batch is stored in part, or not in one piece: %v", d)
	}
	if d.Kind == update && len(d.found) != 0 && d.At != d.found[0].over {
		f.breaks("a lost update: of %d, by what was to replace %d: %v", d.found[0].over, d.At, d)
	}
	f.deeds = append(f.deeds, d)
}

// time checks when attempts were made. No write of an older term was called after a
// newer term was elected, and stored. No write of a term was accepted after ErrFenced
// had been returned to that term, and ErrFenced was not returned before a later term
// had raised the guard. No write of unknown outcome is stored behind a write of the
// same term that was called later and acknowledged.
func (f *findings) time(b books) {
	raised := make(map[string]uint64)
	for _, m := range b.ledger {
		if m.guards != "" {
			raised[m.guards] = max(raised[m.guards], m.Token)
		}
	}
	var elections []entry
	for _, l := range b.lives {
		for _, e := range l.entries {
			if e.What == elected {
				elections = append(elections, e)
			}
		}
	}
	slices.SortFunc(elections, func(a, b entry) int { return cmp.Compare(a.At, b.At) })
	type writer struct {
		token uint64
		what  string
	}
	fenced := make(map[writer]*deed)   // the first refused write
	doubtful := make(map[writer]*deed) // the latest stored write of unknown outcome
	next, newest := 0, entry{}
	for _, d := range f.deeds {
		for ; next < len(elections) && elections[next].At < d.Call; next++ {
			if elections[next].Token > newest.Token {
				newest = elections[next]
			}
		}
		w := writer{d.Token, d.What}
		switch {
		case d.N == 0: // a read
		case d.Out == refused:
			if raised[d.What] <= d.Token {
				f.breaks("ErrFenced, and the guard was never raised by a later term: %v", d)
			}
			if first := fenced[w]; first == nil || d.End < first.End {
				fenced[w] = d
			}
		case len(d.found) != 0:
			if d.Token < newest.Token {
				f.breaks("called after a later term had been elected: %d at %s, and stored at %d: %v", newest.Token, instant(newest.At), d.found[0].seq, d)
			}
			if first := fenced[w]; first != nil && first.End < d.Call {
				f.breaks("ErrFenced, and a write of the same term was stored: at %s, %v", instant(first.End), d)
			}
			if q := doubtful[w]; q != nil && q.End < d.Call && d.Out == accepted && q.found[0].seq > d.found[0].seq {
				f.breaks("a write whose outcome was not known is stored behind a later one: %d behind %d, %v", q.found[0].seq, d.found[0].seq, q)
			}
			if q := doubtful[w]; d.Out == unknown && (q == nil || d.found[0].seq > q.found[0].seq) {
				doubtful[w] = d
			}
		}
	}
}

// report fails the test for each broken rule, and logs the tallies.
func (f *findings) report(tb testing.TB, name string) {
	tb.Helper()
	const enough = 5
	alike := make(map[string]int) // by their first words
	for _, broken := range f.broken {
		what, _, _ := strings.Cut(broken, ":")
		if alike[what]++; alike[what] <= enough {
			tb.Errorf("%s: %s", name, broken)
		}
	}
	for what, times := range alike {
		if times > enough {
			tb.Errorf("%s: %s: %d in all", name, what, times)
		}
	}
	var out []string
	for outcome, times := range f.tallies {
		out = append(out, fmt.Sprintf("%s: %d", outcome, times))
	}
	slices.Sort(out)
	tb.Logf("%s: %s", name, strings.Join(out, ", "))
}
