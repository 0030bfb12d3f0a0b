//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/leader"
)

// runLoop brings together the candidate, the command under its supervisor, and
// the signals. It is one goroutine, which waits for nothing but its select.
type runLoop struct {
	*run
	conf          supervision
	log           *runLog
	candidate     *leader.Candidate
	supervise     func(supervision, []string) (*supervisorProcess, error) // newSupervisorProcess, but for tests
	supervisor    *supervisorProcess
	supervisorPID atomic.Int64 // process ID of the supervisor
	useless       int          // how many supervisors in a row ended within a second, or began no command in time
	signals       <-chan os.Signal
	signs         <-chan struct{} // signs of life of the command; nil: it need not give any
	waited        <-chan time.Time
	command       *commandMetrics
	manager       *serviceManager

	term  *leader.Term // the term that is led now
	fault error        // the last fault
	last  *leader.Term // the last term that began
	// release ends the work of the last term, for which the candidate keeps the key.
	release func()
	// resigned is a term that the run loop gave up itself.
	resigned *leader.Term
	// unwritten is since when the file of the lease cannot be written; 0: it can.
	unwritten instant
	holds     bool        // it holds the key: from Elected to Deposed
	lapsed    bool        // it holds the key, but others may take it
	current   *commandRun // the run of the command, as long as anything of it may live; nil: none

	seen    inspect.SeenBucket
	remake  <-chan time.Time // every lease in a bucket that is gone is over; nil: none is gone
	brake   brake
	held    <-chan time.Time // the command has ended with the outcome, and --hold goes on; nil: not so
	rivals  rivals           // with --try
	leaving bool
	outcome error // the result of the run
	hurried bool  // by a second signal
}

// commandRun is one run of the command.
type commandRun struct {
	term   *leader.Term // the term for which it runs; nil: none, with --notify
	lease  lease        // the last lease that was sent
	length time.Duration
	pid    int // of the command, when it has begun
	since  instant
	begun  bool // the supervisor has reported its start
	ending bool // it was asked to stop
	asked  instant
	hung   bool // its supervisor was killed because it did not work
	stuck  bool // it was logged that a process cannot be killed
	// If the run has not ended by then, its supervisor does not work: leaseBy follows from
	// the lease, and answerBy from the order to stop. From the order to begin, answerBy
	// follows until the supervisor has reported the start. 0: none.
	leaseBy, answerBy instant
}

// loop returns when the command has ended and the leadership is handed over.
func (c *runLoop) loop() error {
	if c.won != 0 {
		c.begin(nil)
	}
	look := time.NewTimer(0)
	events := c.candidate.Events(context.Background())
	for !c.leaving || c.current != nil {
		look.Reset(c.look(ClockNow()))
		select {
		case e, more := <-events:
			if more {
				c.handleEvent(e)
			} else {
				events = nil
				c.holds = false
				c.leave(c.candidate.Err())
			}
		case b, more := <-c.supervisor.inbox:
			if more {
				c.handleReport(b)
			} else {
				c.supervisorExited()
			}
		case sig := <-c.signals:
			c.signalled(sig)
		case <-c.signs:
			c.sign()
		case <-c.waited:
			c.waited = nil
			c.leave(c.waitedTooLong())
		case <-c.held:
			c.leave(c.outcome)
		case <-c.remake:
			c.remake = nil
			c.log.Warn("%s", front.ErrorText(c.bucketGone()))
		case <-c.brake.pause:
			c.brake.pause = nil
			c.begin(c.term)
		case c.manager.pinged() <- c.candidate:
		case <-look.C:
		}
	}
	c.handOver(events)
	return c.outcome
}

// startSupervisor starts a supervisor.
func (c *runLoop) startSupervisor() error {
	o, err := c.supervise(c.conf, c.argv)
	if err != nil {
		return fmt.Errorf("supervisor: %w", err)
	}
	c.supervisor = o
	c.supervisorPID.Store(int64(o.pid))
	return nil
}

// waitedTooLong is the outcome when --wait is over.
func (c *runLoop) waitedTooLong() error {
	if c.try {
		return c.undecided()
	}
	if errors.Is(c.fault, leader.ErrPermission) {
		return front.Exitf(front.ExitDenied, "did not become leader within %v (--wait): %w", c.wait, c.fault)
	}
	return front.Exitf(front.ExitWaited, "did not become leader within %v (--wait)", c.wait)
}

