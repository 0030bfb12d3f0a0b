package group

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// The exploration of Hold with a clock: of two members one asks for it, dies, returns and registers, in any order and at any
// time. The assigner spreads two shards after each step.

const (
	testHold  = 3 * instant
	testLease = 2 * instant
)

// place is a group of two members.
type place struct {
	Peer       // of the member that dies
	now        time.Time
	registered uint64 // its token in the registry
	grants     []Grant
	revision   uint64
	over       time.Time // when its last term was over
	back       time.Time // when its present term began
	broken     string
}

func newPlace() *place {
	p := &place{now: time.Unix(0, 0), registered: 1, grants: make([]Grant, 2), back: time.Unix(0, 0)}
	p.Seen(1, true, p.now)
	p.spread()
	return p
}

func (p *place) possible() []string {
	steps := []string{"time passes"}
	switch {
	case p.leads && p.registered != p.token:
		steps = append(steps, "it registers", "it dies")
	case p.leads:
		steps = append(steps, "it dies")
	default:
		steps = append(steps, "it returns", "its key is taken")
	}
	return steps
}

func (p *place) do(what string) {
	switch what {
	case "time passes":
		p.now = p.now.Add(instant)
	case "it dies":
		p.over = p.now
		p.Seen(p.token, false, p.now)
	case "its key is taken": // by another member, which gives it up
		p.Seen(p.token+1, false, p.now)
	case "it returns":
		p.back = p.now
		p.Seen(p.token+1, true, p.now)
	case "it registers":
		p.registered = p.token
	}
	before := slices.Clone(p.grants)
	p.spread()
	p.inspect(before)
}

// spread lets the assigner spread the shards.
func (p *place) spread() {
	plan := Assigner{
		Workers: []Worker{{Session: Session{"b", 1}, Weight: 1}},
		Over:    func(s Session) bool { return s.ID == "a" && (s.Token < p.token || !p.leads) },
		Freed:   func(Session, int, uint64) bool { return true },
		Held: func(s Session) bool {
			return s.ID == "a" && !p.Held(testHold, testLease, p.registered == p.token, p.now).IsZero()
		},
	}
	if p.leads && p.registered == p.token {
		plan.Workers = append(plan.Workers, Worker{Session: Session{"a", p.token}, Weight: 1})
	}
	plan.Assign(p.grants)
	p.revision++
	(&Map{Revision: p.revision, Grants: p.grants}).Resolve()
}

// inspect checks which shards have moved.
func (p *place) inspect(before []Grant) {
	fail := func(format string, args ...any) { p.broken = fmt.Sprintf(format, args...) }
	has := make(map[string]int)
	for i, g := range p.grants {
		has[g.Owner.ID]++
		if before[i].Owner.ID == "a" && g.Owner.ID == "b" && p.now.Sub(p.over) < min(testHold, testLease) {
			fail("shard %d moves %v after the end", i, p.now.Sub(p.over))
		}
	}
	until := p.over.Add(testHold)
	if p.leads {
		until = p.back.Add(testLease)
	}
	alone := has["b"] == 2
	held := p.Held(testHold, testLease, p.registered == p.token, p.now)
	switch {
	case p.leads && p.registered == p.token:
		if alone || !held.IsZero() {
			fail("it is back, and has %d shards", has["a"])
		}
	case p.now.Before(until):
		if !held.Equal(until) {
			fail("its shards are held until %v, and not %v", held, until)
		}
		if before[0].Owner.ID != before[1].Owner.ID && alone {
			fail("its shard moves before %v", until)
		}
	case !alone || !held.IsZero():
		fail("its shard does not move at %v", until)
	}
}

func (p *place) print() string {
	since := func(at time.Time) time.Duration { return min(p.now.Sub(at), testHold) }
	return fmt.Sprint(p.leads, p.registered == p.token, since(p.over), since(p.back), since(p.began), since(p.ended), p.ended.IsZero(), p.grants[0].Owner.ID, p.grants[1].Owner.ID)
}

func TestPeer_Exploration(t *testing.T) {
	run := func(steps []string) *place {
		p := newPlace()
		for _, s := range steps {
			p.do(s)
		}
		return p
	}
	seen, queue, edges := map[string]bool{}, [][]string{nil}, 0
	for ; len(queue) > 0; queue = queue[1:] {
		for _, s := range run(queue[0]).possible() {
			next := append(slices.Clip(queue[0]), s)
			p := run(next)
			edges++
			check.Must(t, p.broken == "", "%s: %v", p.broken, next)
			if at := p.print(); !seen[at] {
				seen[at] = true
				queue = append(queue, next)
			}
		}
	}
	proof.Ran(len(seen), "situations")
	proof.Ran(edges, "transitions")
	check.Equal(t, len(seen), 124, "%d situations")
}
