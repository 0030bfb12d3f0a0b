package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/machine"
)

// Lock is a term that the application asked for by [Acquire] or [TryAcquire], and gives back by Unlock. Its methods
// may be called from any goroutine. A Lock must not be copied. The zero value is a lock that is over.
//
// A lock can be lost, as every term: its context ends, with the cause, and the key is kept for the work up to
// [Config].GracePeriod. A lost lock does not come back. Unlock is still to be called.
type Lock struct {
	*Term   // its methods are those of the lock; Resign, too, is a loss
	c       *Candidate
	session string
	once    sync.Once
	lost    error // why the lock was lost before it was given up; set by once
}

// HeldError is returned by [TryAcquire] and [Acquire] for a lock that is not free.
type HeldError struct {
	Election string
	// Holder holds the lock; with several seats it is the one that was seen last. Its ID is empty if it cannot be named.
	Holder Holder
	why    string // why the lock is not free although no holder is known
	own    bool   // this process holds it
	over   bool   // its last renewal is longer ago than its lease, if the clocks show the same time
	waited error  // of the context that ended the wait
}

// Error names the holder, and says what to do if it may have crashed.
func (e *HeldError) Error() string {
	if e.why != "" {
		return fmt.Sprintf("leader: the lock %q is not free: %s", e.Election, e.why)
	}
	if e.own {
		return fmt.Sprintf("leader: the lock %q is held by this process: %s; unlock it first, or give callers that wait for each other a Config.ID each", e.Election, e.Holder)
	}
	text := fmt.Sprintf("leader: the lock %q is held: %s", e.Election, e.Holder)
	if e.Holder.State == HolderLeading && !e.Holder.Renewed.IsZero() { // perhaps long ago: it may have crashed
		text += ", renewed at " + e.Holder.Renewed.UTC().Format(time.RFC3339)
	}
	if e.over {
		text += fmt.Sprintf(", longer ago than its lease of %v: if it has crashed, call Acquire, or try again in this process after such a lease", e.Holder.Lease)
	}
	if e.waited != nil {
		text += ", and " + e.waited.Error()
	}
	return text
}

// Unwrap returns the error of the ctx that ended the wait of Acquire, or nil.
func (e *HeldError) Unwrap() error { return e.waited }

// Acquire campaigns in the election until it is elected, and returns the term as a Lock, which is held until
// [Lock.Unlock] is called, or until it is lost. ctx bounds only the waiting, also while the store cannot be reached.
// The context of the lock carries its values. [Config].StopTimeout does not apply. The record of a lock stays in the
// bucket for ever, so names must be from a bounded set.
//
// Goroutines that exclude each other need a Config.ID each: if a Lock of this process holds the lock under the same
// Config.ID, or neither has one, Acquire returns a *[HeldError] at once.
//
// Other errors: those of [Campaign]; that of ctx, with the reason of the wait, and as a *HeldError if another holds
// the lock then; [ErrConnectionClosed]; [ErrRegressed] of a restored bucket; [ErrSeatsDiffer] of a living holder.
func Acquire(ctx context.Context, store Store, election string, cfg Config) (*Lock, error) {
	l, err := acquire(ctx, store, election, cfg, false)
	return l, lockError("acquire", election, err)
}

// acquire asks for a lock. With try it does not wait while another holds the lock.
func acquire(ctx context.Context, store Store, election string, cfg Config, try bool) (*Lock, error) {
	var place *place
	for foresees := true; ; foresees = false {
		own := cfg
		b, p, err := prepare(store, election, &own)
		if err != nil {
			return nil, err
		}
		owner := ownerOf(cfg.ID, b)
		if lines := !try && foresees && p.Seats <= 1 && cfg.Queue == nil; lines {
			if place, err = lockLines.wait(ctx, lockLine{b, election}, owner); err != nil {
				return nil, err
			}
		}
		a := &acquisition{session: p.Session, owner: owner, place: place, try: try, seats: max(p.Seats, 1), held: make(map[int]Holder)}
		if err = a.start(ctx, b, election, own, p, foresees); err != nil {
			return nil, err
		}
		l, err := a.wait(ctx)
		if !errors.Is(err, errUnforeseen) {
			return l, err
		}
		select {
		case <-a.c.Done(): // what it has taken is released
		case <-ctx.Done():
		}
	}
}

