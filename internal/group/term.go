package group

import (
	"maps"
	"slices"
	"time"
)

// Term is one term of a member, over all pages: which works begin, which have to end, which are given up, and when it has to
// be asked again. A method with a time, and those that name what has happened, are inputs, and may append effects.
//
// What happens to one work costs no more than a pass over its page: a process may have thousands that return one by one.
type Term struct {
	layout  Layout
	limits  Limits
	pages   []*termPage
	works   map[int]*Work     // by shard
	drains  Unreturned        // those whose contexts have ended, and those of earlier terms
	raised  map[int]*Work     // those that the application can take
	owned   int               // how many works go on that it has taken, and whose contexts have not ended
	idle    int               // how many of raised it has not taken in time
	resume  map[int]time.Time // by shard, until when work is not begun again that has returned early
	quick   map[int]int       // by shard, how often in a row its work has returned within the pause
	ready   map[int]time.Time // by shard, from when on its work could have begun, if the application has not taken it
	unbegun []int             // the shards of ready for which that was too long ago, in order
	alarms  alarms            // one for each shard that has a deadline, not later than that, and some of others
	over    bool
	todo    []Effect
}

// Unreturned has by shard the works of a process whose contexts have ended and that have not returned, over all its terms.
type Unreturned map[int]*Work

// Limits are the durations of a term.
type Limits struct {
	Drain time.Duration // for which work may go on after the end of its context
	Pause time.Duration // before work begins again that has returned although the shard is still granted
	Begin time.Duration // within which the application is to take a work
}

// Work is one work on a shard. Only the term changes it.
type Work struct {
	Shard   int
	Token   uint64
	offered time.Time // since when the application can take it; zero: it cannot yet
	idle    bool      // the application has not taken it in time
	began   time.Time // when the application took it; zero: it has not
	ended   time.Time // when its context ended; zero: it has not
	late    bool      // others can work on the shard, also if the work goes on
}

// Began reports whether the application has taken the work.
func (w *Work) Began() bool { return !w.began.IsZero() }

// Raised reports whether its guards stand.
func (w *Work) Raised() bool { return !w.offered.IsZero() }

// waits reports whether the application is to take the work.
func (w *Work) waits() bool { return w.Raised() && w.began.IsZero() && w.ended.IsZero() }

// termPage is a page of the map, with what follows from it, until it changes.
type termPage struct {
	first   int
	member  *Member
	changed bool
	waits   []int // shards on it that are granted to the term, and whose work has not begun and does not pause
	report  Report
	granted int
}

// EffectKind is what is to be done.
type EffectKind uint8

// The effects.
const (
	Granted EffectKind = iota // report that the map grants the shard
	Begin                     // raise the guards
	Idle                      // report that the application has not taken the work in time
	Cancel                    // end the context: the map grants the shard to another
	Drain                     // report that the context has ended; the work may go on
	Release                   // release the shard: its context has ended before the application took the work
	Quick                     // report that the work has returned quickly, some times in a row
	Ended                     // report that the work has returned
	GiveUp                    // report that others can work on the shard
)

// Effect is one of them.
type Effect struct {
	Kind EffectKind
	Work *Work
}

// MostQuick is how often in a row work may return within the pause before that is reported, as in package leader.
const MostQuick = 3

// NewTerm returns a term that has seen no map. drains is handed from term to term.
func NewTerm(self Session, l Layout, limits Limits, drains Unreturned) *Term {
	t := &Term{
		layout: l, limits: limits, drains: drains, works: make(map[int]*Work), raised: make(map[int]*Work), alarms: alarms{place: make(map[int]int)},
		resume: make(map[int]time.Time), quick: make(map[int]int), ready: make(map[int]time.Time),
	}
	for i := range l.Pages() {
		first, _ := l.Page(i)
		t.pages = append(t.pages, &termPage{first: first, member: NewMember(self), changed: true})
	}
	return t
}

// Effects returns what is to be done, in order, and forgets it.
func (t *Term) Effects() []Effect {
	todo := t.todo
	t.todo = nil
	return todo
}

func (t *Term) emit(kind EffectKind, w *Work) { t.todo = append(t.todo, Effect{kind, w}) }

// Received takes a revision of a page.
func (t *Term) Received(page int, m Map, now time.Time) {
	p := t.pages[page]
	p.changed = true
	granted, stop := p.member.Receive(m)
	for _, i := range granted {
		t.emit(Granted, &Work{Shard: p.first + i, Token: p.member.Token(i)})
	}
	for _, i := range stop {
		w := t.works[p.first+i]
		t.emit(Cancel, w)
		t.end(w, now)
	}
}

