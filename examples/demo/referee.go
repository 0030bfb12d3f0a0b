package main

import (
	"context"
	"sync"
	"time"

	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/leader"
)

// The actors of the timeline, besides the candidates.
const (
	actorOperator = "operator"
	actorReferee  = "referee"
)

// sampling is how often the referee looks for two leaders.
const sampling = 5 * time.Millisecond

// reign is one term as the referee saw it.
type reign struct {
	number int // from 0
	worker *worker
	term   *leader.Term
	began  time.Time
	vacant time.Duration // how long there was no leader before
}

// referee knows every term of the election and checks the promises of the library:
// one leader, rising tokens, contexts that end before the loss is reported, one
// Deposed for each Elected.
type referee struct {
	tl    *timeline.Timeline
	began time.Time

	mu         sync.Mutex
	reigns     []reign
	alive      map[*leader.Term]struct{} // terms with a living context, as far as is known
	open       map[*leader.Term]struct{} // elected, not deposed yet
	token      uint64                    // the greatest
	idle       time.Time                 // since when there is no leader
	checks     int
	violations int
	news       chan struct{} // closed at the next election
}

func newReferee(tl *timeline.Timeline) *referee {
	return &referee{
		tl: tl, alive: map[*leader.Term]struct{}{}, open: map[*leader.Term]struct{}{},
		news: make(chan struct{}),
	}
}

// begin begins the demo, without a leader.
func (r *referee) begin() {
	r.tl.Begin()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began = time.Now()
	r.idle = r.began
}

// watch samples until the function that it returns is called.
func (r *referee) watch() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(sampling)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r.mu.Lock()
				r.check()
				r.mu.Unlock()
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// check looks for two terms that are alive at the same instant. The lock is held.
func (r *referee) check() {
	r.checks++
	for a := range r.alive {
		for b := range r.alive {
			// A term does not come back to life: if a is alive before and after
			// b was seen alive, both were alive at that moment.
			if a.Token() < b.Token() && a.Err() == nil && b.Err() == nil && a.Err() == nil {
				r.violation("two leaders: the terms %d and %d are alive at once", a.Token(), b.Token())
				delete(r.alive, a) // once is enough
			}
		}
	}
}

// elected notes a new term, and returns how long there was no leader.
func (r *referee) elected(w *worker, term *leader.Term) time.Duration {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range r.alive {
		if t.Err() != nil {
			r.end(t, now) // its AfterFunc is on the way
		}
	}
	// News of a term that is already over may be late. Only a living term can
	// prove that tokens fall.
	if term.Token() == r.token || term.Token() < r.token && term.Err() == nil {
		r.violation("token %d comes after token %d", term.Token(), r.token)
	}
	r.token = max(r.token, term.Token())
	r.alive[term], r.open[term] = struct{}{}, struct{}{}
	r.check()

	var vacant time.Duration
	if !r.idle.IsZero() {
		vacant = now.Sub(r.idle)
	}
	r.idle = time.Time{}
	r.reigns = append(r.reigns, reign{number: len(r.reigns), worker: w, term: term, began: now, vacant: vacant})
	close(r.news)
	r.news = make(chan struct{})
	context.AfterFunc(term.Context(), func() {
		ended := time.Now()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.end(term, ended)
	})
	return vacant
}

// end notes that a context has ended. The lock is held.
func (r *referee) end(term *leader.Term, at time.Time) {
	if _, ok := r.alive[term]; !ok {
		return
	}
	delete(r.alive, term)
	if len(r.alive) == 0 && r.idle.IsZero() {
		r.idle = at
	}
}

// lost checks that the context had ended before the loss was reported.
func (r *referee) lost(term *leader.Term, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if term.Context().Err() == nil {
		r.violation("the context of term %d is alive after its loss was told", term.Token())
	}
	if _, ok := r.open[term]; !ok {
		r.violation("term %d was deposed before, or never elected", term.Token())
	}
	if last {
		delete(r.open, term)
	}
}

// leader returns the last reign, and reports whether its term is alive.
func (r *referee) leader() (reign, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.reigns) == 0 {
		return reign{}, false
	}
	last := r.reigns[len(r.reigns)-1]
	return last, last.term.Err() == nil
}

// since returns the reigns from number n on, and a channel that is closed at the
// next election.
func (r *referee) since(n int) ([]reign, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.reigns[min(n, len(r.reigns)):], r.news
}

// verdict makes the last checks, and reports whether all have held.
func (r *referee) verdict() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for term := range r.open {
		r.violation("term %d was never deposed", term.Token())
	}
	return r.violations == 0
}

// fail is violation without the lock.
func (r *referee) fail(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.violation(format, args...)
}

// violation notes a check that failed. The lock is held.
func (r *referee) violation(format string, args ...any) {
	r.violations++
	r.tl.Say(actorReferee, "VIOLATION", format, args...)
}
