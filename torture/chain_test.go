package torture_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
)

// The register and the list are sequential objects for Porcupine. The revision of the
// last value, which is unique, stands for both: for the register, and also for the
// list, to which everything is appended. Each operation can take effect at one instant
// between its call and its return:
//
//	write(over, rev)       over was the last, now it is rev (or the last of a batch)
//	update(at, over, rev)  the same, and it was to replace at
//	mismatch(at)           at was not the last
//	read(rev)              rev was the last
//
// The revision that a write came over is taken from the ledger. So the order of the
// ledger has to be that of the instants. This is stricter than the question whether
// there is any order, and quick to decide.
type chainOp struct {
	kind          string
	at, over, rev uint64
}

func chainModel(initial uint64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, input, _ any) (bool, any) {
			last, _ := state.(uint64)
			op, _ := input.(chainOp)
			switch op.kind {
			case update:
				return op.at == op.over && op.over == last, op.rev
			case mismatch:
				return op.at != last, last
			case leased, confirmed:
				return op.rev == last, last
			default:
				return op.over == last, op.rev
			}
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprint(input) },
		DescribeState:     func(state any) string { return fmt.Sprint(state) },
	}
}

// chain returns the operations on the register, or on the list.
func chain(b books, f findings, what string) (initial uint64, ops []porcupine.Operation) {
	for _, m := range b.ledger {
		if m.what == what && m.By == "" { // it was there before the first leader
			initial = m.seq
		}
	}
	clients := make(map[*life]int)
	for i, l := range b.lives {
		clients[l] = i
	}
	h := history{voids: b.voids}
	for _, d := range f.effects {
		op := chainOp{kind: d.Kind, at: d.At, rev: d.Rev}
		end := d.End
		switch {
		case d.What != what, d.Out == refused, d.Kind == leased && h.touches(d.Call, d.End):
			continue
		case d.Out == mismatch:
			op.kind = mismatch
		case len(d.found) != 0:
			op.over, op.rev = d.found[0].over, d.found[len(d.found)-1].seq
			if d.Out == unknown {
				end = forever
			}
		}
		ops = append(ops, porcupine.Operation{ClientId: clients[d.life], Input: op, Call: d.Call, Return: end})
	}
	return initial, closeOpen(ops)
}

// touches reports whether a void overlaps that time.
func (h history) touches(from, to int64) bool {
	return slices.ContainsFunc(h.voids, func(v void) bool { return v.from <= to && from <= v.to })
}

// closeOpen ends an operation without an answer at the first return of an operation
// that came after it, because that operation saw its effect. An operation without an
// end would overlap with all later ones.
func closeOpen(ops []porcupine.Operation) []porcupine.Operation {
	rev := func(o porcupine.Operation) uint64 {
		op, _ := o.Input.(chainOp)
		return op.rev
	}
	byRev := make([]*porcupine.Operation, len(ops))
	for i := range ops {
		byRev[i] = &ops[i]
	}
	slices.SortStableFunc(byRev, func(a, b *porcupine.Operation) int { return cmp.Compare(rev(*b), rev(*a)) })
	end := int64(forever)
	for _, o := range byRev {
		if o.Return == forever && end > o.Call {
			o.Return = end
		}
		if rev(*o) != 0 {
			end = min(end, o.Return)
		}
	}
	return ops
}

// split cuts a history, which is sorted by calls: the cost of Porcupine is the square of
// the length.
func split(initial uint64, ops []porcupine.Operation) []stretch[uint64] {
	const enough = 1000
	var all []stretch[uint64]
	s := stretch[uint64]{initial: initial}
	last, busy := initial, int64(0) // the greatest revision, and the end of all operations, so far
	for _, o := range ops {
		if len(s.ops) >= enough && o.Call > busy {
			all = append(all, s)
			s = stretch[uint64]{initial: last}
		}
		op, _ := o.Input.(chainOp)
		last, busy = max(last, op.rev), max(busy, o.Return)
		s.ops = append(s.ops, o)
	}
	return append(all, s)
}

// linear reports whether the operations on the register, or on the list, have an order
// that their calls and returns allow.
func linear(tb testing.TB, b books, f findings, what, dir string) bool {
	tb.Helper()
	initial, ops := chain(b, f, what)
	return orderly(tb, what, chainModel, split(initial, ops), dir)
}
