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

// The exploration of a Term with a clock: one process, in one term after the other. Time passes in steps. The
// shell does at once what a term asks for; the application takes works, returns from them, or does neither. What each shard is
// to show, and which effects have to come in each step, follows from a second, plain account of what has happened.

const instant = time.Second

// They differ, so that the deadlines of a shard come in any order.
var termLimits = Limits{Drain: 4 * instant, Pause: 2 * instant, Begin: 3 * instant}

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
	raised      bool
	released    bool // before the application took it
	taken       bool
	ended       bool // the context of the work
	left        bool // the work was given up, or its term is over
	drained     time.Time
	resume      time.Time
	began       time.Time
	ready       time.Time // since when the application has not taken it; zero: it has, or there is nothing to take
	offered     time.Time // since when it can
	idle        bool      // it has not for too long
	quick       int
}

// process is a process with a term.
type process struct {
	*Term
	page     int  // shards on each page
	guards   bool // they take time to raise
	self     Session
	now      time.Time
	revision uint64
	ended    bool // the term
	shards   []account
	wake     time.Time
	broken   string
	drains   Unreturned // over the terms
	due      []duty     // effects that have to come in this step
}

// duty is an effect of a shard.
type duty struct {
	kind  EffectKind
	shard int
}

// expect lets an effect be due.
func (p *process) expect(kind EffectKind, shard int) { p.due = append(p.due, duty{kind, shard}) }

// end ends the context of a work.
func (p *process) end(shard int) {
	if a := &p.shards[shard]; a.work != nil && !a.ended {
		a.ended, a.drained = true, p.now
		p.expect(Drain, shard)
	}
}

// revoke takes a shard from its owner.
func (p *process) revoke(shard int) {
	if a := &p.shards[shard]; a.work != nil && !a.left && !p.ended && a.work.Token == a.since {
		p.expect(Cancel, shard)
	}
	p.end(shard)
}

func newProcess(shards, page int, guards bool) *process {
	p := &process{page: page, guards: guards, now: time.Unix(0, 0), shards: make([]account, shards), drains: make(Unreturned)}
	p.begin()
	return p
}

// begin begins the next term, which reads the page.
func (p *process) begin() {
	p.self = Session{"a", p.self.Token + 1}
	p.Term, p.ended = NewTerm(p.self, Layout{Shards: len(p.shards), PageSize: p.page}, termLimits, p.drains), false
	for i := range p.shards {
		p.shards[i].quick, p.shards[i].resume, p.shards[i].ready = 0, time.Time{}, time.Time{}
	}
	p.deliver()
}

// waits reports whether the application can take the work.
func (a *account) waits() bool { return a.work != nil && a.raised && !a.taken && !a.ended }

