package torture_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/contract"
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

// effect is an attempt of a process, and the values found of it.
type effect struct {
	attempt
	life  *life
	found []stored
}

func (d *effect) String() string {
	return fmt.Sprintf("%s of %s by %s with token %d, called at %s, ended at %s, %s",
		d.Kind, d.What, d.life.id, d.Token, instant(d.Call), instant(d.End), d.Out)
}

// findings are the result of checking a ledger.
type findings struct {
	guards  map[string]*contract.Guard // by the part that they guard
	broken  []string
	effects []*effect      // by call, without those only known not to be stored
	tallies map[string]int // of outcomes
}

func (f *findings) breaks(format string, args ...any) {
	f.broken = append(f.broken, fmt.Sprintf(format, args...))
}

// checkLedger compares the attempts with the stored values.
func checkLedger(b books) findings {
	f := findings{guards: map[string]*contract.Guard{register: {}, list: {}}, tallies: make(map[string]int)}
	f.order(b)
	f.match(b)
	f.time(b)
	return f
}

// order checks the ledger alone, by the contract of a guarded resource.
func (f *findings) order(b books) {
	last := make(map[string]uint64)
	for i, m := range b.ledger {
		term := contract.Term{Who: m.By, Token: m.Token}
		var broken []*contract.Violation
		what := m.what
		switch {
		case m.guards != "":
			if what = m.guards; m.Token == 0 {
				f.guards[what].Overwrite(0)
			} else if v := f.guards[what].Raise(term); v != nil {
				broken = append(broken, v)
			}
		case what == "":
		default:
			if b.guarded {
				broken = f.guards[what].Write(term)
			} else if v := f.guards[what].Order(term); v != nil {
				broken = append(broken, v)
			}
			b.ledger[i].over = last[what]
			last[what] = m.seq
		}
		for _, v := range broken {
			f.breaks("%v, at %d of the %s", v, m.seq, what)
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
			d := &effect{attempt: a, life: l}
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
		f.effects = append(f.effects, &effect{life: l, found: []stored{m}, attempt: attempt{
			Kind: put, What: m.what, Token: m.Token, N: m.N, Count: 1, Call: m.Call, End: forever, Out: unknown,
		}})
	}
	slices.SortStableFunc(f.effects, func(a, b *effect) int { return cmp.Compare(a.Call, b.Call) })
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
func (f *findings) hold(d *effect) {
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
	f.effects = append(f.effects, d)
}

// time checks when attempts were made. A write that was called after a newer term was
// elected is not stored if it is of an older term. No write of a term was accepted after ErrFenced
// had been returned to that term, and ErrFenced was not returned before a later term
// had raised the guard. No write of unknown outcome is stored behind a write of the
// same term that was called later and acknowledged.
func (f *findings) time(b books) {
	var election contract.Election
	for _, l := range b.lives {
		for _, e := range l.entries {
			if e.What == elected {
				election.Elected(contract.Term{Who: l.id, Token: e.Token}, 0, e.At) // which the other checker checks
			}
		}
	}
	type writer struct {
		token uint64
		what  string
	}
	fenced := make(map[writer]*effect)   // the first refused write
	doubtful := make(map[writer]*effect) // the latest stored write of unknown outcome
	for _, d := range f.effects {
		w := writer{d.Token, d.What}
		switch {
		case d.N == 0: // a read
		case d.Out == refused:
			if f.guards[d.What].Top() <= d.Token {
				f.breaks("ErrFenced, and the guard was never raised by a later term: %v", d)
			}
			if first := fenced[w]; first == nil || d.End < first.End {
				fenced[w] = d
			}
		case len(d.found) != 0:
			if v := election.Stored(contract.Term{Who: d.life.id, Token: d.Token}, d.Call); v != nil {
				f.breaks("%v at %d: %v", v, d.found[0].seq, d)
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
		alike[what]++
		expect.That(tb, alike[what] > enough, "%s: %s", name, broken)
	}
	for what, times := range alike {
		expect.That(tb, times <= enough, "%s: %s: %d in all", name, what, times)
	}
	var out []string
	for outcome, times := range f.tallies {
		out = append(out, fmt.Sprintf("%s: %d", outcome, times))
	}
	slices.Sort(out)
	tb.Logf("%s: %s", name, strings.Join(out, ", "))
}
