package group

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// The exploration of a Term with a clock: one process, in one term after the other, with one page. Time passes in steps. The
// shell does at once what a term asks for; the application takes works, returns from them, or does neither. What each shard is
// to show follows from a second, plain account of what has happened.

const instant = time.Second

var termLimits = Limits{Drain: 2 * instant, Pause: 2 * instant, Begin: 2 * instant}

// termStep is what happens next.
type termStep struct {
	what  string
	shard int
}

// account is what has happened to a shard.
type account struct {
	owner, pred Session
	freed       bool // pred does not work on it any more
	since       uint64
	work        *Work // has not returned, in whichever term it began
	taken       bool
	ended       bool // the context of the work
	left        bool // the work was given up, or its term is over
	drained     time.Time
	resume      time.Time
	began       time.Time
	ready       time.Time // since when the application has not taken it; zero: it has, or there is nothing to take
	quick       int
}

// process is a process with a term.
type process struct {
	*Term
	self     Session
	now      time.Time
	revision uint64
	ended    bool // the term
	shards   []account
	wake     time.Time
	broken   string
}

func newProcess(shards int) *process {
	p := &process{now: time.Unix(0, 0), shards: make([]account, shards)}
	p.begin()
	return p
}

// begin begins the next term, which reads the page.
func (p *process) begin() {
	p.self = Session{"a", p.self.Token + 1}
	p.Term, p.ended = NewTerm(p.self, Layout{Shards: len(p.shards), PageSize: len(p.shards)}, termLimits), false
	for i := range p.shards {
		p.shards[i].quick, p.shards[i].resume, p.shards[i].ready = 0, time.Time{}, time.Time{}
	}
	p.deliver()
}

func (p *process) deliver() {
	p.revision++
	m := Map{Revision: p.revision}
	for i := range p.shards {
		a := &p.shards[i]
		m.Grants = append(m.Grants, Grant{a.owner, a.since, a.pred})
	}
	p.Received(0, m, p.now)
}

func (p *process) fail(format string, args ...any) {
	if p.broken == "" {
		p.broken = fmt.Sprintf(format, args...)
	}
}

// possible returns what can happen next.
func (p *process) possible() (steps []termStep) {
	steps = append(steps, termStep{"time passes", 0})
	if !p.ended {
		steps = append(steps, termStep{"the term ends", 0})
	}
	for i := range p.shards {
		a := &p.shards[i]
		if a.owner != p.self {
			steps = append(steps, termStep{"grant to it", i})
		} else {
			steps = append(steps, termStep{"grant to another", i})
		}
		if a.owner == p.self && a.pred != (Session{}) && !a.freed {
			steps = append(steps, termStep{"the predecessor stops", i})
		}
		if a.work != nil { // one that was not taken: a guard refuses it, or its context has ended
			steps = append(steps, termStep{"the work returns", i})
		}
		if a.work != nil && !a.taken && !a.ended {
			steps = append(steps, termStep{"the application takes it", i})
		}
		if a.work != nil && a.taken && !a.ended {
			steps = append(steps, termStep{"a guard ends it", i})
		}
	}
	return steps
}

