package main

import (
	"context"
	"sync"
	"time"

	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/internal/checker"
	"github.com/natsleader/natsleader/internal/contract"
	"github.com/natsleader/natsleader/leader"
)

// The actors of the timeline, besides the candidates.
const (
	actorOperator = "operator"
	actorChecker  = "checker"
)

// sampling is how often the checker looks for two leaders.
const sampling = 5 * time.Millisecond

// reign is one term as the checker saw it.
type reign struct {
	number int // from 0
	worker *worker
	term   *leader.Term
	began  time.Time
	vacant time.Duration // how long there was no leader before
}

// electionChecker knows every term of the election and checks the promises of the library:
// one leader, rising tokens, contexts that end before the loss is reported, one Deposed for
// each Elected, and the other rules of internal/contract.
type electionChecker struct {
	tl    *timeline.Timeline
	began time.Time

	mu         sync.Mutex
	election   checker.Election
	reigns     []reign
	alive      map[*leader.Term]struct{} // terms with a living context, as far as is known
	token      uint64                    // the greatest
	idle       time.Time                 // since when there is no leader
	checks     int
	violations int
	news       chan struct{} // closed at the next election
}

func newChecker(tl *timeline.Timeline) *electionChecker {
	return &electionChecker{tl: tl, alive: map[*leader.Term]struct{}{}, news: make(chan struct{})}
}

// begin begins the demo, without a leader.
func (k *electionChecker) begin() {
	k.tl.Begin()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.began = time.Now()
	k.idle = k.began
}

// sample looks for two leaders until the function that it returns is called.
func (k *electionChecker) sample() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(sampling)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				k.mu.Lock()
				k.check()
				k.mu.Unlock()
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}

// check looks for two terms that are valid at the same instant. The lock is held.
func (k *electionChecker) check() {
	k.checks++
	k.report(k.election.Sample()...)
}

// watch begins to check the events of a worker.
func (k *electionChecker) watch(w *worker) *checker.Candidate {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.election.Candidate(w.name)
}

// saw checks an event of a worker.
func (k *electionChecker) saw(c *checker.Candidate, ev leader.Event) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.report(k.election.Next(c, ev, time.Now())...)
}

// ended checks that a worker that offers no further event has lost its term.
func (k *electionChecker) ended(c *checker.Candidate) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if v := c.End(); v != nil {
		k.report(v)
	}
}

// elected notes a new term, and returns how long there was no leader.
func (k *electionChecker) elected(w *worker, term *leader.Term) time.Duration {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	for t := range k.alive {
		if leader.Err(t.Context()) != nil {
			k.end(t, now) // its AfterFunc is on the way
		}
	}
	k.token = max(k.token, term.Token())
	k.alive[term] = struct{}{}

	var vacant time.Duration
	if !k.idle.IsZero() {
		vacant = now.Sub(k.idle)
	}
	k.idle = time.Time{}
	k.reigns = append(k.reigns, reign{number: len(k.reigns), worker: w, term: term, began: now, vacant: vacant})
	close(k.news)
	k.news = make(chan struct{})
	context.AfterFunc(term.Context(), func() {
		ended := time.Now()
		k.mu.Lock()
		defer k.mu.Unlock()
		k.end(term, ended)
	})
	return vacant
}

// end notes that a context has ended. The lock is held.
func (k *electionChecker) end(term *leader.Term, at time.Time) {
	if _, ok := k.alive[term]; !ok {
		return
	}
	delete(k.alive, term)
	if len(k.alive) == 0 && k.idle.IsZero() {
		k.idle = at
	}
}

// leader returns the last reign, and reports whether its term is alive.
func (k *electionChecker) leader() (reign, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.reigns) == 0 {
		return reign{}, false
	}
	last := k.reigns[len(k.reigns)-1]
	return last, leader.Err(last.term.Context()) == nil
}

// since returns the reigns from number n on, and a channel that is closed at the
// next election.
func (k *electionChecker) since(n int) ([]reign, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reigns[min(n, len(k.reigns)):], k.news
}

// held reports whether all checks have held.
func (k *electionChecker) held() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.violations == 0
}

// report notes rules that were broken. The lock is held.
func (k *electionChecker) report(broken ...*contract.Violation) {
	for _, v := range broken {
		k.violation("%v", v)
	}
}

// fail is violation without the lock.
func (k *electionChecker) fail(format string, args ...any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.violation(format, args...)
}

// violation notes a check that failed. The lock is held.
func (k *electionChecker) violation(format string, args ...any) {
	k.violations++
	k.tl.Say(actorChecker, "VIOLATION", format, args...)
}