// Over takes the end of the term, with which the contexts of all works have ended.
func (t *Term) Over(now time.Time) {
	t.over = true
	for _, p := range t.pages {
		p.member.Leave()
		p.changed = true
	}
	for _, w := range inOrder(t.works) {
		t.end(w, now)
	}
}

// Raised says that the guards of a shard stand.
func (t *Term) Raised(w *Work, now time.Time) {
	if w.offered = now; !w.ended.IsZero() {
		t.emit(Release, w)
		return
	}
	t.raised[w.Shard] = w
	t.arm(w.Shard)
}

// Take says that the application takes what it can, and returns that.
func (t *Term) Take(now time.Time) []*Work {
	works := inOrder(t.raised)
	for _, w := range works {
		w.began = now
		t.begun(w.Shard)
	}
	clear(t.raised)
	t.owned, t.idle = t.owned+len(works), 0
	return works
}

// begun forgets since when the work on a shard could have begun.
func (t *Term) begun(shard int) {
	delete(t.ready, shard)
	if i, late := slices.BinarySearch(t.unbegun, shard); late {
		t.unbegun = slices.Delete(t.unbegun, i, i+1)
	}
}

// Fenced says that a guard has ended the context of a work.
func (t *Term) Fenced(w *Work, now time.Time) { t.end(w, now) }

// end gives the work, whose context has ended, some time.
func (t *Term) end(w *Work, now time.Time) {
	if !w.ended.IsZero() {
		return
	}
	unused := w.waits()
	t.uncount(w)
	w.ended, t.drains[w.Shard] = now, w
	t.arm(w.Shard)
	if t.emit(Drain, w); unused {
		t.emit(Release, w)
	}
}

// Returned says that a work has returned, perhaps after it was given up, in this term or an earlier one.
func (t *Term) Returned(w *Work, now time.Time) {
	if t.drains[w.Shard] == w {
		delete(t.drains, w.Shard)
	}
	if t.works[w.Shard] != w {
		return
	}
	if early := t.remove(w); early {
		t.resume[w.Shard] = now.Add(t.limits.Pause)
		t.arm(w.Shard)
		if w.Began() {
			t.countQuick(w, now)
		}
	}
	t.emit(Ended, w)
}

// countQuick notices work that returns sooner than the pause which follows.
func (t *Term) countQuick(w *Work, now time.Time) {
	if now.Sub(w.began) >= t.limits.Pause {
		delete(t.quick, w.Shard)
		return
	}
	if t.quick[w.Shard]++; t.quick[w.Shard] == MostQuick {
		t.emit(Quick, w)
	}
}

// Tick notices the works that were not taken in time, gives up those that have not returned in time, and ends pauses.
func (t *Term) Tick(now time.Time) {
	for _, shard := range t.alarms.due(now) {
		t.tick(shard, now)
		t.arm(shard)
	}
}

func (t *Term) tick(shard int, now time.Time) {
	if at, pauses := t.resume[shard]; pauses && !now.Before(at) {
		delete(t.resume, shard)
		t.pages[shard/t.layout.PageSize].changed = true
	}
	if at, waits := t.ready[shard]; waits && now.Sub(at) >= t.limits.Begin {
		if i, known := slices.BinarySearch(t.unbegun, shard); !known {
			t.unbegun = slices.Insert(t.unbegun, i, shard)
		}
	}
	switch w := t.works[shard]; {
	case w == nil:
	case w.waits() && !w.idle && now.Sub(w.offered) >= t.limits.Begin:
		w.idle = true
		t.idle++
		t.emit(Idle, w)
	case !w.ended.IsZero() && now.Sub(w.ended) >= t.limits.Drain:
		t.giveUp(w)
	}
}

// deadline returns when tick finds something to do for a shard; zero: never.
func (t *Term) deadline(shard int) (next time.Time) {
	next = t.resume[shard]
	at := func(when time.Time) {
		if next.IsZero() || when.Before(next) {
			next = when
		}
	}
	if since, waits := t.ready[shard]; waits {
		if _, late := slices.BinarySearch(t.unbegun, shard); !late {
			at(since.Add(t.limits.Begin))
		}
	}
	switch w := t.works[shard]; {
	case w == nil:
	case !w.ended.IsZero():
		at(w.ended.Add(t.limits.Drain))
	case w.waits() && !w.idle:
		at(w.offered.Add(t.limits.Begin))
	}
	return next
}

// arm sets the alarm of a shard, if it has a deadline.
func (t *Term) arm(shard int) {
	if at := t.deadline(shard); !at.IsZero() {
		t.alarms.set(shard, at)
	}
}

