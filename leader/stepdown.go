package leader

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// petition is a request to the holder of an election, in JSON. It is for one
// term: late, sent twice, or heard in another bucket of the same name, it pushes
// out nobody else.
type petition struct {
	Format  int    `json:"v"`
	Do      string `json:"do"`
	Session string `json:"session"`      // of the record
	Token   uint64 `json:"token"`        // of the term
	To      string `json:"to,omitempty"` // doTransfer: an ID; empty: the next of the roster
	By      string `json:"by,omitempty"` // who asks, by its own account
}

// verdict is the leader's answer to a petition.
type verdict struct {
	Format int    `json:"v"`
	Answer string `json:"answer"`
	ID     string `json:"id"`
	Token  uint64 `json:"token"` // of the term that the leader leads
	Reason string `json:"reason,omitempty"`
}

const (
	petitionFormat = 1
	doStepDown     = "step-down"
	doTransfer     = "transfer"

	answerAccepted = "accepted"
	answerRefused  = "refused"
	answerOver     = "over" // the term that was meant: a later one leads
)

// StepDown asks the leader of the election to hand over in order, as by
// [Candidate.Resign]: its term ends with [ErrResigned], its work is drained, and
// it sits out one lease. StepDown waits until the key is released or another's,
// and returns the Holder that was asked. by says in the leader's log who asks.
//
// With several seats it asks the leader of one: election is then what [SeatKey]
// returns. The leader sits out one lease on all seats.
//
// A client that may publish on the subject natsleader.ask.<bucket>.<election> can push
// the leader out: see docs/permissions.md in the repository.
//
// Errors: [ErrNoLeader] if nobody leads, [ErrRequestRefused], [ErrUnreachable] if
// within 5 s the leader neither answers nor hands over, those of [Lookup], and that of ctx, after
// which the leader may still hand over.
func StepDown(ctx context.Context, store Store, election, by string) (Holder, error) {
	return ask(ctx, store, election, petition{Do: doStepDown, By: by})
}

// ask presents a petition to whoever leads, and waits for what it asks for.
func ask(ctx context.Context, store Store, election string, p petition) (Holder, error) {
	b, err := backendOf(store)
	if err != nil {
		return Holder{}, err
	}
	s, err := look(ctx, b, election)
	if err != nil {
		return Holder{}, err
	}
	h := holderOf(s, seatOf(election))
	if !h.Leads() {
		return h, fmt.Errorf("%w: %s", ErrNoLeader, h)
	}
	asking, cancel := context.WithCancel(ctx)
	holders, err := Observe(asking, store, election) // from before it is asked, so that nothing is missed
	if err != nil {
		cancel()
		return h, err
	}
	answers := make(chan answer, 1)
	defer func() {
		cancel()
		for range holders { // until nothing is left of either
		}
		for range answers {
		}
	}()
	over := handover{of: h, succeeded: p.Do == doTransfer, to: p.To}
	first, enough := within(ctx, time.Second)
	defer enough()
	select {
	case now, ok := <-holders: // in most cases, that it leads
		if done, end := over.told(ctx, now, ok); done {
			close(answers)
			return h, end
		}
	case <-first.Done():
	}
	go func() {
		p.Format, p.Session, p.Token = petitionFormat, s.rec.session, h.Token
		v, end := p.present(asking, b, election)
		answers <- answer{v, end}
		close(answers)
	}()
	return h, over.wait(ctx, holders, answers)
}

// answer is what became of a petition.
type answer struct {
	verdict
	err error
}

// handover is the end of a holder's term, as somebody sees it who looks on. It
// counts also where the leader's answer is lost, or it may not answer. What is told may
// at first be of the past: a lagging replica of a time before the term.
type handover struct {
	of     Holder
	led    bool // it was seen to lead, or has answered
	vacant bool // nobody leads, as was told last

	succeeded bool   // it is over when somebody leads after it
	to        string // who is to; empty: anybody
}

// told takes what is told next, or the end of the telling, and reports whether that
// is all.
func (o *handover) told(ctx context.Context, now Holder, ok bool) (done bool, err error) {
	if !ok {
		return true, cmp.Or(ctx.Err(), ErrConnectionClosed)
	}
	o.vacant = !now.Leads()
	o.led = o.led || now.Leads() && now.Token == o.of.Token
	if now.Leads() && now.Token > o.of.Token {
		if o.succeeded && (now.ID == o.of.ID || o.to != "" && now.ID != o.to) {
			return true, fmt.Errorf("%w: %s", ErrNotSucceeded, now)
		}
		return true, nil
	}
	return o.vacates(), nil
}

// vacates reports whether it is enough that nobody leads.
func (o *handover) vacates() bool { return o.led && o.vacant && !o.succeeded }

// wait returns when it is over, or will not come.
func (o *handover) wait(ctx context.Context, holders <-chan Holder, answers <-chan answer) error {
	var late <-chan struct{} // nobody has taken the key for a lease
	for {
		select {
		case now, ok := <-holders:
			if done, err := o.told(ctx, now, ok); done {
				return err
			}
			if o.vacant && o.led && late == nil {
				vacancy, cancel := within(ctx, o.of.Lease)
				defer cancel()
				late = vacancy.Done()
			}
		case <-late:
			return cmp.Or(ctx.Err(), fmt.Errorf("%w: nobody leads", ErrNotSucceeded))
		case a := <-answers:
			switch {
			case errors.Is(a.err, ErrUnreachable) && o.vacant:
			case a.err != nil:
				return a.err
			case a.Answer == answerRefused:
				return fmt.Errorf("%w: %s leads with token %d: %s", ErrRequestRefused, a.ID, a.Token, a.Reason)
			}
			answers, o.led = nil, true
			if o.vacates() {
				return nil
			}
		}
	}
}

// askAgain is the pause between two tries: a leader that was elected, or has
// reconnected, a moment ago may not listen yet.
const askAgain = 100 * time.Millisecond

// present asks until there is an answer.
func (p petition) present(ctx context.Context, courier backend.Requests, election string) (verdict, error) {
	request, err := json.Marshal(p)
	if err != nil {
		return verdict{}, err
	}
	limited, cancel := within(ctx, defaultLimit)
	defer cancel()
	for {
		v, err := p.ask(limited, courier, election, request)
		if err == nil || !errors.Is(err, ErrUnreachable) || idle(limited, askAgain) != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return v, err
		}
	}
}

func (p petition) ask(ctx context.Context, courier backend.Requests, election string, request []byte) (verdict, error) {
	ctx, cancel := within(ctx, time.Second) // one that was lost is asked again: it is the same
	defer cancel()
	type reply struct {
		data []byte
		err  error
	}
	replies := make(chan reply, 1)
	courier.Ask(ctx, election, request, func(data []byte, err error) { replies <- reply{data, err} })
	got := <-replies
	if got.err != nil {
		return verdict{}, got.err
	}
	var v verdict
	if err := json.Unmarshal(got.data, &v); err != nil {
		return verdict{}, fmt.Errorf("%w: the leader's answer cannot be read: %w", ErrUnreachable, err)
	}
	switch v.Answer {
	case answerAccepted, answerRefused, answerOver:
		return v, nil
	}
	return verdict{}, fmt.Errorf("%w: the leader's answer is %q", ErrUnreachable, v.Answer)
}