// handleEvent handles an event of the candidate.
func (c *runLoop) handleEvent(e leader.Event) {
	switch e := e.(type) {
	case leader.Pending:
		if wait := time.Until(e.Until); wait > time.Second {
			c.log.Log(slog.LevelInfo, front.Fields{"token", e.Token, "until", e.Until, "reason", e.Reason},
				"won; leads in %v, when older leases and --delay are over: %s", wait.Round(time.Second), e.Reason)
		}
	case leader.Elected:
		c.elected(e.Term)
	case leader.Fenced:
		c.over(e.Term, e.Cause)
	case leader.Deposed:
		c.over(e.Term, e.Cause)
		c.holds = false
	case leader.Observed:
		c.fault = nil
		if e.Holder.ID != "" { // otherwise the last lease is over, perhaps that of a bucket which is gone
			c.bucketBack()
		}
		other := c.another(e.Holder)
		switch {
		case c.try && c.last == nil && c.rivals.lead(e.Holder, other):
			c.leave(c.taken(e.Holder))
		case other && !c.leaving:
			c.log.Log(slog.LevelInfo, front.Fields{"leader", e.Holder.ID, "leader_token", e.Holder.Token}, "waiting: %v", e.Holder)
			c.manager.status(fmt.Sprintf("waiting: %v", e.Holder))
		}
	case leader.Faulted:
		if errors.Is(e.Err, leader.ErrNoBucket) {
			e.Err = c.bucketGone()
		}
		c.fault = e.Err
		if e.Remaining > 0 {
			c.log.Log(slog.LevelWarn, front.Fields{"error", front.ErrorText(e.Err), "remaining_seconds", e.Remaining.Seconds()},
				"%s; still leading, the lease is valid for another %s", front.ErrorText(e.Err), front.Left(e.Remaining))
		} else {
			c.log.Log(slog.LevelWarn, front.Fields{"error", front.ErrorText(e.Err)}, "%s", front.ErrorText(e.Err))
		}
	}
}

// bucketGone returns the error of a bucket that is gone. remake is set until its last lease is over.
func (c *runLoop) bucketGone() error {
	first := c.seen.Until.IsZero()
	var leaders []string
	holder := c.candidate.Leader()
	if holder.ID != "" {
		leaders = []string{front.Shorten(front.Printable(holder.ID), front.LongID)}
	}
	err := c.seen.Gone(time.Now(), leaders, holder.Lease)
	if first {
		c.remake = time.After(time.Until(c.seen.Until))
	}
	return err
}

// bucketBack handles an event that proves that the bucket exists.
func (c *runLoop) bucketBack() { c.seen.Until, c.remake = time.Time{}, nil }

// another reports whether another candidate, or a foreign record, holds the key.
func (c *runLoop) another(h leader.Holder) bool {
	switch h.State {
	case leader.HolderPending, leader.HolderLeading:
		return h.ID != c.candidate.ID()
	case leader.HolderForeign:
		return true
	case leader.HolderNone, leader.HolderReleased, leader.HolderExpired:
	}
	return false
}

func (c *runLoop) elected(t *leader.Term) {
	c.waited = nil
	c.bucketBack()
	c.term, c.last, c.holds, c.lapsed = t, t, true, false
	end := make(chan struct{})
	c.release = sync.OnceFunc(func() { close(end) })
	c.log.Log(slog.LevelInfo, front.Fields{"token", t.Token(), "seat", t.Seat()}, "elected with token %d", t.Token())
	c.manager.status(fmt.Sprintf("leads %s with token %d", c.election, t.Token()))
	switch {
	case c.leaving || !t.Go(func(context.Context) { <-end }): // or it is over, as the next event says
	case c.holder:
		go func() { // it may have no reader
			if _, err := fmt.Fprintln(c.Out(), t.Token()); err != nil {
				c.log.Log(slog.LevelError, front.Fields{"error", front.ErrorText(err)}, "cannot print the token: %s", front.ErrorText(err))
			}
		}()
	case c.brake.pause != nil: // it begins after the pause
	case c.current == nil:
		c.begin(t)
	case c.won != 0:
		c.current.term, c.current.lease, c.current.length = t, lease{}, 0 // look sends the lease
	}
}