// lockError names the call and the lock in the text of an error that does not name them.
func lockError(call, election string, err error) error {
	if held := (*HeldError)(nil); err == nil || errors.As(err, &held) {
		return err
	}
	return fmt.Errorf("%s lock %q: %w", call, election, err)
}

// TryAcquire is Acquire, but returns a *[HeldError] where Acquire would wait for another holder. It takes a few
// requests, and 5 s at most if ctx has no deadline. After the crash of a holder only a second try can succeed, one
// lease after the first, in the same process with the same [Bucket] and Clock: processes that seldom try use Acquire
// with a ctx that ends after two leases.
//
// Other errors: those of Acquire; at once those that candidates report, as [ErrUnreachable]; [ErrInvalidConfig] for
// settings that make a candidate wait; and [ErrIncompatibleBucket] for a bucket that is not purge-protected.
func TryAcquire(ctx context.Context, store Store, election string, cfg Config) (*Lock, error) {
	if err := cfg.checkTry(store); err != nil {
		return nil, err
	}
	ctx, cancel := deadline.Limit(ctx)
	defer cancel()
	l, err := acquire(ctx, store, election, cfg, true)
	return l, lockError("try", election, err)
}

// checkTry returns an error for settings with which a candidate waits.
func (c *Config) checkTry(store Store) error {
	_, marks := unmarked(store)
	for _, s := range []struct {
		name string
		set  bool
	}{{"Queue", c.Queue != nil}, {"PendingPeriod", c.PendingPeriod > 0}, {"kvelect.Beside", marks.KVElect}} {
		if s.set {
			return fmt.Errorf("%w: %s is for candidates that wait, and TryAcquire does not: leave it out, or use Acquire", ErrInvalidConfig, s.name)
		}
	}
	return nil
}

// acquisition is a candidate on the way to a lock. It takes its term in a loop over
// Candidate.Terms that it leaves with the first one. So the machine leads no other term.
type acquisition struct {
	c       *Candidate
	session string
	owner   lockOwner
	place   *place               // in line; nil: it waits in none
	term    atomic.Pointer[Term] // of the lock; nil: it is not held yet
	check   seatCheck
	try     bool
	*admission
	foresight *foresight
	seats     int
	terms     <-chan *Term
	held      map[int]Holder // the seats that others hold
	last      Holder         // of those the one seen last
	why       string         // why the seat of last is not free, if last names no holder
	fault     error          // the last one, if nothing was learnt of the key since
	won       Pending        // the seat that was won, if the lock waits for other leases
}

// start starts the candidate.
func (a *acquisition) start(ctx context.Context, b backend.Store, election string, cfg Config, p machine.Params, foresees bool) error {
	p.Tries, cfg.StopTimeout, cfg.sightings = a.try, -1, &sightings{memory: new(backend.Memory)}
	if a.try {
		cfg.sightings = sightingsOf(b, cfg.Clock)
	}
	a.check = seatCheck{store: b, clock: cfg.Clock, election: election, id: p.ID, seats: a.seats, try: a.try, seen: cfg.sightings}
	if a.seats == 1 {
		a.admission = new(admission)
	} else if err := a.check.compare(ctx, false); err != nil {
		return err
	}
	if foresees && a.seats == 1 && cfg.Queue == nil && !p.KVElect {
		a.foresight = foresee(b, election, p.ID)
	}
	if a.foresight != nil {
		a.check.foresight = a.foresight
		cfg.sightings = nil // its first read is none
		a.admit()
	}
	cfg.admission, cfg.foresight = a.admission, a.foresight
	a.c = launch(context.WithoutCancel(ctx), b, election, cfg, p)
	ownLocks.add(a)
	a.terms = a.c.loops.enter(a.c)
	lockLines.tries(a)
	if a.admission == nil {
		return nil
	}
	if err := a.check.compare(ctx, false); err != nil { // meanwhile the candidate asks what it needs. It does not write, unless by foresight
		a.giveUp()
		return err
	}
	a.admit()
	return nil
}

