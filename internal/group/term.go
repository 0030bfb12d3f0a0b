package group

import (
	"slices"
	"time"
)

// Term is one term of a member, over all pages: which works begin, which have to end, which are given up, and when it has to
// be asked again. A method with a time, and those that name what has happened, are inputs, and may append effects.
type Term struct {
	layout Layout
	limits Limits
	pages  []*termPage
	works  map[int]*Work     // by shard
	drains Unreturned        // those whose contexts have ended, and those of earlier terms
	resume map[int]time.Time // by shard, until when work is not begun again that has returned early
	quick  map[int]int       // by shard, how often in a row its work has returned within the pause
	ready  map[int]time.Time // by shard, from when on its work could have begun, if it may not have
	over   bool
	todo   []Effect
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
	waits   []int // shards on it that are granted to the term, and whose work has not begun
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
		layout: l, limits: limits, drains: drains, works: make(map[int]*Work),
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
	for _, w := range t.all(func(*Work) bool { return true }) {
		t.end(w, now)
	}
}

// Raised says that the guards of a shard stand.
func (t *Term) Raised(w *Work, now time.Time) {
	if w.offered = now; !w.ended.IsZero() {
		t.emit(Release, w)
	}
}

// Take says that the application takes what it can, and returns that.
func (t *Term) Take(now time.Time) []*Work {
	works := t.all((*Work).waits)
	for _, w := range works {
		w.began = now
	}
	return works
}

// Fenced says that a guard has ended the context of a work.
func (t *Term) Fenced(w *Work, now time.Time) { t.end(w, now) }

// end gives the work, whose context has ended, some time.
func (t *Term) end(w *Work, now time.Time) {
	if !w.ended.IsZero() {
		return
	}
	unused := w.waits()
	w.ended, t.drains[w.Shard] = now, w
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

// Tick notices the works that were not taken in time, and gives up those that have not returned in time.
func (t *Term) Tick(now time.Time) {
	for _, w := range t.all(func(w *Work) bool { return w.waits() && !w.idle && now.Sub(w.offered) >= t.limits.Begin }) {
		w.idle = true
		t.emit(Idle, w)
	}
	t.giveUp(func(w *Work) bool { return !w.ended.IsZero() && now.Sub(w.ended) >= t.limits.Drain })
}

// Abandon gives up all works, because the process waits for them no longer.
func (t *Term) Abandon() { t.giveUp(func(*Work) bool { return true }) }

func (t *Term) giveUp(which func(*Work) bool) {
	for _, w := range t.all(which) {
		t.remove(w)
		w.late = true
		t.emit(GiveUp, w)
	}
}

// remove forgets a work, and reports whether it has returned although it need not.
func (t *Term) remove(w *Work) (early bool) {
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
		for _, i := range p.waits {
			shard := p.first + i
			pred, waits := p.member.Waits(i)
			if !waits || now.Before(t.resume[shard]) || t.drains[shard] != nil {
				continue
			}
			var stands Standing
			if pred != (Session{}) {
				stands = standing(pred, page)
			}
			if !p.member.Start(i, stands) {
				awaited[pred.ID] = true
				continue
			}
			w := &Work{Shard: shard, Token: p.member.Token(i)}
			t.works[shard] = w
			delete(t.resume, shard)
			if t.ready[shard].IsZero() {
				t.ready[shard] = now
			}
			t.emit(Begin, w)
		}
	}
	return awaited
}

// Wake returns when the term is to be asked again if nothing happens before; zero: never. A work is given up then, or begins
// again, or has not begun in time.
func (t *Term) Wake(now time.Time) (next time.Time) {
	at := func(when time.Time) {
		if when.After(now) && (next.IsZero() || when.Before(next)) {
			next = when
		}
	}
	for _, w := range t.works {
		switch {
		case !w.ended.IsZero():
			at(w.ended.Add(t.limits.Drain))
		case w.waits():
			at(w.offered.Add(t.limits.Begin))
		}
	}
	for _, when := range t.resume {
		at(when)
	}
	for _, when := range t.ready {
		at(when.Add(t.limits.Begin))
	}
	return next
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
func (t *Term) Count() (c Counts) {
	for i, p := range t.pages {
		t.refresh(i)
		c.Granted += p.granted
	}
	for _, w := range t.works {
		switch {
		case w.Began() && w.ended.IsZero():
			c.Owned++
		case w.waits():
			if c.Waiting++; w.idle {
				c.Idle++
			}
		}
	}
	return c
}

// Unbegun returns the shards whose work could have begun some time ago, and has not.
func (t *Term) Unbegun(now time.Time) (shards []int) {
	for n, since := range t.ready {
		p := t.pages[n/t.layout.PageSize]
		_, waits := slices.BinarySearch(p.waits, n-p.first) // a guard has ended it before its work began
		switch w := t.works[n]; {
		case w == nil && !waits, w != nil && w.Began():
			delete(t.ready, n)
		case now.Sub(since) >= t.limits.Begin:
			shards = append(shards, n)
		}
	}
	slices.Sort(shards)
	return shards
}

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
		if _, waits := p.member.Waits(i); waits {
			p.waits = append(p.waits, i)
		}
	}
}

// all returns the works of a kind in the order of their shards.
func (t *Term) all(which func(*Work) bool) (works []*Work) {
	for _, w := range t.works {
		if which(w) {
			works = append(works, w)
		}
	}
	slices.SortFunc(works, func(v, w *Work) int { return v.Shard - w.Shard })
	return works
}
