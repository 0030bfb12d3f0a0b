package leader

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// LockSessions returns how many sessions this process asks for a lock with, or holds one with.
func LockSessions() int {
	ownLocks.mu.Lock()
	defer ownLocks.mu.Unlock()
	return len(ownLocks.all)
}

// Readers returns how many readers the events of a lock's candidate have.
func Readers(l *Lock) int {
	l.c.out.mu.Lock()
	defer l.c.out.mu.Unlock()
	return len(l.c.out.readers)
}

// A holder that is seen takes the place of the reason why the lock was not free before.
func TestAcquisition_HolderAfterDeletion(t *testing.T) {
	a := &acquisition{c: &Candidate{election: "e", timeline: newTimeline(SystemClock())}, try: true, seats: 1, held: make(map[int]Holder)}
	for _, step := range []struct {
		holder Holder
		held   string // the text of TryAcquire
		ended  string // the text of Acquire, at the end of its context
	}{
		{Holder{Seat: 1}, "its key was deleted", "context canceled"},
		{Holder{Seat: 1, State: HolderLeading, ID: "b"}, `"b" leads`, `is held: "b" leads with token 0, and context canceled`},
	} {
		e := Observed{Holder: step.holder}
		a.note(e)
		err := a.verdict(t.Context(), e)
		check.That(t, err != nil && strings.Contains(err.Error(), step.held),
			"TryAcquire returns %v, want %q", err, step.held)
		err = a.explain(context.Canceled)
		check.Is(t, err, context.Canceled)
		check.That(t, strings.HasSuffix(err.Error(), step.ended), "Acquire returns %v, want %q", err, step.ended)
	}
	a.seats = 2 // "b" does not hold both
	err := a.explain(context.Canceled)
	check.That(t, err.Error() == "context canceled", "beside a free seat Acquire returns %v", err)
	a.note(Pending{Seat: 2, Reason: "a lease may be running"})
	for i, text := range []string{"if ctx lasts: a lease may be running", "context canceled"} {
		a.note(Observed{Holder: Holder{Seat: i + 1}})
		err := a.explain(context.Canceled)
		check.That(t, strings.HasSuffix(err.Error(), text), "after a change of seat %d Acquire returns %v", i+1, err)
	}
	a.note(Observed{Holder: Holder{Seat: 1, State: HolderLeading, ID: "b"}})
	e := Pending{Seat: 2, Until: time.Now().Add(time.Hour), Reason: "a lease may be running"}
	if held := new(HeldError); !errors.As(a.verdict(t.Context(), e), &held) || held.Holder.Seat != 2 || held.Holder.ID != "" || held.why != e.Reason {
		t.Errorf("TryAcquire of a seat that has no holder returns %+v", held)
	}
}

// The error of an Unlock whose context ends tells first why it returns, and then why the lock was lost.
func TestUnlock_NamesBothReasons(t *testing.T) {
	l := &Lock{c: &Candidate{election: "e"}, lost: ErrLeaseExpired}
	want := `unlock "e", which goes on: context canceled; the lock was lost before: ` + ErrLeaseExpired.Error()
	err := l.unlockError("which goes on", context.Canceled)
	check.That(t, err.Error() == want && errors.Is(err, ErrLeaseExpired), "got %v, want %s", err, want)
}

// Unlock looks for a loss before it ends the term, because the candidate may be faster than its caller.
func TestUnlock_IsNoLoss(t *testing.T) {
	term := newTerm(t, SystemClock())
	term.box = &mailbox{bell: make(chan struct{}, 1), wake: func() { term.cancel(ErrResigned) }}
	l := &Lock{Term: term, c: &Candidate{done: make(chan struct{})}}
	close(l.c.done)
	if err := l.Unlock(t.Context()); err != nil || !errors.Is(Err(term.Context()), ErrResigned) {
		t.Errorf("Unlock returns %v, and the term ended with %v", err, Err(term.Context()))
	}
}

// A lock whose context has ended is not held by this process, although its session is still known.
func TestLockSessions_LostLock(t *testing.T) {
	l, term, owner := lockSessions{all: make(map[string]*acquisition)}, newTerm(t, SystemClock()), lockOwner{id: "a"}
	a := &acquisition{session: "S", owner: owner}
	l.add(a)
	for _, held := range []*Term{nil, term} {
		a.term.Store(held)
		check.That(t, l.has("S", owner) && !l.has("S", lockOwner{id: "b"}),
			"with the term %v the lock is not its owner's alone", held)
	}
	term.cancel(ErrLeaseExpired)
	check.That(t, !l.has("S", owner), "a lost lock is held")
}
