package leader

import (
	"context"

	"github.com/natsleader/natsleader/internal/machine"
)

// termWork is the work of a term that the candidate knows: the functions of Go, and the body of a loop over Terms. The
// term's mu guards it. So a step of the candidate either finds a function of Go, or has ended the context before it.
type termWork struct {
	running int           // functions of Go
	body    bool          // a loop has the term, or is to take it
	worked  bool          // and its body has ended, so the term lasts as long as the functions of Go
	idle    chan struct{} // closed when no function of Go runs; nil if nobody waits for that
}

// Go calls work on a goroutine of its own, with the context of the term. The key is not given up before work has
// returned, or [Config].GracePeriod after the end of the context. A body of a loop over [Candidate.Terms] may return
// meanwhile; outside a loop, the return of work does not end the term. A shard moves when its work and the functions
// of Go have returned. Go returns false, and does not call work, if the term is over.
func (t *Term) Go(work func(lead context.Context)) bool {
	if t == nil || t.ctx.term == nil {
		return false
	}
	now, _ := t.ctx.check() // ends the context if the lease is over
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.ended() != nil || t.freed.Load() {
		return false
	}
	if t.known.running++; t.work.timeout > 0 && t.known.running == 1 {
		t.work.asked.Store(int64(now))
		t.send(machine.InTick) // the candidate watches the work from now on
	}
	go func() {
		defer t.returned()
		work(t.Context())
	}()
	return true
}

// goesOn reports whether work of the term goes on. The lock is held.
func (t *Term) goesOn() bool { return t.known.running > 0 || t.known.body }

// works reports whether work of the term goes on.
func (t *Term) works() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.goesOn()
}

// returned ends a function of Go.
func (t *Term) returned() {
	t.mu.Lock()
	if t.known.running--; t.known.running == 0 && t.known.idle != nil {
		close(t.known.idle)
		t.known.idle = nil
	}
	last, worked, freed := !t.goesOn(), t.known.worked, t.freed.Load() // a release that comes later finds no function
	t.mu.Unlock()
	switch {
	case !last:
	case t.release != nil && freed:
		t.leave()
	case t.release != nil: // the work of the shard goes on
	case worked:
		t.send(machine.InWorked)
	default:
		t.send(machine.InDrained)
	}
}

// idle returns a channel that is closed when no function of Go runs.
func (t *Term) idle() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known.running == 0 {
		return ended
	}
	if t.known.idle == nil {
		t.known.idle = make(chan struct{})
	}
	return t.known.idle
}

// offer notes that a loop is to take the term.
func (t *Term) offer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known.body = !t.known.worked
}

// finish ends the body of a loop. When the functions of Go have returned, too, it releases the term and, if it still
// leads, hands over.
func (t *Term) finish() {
	t.mu.Lock()
	t.known.body, t.known.worked = false, true
	last := t.known.running == 0
	t.mu.Unlock()
	if last {
		t.send(machine.InWorked)
	}
}

// Resign ends this term, and no other. The candidate hands over, and campaigns again if no other candidate takes the
// key within a few turns, at most one lease. Work may keep the key for [Config].GracePeriod. Resign returns nil as
// soon as the context has ended, so that the work may call it, and [ErrNotLeader] if it had ended before, and for the
// term of a shard. If ctx ends first, the term ends all the same.
func (t *Term) Resign(ctx context.Context) error {
	if !t.leads() {
		return ErrNotLeader
	}
	t.send(machine.InResign)
	select {
	case <-t.ctx.Context.Done():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TransferTo is Resign in favour of the candidate with that ID or session, which takes the key as soon as it receives
// the release, while all others wait for one [Config].TurnTimeout. A roster is not needed. The next leader may be
// another. [ErrInvalidConfig] for an ID that is not valid, and [ErrRequestRefused] if the roster does not have the
// ID, change nothing. If ctx ends first, the term may go on.
func (t *Term) TransferTo(ctx context.Context, id string) error {
	if err := checkSuccessor(id); err != nil {
		return err
	}
	if !t.leads() {
		return ErrNotLeader
	}
	return t.call(ctx, machine.Input{Kind: machine.InResign, To: id})
}

// Proclaim changes the value that is published with the lease, also by later terms of the candidate, while this term
// leads or the key is kept for its work. It returns nil when a record with the value is stored. Errors:
// [ErrValueTooLarge], [ErrNotLeader].
func (t *Term) Proclaim(ctx context.Context, value []byte) error {
	return t.call(ctx, machine.Input{Kind: machine.InProclaim, Value: string(value)})
}

// leads reports whether the term leads by a key. The term of a shard has none, and no box.
func (t *Term) leads() bool { return t != nil && t.box != nil && t.over() == nil }

// call makes a call for this term.
func (t *Term) call(ctx context.Context, in machine.Input) error {
	if t == nil || t.box == nil {
		return ErrNotLeader
	}
	in.Term = t.number
	return t.box.call(ctx, in)
}