// giveUp ends a candidate that has not got its lock.
func (a *acquisition) giveUp() {
	lockLines.leave(a.place)
	ownLocks.remove(a.session)
	a.c.loops.leave(a.c) // finishes a term that comes too late
	a.c.toAll(machine.InStop)
}

// admission is whether the candidate of a lock with one seat may take the key. nil: it may.
type admission struct{ admitted atomic.Bool }

// waits reports whether it may not yet.
func (a *admission) waits() bool { return a != nil && !a.admitted.Load() }

// admit lets the candidate take the key.
func (a *acquisition) admit() {
	if a.admission != nil && !a.admitted.Swap(true) && a.c != nil {
		a.c.toAll(machine.InTick)
	}
}

// wait waits for the term.
func (a *acquisition) wait(ctx context.Context) (*Lock, error) {
	events := a.c.reader()
	defer a.c.out.leave(events)
	bell := events.bell
	for {
		var err error
		select {
		case t := <-a.terms:
			if err = a.accept(ctx, t); err == nil && t.over() == nil {
				return a.lock(t), nil
			}
			t.finish() // it is over, or refused
		case _, open := <-bell:
			if !open {
				bell = nil
			}
			for e, ok := events.next(); ok && err == nil; e, ok = events.next() {
				a.note(e)
				err = a.verdict(ctx, e)
			}
		case <-a.c.Done():
			if err = a.c.Err(); err == nil {
				err = ErrStopped
			}
		case <-ctx.Done():
			err = a.explain(ctx.Err())
		}
		if err != nil {
			a.giveUp()
			return nil, err
		}
	}
}

// accept returns an error if the lock must not be held although its key was won. On another
// seat than the first, the first may have been taken meanwhile for another number of seats.
func (a *acquisition) accept(ctx context.Context, t *Term) error {
	if err := a.foresight.wait(ctx, t); err != nil {
		return err
	}
	if t.Seat() == 1 || t.over() != nil {
		return nil
	}
	return a.check.compare(ctx, false)
}

// lock makes the lock of a term.
func (a *acquisition) lock(t *Term) *Lock {
	lockLines.leave(a.place)
	a.c.loops.leave(a.c)
	a.term.Store(t)
	// The candidate has nothing to do after the term. It drains if the work goes on.
	context.AfterFunc(t.Context(), func() {
		ownLocks.remove(a.session)
		a.c.toAll(machine.InStop)
	})
	return &Lock{Term: t, c: a.c, session: a.session}
}

// note remembers what the events show.
func (a *acquisition) note(e Event) {
	switch e := e.(type) {
	case Observed: // without a holder perhaps only the clock has spoken, so a fault is kept
		if e.Holder.Seat == a.won.Seat {
			a.won = Pending{}
		}
		_, known := a.held[e.Holder.Seat]
		switch {
		case e.Holder.held():
			a.held[e.Holder.Seat], a.last, a.why, a.fault = e.Holder, e.Holder, "", nil
		case known:
			delete(a.held, e.Holder.Seat)
		default: // see holderReport in package machine
			a.held[e.Holder.Seat], a.last, a.why = e.Holder, e.Holder, "its key was deleted, and the lease of its last holder may be running"
		}
	case Pending:
		a.fault, a.won = nil, e
	case Faulted:
		a.fault = e.Err
		lockLines.leave(a.place) // what keeps this one from the key, as a cordon of its ID, may keep no other
		a.admit()
	case Elected, Fenced, Deposed:
	}
}

// explain adds what is known of the lock to the error of a context.
func (a *acquisition) explain(err error) error {
	if a.won.Reason != "" {
		err = fmt.Errorf("%w; the key is won, and the lock is held in %v, if ctx lasts: %s",
			err, max(a.won.Until.Sub(backend.Wall(a.c.clock)), 0).Round(time.Millisecond), a.won.Reason)
	}
	if a.fault != nil {
		err = fmt.Errorf("%w; the last fault: %w", err, a.fault)
	}
	if len(a.held) == a.seats && a.why == "" {
		err = &HeldError{Election: a.c.election, Holder: a.last, waited: err}
	}
	return err
}

