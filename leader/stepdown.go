package leader

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// stepDownReply is the leader's answer to a request.
type stepDownReply struct {
	Format int    `json:"v"`
	Answer string `json:"answer"`
	ID     string `json:"id"`
	Token  uint64 `json:"token"` // of the term that the leader leads
	Reason string `json:"reason,omitempty"`
}

const (
	answerAccepted = "accepted"
	answerRefused  = "refused"
	answerOver     = "over" // the term of the request has ended: a later one leads
)

// StepDownOptions say who asks, and who is to lead next.
type StepDownOptions struct {
	By    string // names the requester in the leader's log
	To    string // ID of the candidate that is to lead next
	Next  bool   // the next candidate of the roster is to lead, in place of To
	Token uint64 // of the term that is meant: another is not asked, which is ErrNoLeader; 0: whichever leads
}

// StepDown asks the leader to hand over, as by [Term.Resign], and with To or Next as by [Term.TransferTo]. It returns
// the Holder that was asked, when the key is released or another's, and with To or Next when there is a next leader.
// With several seats election is the result of seats.Key. docs/permissions.md has who may ask.
//
// Errors: [ErrNoLeader]; [ErrRequestRefused] if the leader refuses, or no candidate of To waits; [ErrUnreachable] if it
// neither answers nor hands over within 5 s; those of every [Store]; with To or Next [ErrNotSucceeded] if another leads
// then, or none within one lease, [ErrInvalidConfig] with both. After the error of ctx it may still hand over.
func StepDown(ctx context.Context, store Store, election string, opts StepDownOptions) (Holder, error) {
	p := wire.StepDownRequest{Do: wire.DoStepDown, To: opts.To, By: opts.By, Token: opts.Token}
	if opts.To != "" || opts.Next {
		p.Do = wire.DoTransfer
	}
	if opts.To != "" {
		if opts.Next {
			return Holder{}, fmt.Errorf("%w: StepDownOptions with To %q and Next: leave one out", ErrInvalidConfig, opts.To)
		}
		if err := checkSuccessor(opts.To); err != nil {
			return Holder{}, err
		}
	}
	return ask(ctx, store, election, p)
}

// ask sends a request to the leader, and waits for its effect.
func ask(ctx context.Context, store Store, election string, p wire.StepDownRequest) (Holder, error) {
	b, err := backendFor(store, election)
	if err != nil {
		return Holder{}, err
	}
	s, err := look(ctx, b, election)
	if err != nil {
		return Holder{}, err
	}
	h := holderOf(s, seatOf(election))
	switch {
	case h.State == HolderLeading && (p.Token == 0 || p.Token == h.Token):
	case h.State == HolderLeading:
		return h, fmt.Errorf("%w: the term with token %d is over: %s", ErrNoLeader, p.Token, h)
	case !h.held():
		return h, fmt.Errorf("%w: election %q is free", ErrNoLeader, election)
	default:
		return h, fmt.Errorf("%w: %s", ErrNoLeader, h)
	}
	asking, cancel := context.WithCancel(ctx)
	holders, err := Observe(asking, store, election) // from before the request, so that no change is missed
	if err != nil {
		cancel()
		return h, err
	}
	answers := make(chan answer, 1)
	defer func() {
		cancel()
		for range holders { // until both goroutines have ended
		}
		for range answers {
		}
	}()
	over := handover{of: h, succeeded: p.Do == wire.DoTransfer, to: p.To}
	first, enough := deadline.Within(ctx, time.Second)
	defer enough()
	select {
	case now, ok := <-holders: // in most cases, the leader itself
		if done, end := over.take(ctx, now, ok); done {
			close(answers)
			return h, end
		}
	case <-first.Done():
	}
	go func() {
		p.Format, p.Session, p.Token = wire.StepDownFormat, s.Rec.Session, h.Token
		v, end := present(asking, b, election, p)
		answers <- answer{v, end}
		close(answers)
	}()
	return h, over.wait(ctx, holders, answers)
}

// answer is the outcome of a request.
type answer struct {
	stepDownReply
	err error
}

// handover follows the end of a holder's term from outside. It works even if the leader's
// answer is lost, or if the leader has no permission to answer. The first observations may
// be from the past: a lagging replica may show a time before the term.
type handover struct {
	of     Holder
	led    bool // it was seen to lead, or has answered
	vacant bool // the last observation had no leader

	succeeded bool   // the handover is over when there is a later leader
	to        string // ID of the candidate that is to lead then; empty: any
}

