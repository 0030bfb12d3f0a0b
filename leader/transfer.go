package leader

import (
	"context"
	"fmt"
	"slices"

	"github.com/natsleader/natsleader/internal/wire"
)

// Transfer hands over to the candidate with that ID, as by [Candidate.Resign], and stays
// a candidate. The released record names the successor. The successor takes the key as
// soon as it receives the release. All other candidates wait for one
// [Config].TurnTimeout, and then follow in their own way. A roster is not needed. With a
// roster, an ID that is not in it is rejected as soon as the leader has read the roster,
// some milliseconds after its election.
//
// Transfer returns nil when the successor holds the key. It returns [ErrNotSucceeded]
// when another candidate holds it, or when none has taken it while this candidate waited,
// for a few turns and at most one lease. It returns [ErrStopped] when this candidate has
// ended before the outcome is known. [ErrNotLeader], and [ErrRequestRefused] if no candidate
// with that ID waits, change nothing. After the error of ctx the key is given up all the
// same.
func (c *Candidate) Transfer(ctx context.Context, id string) error {
	if err := checkSuccessor(id); err != nil {
		return err
	}
	return c.call(ctx, input{kind: inResign, to: id})
}

// TransferAny is Transfer to the next candidate of the roster. It returns that
// candidate's ID. Further errors: [ErrRequestRefused] if no other candidate is in
// the roster, [ErrNoRoster] if the candidate has no roster, or has not read it yet.
func (c *Candidate) TransferAny(ctx context.Context) (string, error) {
	seat := c.seatHeld()
	if err := seat.call(ctx, input{kind: inResign, next: true}); err != nil {
		return "", err
	}
	seat.mu.Lock()
	defer seat.mu.Unlock()
	return seat.taker, nil
}

// setTaker keeps the ID of the candidate that took the key after a Transfer.
func (c *Candidate) setTaker(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taker = id
}

func checkSuccessor(id string) error {
	if id == "" {
		return fmt.Errorf("%w: the ID of the successor is empty", ErrInvalidConfig)
	}
	return checkID("the ID of the successor", id)
}

// mayHandOver reports whether there is a candidate to hand over to, as far as is known,
// and answers the call if not.
func (a *actor) mayHandOver(m *mail) bool {
	var all []announcement
	told := false
	if v := a.watcher.view; v != nil {
		all, told, _ = v.order(a.holding)
	}
	var err error
	switch to := m.in.to; {
	case a.status.state != StateLeader:
	case m.in.next && !told && a.status.line == "":
		err = ErrNoRoster
	case m.in.next:
	case told && !slices.ContainsFunc(all, func(s announcement) bool { return s.ID == to }):
		err = fmt.Errorf("%w: %s", errNotStanding, to)
	case !told && to == a.c.id:
		err = fmt.Errorf("%w: %s leads", errNotStanding, to)
	}
	if err != nil && m.call != nil { // its caller waits
		m.call <- err
	}
	return err == nil
}

// Transfer asks the leader of the election to hand over to the candidate with that ID, as
// by [Candidate.Transfer], or to the next candidate of the roster if id is empty. It
// waits for the next leader, and returns the Holder that was asked. by names the
// requester in the leader's log.
//
// Errors: those of [StepDown], which also documents the permission that is needed;
// [ErrRequestRefused] also if no candidate with that ID waits; and [ErrNotSucceeded] if
// another candidate leads then, or none within one lease.
func Transfer(ctx context.Context, store Store, election, id, by string) (Holder, error) {
	if id != "" {
		if err := checkSuccessor(id); err != nil {
			return Holder{}, err
		}
	}
	return ask(ctx, store, election, wire.StepDownRequest{Do: wire.DoTransfer, To: id, By: by})
}