// do lets one thing happen.
func (p *process) do(s termStep) {
	a := &p.shards[s.shard]
	var before []int
	switch s.what {
	case "time passes":
		before = p.Unbegun(p.now)
		if p.now = p.now.Add(instant); !p.wake.IsZero() && p.wake.Before(p.now) {
			p.fail("it wakes between two instants")
		}
	case "the term ends":
		p.ended = true
		for i := range p.shards {
			if w := p.shards[i].work; w != nil && !p.shards[i].ended {
				p.shards[i].ended, p.shards[i].drained = true, p.now
			}
		}
		p.Over(p.now)
	case "grant to it":
		a.pred, a.freed = Session{}, false
		if a.owner.ID == "b" {
			a.pred = a.owner
		}
		a.owner, a.since = p.self, p.revision+1
		p.deliver()
	case "grant to another":
		a.owner, a.pred, a.freed, a.since = Session{"b", 1}, Session{}, false, p.revision+1
		if a.work != nil && !a.ended {
			a.ended, a.drained = true, p.now
		}
		p.deliver()
	case "the predecessor stops":
		a.freed = true
	case "the application takes it":
		a.taken, a.began, a.ready = true, p.now, time.Time{}
		p.Took(a.work, p.now)
	case "a guard ends it":
		a.ended, a.drained = true, p.now
		p.Fenced(a.work, p.now)
	case "the work returns":
		p.Returned(a.work, p.now)
		if a.owner == p.self && !a.left && !p.ended && a.since == a.work.Token { // early
			a.resume = p.now.Add(termLimits.Pause)
			if a.taken {
				if a.quick++; p.now.Sub(a.began) >= termLimits.Pause {
					a.quick = 0
				}
			}
		}
	}
	if p.settle(); s.what == "the work returns" {
		a.work = nil
	}
	var woken []Effect
	p.Tick(p.now)
	woken = append(woken, p.settle()...)
	if !p.ended {
		awaited := p.Start(p.now, func(n int) bool { return p.shards[n].work != nil }, func(pred Session, page int) Standing {
			for i := range p.shards {
				if p.shards[i].pred == pred && p.shards[i].freed { // of one shard alone
					return Standing{Report: Report{Seen: p.revision, Busy: p.busy()}}
				}
			}
			return Standing{}
		})
		woken = append(woken, p.settle()...)
		for i := range p.shards {
			a := &p.shards[i]
			waits := a.owner == p.self && a.pred != (Session{}) && !a.freed && a.work == nil && !p.now.Before(a.resume)
			if waits && !awaited["b"] {
				p.fail("it does not follow the member for which shard %d waits", i)
			}
		}
	}
	if s.what == "time passes" && (len(woken) > 0 || !slices.Equal(before, p.Unbegun(p.now))) && !p.wake.Equal(p.now) {
		p.fail("%v is due, and it sleeps until %v", woken, p.wake)
	}
	p.inspect()
	p.wake = p.Wake(p.now)
	if p.ended && p.Idle() {
		p.begin()
		p.settle()
		p.do(termStep{"nothing", 0})
	}
}

// busy returns the shards whose predecessor still works on them.
func (p *process) busy() (shards []int) {
	for i := range p.shards {
		if !p.shards[i].freed {
			shards = append(shards, i)
		}
	}
	return shards
}

// settle does what the term asks for.
func (p *process) settle() []Effect {
	todo := p.Effects()
	for _, e := range todo {
		n := e.Work.Shard
		a := &p.shards[n]
		switch e.Kind {
		case Begin:
			switch {
			case a.work != nil:
				p.fail("shard %d has two works", n)
			case a.owner != p.self || p.ended || a.pred != (Session{}) && !a.freed || p.now.Before(a.resume):
				p.fail("the work on shard %d must not begin", n)
			case e.Work.Token != a.since:
				p.fail("shard %d begins with token %d, and not %d", n, e.Work.Token, a.since)
			}
			a.work, a.taken, a.ended, a.left = e.Work, false, false, false
			if a.ready.IsZero() {
				a.ready = p.now
			}
		case GiveUp:
			if a.work != e.Work || !a.ended || p.now.Sub(a.drained) != termLimits.Drain {
				p.fail("shard %d is given up after %v", n, p.now.Sub(a.drained))
			}
			a.left = true
		case Cancel:
			if a.work != e.Work || a.owner == p.self {
				p.fail("shard %d is not taken away", n)
			}
		case Drain:
			if a.work != e.Work || !a.ended || !a.drained.Equal(p.now) {
				p.fail("the work on shard %d does not end", n)
			}
		case Quick:
			if a.quick != MostQuick {
				p.fail("it was quick %d times", a.quick)
			}
		case Granted:
			if a.owner != p.self || e.Work.Token != a.since {
				p.fail("shard %d is not granted", n)
			}
		case Ended:
			if a.work != e.Work || a.left {
				p.fail("shard %d has not ended", n)
			}
		}
	}
	return todo
}

