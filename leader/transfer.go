package leader

import (
	"context"
	"fmt"
	"slices"
)

// Transfer hands over to the candidate with that ID, as by [Candidate.Resign], and
// stays a candidate. The release names it: it takes the key as soon as it hears of
// it, while all others wait for one [Config].TurnTimeout, and follow then in their
// own way. A roster is not needed; with one, an ID that does not stand is refused, as
// soon as the leader has read it, some milliseconds after its election.
//
// It returns nil when the one that was named holds the key, [ErrNotSucceeded] when
// another does, or nobody has taken it while the candidate sat out, a few turns and
// at most one lease, [ErrStopped] when the candidate has ended before that is known.
// [ErrNotStanding] and [ErrNotLeader] change nothing. After the error of ctx the key is
// given up all the same.
func (c *Candidate) Transfer(ctx context.Context, id string) error {
	if err := checkSuccessor(id); err != nil {
		return err
	}
	return c.call(ctx, input{kind: inResign, to: id})
}

// TransferAny is Transfer to the next of the roster, whose ID it returns. Further
// errors: [ErrNotStanding] if nobody else stands, [ErrNoRoster] if the candidate has
// no roster, or has not read it yet.
func (c *Candidate) TransferAny(ctx context.Context) (string, error) {
	seat := c.engaged()
	if err := seat.call(ctx, input{kind: inResign, next: true}); err != nil {
		return "", err
	}
	seat.mu.Lock()
	defer seat.mu.Unlock()
	return seat.taker, nil
}

func checkSuccessor(id string) error {
	if id == "" {
		return fmt.Errorf("%w: the ID of the successor is empty", ErrInvalidConfig)
	}
	return checkID("the ID of the successor", id)
}

// mayHandOver reports whether there is somebody to hand over to, as far as is known,
// and answers the call if not.
func (a *actor) mayHandOver(m *mail) bool {
	var all []announcement
	told := false
	if v := a.lookout.view; v != nil {
		all, told, _ = v.order(a.holding)
	}
	var err error
	switch to := m.in.to; {
	case a.m.state != StateLeader:
	case m.in.next && !told && a.m.line == "":
		err = ErrNoRoster
	case m.in.next:
	case told && !slices.ContainsFunc(all, func(s announcement) bool { return s.ID == to }):
		err = fmt.Errorf("%w: %s", ErrNotStanding, to)
	case !told && to == a.c.id:
		err = fmt.Errorf("%w: %s leads", ErrNotStanding, to)
	}
	if err != nil && m.call != nil { // its caller waits
		m.call <- err
	}
	return err == nil
}

// Transfer asks the leader of the election to hand over to the candidate with that
// ID, as by [Candidate.Transfer], or to the next of the roster if id is empty. It
// waits until somebody leads after it, and returns the Holder that was asked. by says
// in the leader's log who asks.
//
// Errors: those of [StepDown], which also tells what permission is needed;
// [ErrRequestRefused] also if nobody of that ID stands; and [ErrNotSucceeded] if another
// leads then, or nobody within one lease.
func Transfer(ctx context.Context, store Store, election, id, by string) (Holder, error) {
	if id != "" {
		if err := checkSuccessor(id); err != nil {
			return Holder{}, err
		}
	}
	return ask(ctx, store, election, petition{Do: doTransfer, To: id, By: by})
}