// verdict returns the error with which an event ends the attempt.
func (a *acquisition) verdict(ctx context.Context, e Event) error {
	switch e := e.(type) {
	case Observed:
		if len(a.held) < a.seats {
			return nil
		}
		lockLines.observed(a)
		if own := a.waitsForItself(); own || a.try {
			over := a.last.State == HolderLeading && backend.Wall(a.c.clock).Sub(a.last.Renewed) > a.last.Lease
			return &HeldError{Election: a.c.election, Holder: a.last, why: a.why, own: own, over: over}
		}
	case Pending:
		if a.try && e.Until.After(backend.Wall(a.c.clock)) {
			return &HeldError{Election: a.c.election, Holder: Holder{Seat: e.Seat}, why: e.Reason}
		}
	case Faulted:
		switch {
		case a.try && !isPassing(e.Err):
			return e.Err
		case !a.try && errors.Is(e.Err, ErrSeatsDiffer):
			return a.check.compare(ctx, true)
		}
	case Elected, Fenced, Deposed:
	}
	return nil
}

// isPassing reports whether a candidate can be elected at once in spite of a fault.
func isPassing(err error) bool {
	switch {
	case errors.Is(err, ErrTokensExhausted):
		return false
	case errors.Is(err, ErrNoFeed), errors.Is(err, ErrForeignRecord), errors.Is(err, ErrSeatsDiffer), errors.Is(err, ErrBucketDiffers), errors.Is(err, ErrGuardDeleted):
		return true
	}
	return false
}

// Err returns nil while the lock is held, by the clock, and then the cause with which its context
// has ended.
func (l *Lock) Err() error {
	ctx := l.Context()
	_ = ctx.Err() // asks the clock
	return context.Cause(ctx)
}

// Unlock gives the lock up, after the work has ended: its context ends with [ErrResigned], and the key is released
// when the functions of Go have returned, which must not call Unlock. It returns nil if the lock was held until this
// call. It may be called more than once.
//
// If the lock was lost before, Unlock returns an error with the cause: another process may have held it while the
// work went on. If ctx ends first, Unlock returns its error, and the lock is given up all the same, in up to one
// lease while the store cannot be reached. Other errors: [ErrNotReleased] while functions of Go run on,
// [ErrConnectionClosed] if the application has closed the connection before the release, and [ErrNotLeader] for a
// zero Lock.
func (l *Lock) Unlock(ctx context.Context) error {
	if l == nil || l.c == nil {
		return fmt.Errorf("unlock of a Lock that Acquire or TryAcquire has not returned: %w", ErrNotLeader)
	}
	l.giveUp()
	l.finish()
	l.send(machine.InResign) // while functions of Go run; otherwise it has resigned
	l.c.toAll(machine.InStop)
	select {
	case <-l.c.Done():
	default:
		select {
		case <-l.c.Done():
		case <-ctx.Done():
			return l.unlockError("which goes on", ctx.Err())
		}
	}
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if l.c.cut {
		return l.unlockError("whose key was not released", ErrConnectionClosed)
	}
	if l.works() {
		return l.unlockError("whose work goes on", ErrNotReleased)
	}
	return l.unlockError("", nil)
}

// giveUp remembers, once, whether the lock was lost before it is given up. From then on this
// process may ask for it again.
func (l *Lock) giveUp() {
	l.once.Do(func() {
		l.lost = l.Err()
		ownLocks.remove(l.session)
	})
}

// unlockError returns the error of Unlock from what has become of it, and from the loss.
func (l *Lock) unlockError(what string, err error) error {
	switch {
	case err == nil && l.lost == nil:
		return nil
	case err == nil:
		return fmt.Errorf("unlock %q: the lock was lost before: %w", l.c.election, l.lost)
	case l.lost == nil || errors.Is(l.lost, err):
		return fmt.Errorf("unlock %q, %s: %w", l.c.election, what, err)
	default:
		return fmt.Errorf("unlock %q, %s: %w; the lock was lost before: %w", l.c.election, what, err, l.lost)
	}
}
