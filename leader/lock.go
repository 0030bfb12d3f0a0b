package leader

import (
	"context"
	"errors"
	"fmt"

	"github.com/natsleader/natsleader/internal/deadline"
)

// Lock is a term that the application asked for by [Acquire] or [TryAcquire], and gives back
// by Unlock. The zero value is a lock that is over.
//
// A lock can be lost, as every term. Its context then ends, with the cause, and the work has
// to end. Meanwhile the key is kept for the work, up to DrainTimeout, or for one lease if
// none is set. A lost lock does not come back, and neither does one that was given up. Lock
// again by another call of Acquire or TryAcquire.
//
// The methods of the Term are those of every term. Context, Err and [Check] ask the clock
// whether the lock is still held. Token is the fencing token. Release is Unlock without a
// wait for the store, so it must not be the last thing that a program does.
type Lock struct {
	*Term
	c *Candidate
}

// HeldError is returned by [TryAcquire] for a lock that is not free.
type HeldError struct {
	Election string
	// Holder holds the lock; of a lock with several seats it is the one that was seen last.
	// Its ID is empty if the holder cannot be named: the key holds a foreign record, or it
	// was deleted and the lease of its last holder may be running.
	Holder Holder
	why    string // why the lock is not free although no holder is known
}

// Error names the election, the ID of the holder and its token.
func (e *HeldError) Error() string {
	if e.why != "" {
		return fmt.Sprintf("leader: the lock %q is not free: %s", e.Election, e.why)
	}
	return fmt.Sprintf("leader: the lock %q is held: %s", e.Election, e.Holder)
}

// Acquire campaigns in the election until it is elected, and returns the term as a Lock. The
// lock is held until [Lock.Unlock] is called, or until it is lost. All settings of cfg have
// the meaning that they have for [Campaign], but for StopTimeout, which does not apply. With
// Seats there are as many locks: a semaphore.
//
// ctx bounds the waiting, and the values that it carries are those of the lock's context. Its
// end does not end a lock that was acquired. If ctx ends first, Acquire returns its error at
// once, with the holder and the last fault if these are known. Its candidate then ends by
// itself. If that has just won the key, it releases it. Otherwise the errors are those of
// Campaign, and [ErrConnectionClosed] if the application closes the connection. While the
// store cannot be reached, Acquire waits.
func Acquire(ctx context.Context, store Store, election string, cfg Config) (*Lock, error) {
	a, err := newAcquisition(ctx, store, election, cfg)
	if err != nil {
		return nil, err
	}
	l, err := a.wait(ctx, func(Event) error { return nil })
	if err != nil {
		return nil, fmt.Errorf("acquire lock %q: %w", election, err)
	}
	return l, nil
}

// TryAcquire is Acquire for an application that does not wait while another holds the lock.
// It returns in the time of a few requests, and in 5 s at most if ctx has no deadline.
//
// If the lock is held, TryAcquire returns a *[HeldError]. With Seats that may also be so if the
// key of a free seat was deleted less than one lease ago. A holder that has crashed still
// holds it until its lease is over. One try cannot find that out: it takes two in the same
// process, with the same store and Clock, as long apart as the lease, with no renewal between
// them. For that the process remembers 1,024 keys of each store, so keep the [Bucket] from one
// try to the next. Processes that seldom try, as a job that is started once a day, use Acquire
// with a context that ends after one or two leases.
//
// A fault of the store is returned as an error at once, with the errors of [Faulted] events,
// such as [ErrUnreachable], [ErrNoBucket] and [ErrPermission]. [ErrInvalidConfig] is also
// returned for settings that make a candidate wait: Roster, Queue, PendingPeriod and
// KVElect. [ErrIncompatibleBucket] is also returned for a bucket that is not
// purge-protected, because a key that is empty there is not free at once.
//
// TryAcquire relies on the bucket to forget nothing between two tries. If it loses
// acknowledged writes, as one that is restored from a backup, let all candidates of the
// election stop for one lease first.
func TryAcquire(ctx context.Context, store Store, election string, cfg Config) (*Lock, error) {
	if err := cfg.checkTry(); err != nil {
		return nil, err
	}
	if b, err := backendOf(store); err == nil {
		if cfg.Clock == nil {
			cfg.Clock = clockOf(store)
		}
		cfg.sightings = sightingsOf(b, cfg.Clock)
	}
	ctx, cancel := deadline.Limit(ctx)
	defer cancel()
	a, err := newAcquisition(ctx, store, election, cfg)
	if err != nil {
		return nil, err
	}
	l, err := a.wait(ctx, a.verdict)
	var held *HeldError
	switch {
	case errors.As(err, &held):
		return nil, held
	case err != nil:
		return nil, fmt.Errorf("try lock %q: %w", election, err)
	}
	return l, nil
}

// checkTry returns an error for settings with which a candidate waits.
func (c *Config) checkTry() error {
	for _, s := range []struct {
		name string
		set  bool
	}{{"Roster", c.Roster}, {"Queue", c.Queue}, {"PendingPeriod", c.PendingPeriod > 0}, {"KVElect", c.KVElect}} {
		if s.set {
			return fmt.Errorf("%w: %s is for candidates that wait, and TryAcquire does not: leave it out, or use Acquire", ErrInvalidConfig, s.name)
		}
	}
	return nil
}

// acquisition is a candidate on the way to a lock. It takes its term in a loop over
// Candidate.Terms that it leaves with the first one. So the machine leads no other term.
type acquisition struct {
	c     *Candidate
	seats int
	terms <-chan *Term
	held  map[int]Holder // the seats that others hold
	last  Holder         // of those the one seen last
	why   string         // why the seat of last is not free, if last names no holder
	fault error          // the last one, if nothing was learnt of the key since
}

