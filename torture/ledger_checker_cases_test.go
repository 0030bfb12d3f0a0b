package torture_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
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
		k.does(t.id, attempt{Kind: put, N: 1, Call: t.at + 100, End: t.at + 200, Rev: 4 + 2*uint64(len(k.lives)-1), Out: accepted})
		k.store(0, register, t.id, t.token, 1)
	}
	return k
}

func ms(n int64) int64 { return n * int64(time.Millisecond) }

// does writes down an attempt, with times in milliseconds. By default it is on the
// register, and of the process's only term.
func (k *books) does(id string, a attempt) {
	a.Call, a.End = ms(a.Call), ms(a.End)
	if a.What == "" {
		a.What = register
	}
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

// Every kind of fault in the books is found, by the checker or by Porcupine, as listed,
// and nothing is found in good ones.
func TestTheLedgersCheckerFindsWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		name   string
		spoil  func(k *books)
		breaks string // the checker's finding, "" for none
		linear bool
	}{
		{"nothing wrong", func(*books) {}, "", true},
		{
			"an older term's write after a newer one's",
			func(k *books) {
				k.does("a", attempt{Kind: put, N: 2, Call: 1900, End: 2500, Out: unknown})
				k.store(0, register, "a", 5, 2)
			}, "older term's write after a newer one's: a with token 5, after b with token 7, at 7 of the register", true,
		},
		{
			"an older term's write after the guard was raised",
			func(k *books) {
				k.does("a", attempt{Kind: put, N: 2, Call: 1900, End: 2050, Rev: 6, Out: accepted})
				k.store(6, register, "a", 5, 2)
				k.lives[1].diary.attempts[0].Rev = 7
			}, "written past the guard: a with token 5, and the guard stood at 7, at 6 of the register", true,
		},
		{
			"a write while the guard was deleted",
			func(k *books) {
				k.raise(0)
				k.does("b", attempt{Kind: put, N: 2, Call: 2400, End: 2500, Rev: 8, Out: accepted})
				k.store(0, register, "b", 7, 2)
			}, "written past the guard: b with token 7, and the guard stood at 0", true,
		},
		{
			"a guard that was deleted and raised again",
			func(k *books) {
				k.raise(0)
				k.raise(7)
				k.does("b", attempt{Kind: put, N: 2, Call: 2400, End: 2500, Rev: 9, Out: accepted})
				k.store(0, register, "b", 7, 2)
			}, "", true,
		},
		{
			"a guard that falls",
			func(k *books) { k.raise(5) }, "a guard fell: from 7 to 5, by , at 7 of the register", true,
		},
		{
			"a guard that was deleted and raised by an older term",
			func(k *books) { k.raise(0); k.raise(5) }, "a guard fell: from 7 to 5, by , at 8 of the register", true,
		},
		{
			"an older term's write, called after the newer was elected",
			func(k *books) {
				k.guarded = false
				k.does("a", attempt{Kind: put, N: 2, Call: 2050, End: 2060, Rev: 6, Out: accepted})
				k.store(6, register, "a", 5, 2)
				k.lives[1].diary.attempts[0].Rev = 7
			}, "a write after a later term began: 7 of b had begun, and a write of a with token 5 was stored at 6", true,
		},
		{
			"what was acknowledged is not there",
			func(k *books) { k.does("b", attempt{Kind: put, N: 2, Call: 2400, End: 2500, Rev: 7, Out: accepted}) },
			"acknowledged and not there: at 7", true,
		},
		{
			"what was acknowledged is elsewhere",
			func(k *books) {
				k.does("b", attempt{Kind: put, N: 2, Call: 2400, End: 2500, Rev: 8, Out: accepted})
				k.store(0, register, "b", 7, 2)
			}, "acknowledged and not there: at 8", true,
		},
		{
			"ErrFenced, and it is stored",
			func(k *books) {
				k.does("b", attempt{Kind: put, N: 2, Call: 2400, End: 2500, Out: refused})
				k.store(0, register, "b", 7, 2)
			}, "stored in spite of that: at 7", true,
		},
		{
			"not sent, and it is stored",
			func(k *books) {
				k.does("b", attempt{Kind: put, N: 2, Call: 2400, End: 2500, Out: declined})
				k.store(0, register, "b", 7, 2)
			}, "stored in spite of that: at 7", true,
		},
		{
			"stored twice",
			func(k *books) { k.store(0, register, "b", 7, 1) }, "stored twice: 1 of b with token 7, at 6 and 7", true,
		},
		{
			"a batch",
			func(k *books) {
				k.does("b", attempt{Kind: batch, N: 2, Count: 2, Call: 2400, End: 2500, Rev: 8, Out: accepted})
				k.store(0, register, "b", 7, 2)
				k.store(0, register, "b", 7, 3)
			}, "", true,
		},
		{
			"a batch in part",
			func(k *books) {
				k.does("b", attempt{Kind: batch, N: 2, Count: 2, Call: 2400, End: 2500, Out: unknown})
				k.store(0, register, "b", 7, 2)
			}, "stored in part", true,
		},
		{
			"a batch in two pieces",
			func(k *books) {
				k.does("b", attempt{Kind: batch, N: 2, Count: 2, Call: 2400, End: 2500, Rev: 9, Out: accepted})
				k.does("b", attempt{Kind: put, N: 4, Call: 2400, End: 2500, Rev: 8, Out: accepted})
				for _, n := range []uint64{2, 4, 3} {
					k.store(0, register, "b", 7, n)
				}
			}, "not in one piece", false,
		},
		{
			"ErrFenced",
			func(k *books) { k.does("a", attempt{Kind: put, N: 2, Call: 2400, End: 2500, Out: refused}) }, "", true,
		},
		{
			"ErrFenced where nobody is later",
			func(k *books) { k.does("b", attempt{Kind: put, N: 2, Call: 2400, End: 2500, Out: refused}) },
			"guard was never raised by a later term", true,
		},
		{
			"ErrFenced, and accepted again",
			func(k *books) {
				k.does("a", attempt{Kind: put, N: 2, Call: 1300, End: 1400, Out: refused})
				k.does("a", attempt{Kind: put, N: 3, Call: 1500, End: 1600, Rev: 5, Out: accepted})
				k.store(5, register, "a", 5, 3)
				k.lives[1].diary.attempts[0].Rev = 7
			}, "ErrFenced, and a write of the same term was stored: at 1.400000s", true,
		},
		{
			"what was not known is stored behind what was known later",
			func(k *books) {
				k.does("b", attempt{Kind: put, N: 2, Call: 2300, End: 2400, Out: unknown})
				k.does("b", attempt{Kind: put, N: 3, Call: 2500, End: 2600, Rev: 7, Out: accepted})
				k.store(0, register, "b", 7, 3)
				k.store(0, register, "b", 7, 2)
			}, "stored behind a later one: 8 behind 7", true,
		},
		{
			"what was not known is stored, or not",
			func(k *books) {
				k.does("b", attempt{Kind: put, N: 2, Call: 2300, End: 2400, Out: unknown})
				k.does("b", attempt{Kind: put, N: 3, Call: 2300, End: 2400, Out: unknown})
				k.does("b", attempt{Kind: put, N: 4, Call: 2500, End: 2600, Rev: 8, Out: accepted})
				k.store(0, register, "b", 7, 3)
				k.store(0, register, "b", 7, 4)
			}, "", true,
		},
		{
			"stored by who was killed",
			func(k *books) { k.store(0, register, "b", 7, 2) }, "", true,
		},
		{
			"stored by who has ended and does not know",
			func(k *books) {
				k.lives[1].then(entry{At: ms(3000), What: ended})
				k.store(0, register, "b", 7, 2)
			}, "stored by who does not know of it", true,
		},
		{
			"an update",
			func(k *books) {
				k.does("b", attempt{Kind: update, N: 2, At: 6, Call: 2400, End: 2500, Rev: 7, Out: accepted})
				k.store(0, register, "b", 7, 2)
			}, "", true,
		},
		{
			"a lost update",
			func(k *books) {
				k.does("b", attempt{Kind: update, N: 2, At: 4, Call: 2400, End: 2500, Rev: 7, Out: accepted})
				k.store(0, register, "b", 7, 2)
			}, "a lost update: of 6, by what was to replace 4", false,
		},
		{
			"an update that was refused",
			func(k *books) { k.does("b", attempt{Kind: update, N: 2, At: 4, Call: 2400, End: 2500, Out: mismatch}) }, "", true,
		},
		{
			"an update that was refused for no reason",
			func(k *books) { k.does("b", attempt{Kind: update, N: 2, At: 6, Call: 2400, End: 2500, Out: mismatch}) }, "", false,
		},
		{
			"one after the other, stored in the other order",
			func(k *books) {
				k.does("b", attempt{Kind: put, N: 2, Call: 2400, End: 2500, Rev: 8, Out: accepted})
				k.does("b", attempt{Kind: put, N: 3, Call: 2600, End: 2700, Rev: 7, Out: accepted})
				k.store(0, register, "b", 7, 3)
				k.store(0, register, "b", 7, 2)
			}, "", false,
		},
		{
			"reads",
			func(k *books) {
				k.does("a", attempt{Kind: leased, Call: 1300, End: 1400, Rev: 4, Out: accepted})
				k.does("b", attempt{Kind: leased, Call: 2050, End: 2150, Rev: 4, Out: accepted})
				k.does("b", attempt{Kind: confirmed, Call: 2150, End: 2160, Rev: 6, Out: accepted})
			}, "", true,
		},
		{
			"a read from the past",
			func(k *books) { k.does("a", attempt{Kind: leased, Call: 2300, End: 2400, Rev: 4, Out: accepted}) }, "", false,
		},
		{
			"a read from the past while there may be two leases",
			func(k *books) {
				k.voids = []void{{from: ms(1500), to: ms(2350), how: "bucket made anew"}}
				k.does("a", attempt{Kind: leased, Call: 2300, End: 2400, Rev: 4, Out: accepted})
			}, "", true,
		},
		{
			"a confirmed read from the past while there may be two leases",
			func(k *books) {
				k.voids = []void{{from: ms(1500), to: ms(2350), how: "bucket made anew"}}
				k.does("a", attempt{Kind: confirmed, Call: 2300, End: 2400, Rev: 4, Out: accepted})
			}, "", false,
		},
		{
			"two reads, the later one older",
			func(k *books) {
				k.does("b", attempt{Kind: leased, Call: 2110, End: 2120, Rev: 6, Out: accepted})
				k.does("b", attempt{Kind: leased, Call: 2130, End: 2140, Rev: 4, Out: accepted})
			}, "", false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := goodBooks()
			c.spoil(k)
			f := checkLedger(*k)
			if found := strings.Join(f.broken, "\n"); c.breaks == "" && found != "" || !strings.Contains(found, c.breaks) {
				t.Errorf("the checker says %q, want %q", found, c.breaks)
			}
			if is := linear(t, *k, f, register, t.TempDir()); is != c.linear {
				t.Errorf("linearizable: %v, want %v", is, c.linear)
			}
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
		if len(stretches) < 10 {
			t.Errorf("%d stretches", len(stretches))
		}
		return !slices.ContainsFunc(stretches, func(s chainStretch) bool {
			return !porcupine.CheckOperations(chainModel(s.initial), s.ops)
		})
	}
	if !legal(good()) {
		t.Error("a good history is illegal")
	}
	for _, i := range []int{0, 999, 1000, 1001, 10_000, 19_999} {
		for _, rev := range []uint64{0, uint64(i) - 2, uint64(i) + 5} {
			ops := good()
			ops[i].Input = chainOp{kind: leased, rev: rev}
			t.Run(fmt.Sprintf("read of %d at %d", rev, i), func(t *testing.T) {
				if legal(ops) {
					t.Error("nothing is found")
				}
			})
		}
	}
}