// inspect compares what the term shows with the account.
func (p *process) inspect() {
	r := p.Reports()[0]
	granted, owned := 0, 0
	var unbegun []int
	for i := range p.shards {
		a := &p.shards[i]
		if a.owner == p.self {
			granted++
		}
		if a.work != nil && a.taken && !a.ended {
			owned++
		}
		waits := a.owner == p.self && !p.ended && (a.pred == (Session{}) || a.freed)
		if waits && a.work == nil && !p.now.Before(a.resume) {
			p.fail("the work on shard %d does not begin", i)
		}
		stops := a.work != nil && !a.left && a.ended && (p.ended || a.owner != p.self || a.since != a.work.Token)
		if stops != slices.Contains(r.Busy, i) {
			p.fail("it reports %v", r.Busy)
		}
		if a.work != nil && a.ended && !a.left && p.now.Sub(a.drained) >= termLimits.Drain {
			p.fail("shard %d is not given up", i)
		}
		if inTerm := a.work != nil && !a.left; !inTerm && (a.owner != p.self || p.ended) || inTerm && a.taken {
			a.ready = time.Time{} // there is nothing to take
		}
		if !a.ready.IsZero() && p.now.Sub(a.ready) >= termLimits.Begin {
			unbegun = append(unbegun, i)
		}
	}
	if r.Left != p.ended || r.Seen != p.revision {
		p.fail("it reports %+v", r)
	}
	if g, o := p.Count(); g != granted || o != owned {
		p.fail("it counts %d granted and %d owned; want %d and %d", g, o, granted, owned)
	}
	if got := p.Unbegun(p.now); !slices.Equal(got, unbegun) {
		p.fail("%v have not begun in time; want %v", got, unbegun)
	}
}

// print is what the future depends on.
func (p *process) print() string {
	ago := func(at time.Time, most time.Duration) time.Duration {
		if at.IsZero() {
			return -math.MaxInt64
		}
		return min(p.now.Sub(at), most)
	}
	text := fmt.Sprint(p.ended)
	for i := range p.shards {
		a := &p.shards[i]
		owner := a.owner.ID
		if a.owner.ID == "a" && a.owner != p.self {
			owner = "-" // an earlier term is over
		}
		text += fmt.Sprint("|", owner, a.pred.ID, a.freed, a.work != nil, p.works[i] != nil, max(0, a.resume.Sub(p.now)), max(0, p.resume[i].Sub(p.now)),
			ago(a.ready, termLimits.Begin), ago(p.ready[i], termLimits.Begin), min(a.quick, MostQuick), min(p.quick[i], MostQuick))
		if a.work != nil {
			text += fmt.Sprint(a.taken, a.ended, a.left, ago(a.work.ended, termLimits.Drain), ago(a.work.began, termLimits.Pause), a.work.Token == a.since)
		}
	}
	return text
}

func TestTerm_Exploration(t *testing.T) {
	for _, x := range []struct{ shards, sample, long, all int }{{1, math.MaxInt, math.MaxInt, 556}, {2, 5000, 50_000, 173_904}} {
		t.Run(fmt.Sprintf("%d shards", x.shards), func(t *testing.T) {
			if *whole {
				x.long = math.MaxInt
			}
			most := proof.Raced(proof.Size(x.sample, x.long), 20)
			run := func(steps []termStep) *process {
				p := newProcess(x.shards)
				for _, s := range steps {
					p.do(s)
				}
				return p
			}
			seen, queue, edges := map[string]bool{}, [][]termStep{nil}, 0
			for ; len(queue) > 0 && len(seen) < most; queue = queue[1:] {
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
			t.Log(len(seen), "situations,", edges, "transitions,", len(queue), "not visited")
			if len(queue) == 0 {
				check.Equal(t, len(seen), x.all, "%d situations")
			}
		})
	}
}