func newAcquisition(ctx context.Context, store Store, election string, cfg Config) (*acquisition, error) {
	c, err := Campaign(context.WithoutCancel(ctx), store, election, cfg)
	if err != nil {
		return nil, err
	}
	return &acquisition{c: c, seats: max(cfg.Seats, 1), terms: c.loops.enter(c), held: make(map[int]Holder)}, nil
}

// wait waits for the term. verdict returns the error that an event makes of the attempt.
func (a *acquisition) wait(ctx context.Context, verdict func(Event) error) (*Lock, error) {
	events := a.c.reader()
	defer a.c.out.leave(events)
	bell := events.bell
	for {
		var err error
		select {
		case t := <-a.terms:
			if t.Err() != nil { // it is over
				t.finish()
				continue
			}
			if err = verdict(Elected{Term: t}); err == nil {
				return a.lock(t), nil
			}
			t.finish()
		case _, open := <-bell:
			if !open {
				bell = nil
			}
			for e, ok := events.next(); ok && err == nil; e, ok = events.next() {
				a.note(e)
				err = verdict(e)
			}
		case <-a.c.Done():
			if err = a.c.Err(); err == nil {
				err = ErrStopped
			}
		case <-ctx.Done():
			err = a.explain(ctx.Err())
		}
		if err != nil {
			a.c.loops.leave(a.c) // finishes a term that comes too late
			a.c.toAll(inStop)
			return nil, err
		}
	}
}

// lock makes the lock of a term.
func (a *acquisition) lock(t *Term) *Lock {
	a.c.loops.leave(a.c)
	// The candidate has nothing to do after the term. It drains if the work goes on.
	context.AfterFunc(t.Context(), func() { a.c.toAll(inStop) })
	return &Lock{Term: t, c: a.c}
}

// note remembers what the events show.
func (a *acquisition) note(e Event) {
	switch e := e.(type) {
	case Observed:
		a.fault = nil
		_, known := a.held[e.Holder.Seat]
		switch {
		case e.Holder.ID != "" || e.Holder.Foreign:
			a.held[e.Holder.Seat], a.last, a.why = e.Holder, e.Holder, ""
		case known:
			delete(a.held, e.Holder.Seat)
		default: // see machine.show
			a.held[e.Holder.Seat], a.last, a.why = e.Holder, e.Holder, "its key was deleted, and the lease of its last holder may be running"
		}
	case Pending:
		a.fault = nil
	case Faulted:
		a.fault = e.Err
	case Elected, Fenced, Deposed:
	}
}

// explain adds what is known of the lock to the error of a context.
func (a *acquisition) explain(err error) error {
	if len(a.held) == a.seats && a.why == "" {
		err = fmt.Errorf("%w while %s", err, a.last)
	}
	if a.fault != nil {
		err = fmt.Errorf("%w; the last fault: %w", err, a.fault)
	}
	return err
}

// verdict returns the error with which an event ends a try.
func (a *acquisition) verdict(e Event) error {
	switch e := e.(type) {
	case Observed:
		if len(a.held) == a.seats {
			return &HeldError{Election: a.c.election, Holder: a.last, why: a.why}
		}
	case Pending:
		if e.Until.After(a.c.clock.Now()) {
			return &HeldError{Election: a.c.election, Holder: Holder{Seat: e.Seat}, why: e.Reason}
		}
	case Faulted:
		if !isPassing(e.Err) {
			return e.Err
		}
	case Elected, Fenced, Deposed:
	}
	return nil
}

// errNotTryable keeps TryAcquire from a bucket in which an empty key is not free at once.
var errNotTryable = fmt.Errorf("%w: it is not purge-protected, so a key that is empty is not free at once, as TryAcquire needs it: make it by CreateBucket or EnsureBucket without a TTL, or use Acquire", ErrIncompatibleBucket)

// isPassing reports whether a candidate can be elected at once in spite of a fault.
func isPassing(err error) bool {
	switch {
	case errors.Is(err, errTokensExhausted):
		return false
	case errors.Is(err, ErrNoFeed), errors.Is(err, ErrForeignRecord), errors.Is(err, errSeats), errors.Is(err, errBucketDiffers), errors.Is(err, errGuardDeleted):
		return true
	}
	return false
}

// Unlock gives the lock up: its context ends with [ErrResigned], and the key is released. The
// work has to have ended. Unlock returns nil when the key is released, or is known to be
// another's, or no longer keeps other candidates out. It may be called more than once, and
// after the lock was lost.
//
// If ctx ends first, Unlock returns its error, and the lock is given up all the same, as long
// as the program runs. While the store cannot be reached, that takes up to one lease.
// Unlock returns [ErrConnectionClosed] if the application has closed the connection before
// the key was released. Others then wait until the lease is over.
func (l *Lock) Unlock(ctx context.Context) error {
	if l.c == nil {
		return nil
	}
	l.finish()
	l.c.toAll(inStop)
	select {
	case <-l.c.Done():
	default:
		select {
		case <-l.c.Done():
		case <-ctx.Done():
			return fmt.Errorf("unlock %q, which goes on: %w", l.c.election, ctx.Err())
		}
	}
	l.c.mu.Lock()
	defer l.c.mu.Unlock()
	if l.c.cut {
		return fmt.Errorf("unlock %q: %w before the key was released", l.c.election, ErrConnectionClosed)
	}
	return nil
}
