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

	"github.com/natsleader/natsleader/leader"
)

// candidate is a candidate and its events so far.
type candidate struct {
	*leader.Candidate
	*client

	mu    sync.Mutex
	told  []string // the events not taken yet, each with the time since the world's zero
	terms []*leader.Term
	read  chan struct{} // closed when the channel of events was closed and read to its end
}

// record reads the events to the end and checks each.
func (c *candidate) record(t *testing.T, zero time.Time, j *jury) {
	defer close(c.read)
	o := order{who: c.ID()}
	for e := range c.Events() {
		at := time.Since(zero)
		o.next(t, at, e)
		if e, ok := e.(leader.Elected); ok {
			j.enter(t, at, c.ID(), e.Term)
		}
		j.check(t, at)
		c.mu.Lock()
		c.told = append(c.told, fmt.Sprintf("%v %s", at, describe(e)))
		if e, ok := e.(leader.Elected); ok {
			c.terms = append(c.terms, e.Term)
		}
		c.mu.Unlock()
	}
	if o.term != nil {
		t.Errorf("%s: no Deposed for the term with token %d", o.who, o.term.Token())
	}
}

// saw fails the test unless exactly these events have come since it was last called. It
// waits for everything that happens at this instant.
func (c *candidate) saw(t *testing.T, want ...string) {
	t.Helper()
	if got := c.news(); !slices.Equal(got, want) {
		t.Errorf("%s saw\n  %q\nwant\n  %q", c.ID(), got, want)
	}
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
	if len(c.terms) == 0 {
		t.Fatalf("%s was never elected", c.ID())
	}
	return c.terms[len(c.terms)-1]
}

// order checks the order of one candidate's events. There is exactly one Pending before
// each Elected, exactly one Deposed for it, and Fenced between. The context has ended,
// with the same cause, before either of the two is emitted.
type order struct {
	who     string
	pending bool
	fenced  bool
	term    *leader.Term
	token   uint64 // of the newest term
}

func (o *order) next(t *testing.T, at time.Duration, e leader.Event) {
	bad := func(format string, args ...any) {
		t.Errorf("%v: %s: %v: %s", at, o.who, e, fmt.Sprintf(format, args...))
	}
	ended := func(term *leader.Term, cause error) {
		switch {
		case term == nil || term != o.term:
			bad("not of the current term")
		case cause == nil:
			bad("no cause")
		case term.Context().Err() == nil:
			bad("told before the context ended")
		case context.Cause(term.Context()) != cause || term.Err() != cause: //nolint:errorlint // the same, not a like one
			bad("the context ended with %v", context.Cause(term.Context()))
		case term.Remaining() != 0:
			bad("%v remain", term.Remaining())
		}
	}
	switch e := e.(type) {
	case leader.Pending:
		if o.term != nil {
			bad("within a term")
		}
		if e.Until.Before(time.Now()) && at == 0 {
			bad("until %v", e.Until)
		}
		o.pending = true
	case leader.Elected:
		if !o.pending || o.term != nil {
			bad("not after a Pending")
		}
		if e.Term.Token() <= o.token {
			bad("the term before had token %d", o.token)
		}
		o.pending, o.fenced, o.term, o.token = false, false, e.Term, e.Term.Token()
	case leader.Fenced:
		if o.fenced {
			bad("told twice")
		}
		ended(e.Term, e.Cause)
		o.fenced = true
	case leader.Deposed:
		ended(e.Term, e.Cause)
		o.term = nil
	case leader.Observed, leader.Faulted:
	}
}

// jury knows all terms of one election, of all candidates.
type jury struct {
	mu    sync.Mutex
	terms []*leader.Term
	who   map[*leader.Term]string
	last  uint64 // the greatest token of all
}

// enter adds a new term. If it is alive, all others must be over, and their tokens
// smaller.
func (j *jury) enter(t *testing.T, at time.Duration, who string, term *leader.Term) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.who == nil {
		j.who = make(map[*leader.Term]string)
	}
	for _, other := range j.terms {
		if other.Token() == term.Token() {
			t.Errorf("%v: %s and %s have the same token %d", at, who, j.who[other], term.Token())
		}
	}
	if term.Err() == nil && term.Token() <= j.last {
		t.Errorf("%v: %s leads with token %d after one with %d", at, who, term.Token(), j.last)
	}
	j.last = max(j.last, term.Token())
	j.who[term] = who
	j.terms = append(j.terms, term)
	if len(j.terms) > 64 { // those that are long over have been compared
		j.terms = slices.DeleteFunc(j.terms, func(o *leader.Term) bool {
			over := o != term && o.Err() != nil && o.Token()+64 < j.last
			if over {
				delete(j.who, o)
			}
			return over
		})
	}
}

// check fails the test if two terms are alive at the same moment. It finds the first
// one alive before and after it finds the second one alive.
func (j *jury) check(t *testing.T, at time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, a := range j.terms {
		if a.Err() != nil {
			continue
		}
		for _, b := range j.terms[i+1:] {
			if b.Err() == nil && a.Err() == nil {
				t.Errorf("%v: two leaders: %s with token %d and %s with %d", at, j.who[a], a.Token(), j.who[b], b.Token())
			}
		}
	}
}

// describe returns an event in the words that the tests use, without tokens, which the
// jury checks.
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
	switch {
	case h.Foreign:
		return "foreign"
	case h.ID == "":
		return "nobody"
	case h.Pending:
		return h.ID + " pending"
	default:
		return h.ID
	}
}

// causeName returns the name of the first of these that the error is.
func causeName(err error) string {
	switch text := fmt.Sprint(err); {
	case strings.Contains(text, guardDeleted):
		return "guard deleted"
	case strings.Contains(text, guardTaken):
		return "guard taken"
	}
	for _, s := range []struct {
		err  error
		name string
	}{
		{leader.ErrResigned, "resigned"},
		{leader.ErrStopped, "stopped"},
		{leader.ErrLeaseExpired, "expired"},
		{leader.ErrPreempted, "preempted"},
		{leader.ErrDeleted, "deleted"},
		{leader.ErrRegressed, "regressed"},
		{leader.ErrFenced, "overtaken"},
		{leader.ErrConnectionClosed, "closed"},
		{leader.ErrNoFeed, "no feed"},
		{leader.ErrForeignRecord, "foreign"},
		{leader.ErrNoBucket, "no bucket"},
		{leader.ErrNoRoster, "no roster"},
		{leader.ErrPermission, "permission"},
		{leader.ErrIncompatibleBucket, "unfit"},
		{leader.ErrValueTooLarge, "too large"},
		{leader.ErrUnreachable, "unreachable"},
	} {
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

// sawBut is saw, except that one event may be there or not.
func (c *candidate) sawBut(t *testing.T, may string, want ...string) {
	t.Helper()
	if got := c.without(may); !slices.Equal(got, want) {
		t.Errorf("%s saw\n  %q\nwant\n  %q", c.ID(), got, want)
	}
}
