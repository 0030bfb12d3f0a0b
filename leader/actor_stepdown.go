package leader

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/wire"
)

// stepDownListener is the listener for requests to a leader to hand over. A candidate that
// waits, or has never led, has no open listener, so it costs nothing.
type stepDownListener struct {
	requests backend.Requests
	close    func(closed func()) // nil: it is not open
	cancel   context.CancelFunc  // of the opening that is going on; nil if there is none
	closing  bool
	pause    time.Duration // from an election to the opening
	at       time.Time     // when to open after an election; zero: with any step
	denied   bool          // since the connection was last made
}

// listenPause lets a candidate that was elected on a connection report that, and its work
// begin, before anything else is done there. A leader can be asked during its whole term, so
// the pause costs little.
const listenPause = 10 * time.Millisecond

// busy reports whether an opening or a closing is going on.
func (d *stepDownListener) busy() bool { return d.cancel != nil || d.closing }

// shut reports whether the listener of a leader is to be opened.
func (d *stepDownListener) shut() bool {
	return d.close == nil && !d.busy() && !d.denied
}

// wake is when the listener is to be opened; zero: with any step, or not at all.
func (d *stepDownListener) wake() time.Time {
	if !d.shut() {
		return time.Time{}
	}
	return d.at
}

// listenerMail is mail about the listener: the outcome of the opening, the end of the closing, or
// a request.
type listenerMail struct {
	close  func(closed func())
	err    error
	closed bool
	asked  []byte
	answer func([]byte) // of a request only
}

// attend opens the listener of a leader, again and again until it is open. It closes the
// listener of a candidate that no longer leads once another session's term is well under
// way, so that a handover does not wait for the closing, or once the machine has ended.
func (a *actor) attend() {
	d := &a.listener
	leads := a.m.state == StateLeader && !a.m.done
	if !leads {
		d.at = time.Time{}
	}
	switch {
	case d.closing:
	case d.cancel != nil:
		if !leads {
			d.cancel()
		}
	case leads && d.shut():
		if d.at.IsZero() || !a.now().Before(d.at) {
			d.at = time.Time{}
			a.openListener()
		}
	case !leads && d.close != nil && (a.m.done || a.m.seen.rec.phase == phaseLeading && !a.m.holds()):
		box := &a.c.box
		shut := d.close
		d.close, d.closing = nil, true
		shut(func() { box.put(mail{listener: &listenerMail{closed: true}}) })
	}
}

func (a *actor) openListener() {
	var ctx context.Context
	ctx, a.listener.cancel = deadline.Within(a.values, deadline.Default)
	box := &a.c.box
	a.listener.requests.Listen(ctx, a.c.election, func(request []byte, answer func([]byte)) {
		if !box.put(mail{listener: &listenerMail{asked: request, answer: answer}}) {
			answer(nil)
		}
	}, func(shut func(closed func()), err error) {
		if !box.put(mail{listener: &listenerMail{close: shut, err: err}}) && shut != nil {
			shut(func() {}) // the candidate has ended without waiting any longer
		}
	})
}

// receiveListener takes mail about the listener.
func (a *actor) receiveListener(m *listenerMail) {
	switch {
	case m.answer != nil:
		a.requested(m)
	case m.closed:
		a.listener.closing = false
		a.attend() // it may lead again
	default:
		a.opened(m)
	}
}

// opened takes the outcome of an opening.
func (a *actor) opened(m *listenerMail) {
	d := &a.listener
	d.cancel()
	d.cancel = nil
	d.close = m.close
	// A denied subscription is not tried again on the same connection, because the server
	// reports every try.
	d.denied = errors.Is(m.err, ErrPermission)
	switch {
	case d.denied:
		a.c.log.LogAttrs(a.values, slog.LevelWarn, wire.LogNotListening, slog.String("err", m.err.Error()))
	case m.err != nil:
		a.detail("cannot be asked to hand over yet", slog.String("err", m.err.Error())) // the next step tries again
	default:
		a.attend() // it may not lead any more
	}
}

// requested answers a request. It decides only on a request that names this session, and
// only if the candidate leads at this instant (the step before has applied the deadlines) or
// drains, for whatever reason. Any other request, and one that cannot be decoded, gets no
// answer.
func (a *actor) requested(m *listenerMail) {
	var p wire.StepDownRequest
	if err := json.Unmarshal(m.asked, &p); err != nil {
		a.detail("request not understood", slog.String("err", err.Error()))
		m.answer(nil)
		return
	}
	leads, draining := a.m.state == StateLeader, a.m.state == StateFenced && a.m.draining
	if p.Session != a.m.session || !leads && !draining {
		m.answer(nil)
		return
	}
	v := stepDownReply{Format: wire.StepDownFormat, ID: a.c.id, Token: a.term.token, Answer: answerAccepted}
	switch {
	case p.Format != wire.StepDownFormat || p.Do != wire.DoStepDown && p.Do != wire.DoTransfer || len(p.To) > maxIDLength:
		v.Answer, v.Reason = answerRefused, "the request is not known here"
	case p.Token != v.Token:
		v.Answer = answerOver
	case p.Do == wire.DoTransfer && draining && (a.m.to == "" || p.To != "" && p.To != a.m.to):
		v.Answer, v.Reason = answerRefused, "it is handing over already"
	case a.c.refuses && leads:
		v.Answer, v.Reason = answerRefused, "it is set to refuse requests"
	}
	if v.Answer == answerAccepted && leads {
		if err := a.handle(p); err != nil {
			v.Answer, v.Reason = answerRefused, err.Error()
		}
	}
	a.c.log.LogAttrs(a.values, slog.LevelInfo, wire.LogRequested,
		slog.Uint64("token", p.Token), slog.String("by", p.By[:min(len(p.By), maxIDLength)]), slog.String("answer", v.Answer))
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers
	}
	m.answer(data)
}

// handle hands over as the request asks, or returns the reason why not.
func (a *actor) handle(p wire.StepDownRequest) error {
	m := mail{in: input{kind: inResign, to: p.To, next: p.Do == wire.DoTransfer && p.To == ""}, call: make(chan error, 1)}
	if p.Do == wire.DoTransfer && !a.mayHandOver(&m) {
		return <-m.call
	}
	a.step(m.in, m.call)
	select {
	case err := <-m.call:
		return err
	default:
		return nil // it is under way
	}
}

// leaveListener takes mail for a candidate that has ended.
func (a *actor) leaveListener(m *listenerMail) {
	if m.answer != nil {
		m.answer(nil)
		return
	}
	a.receiveListener(m)
}