// take takes the next observation, or the end of the observations, and reports whether
// the wait is over.
func (o *handover) take(ctx context.Context, now Holder, ok bool) (done bool, err error) {
	if !ok {
		return true, cmp.Or(ctx.Err(), ErrConnectionClosed)
	}
	o.vacant = now.State != HolderLeading
	o.led = o.led || !o.vacant && now.Token == o.of.Token
	if !o.vacant && now.Token > o.of.Token {
		if o.succeeded && (now.ID == o.of.ID || o.to != "" && now.ID != o.to) {
			return true, fmt.Errorf("%w: %s", ErrNotSucceeded, now)
		}
		return true, nil
	}
	return o.vacates(), nil
}

// vacates reports whether the absence of a leader is enough.
func (o *handover) vacates() bool { return o.led && o.vacant && !o.succeeded }

// wait returns when the handover is over, or will not come.
func (o *handover) wait(ctx context.Context, holders <-chan Holder, answers <-chan answer) error {
	var late <-chan struct{} // closed when no candidate has taken the key for a lease
	for {
		select {
		case now, ok := <-holders:
			if done, err := o.take(ctx, now, ok); done {
				return err
			}
			if o.vacant && o.led && late == nil {
				vacancy, cancel := deadline.Within(ctx, o.of.Lease)
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
				return fmt.Errorf("%w: %q leads with token %d: %s", ErrRequestRefused, a.ID, a.Token, a.Reason)
			}
			answers, o.led = nil, true
			if o.vacates() {
				return nil
			}
		}
	}
}

// askAgain is the pause between two tries: a leader that was elected, or has reconnected,
// a moment ago may not listen yet.
const askAgain = 100 * time.Millisecond

// present sends the request until there is an answer.
func present(ctx context.Context, to backend.Requests, election string, p wire.StepDownRequest) (stepDownReply, error) {
	request, err := json.Marshal(p)
	if err != nil {
		return stepDownReply{}, err
	}
	limited, cancel := deadline.Within(ctx, deadline.Default)
	defer cancel()
	for {
		v, err := presentOnce(limited, to, election, request)
		if err == nil || !errors.Is(err, ErrUnreachable) || deadline.Sleep(limited, askAgain) != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return v, err
		}
	}
}

func presentOnce(ctx context.Context, to backend.Requests, election string, request []byte) (stepDownReply, error) {
	ctx, cancel := deadline.Within(ctx, time.Second) // a lost request is sent again unchanged
	defer cancel()
	data, err := backend.Await(func(reply func([]byte, error)) { to.Ask(ctx, election, request, reply) })
	if err != nil {
		return stepDownReply{}, err
	}
	var v stepDownReply
	if err := json.Unmarshal(data, &v); err != nil {
		return stepDownReply{}, fmt.Errorf("%w: the leader's answer cannot be read: %w", ErrUnreachable, err)
	}
	switch v.Answer {
	case answerAccepted, answerRefused, answerOver:
		return v, nil
	}
	return stepDownReply{}, fmt.Errorf("%w: the leader's answer is %q", ErrUnreachable, v.Answer)
}

func checkSuccessor(id string) error {
	if id == "" {
		return fmt.Errorf("%w: the ID of the successor is empty", ErrInvalidConfig)
	}
	return checkID("the ID of the successor", id)
}

// mayHandOver returns why there is no candidate to hand over to, as far as is known.
func (a *actor) mayHandOver(in *machine.Input) error {
	var all []record.Announcement
	complete := false
	if p := a.roster; p != nil && p.watcher.view != nil {
		all, complete, _ = p.watcher.view.Order(a.holding)
	}
	switch to := in.To; {
	case a.status.State != machine.StateLeader:
	case to != "" && a.c.cordon.keepsOut(to):
		return fmt.Errorf("%w: %q is cordoned", backend.ErrNotStanding, to)
	case in.Next && !a.Listed:
		return backend.ErrNotListed
	case in.Next && !complete && a.status.Line == "":
		return backend.ErrRosterUnread
	case in.Next:
	case complete && !slices.ContainsFunc(all, func(s record.Announcement) bool { return s.ID == to }):
		return fmt.Errorf("%w: %q", backend.ErrNotStanding, to)
	case !complete && to == a.c.id:
		return fmt.Errorf("%w: %q, which leads", backend.ErrNotStanding, to)
	}
	return nil
}
