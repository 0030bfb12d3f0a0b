package leader

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/internal/plain"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// stepDownListener is the listener for requests to a leader to hand over. It has the
// listener machine, which decides when it is open, and the means to open and close it.
type stepDownListener struct {
	machine.ListenerMachine
	requests backend.Requests
	close    func(closed func()) // nil: it is not open
	cancel   context.CancelFunc  // of the opening that is going on; nil if there is none
	wake     time.Time           // when the machine is to step again; zero: with any step
}

// newListener returns the listener of a candidate that leads for the first time.
func newListener(store backend.Store) *stepDownListener {
	d := &stepDownListener{requests: store}
	if _, ok := store.(*natskv.Bucket); ok {
		d.Pause = machine.ListenPause
	}
	return d
}

// wakeAt returns when the machine is to step again; zero: with any step.
func (d *stepDownListener) wakeAt() time.Time {
	if d == nil {
		return time.Time{}
	}
	return d.wake
}

// dismiss gives up the opening that is going on, which still has to be answered.
func (d *stepDownListener) dismiss() {
	if d != nil && d.cancel != nil {
		d.cancel()
	}
}

// listen opens the listener. The outcome and the requests go to the mailbox.
func (d *stepDownListener) listen(values context.Context, election string, box *mailbox) {
	var ctx context.Context
	ctx, d.cancel = context.WithCancel(values)
	d.requests.Listen(ctx, election, func(request []byte, answer func([]byte)) {
		if !box.put(mail{listener: &listenerMail{asked: request, answer: answer}}) {
			answer(nil)
		}
	}, func(shut func(closed func()), err error) {
		if !box.put(mail{listener: &listenerMail{close: shut, err: err}}) && shut != nil {
			shut(func() {}) // the candidate has ended without waiting any longer
		}
	})
}

// stop closes the listener. The end of the closing goes to the mailbox.
func (d *stepDownListener) stop(box *mailbox) {
	shut := d.close
	d.close = nil
	shut(func() { box.put(mail{listener: &listenerMail{closed: true}}) })
}

// stepListener steps the listener machine and carries out the effects. Before the candidate
// leads there is nothing to listen for.
func (a *actor) stepListener(in machine.ListenerInput) {
	s := &a.status
	in.Leads = s.State == machine.StateLeader && !s.Done
	if a.listener == nil {
		if !in.Leads {
			return
		}
		a.listener = newListener(a.c.store)
	}
	d := a.listener
	in.Replaced = s.Done || s.Seen.Rec.Phase == record.PhaseLeading && !s.Holds
	fx := d.Step(a.now(), in)
	d.wake = fx.Wake
	switch {
	case fx.Open:
		d.listen(a.values, a.c.election, &a.c.box)
	case fx.Cancel:
		d.cancel()
	case fx.Close:
		d.stop(&a.c.box)
	}
}

// receiveListener takes mail about the listener.
func (a *actor) receiveListener(m *listenerMail) {
	switch {
	case m.answer != nil && a.status.Done:
		m.answer(nil)
	case m.answer != nil:
		a.requested(m)
	case m.closed:
		a.stepListener(machine.ListenerInput{Kind: machine.ListenerClosed})
	default:
		d := a.listener
		d.cancel()
		d.cancel, d.close = nil, m.close
		in := machine.ListenerInput{Kind: machine.ListenerOpened, Open: m.err == nil, Denied: errors.Is(m.err, ErrPermission)}
		switch {
		case in.Denied:
			a.c.log.LogAttrs(a.values, slog.LevelWarn, wire.LogNotListening, slog.String("err", m.err.Error()))
		case m.err != nil:
			a.c.detail(a.values, "cannot be asked to hand over yet", slog.String("err", m.err.Error()))
		}
		a.stepListener(in)
	}
}

// requested answers a request. It decides only on a request that names this session, and
// only if the candidate leads at this instant (the step before has applied the deadlines) or
// drains, for whatever reason. Any other request, and one that cannot be decoded, gets no
// answer.
func (a *actor) requested(m *listenerMail) {
	var p wire.StepDownRequest
	if err := json.Unmarshal(m.asked, &p); err != nil {
		a.c.detail(a.values, "request not understood", slog.String("err", err.Error()))
		m.answer(nil)
		return
	}
	s := &a.status
	leads, draining := s.State == machine.StateLeader, s.State == machine.StateFenced && s.Draining
	if p.Session != a.Session || !leads && !draining {
		m.answer(nil)
		return
	}
	v := stepDownReply{Format: wire.StepDownFormat, ID: a.c.id, Token: a.term.token, Answer: answerAccepted}
	switch {
	case p.Format != wire.StepDownFormat || p.Do != wire.DoStepDown && p.Do != wire.DoTransfer || len(p.To) > record.MaxID:
		v.Answer, v.Reason = answerRefused, "the request is not known here"
	case p.Token != v.Token:
		v.Answer = answerOver
	case p.Do == wire.DoTransfer && draining && (s.To == "" || p.To != "" && p.To != s.To):
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
		slog.Uint64("token", p.Token), slog.String("by", plain.Text(p.By[:min(len(p.By), record.MaxID)])), slog.String("answer", v.Answer))
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers
	}
	m.answer(data)
}

// handle hands over as the request asks, or returns the reason why not.
func (a *actor) handle(p wire.StepDownRequest) error {
	in := machine.Input{Kind: machine.InResign, To: p.To, Next: p.Do == wire.DoTransfer && p.To == ""}
	if p.Do == wire.DoTransfer {
		if err := a.mayHandOver(&in); err != nil {
			return err
		}
	}
	answer := make(chan error, 1)
	a.step(&in, answer)
	return <-answer
}