func (p *process) deliver() {
	p.revision++
	for first := 0; first < len(p.shards); first += p.page {
		m := Map{Revision: p.revision}
		for _, a := range p.shards[first : first+p.page] {
			m.Grants = append(m.Grants, Grant{a.owner, a.since, a.pred})
		}
		p.Received(first/p.page, m, p.now)
	}
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
	if slices.ContainsFunc(p.shards, func(a account) bool { return a.work != nil && a.raised && !a.taken }) {
		steps = append(steps, termStep{"the application takes works", 0})
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
		if a.work != nil && (a.taken || !a.raised || a.released) { // one that is not raised: a guard refuses it, or its context has ended
			steps = append(steps, termStep{"the work returns", i})
		}
		if a.work != nil && !a.raised {
			steps = append(steps, termStep{"the guards stand", i})
		}
		if a.work != nil && a.raised && !a.ended {
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
		before = p.Unbegun()
		if p.now = p.now.Add(instant); !p.wake.IsZero() && p.wake.Before(p.now) {
			p.fail("it wakes between two instants")
		}
	case "the term ends":
		p.ended = true
		for i := range p.shards {
			p.end(i)
		}
		p.Over(p.now)
	case "grant to it":
		a.pred, a.freed = Session{}, false
		if a.owner.ID == "b" {
			a.pred = a.owner
		}
		a.owner, a.since = p.self, p.revision+1
		p.expect(Granted, s.shard)
		p.deliver()
	case "grant to another":
		p.revoke(s.shard)
		a.owner, a.pred, a.freed, a.since = Session{"b", 1}, Session{}, false, p.revision+1
		p.deliver()
	case "the predecessor stops":
		a.freed = true
	case "the application takes works":
		works := p.Take(p.now)
		for i := range p.shards {
			if w := &p.shards[i]; w.waits() {
				if len(works) == 0 || works[0] != w.work {
					p.fail("the application does not take shard %d", i)
					return
				}
				works = works[1:]
				w.taken, w.began, w.ready = true, p.now, time.Time{}
			}
		}
		if len(works) > 0 {
			p.fail("the application takes %v, too", works)
		}
	case "the guards stand":
		a.raised, a.offered, a.idle = true, p.now, false
		p.Raised(a.work, p.now)
	case "a guard ends it":
		p.end(s.shard)
		p.Fenced(a.work, p.now)
	case "the work returns":
		p.returns(s.shard)
	}
	p.settle()
	var woken []Effect
	p.Tick(p.now)
	woken = append(woken, p.settle()...)
	if !p.ended {
		awaited := p.Start(p.now, func(pred Session, page int) Standing {
			if pred == (Session{}) {
				p.fail("it asks for no member")
			}
			return Standing{Report: Report{Seen: p.revision, Busy: p.busy(page)}}
		})
		woken = append(woken, p.settle()...)
		waits := slices.ContainsFunc(p.shards, func(a account) bool {
			return a.owner == p.self && a.pred != (Session{}) && !a.freed && a.work == nil && !p.now.Before(a.resume)
		})
		if waits != awaited["b"] || waits != (len(awaited) > 0) || len(awaited) > 1 {
			p.fail("it follows %v; shards wait for b: %v", awaited, waits)
		}
	}
	if s.what == "time passes" && (len(woken) > 0 || !slices.Equal(before, p.Unbegun())) && !p.wake.Equal(p.now) {
		p.fail("%v is due, and it sleeps until %v", woken, p.wake)
	}
	if len(p.due) > 0 {
		p.fail("%+v do not come", p.due)
	}
	p.inspect()
	p.wake = p.Wake()
	if p.ended && p.Done() {
		p.begin()
		p.settle()
		p.do(termStep{"nothing", 0})
	}
}

// returns lets a work return.
func (p *process) returns(shard int) {
	a := &p.shards[shard]
	p.Returned(a.work, p.now)
	if !a.left {
		p.expect(Ended, shard)
	}
	if a.owner == p.self && !a.left && !p.ended && a.since == a.work.Token { // early
		a.resume = p.now.Add(termLimits.Pause)
		if a.taken {
			switch a.quick++; {
			case p.now.Sub(a.began) >= termLimits.Pause:
				a.quick = 0
			case a.quick == MostQuick:
				p.expect(Quick, shard)
			}
		}
	}
	p.settle()
	a.work = nil
}

// busy returns the shards of a page whose predecessor still works on them.
func (p *process) busy(page int) (shards []int) {
	for i := range p.page {
		if !p.shards[page*p.page+i].freed {
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
			a.work, a.raised, a.released, a.taken, a.ended, a.left = e.Work, false, false, false, false, false
			if a.ready.IsZero() {
				a.ready = p.now
			}
			if !p.guards {
				a.raised, a.offered, a.idle = true, p.now, false
				p.Raised(a.work, p.now)
			}
		case Release:
			if a.work != e.Work || !a.raised || a.released || a.taken || !a.ended {
				p.fail("shard %d must not be released", n)
			}
			a.released = true
		case Idle:
			if !a.waits() || a.idle || p.now.Sub(a.offered) != termLimits.Begin {
				p.fail("shard %d waits for %v only", n, p.now.Sub(a.offered))
			}
			a.idle = true
		case GiveUp:
			if a.work != e.Work || !a.ended || p.now.Sub(a.drained) != termLimits.Drain {
				p.fail("shard %d is given up after %v", n, p.now.Sub(a.drained))
			}
			a.left = true
		case Granted, Cancel, Drain, Ended, Quick:
			at := slices.Index(p.due, duty{e.Kind, n})
			if at < 0 || e.Kind != Granted && a.work != e.Work || e.Kind == Granted && e.Work.Token != a.since {
				p.fail("effect %d of shard %d is not due", e.Kind, n)
				continue
			}
			p.due = slices.Delete(p.due, at, at+1)
		}
	}
	return todo
}

// inspect compares what the term shows with the account.
func (p *process) inspect() {
	reports := p.Reports()
	var want Counts
	var unbegun, late []int
	for i := range p.shards {
		a := &p.shards[i]
		if a.owner == p.self {
			want.Granted++
		}
		if a.work != nil && a.taken && !a.ended {
			want.Owned++
		}
		if a.waits() {
			if want.Waiting++; a.idle {
				want.Idle++
			}
			if a.idle != (p.now.Sub(a.offered) >= termLimits.Begin) {
				p.fail("shard %d waits for %v, and that is not noticed", i, p.now.Sub(a.offered))
			}
		}
		if a.work != nil && a.raised && !a.taken && a.ended && !a.released {
			p.fail("shard %d is not released", i)
		}
		waits := a.owner == p.self && !p.ended && (a.pred == (Session{}) || a.freed)
		if waits && a.work == nil && !p.now.Before(a.resume) {
			p.fail("the work on shard %d does not begin", i)
		}
		stops := a.work != nil && !a.left && a.ended && (p.ended || a.owner != p.self || a.since != a.work.Token)
		r := reports[i/p.page]
		if stops != slices.Contains(r.Busy, i%p.page) || r.Left != p.ended || r.Seen != p.revision {
			p.fail("it reports %+v", r)
		}
		if a.work != nil && a.left {
			late = append(late, i)
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
	if got := p.Count(); got != want {
		p.fail("it counts %+v; want %+v", got, want)
	}
	if got := p.Late(); !slices.Equal(got, late) {
		p.fail("%v are late; want %v", got, late)
	}
	if got := p.Unbegun(); !slices.Equal(got, unbegun) {
		p.fail("%v have not begun in time; want %v", got, unbegun)
	}
}

// alarm returns how long the alarm of a shard is away; negative: it has none.
func (p *process) alarm(shard int) time.Duration {
	if at, set := p.alarms.place[shard]; set {
		return p.alarms.queue[at].at.Sub(p.now)
	}
	return -1
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
		text += fmt.Sprint("|", owner, a.pred.ID, a.freed, a.work != nil, p.works[i] != nil, p.drains[i] != nil, max(0, a.resume.Sub(p.now)), max(0, p.resume[i].Sub(p.now)),
			p.alarm(i), slices.Contains(p.unbegun, i), ago(a.ready, termLimits.Begin), ago(p.ready[i], termLimits.Begin), min(a.quick, MostQuick), min(p.quick[i], MostQuick))
		if a.work != nil {
			text += fmt.Sprint(a.raised, a.released, ago(a.offered, termLimits.Begin), a.idle, a.work.idle, a.taken, a.ended, a.left, ago(a.work.ended, termLimits.Drain), ago(a.work.began, termLimits.Pause), a.work.Token == a.since)
		}
	}
	return text
}

func TestTerm_Exploration(t *testing.T) {
	for _, x := range []struct {
		shards, page      int
		guards            bool
		sample, long, all int
	}{
		{1, 1, false, math.MaxInt, math.MaxInt, 2212},
		{1, 1, true, math.MaxInt, math.MaxInt, 4127},
		{2, 2, false, 5000, 50_000, 0},
		{2, 1, false, 5000, 50_000, 0},
	} {
		t.Run(fmt.Sprintf("%d shards/%d on a page/guards %v", x.shards, x.page, x.guards), func(t *testing.T) {
			most := proof.Raced(proof.Size(x.sample, x.long), 20)
			run := func(steps []termStep) *process {
				p := newProcess(x.shards, x.page, x.guards)
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

// A work that was given up may return twice, as far as the shell knows, and then does not hide a later one that drains.
func TestTerm_ReturnsTwice(t *testing.T) {
	p := newProcess(1, 1, false)
	p.do(termStep{"grant to it", 0})
	p.do(termStep{"the term ends", 0})
	old := p.shards[0].work
	p.Abandon()
	p.Returned(old, p.now)
	p.shards[0] = account{}
	p.begin()
	p.do(termStep{"grant to it", 0})
	p.do(termStep{"the term ends", 0})
	p.Returned(old, p.now)
	check.That(t, p.drains[0] != nil && p.drains[0] != old, "%+v drains", p.drains[0])
}

// BenchmarkTerm_Returns measures what a process does when one of its works returns, and when it begins again: it learns of each
// by itself.
func BenchmarkTerm_Returns(b *testing.B) {
	for _, shards := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("%d shards", shards), func(b *testing.B) {
			l, self, now := Layout{Shards: shards, PageSize: min(shards, 1000)}, Session{"a", 1}, time.Unix(0, 0)
			t := NewTerm(self, l, Limits{Drain: time.Minute, Pause: 5 * time.Second, Begin: time.Minute}, make(Unreturned))
			for page := range l.Pages() {
				t.Received(page, Map{Revision: 1, Grants: slices.Repeat([]Grant{{Owner: self, Since: 1}}, l.PageSize)}, now)
			}
			step := func() {
				t.Tick(now)
				t.Start(now, nil)
				for _, e := range t.Effects() {
					if e.Kind == Begin {
						t.Raised(e.Work, now)
					}
				}
				t.Take(now)
				t.Reports()
				t.Count()
				t.Wake()
			}
			step()
			for n := 0; b.Loop(); n++ {
				if w := t.works[n%shards]; w != nil {
					t.Returned(w, now)
				}
				step()
				now = now.Add(10 * time.Second / time.Duration(shards))
			}
		})
	}
}
