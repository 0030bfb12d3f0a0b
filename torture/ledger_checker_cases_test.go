package torture_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	expect "github.com/natsleader/natsleader/internal/check"
)

// goodBooks are of two terms, which have written one value each:
//
//	a, token 5: elected at 1000 ms, register 4 from 1100 to 1200
//	b, token 7: elected at 2000 ms, register 6 from 2100 to 2200
func goodBooks() *books {
	k := &books{guarded: true}
	k.store(0, register, "", 0, 0)
	k.store(0, list, "", 0, 0)
	for _, t := range []struct {
		id    string
		token uint64
		at    int64
	}{{"a", 5, 1000}, {"b", 7, 2000}} {
		k.lives = append(k.lives, &life{id: t.id, entries: []entry{{At: 1, What: began}, {At: ms(t.at), What: elected, Token: t.token}}})
		k.raise(t.token)
		k.does(t.id, attempt{Kind: put, N: 1, Call: ms(t.at + 100), End: ms(t.at + 200), Rev: 4 + 2*uint64(len(k.lives)-1), Out: accepted})
		k.store(0, register, t.id, t.token, 1)
	}
	return k
}

func ms(n int64) int64 { return n * int64(time.Millisecond) }

// does writes down an attempt on the register, of the process's only term.
func (k *books) does(id string, a attempt) {
	a.What = register
	if a.N != 0 && a.Count == 0 {
		a.Count = 1
	}
	l := lifeOf(k.lives, id)
	a.Token = l.entries[1].Token
	l.diary.attempts = append(l.diary.attempts, a)
}

// store appends a value to the ledger, or inserts it at seq.
func (k *books) store(seq uint64, what, by string, token, n uint64) {
	k.insert(seq, stored{what: what, value: value{By: by, Token: token, N: n, Call: ms(2900)}})
}

// raise appends the register's guard.
func (k *books) raise(token uint64) {
	k.insert(0, stored{guards: register, value: value{Token: token}})
}

func (k *books) insert(seq uint64, m stored) {
	if seq == 0 {
		seq = uint64(len(k.ledger)) + 1
	}
	k.ledger = slices.Insert(k.ledger, int(seq)-1, m)
	for i := range k.ledger {
		k.ledger[i].seq = uint64(i) + 1
	}
}

// apply changes the books by a line of testdata/ledgers.txt.
func (k *books) apply(t *testing.T, key, text string) {
	t.Helper()
	words := strings.Fields(text)
	switch {
	case key == "unguarded":
		k.guarded = false
	case key == "guard":
		k.raise(token(t, text))
	case key == "forgot":
		from, to := span(t, text)
		k.voids = append(k.voids, void{from: from, to: to, how: "bucket made anew"})
	case key == "stored" && len(words) == 5:
		k.store(token(t, words[4]), register, words[0], token(t, words[1]), token(t, words[2]))
		k.lives[1].diary.attempts[0].Rev++ // it has moved
	case key == "stored":
		k.store(0, register, words[0], token(t, words[1]), token(t, words[2]))
	case words[0] == ended:
		l := lifeOf(k.lives, key)
		l.entries = append(l.entries, entry{At: number(t, words[1]), What: ended})
	default:
		a := attempt{Kind: words[0]}
		for _, word := range words[1:] {
			switch field, text, _ := strings.Cut(word, "="); field {
			case "n":
				a.N = token(t, text)
			case "count":
				a.Count = token(t, text)
			case "at":
				a.At = token(t, text)
			case "rev":
				a.Rev = token(t, text)
			case accepted, refused, mismatch, declined, unknown:
				a.Out = word
			default:
				a.Call, a.End = span(t, word)
			}
		}
		k.does(key, a)
	}
}

// Every kind of fault in the books is found, by the checker or by Porcupine, as listed,
// and nothing is found in good ones.
func TestTheLedgersCheckerFindsWhatIsWrong(t *testing.T) {
	for _, s := range sections(t, "ledgers.txt") {
		t.Run(s.name, func(t *testing.T) {
			k, breaks, want := goodBooks(), "", true
			for _, line := range s.lines {
				switch key, text := line[0], line[1]; key {
				case "breaks":
					breaks = text
				case "linear":
					want = text != "no"
				default:
					k.apply(t, key, text)
				}
			}
			f := checkLedger(*k)
			found := strings.Join(f.broken, "\n")
			expect.That(t, (breaks != "" || found == "") && strings.Contains(found, breaks),
				"the checker says %q, want %q", found, breaks)
			expect.Equal(t, linear(t, *k, f, register, t.TempDir()), want, "linearizable: %v")
		})
	}
}

// A history is cut where that hides nothing. A fault in any of its parts, or across a
// cut, is found. A good history of many operations is decided in moments.
func TestLongHistory_Cut(t *testing.T) {
	good := func() []porcupine.Operation {
		var ops []porcupine.Operation
		for i := range int64(20_000) { // two at a time
			at := ms(10 * (i / 2))
			ops = append(ops, porcupine.Operation{Call: at, Return: at + ms(5), Input: chainOp{kind: put, over: uint64(i), rev: uint64(i) + 1}})
		}
		return ops
	}
	legal := func(ops []porcupine.Operation) bool {
		stretches := split(0, ops)
		expect.That(t, len(stretches) >= 10, "%d stretches", len(stretches))
		return !slices.ContainsFunc(stretches, func(s stretch[uint64]) bool {
			return !porcupine.CheckOperations(chainModel(s.initial), s.ops)
		})
	}
	expect.That(t, legal(good()), "a good history is illegal")
	for _, i := range []int{0, 999, 1000, 1001, 10_000, 19_999} {
		for _, rev := range []uint64{0, uint64(i) - 2, uint64(i) + 5} {
			ops := good()
			ops[i].Input = chainOp{kind: leased, rev: rev}
			t.Run(fmt.Sprintf("read of %d at %d", rev, i), func(t *testing.T) {
				expect.That(t, !legal(ops), "nothing is found")
			})
		}
	}
}
