package leader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// candidate is a candidate and its events so far.
type candidate struct {
	*leader.Candidate
	*client
	clock leader.Clock // nil: that of the bubble

	mu     sync.Mutex
	told   []string // the events not taken yet, each with the time since the world's zero
	terms  []*leader.Term
	works  []func()      // end the work that was begun in each term, see employed
	drains []bool        // of the Deposed events
	read   chan struct{} // closed when the events were read to their end
}

// record reads the events to the end and checks each.
func (c *candidate) record(t *testing.T, zero time.Time, k *electionChecker) {
	defer close(c.read)
	w := k.watch(c.ID())
	for e := range c.Events(context.Background()) {
		at := time.Since(zero)
		now := time.Now()
		if c.clock != nil {
			now = c.clock.Now()
		}
		if f, ok := e.(leader.Faulted); ok && c.clock != nil && errors.Is(f.Err, leader.ErrClock) {
			continue // its clock jumps alone, for a pause in which the server's would have gone on; this comes beside another reply
		}
		k.next(t, at, w, e, now)
		c.mu.Lock()
		c.told = append(c.told, fmt.Sprintf("%v %s", at, describe(e)))
		if e, ok := e.(leader.Elected); ok {
			c.terms = append(c.terms, e.Term)
		}
		if e, ok := e.(leader.Deposed); ok {
			c.drains = append(c.drains, e.Finished)
		}
		c.mu.Unlock()
	}
	report(t, time.Since(zero), w.End())
}

// saw fails the test unless exactly these events have come since it was last called. It
// waits for everything that happens at this instant.
func (c *candidate) saw(t *testing.T, want ...string) {
	t.Helper()
	got := c.news()
	check.That(t, slices.Equal(got, want), "%s saw\n  %q\nwant\n  %q", c.ID(), got, want)
}

// drained returns the Finished of all Deposed events so far.
func (c *candidate) drained() []bool {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.drains)
}

// news returns the events since it was last called.
func (c *candidate) news() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	told := c.told
	c.told = nil
	return told
}

// lastTerm returns the newest term of the candidate.
func (c *candidate) lastTerm(t *testing.T) *leader.Term {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	check.Must(t, len(c.terms) != 0, "%s was never elected", c.ID())
	return c.terms[len(c.terms)-1]
}

// endWork ends the work of a term by its number, or of the newest.
func (c *candidate) endWork(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.works[(n+len(c.works))%len(c.works)]()
}

// newest returns the newest term of which the candidate has told, or nil.
func (c *candidate) newest() *leader.Term {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.terms) == 0 {
		return nil
	}
	return c.terms[len(c.terms)-1]
}

// describe returns an event in the words that the tests use, without tokens, which the
// checker has checked.
func describe(e leader.Event) string {
	switch e := e.(type) {
	case leader.Pending:
		if d := time.Until(e.Until); d > 0 {
			return fmt.Sprintf("pending for %v", d)
		}
		return "pending"
	case leader.Elected:
		return "elected"
	case leader.Fenced:
		return "fenced " + causeName(e.Cause)
	case leader.Deposed:
		return "deposed " + causeName(e.Cause)
	case leader.Observed:
		return "observed " + holderName(e.Holder)
	case leader.Faulted:
		return "faulted " + causeName(e.Err)
	default:
		return fmt.Sprintf("%T", e)
	}
}

func holderName(h leader.Holder) string {
	switch h.State {
	case leader.HolderForeign:
		return "foreign"
	case leader.HolderPending:
		return h.ID + " pending"
	case leader.HolderLeading:
		return h.ID
	case leader.HolderNone, leader.HolderReleased, leader.HolderExpired:
	}
	return "nobody"
}

// namedError is an error that an application may distinguish.
type namedError struct {
	err  error
	name string
}

// causes are the errors of events.
var causes = []namedError{
	{leader.ErrResigned, "resigned"},
	{leader.ErrStopped, "stopped"},
	{leader.ErrStalled, "stalled"},
	{leader.ErrLeaseExpired, "expired"},
	{leader.ErrPreempted, "preempted"},
	{leader.ErrDeleted, "deleted"},
	{leader.ErrRegressed, "regressed"},
	{leader.ErrFenced, "overtaken"},
	{leader.ErrConnectionClosed, "closed"},
	{leader.ErrNotReleased, "not released"},
	{leader.ErrNoFeed, "no feed"},
	{leader.ErrCongested, "congested"},
	{leader.ErrClock, "clock"},
	{leader.ErrForeignRecord, "foreign"},
	{leader.ErrNoBucket, "no bucket"},
	{leader.ErrNoRoster, "no roster"},
	{leader.ErrPermission, "permission"},
	{leader.ErrIncompatibleBucket, "unfit"},
	{leader.ErrValueTooLarge, "too large"},
	{leader.ErrFull, "full"},
	{leader.ErrNoMajority, "no majority"},
	{leader.ErrUnreachable, "unreachable"},
}

// causeName returns the name of the first of these that the error is.
func causeName(err error) string {
	switch text := fmt.Sprint(err); {
	case strings.Contains(text, guardDeleted):
		return "guard deleted"
	case strings.Contains(text, "Config.ForceReconnect"):
		return "no majority, and ForceReconnect is unset"
	case strings.Contains(text, guardTaken):
		return "guard taken"
	}
	for _, s := range causes {
		if errors.Is(err, s.err) {
			return s.name
		}
	}
	return fmt.Sprint(err)
}

// without returns the news that contain none of these words.
func (c *candidate) without(words ...string) []string {
	return slices.DeleteFunc(c.news(), func(s string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(s, word) })
	})
}

// sawBut is saw, except that events with these words may be there or not. A line is between two words.
func (c *candidate) sawBut(t *testing.T, may string, want ...string) {
	t.Helper()
	got := c.without(strings.Split(may, "|")...)
	check.That(t, slices.Equal(got, want), "%s saw\n  %q\nwant\n  %q", c.ID(), got, want)
}
