package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// silence watches for signs that a majority of the servers is there: an acknowledged write, a newer
// revision of the key, an answer to a request for the settings. A server that has lost its routes goes
// on answering reads, so an answered read is no sign. When a request was not answered, or a renewal is
// missing, the candidate asks for the settings. If that gives no sign either, the servers are silent,
// and the connection moves to another one if it may. All of it is beside the machine, which has no
// notion of servers.
type silence struct {
	at     time.Duration      // when the settings were requested if asked, or when the servers were last found silent
	cancel context.CancelFunc // of that request; nil: none is in flight

	// Since the last sign:
	asked    bool  // the settings were requested, and the servers not found silent after that
	found    uint8 // how often the servers were found silent
	reads    bool  // a read was answered
	reported bool  // it was reported that only reads are answered
}

// reportAgain is after how many findings a silence that lasts is reported again: a minute by default.
const reportAgain = 16

// quiet returns how long signs may be missing.
func (a *actor) quiet() time.Duration {
	t := a.status.Times.OrDefault()
	return wire.Quiet(t.Lease, t.RenewInterval)
}

// silenceAt returns when stepSilence has something to do.
func (a *actor) silenceAt() time.Time {
	s, t, wait := &a.silence, &a.c.tally, wire.RenewWait(a.status.Times.OrDefault().RenewInterval)
	switch {
	case a.status.Done:
		return time.Time{}
	case s.asked:
		return a.base.Add(s.at + wait)
	case t.silent:
		return a.base.Add(max(t.signed, s.at) + a.quiet() - wait)
	case a.status.Reported.Kind == record.EntryRecord && !a.status.Holds && a.status.Settled: // a renewal of another candidate is due
		return a.base.Add(t.signed + max(a.quiet(), a.status.Seen.Rec.Lease/3) - wait)
	default:
		return time.Time{}
	}
}

// stepSilence asks for a sign, or finds the servers silent, when it is time.
func (a *actor) stepSilence() {
	s := &a.silence
	switch at := a.silenceAt(); {
	case at.IsZero() || a.now().Before(at):
	case !s.asked:
		a.askForSign()
	default:
		s.asked, s.at = false, a.c.since()
		if s.found++; s.found%reportAgain == 0 {
			s.reported = false
		}
		s.giveUp()
		a.c.unanswered(s.at, a.quiet())
		a.requests.skipsOwnRecords.Store(false)
		m, ok := a.c.store.(backend.Mover)
		moves := ok && a.mayMove
		if s.reads && !s.reported && (s.found != 1 || !moves) { // a move may be all that it needs
			s.reported = true
			a.faults.told = true
			a.fault(a.noMajority(ok))
		}
		if moves {
			m.Move(a.quiet(), a.c.logMove(a.values))
		}
	}
}

// noMajority returns the fault of servers that answer reads only. movable says that the connection
// could move.
func (a *actor) noMajority(movable bool) error {
	if movable && !a.mayMove {
		return fmt.Errorf("%w; Config.ForceReconnect lets the connection move to another server", ErrNoMajority)
	}
	return ErrNoMajority
}

// askForSign requests the settings, unless that request is in flight.
func (a *actor) askForSign() {
	s, box := &a.silence, &a.c.box
	s.asked, s.at = true, a.c.since()
	if s.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(a.values)
	s.cancel = cancel
	a.c.store.Settings(ctx, func(_ backend.Settings, err error) {
		box.put(mail{sign: true, in: machine.Input{Err: err}})
	})
}

// receiveSign takes the reply to askForSign.
func (a *actor) receiveSign(err error) {
	a.silence.giveUp()
	a.silence.cancel = nil
	if a.isSign(err) {
		a.signed(err)
	}
}

// isSign reports whether the outcome of a request for the settings is a sign. A server that is cut off
// denies a request without asking the others, so a denial is no sign while another request is unanswered. Where no
// request is, a candidate that may not ask must not take a healthy server for cut off.
func (a *actor) isSign(err error) bool {
	if errors.Is(err, ErrPermission) {
		return !a.c.tally.silent
	}
	return !isUnanswered(err)
}

// giveUp gives up the request. It still has to be answered.
func (s *silence) giveUp() {
	if s.cancel != nil {
		s.cancel()
	}
}

// noticeSign looks for a sign in what a step has shown. seen is the newest revision known before it.
func (a *actor) noticeSign(in *machine.Input, seen uint64) {
	switch {
	case a.status.Seen.Revision > seen:
		a.signed(nil)
	case in.Kind == machine.InSettings && a.isSign(in.Err):
		a.signed(in.Err)
	}
}

// signed records a sign. After one that is an error, that the bucket is gone for example, the outage goes on.
func (a *actor) signed(err error) {
	a.silence.giveUp()
	a.silence = silence{cancel: a.silence.cancel}
	a.c.recordSign()
	if err == nil && a.faults.told {
		a.faults.told = false
		a.c.log.LogAttrs(a.values, slog.LevelInfo, wire.LogAnswered)
	}
}

// isUnanswered reports whether a request has failed for want of an answer.
func isUnanswered(err error) bool {
	return errors.Is(err, ErrUnreachable) || errors.Is(err, ErrConnectionClosed)
}

// logMove returns a function that logs a move of the connection, and allows it until the candidate has
// ended.
func (c *Candidate) logMove(values context.Context) func(from string) bool {
	return func(from string) bool {
		select {
		case <-c.Done():
			return false
		default:
			c.log.LogAttrs(values, slog.LevelWarn, "no sign of a majority of the servers: the connection moves to another one", slog.String("from", from))
			return true
		}
	}
}
