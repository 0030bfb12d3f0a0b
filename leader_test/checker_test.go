package leader_test

import (
	"sync"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/checker"
	"github.com/natsleader/natsleader/internal/contract"
	"github.com/natsleader/natsleader/leader"
)

// electionChecker checks the candidates of one election. In a bubble time stands still until each
// event is read.
type electionChecker struct {
	mu sync.Mutex
	checker.Election
}

func newElectionChecker() *electionChecker {
	return &electionChecker{Election: checker.Election{Contexts: true}}
}

// watch begins to check a candidate.
func (k *electionChecker) watch(id string) *checker.Candidate {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.Candidate(id)
}

// next checks an event when it is read, by the candidate's clock.
func (k *electionChecker) next(tb testing.TB, at time.Duration, c *checker.Candidate, e leader.Event, now time.Time) {
	tb.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	report(tb, at, k.Next(c, e, now)...)
}

// report fails the test for each violation.
func report(tb testing.TB, at time.Duration, broken ...*contract.Violation) {
	tb.Helper()
	for _, v := range broken {
		check.That(tb, v == nil, "%v: %v", at, v)
	}
}