// over ends the use of the term by the command. It is called twice where Fenced comes
// before Deposed.
func (c *runLoop) over(t *leader.Term, cause error) {
	if c.term != t {
		return
	}
	c.term, c.lapsed, c.unwritten = nil, errors.Is(cause, leader.ErrLeaseExpired), 0
	c.manager.status("does not lead: " + front.ErrorText(cause))
	text := front.ErrorText(cause)
	if errors.Is(cause, leader.ErrPreempted) && errors.Is(c.fault, leader.ErrForeignRecord) {
		text = "another client has overwritten the key with a foreign record"
	}
	stalled := errors.Is(cause, leader.ErrStalled)
	if stalled {
		text = fmt.Sprintf("the command has given no sign of life for %v (--stall)", c.stall)
	}
	if c.resigned != t || !errors.Is(cause, leader.ErrResigned) {
		c.log.Log(slog.LevelWarn, front.Fields{"token", t.Token(), "cause", text}, "lost: %s", text)
	}
	if c.won == 0 {
		c.brake.pause = nil // the next term begins with a start of the command
	}
	switch {
	case c.current == nil:
		c.release() // nothing runs
	case c.current.term == t:
		c.supervisor.send(order{Do: orderLost})
	} // else the command of an earlier term has not ended yet
	switch {
	case c.held != nil:
		c.leave(c.outcome)
	case c.once:
		c.leave(front.Exitf(front.ExitLost, "leadership lost: %s", text))
	}
	switch {
	case c.current == nil || c.current.term != t:
	case c.won == 0 || stalled:
		c.stop()
	default:
		c.current.term, c.current.lease = nil, lease{}
		time.AfterFunc(c.drain, c.release) // natsleader does not know when the command is ready
	}
}

// begin starts the command, for a term unless it is nil. If the supervisor was killed,
// begin sends nothing and reports no error: supervisorExited begins again.
func (c *runLoop) begin(t *leader.Term) {
	c.current = &commandRun{term: t}
	if c.supervisor.killed != 0 {
		return
	}
	start := order{Do: orderStart, ID: c.candidate.ID()}
	if t != nil {
		c.current.extend(ClockNow(), t.Remaining(), c.candidate.Stats().LeaseDuration)
		start.Token, start.Lease = t.Token(), c.current.lease
	}
	c.supervisor.send(start)
	c.current.answerBy = ClockNow().Add(patienceWithStart)
}

// stop orders the supervisor to stop the command.
func (c *runLoop) stop() {
	s := c.current
	if s == nil || s.ending {
		return
	}
	s.ending, s.asked = true, ClockNow()
	c.supervisor.send(order{Do: orderStop})
	s.answerBy = ClockNow().Add(c.drain + patienceWithSupervisor)
}

// patienceWithSupervisor is how long a supervisor may take to carry out an order, where
// no lease is about to end.
const patienceWithSupervisor = 2 * time.Second

// patienceWithStart is how long a supervisor may take to start the command. Renewals of
// the lease do not extend it.
const patienceWithStart = patienceWithDisk + patienceWithSupervisor

// leave ends the run with an outcome. The first outcome counts.
func (c *runLoop) leave(outcome error) {
	if !c.leaving {
		c.leaving, c.outcome = true, outcome
		c.manager.say("STOPPING=1")
	}
	c.stop()
}

// handleReport handles a report of the supervisor.
func (c *runLoop) handleReport(b supervisorReport) {
	switch b.What {
	case reportStarted:
		if s := c.current; s != nil {
			c.sign() // the command has its whole time for the first
			s.begun, s.pid, s.since = true, b.PID, ClockNow()
			if !s.ending {
				s.answerBy = 0
			}
		}
		c.useless, c.conf.LeaseFile = 0, b.LeaseFile
		c.command.started(b.PID)
		c.log.Log(slog.LevelInfo, front.Fields{"pid", b.PID}, "command started: PID %d", b.PID)
	case reportFailed:
		c.ended(front.ExitError{Code: b.Code, Err: errors.New(b.Error)}, false)
	case reportEnded:
		c.finished(b)
	case reportStuck:
		if s := c.current; s != nil && !s.stuck {
			s.stuck = true
			until := "the lease is kept until it ends"
			if !c.holds || c.lapsed {
				until = "another may lead while it lives"
			}
			c.log.Warn("cannot kill %d: %s; %s", b.PID, b.Error, until)
		}
	case reportLeft:
		c.log.Warn("the command has ended, and %s that it has started has not: it is ended now; let the command wait for it, as a daemon in the foreground does", leftBy(b))
	case reportLease:
		c.leaseWritten(b.Error)
	case reportNotSent:
		c.log.Warn("the command does not handle %s; not sent", strings.TrimPrefix(signalName(c.won), "SIG"))
	}
}

