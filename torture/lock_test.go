package torture_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// The lock as a sequential object, for Porcupine. Its state is the holder and the
// greatest token ever given out. Each operation can take effect at one instant between
// its call and its return:
//
//	acquire(id, token)  the lock is free, and the token is greater than all before.
//	                    Called when the process last knew that it did not lead,
//	                    returned with its first claim.
//	holds(id, token)    a claim: that process holds it with that token
//	release(id, token)  called with the last claim; returned when the process
//	                    learned of its loss, or was seen dead
//	seen(token)         another process saw the term in the bucket: it has been acquired
//
// The checker of intervals does not consider seen, which orders terms by what other
// processes saw of them, before the winner itself knew.
type lockOp struct {
	kind  string
	id    string
	token uint64
}

type lockState struct {
	holder string // empty: none
	token  uint64 // the greatest so far
}

func lockModel(initial lockState) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return initial },
		Step: func(state, input, _ any) (bool, any) {
			s, _ := state.(lockState)
			op, _ := input.(lockOp)
			held := s == lockState{op.id, op.token}
			switch op.kind {
			case "acquire":
				return s.holder == "" && op.token > s.token, lockState{op.id, op.token}
			case "holds":
				return held, s
			case "release":
				return held, lockState{"", s.token}
			default: // seen
				return op.token <= s.token, s
			}
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprint(input) },
		DescribeState:     func(state any) string { return fmt.Sprint(state) },
	}
}

// stretch is a part of a history, from one instant to another: what its model begins with, and the
// operations.
type stretch[S any] struct {
	initial S
	ops     []porcupine.Operation
}

// orderly reports whether the operations of each stretch have an order, each at an instant between its
// call and its return, that the model allows.
func orderly[S any](tb testing.TB, what string, model func(initial S) porcupine.Model, all []stretch[S], dir string) bool {
	tb.Helper()
	start, legal, ops, longest := time.Now(), true, 0, 0
	for i, s := range all {
		ops, longest = ops+len(s.ops), max(longest, len(s.ops))
		result, info := porcupine.CheckOperationsVerbose(model(s.initial), s.ops, 5*time.Minute)
		if result == porcupine.Ok {
			continue
		}
		legal = false
		path := filepath.Join(dir, fmt.Sprintf("porcupine-%s-%d.html", what, i))
		err := porcupine.VisualizePath(model(s.initial), info, path)
		tb.Logf("porcupine: stretch %d of the %s: %s, see %s (%v)", i, what, result, path, err)
	}
	tb.Logf("porcupine: the %s: %d operations in %d stretches of at most %d in %v",
		what, ops, len(all), longest, time.Since(start).Round(time.Millisecond))
	return legal
}

// locked cuts the history of the lock where the store was made to forget, because the lock is no lock
// there.
func locked(h history, terms []*term) []stretch[lockState] {
	var all []stretch[lockState]
	var from int64
	for _, d := range h.voids {
		all = append(all, lockedIn(h, terms, from, d.from))
		from = d.to
	}
	return append(all, lockedIn(h, terms, from, forever))
}

const forever = 1 << 62

func lockedIn(h history, terms []*term, from, to int64) (s stretch[lockState]) {
	clients := make(map[string]int)
	for i, l := range h.lives {
		clients[l.id] = i
	}
	given := make(map[uint64]bool)
	add := func(kind string, t *term, call, ret int64) {
		s.ops = append(s.ops, porcupine.Operation{
			ClientId: clients[t.life.id], Input: lockOp{kind, t.life.id, t.token}, Call: call, Return: ret,
		})
	}
	for _, t := range terms {
		if t.last < from || t.first > to {
			continue
		}
		given[t.token] = true
		if t.first < from {
			s.initial = lockState{t.life.id, t.token}
		} else {
			add("acquire", t, max(from, t.free), t.first)
		}
		first, last := max(from, t.first), min(to, t.last)
		for _, at := range []int64{first, first + (last-first)/2, last} {
			add("holds", t, at, at)
		}
		switch {
		case t.last > to:
		case t.over == 0: // at any time from then on
			add("release", t, t.last, forever)
		default:
			add("release", t, t.last, t.over)
		}
	}
	for _, l := range h.lives {
		for _, e := range l.entries {
			if e.What == observed && given[e.Token] && from <= e.At && e.At <= to {
				add("seen", &term{life: l, token: e.Token}, e.At, e.At)
			}
		}
	}
	return s
}