// Abandon gives up all works, because the process waits for them no longer.
func (t *Term) Abandon() {
	for _, w := range inOrder(t.works) {
		t.giveUp(w)
	}
}

func (t *Term) giveUp(w *Work) {
	t.remove(w)
	w.late = true
	t.emit(GiveUp, w)
}

// uncount takes note that a work is neither owned nor waits for the application any more.
func (t *Term) uncount(w *Work) {
	switch {
	case !w.ended.IsZero():
	case w.Began():
		t.owned--
	case w.Raised():
		if delete(t.raised, w.Shard); w.idle {
			t.idle--
		}
	}
}

// remove forgets a work, and reports whether it has returned although it need not.
func (t *Term) remove(w *Work) (early bool) {
	t.uncount(w)
	delete(t.works, w.Shard)
	p := t.pages[w.Shard/t.layout.PageSize]
	p.changed = true
	return p.member.Ended(w.Shard - p.first)
}

// Start begins the works that may begin, and returns the members for whose terms the others wait. A work does not begin beside
// an earlier one of this process.
func (t *Term) Start(now time.Time, standing func(s Session, page int) Standing) (awaited map[string]bool) {
	awaited = make(map[string]bool)
	for page, p := range t.pages {
		t.refresh(page)
		p.waits = slices.DeleteFunc(p.waits, func(i int) bool {
			shard := p.first + i
			if t.drains[shard] != nil {
				return false
			}
			var stands Standing
			pred, _ := p.member.Waits(i)
			if pred != (Session{}) {
				stands = standing(pred, page)
			}
			if !p.member.Start(i, stands) {
				awaited[pred.ID] = true
				return false
			}
			w := &Work{Shard: shard, Token: p.member.Token(i)}
			t.works[shard] = w
			if t.ready[shard].IsZero() {
				t.ready[shard] = now
			}
			t.arm(shard)
			t.emit(Begin, w)
			return true
		})
	}
	return awaited
}

// Wake returns when the term is to be asked again if nothing happens before; zero: never. A work is given up then, or begins
// again, or has not begun in time.
func (t *Term) Wake() time.Time {
	for {
		next, ok := t.alarms.next()
		if !ok || t.deadline(next.shard).Equal(next.at) {
			return next.at
		}
		t.alarms.drop()
		t.arm(next.shard)
	}
}

// Reports returns what the member publishes about each page.
func (t *Term) Reports() []Report {
	reports := make([]Report, len(t.pages))
	for i, p := range t.pages {
		t.refresh(i)
		reports[i] = p.report
	}
	return reports
}

// Counts are numbers of shards.
type Counts struct {
	Granted int // to the term
	Owned   int // that it works on
	Waiting int // that the application could take
	Idle    int // of these, that it has not taken in time
}

// Count counts the shards.
func (t *Term) Count() Counts {
	c := Counts{Owned: t.owned, Waiting: len(t.raised), Idle: t.idle}
	for i, p := range t.pages {
		t.refresh(i)
		c.Granted += p.granted
	}
	return c
}

// Unbegun returns the shards whose work could have begun some time ago, and has not.
func (t *Term) Unbegun() (shards []int) { return slices.Clone(t.unbegun) }

// Late returns the shards whose work was given up and goes on, as far as a member can publish them.
func (t *Term) Late() (shards []int) {
	for n, w := range t.drains {
		if w.late {
			shards = append(shards, n)
		}
	}
	slices.Sort(shards)
	return shards[:min(len(shards), MaxLate)]
}

// Done reports whether the term is over, and all its works.
func (t *Term) Done() bool { return t.over && len(t.works) == 0 }

// refresh derives what follows from a page, if it has changed.
func (t *Term) refresh(page int) {
	p := t.pages[page]
	if !p.changed {
		return
	}
	p.changed, p.report, p.granted = false, p.member.Report(), p.member.Granted()
	p.waits = p.waits[:0]
	_, n := t.layout.Page(page)
	for i := range n {
		if _, waits := p.member.Waits(i); waits && t.resume[p.first+i].IsZero() {
			p.waits = append(p.waits, i)
		}
	}
	for shard := range t.ready {
		i := shard - p.first
		if i < 0 || i >= n || t.works[shard] != nil {
			continue
		}
		if _, waits := p.member.Waits(i); !waits { // a guard may have ended it before it was taken
			t.begun(shard)
		}
	}
}

// inOrder returns works in the order of their shards.
func inOrder(of map[int]*Work) []*Work {
	works := slices.Collect(maps.Values(of))
	slices.SortFunc(works, func(v, w *Work) int { return v.Shard - w.Shard })
	return works
}