// supervisorExited handles the death of the supervisor, after which nothing of the command is
// left. A command that has not begun begins under the next supervisor.
func (c *runLoop) supervisorExited() {
	s := c.current
	late := s != nil && s.hung && !s.begun && !s.ending
	if c.useless++; !late && ClockNow().sub(c.supervisor.begun) > time.Second {
		c.useless = 0
	}
	c.supervisor.shutDown()
	err := fmt.Errorf("the supervising process ends as soon as it begins: %v", c.supervisor.end)
	if late {
		err = errors.New("the supervising process did not start the command in time")
		c.log.Warn("%v: it was killed", err)
	}
	if c.useless < 3 {
		err = c.startSupervisor()
	}
	if err != nil {
		c.supervisor = &supervisorProcess{} // it takes no orders and sends no reports
		c.leave(err)
	}
	switch {
	case s == nil:
	case !s.begun && !s.ending:
		c.begin(s.term)
	default:
		switch {
		case s.stuck, late: // the reason was logged
		case s.hung:
			c.log.Warn("the supervising process did not work in time: it was killed, and the command with it")
		case s.begun:
			c.log.Warn("the supervising process was killed, and the command with it")
		}
		c.ended(front.ExitError{Code: 128 + int(unix.SIGKILL)}, s.ending || s.hung)
	}
}

// ended handles the end of the command, of which nothing is left. It was stopped, or it
// ended with the outcome.
func (c *runLoop) ended(outcome error, stopped bool) {
	s := c.current
	c.current, c.unwritten = nil, 0
	c.command.ended(outcome, stopped)
	if c.term == nil && c.last != nil {
		c.release()
	}
	switch {
	case c.leaving:
	case c.won != 0 || !stopped:
		c.finish(s, outcome, stopped)
	case c.term == nil: // no other term has begun: the candidate does not campaign before the release
	case c.term.Remaining() > 0:
		// The supervisor did not learn in time that the lease was extended.
		c.log.Warn("the command was ended: its supervisor was held up; handing over")
		c.resign()
	} // else the event is on its way
}

// resign hands over.
func (c *runLoop) resign() {
	c.resigned, c.unwritten = c.term, 0
	go func(t *leader.Term) { _ = t.Resign(context.Background()) }(c.term)
}

func (c *runLoop) signalled(sig os.Signal) {
	s, ends := ending(sig)
	switch {
	case !ends && (s == c.won || s == c.lost): // the command would take it for natsleader's
	case !ends:
		c.supervisor.send(order{Do: orderSignal, Signal: int(s)})
	case !c.leaving:
		c.log.Log(slog.LevelInfo, front.Fields{"signal", signalName(s)}, "ending: %s", signalName(s))
		if c.held != nil {
			c.leave(c.outcome) // of the command that has ended
			return
		}
		c.leave(front.ExitError{Code: 128 + int(s)})
	case c.current != nil && !c.hurried:
		c.hurried = true
		c.supervisor.send(order{Do: orderKill})
		c.current.answerBy = ClockNow().Add(patienceWithSupervisor)
	}
}

// handOver stops the candidate. It waits only briefly for a server that does not
// answer, and not at all after another signal.
func (c *runLoop) handOver(events <-chan leader.Event) {
	if c.term != nil {
		c.release()
	}
	most := time.Second
	if c.holds && !c.lapsed && !c.hurried {
		most = 5 * time.Second
	}
	late := time.NewTimer(most)
	defer late.Stop()
	stopped := make(chan error, 1)
	go func() { stopped <- c.candidate.Stop() }()
	for {
		select {
		case e, more := <-events:
			if !more {
				events = nil
			} else if _, ok := e.(leader.Elected); ok { // elected just before
				c.holds = true
			}
		case err := <-stopped:
			c.handedOver(err == nil)
			return
		case <-late.C:
			c.handedOver(false)
			return
		case sig := <-c.signals:
			if _, ends := ending(sig); ends {
				c.handedOver(false)
				return
			}
		}
	}
}

// handedOver says what has become of the key, if it was held.
func (c *runLoop) handedOver(released bool) {
	switch {
	case !c.holds || c.lapsed:
	case released:
		c.log.Say("handed over")
	default:
		c.log.Warn("not handed over: the server does not answer; another leads when the lease is over")
	}
}
