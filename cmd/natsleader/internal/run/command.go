//go:build unix

package run

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/internal/wire"
)

// leaseMargin returns the part of a lease that is left when its term is over at the
// latest.
func leaseMargin(length time.Duration) time.Duration { return length - wire.RenewDeadline(length) }

const (
	beatsPerLease = 20
	shortestBeat  = 10 * time.Millisecond
	longestBeat   = time.Second
)

func beatOf(length time.Duration) time.Duration {
	return min(max(length/beatsPerLease, shortestBeat), longestBeat)
}

// extend sets the lease to be valid for left from now on, and reports whether that is
// longer than before. now was read before left, so a pause in between makes the lease
// look shorter.
func (s *commandRun) extend(now instant, left, length time.Duration) bool {
	warn := now.Add(left)
	if left <= 0 || warn <= s.lease.Warn.Add(time.Millisecond) {
		return false
	}
	if s.length == 0 || length < s.length { // the lease may be from before a change of the bucket
		s.length = length
	}
	margin := leaseMargin(s.length)
	s.lease = lease{Warn: warn, Kill: warn.Add(margin * 2 / 3), Beat: beatOf(s.length)}
	s.leaseBy = s.lease.Kill.Add(margin / 6)
	return true
}

// look sends an extended lease to the supervisor, kills a supervisor that does not
// work, and returns the time until the next look. It kills no supervisor with an unread
// report, which may say that the command has ended in time.
func (c *runLoop) look(now instant) time.Duration {
	most := time.Hour
	if c.needsNoSign() {
		c.sign()
		most = c.stall / 4
	}
	s := c.current
	if s == nil {
		return most
	}
	switch {
	case c.term == nil && s.term != nil:
		// A leader that was asked to step down keeps the key, and no other candidate
		// leads as long as the key is renewed. Without the key SinceRenewal is 0.
		if stats := c.candidate.Stats(); stats.SinceRenewal > 0 &&
			s.extend(now, stats.LeaseDuration-leaseMargin(stats.LeaseDuration)-stats.SinceRenewal, stats.LeaseDuration) {
			c.supervisor.send(order{Do: orderHold, Lease: s.lease})
		}
	case c.term != nil && s.term == c.term:
		if s.extend(now, c.term.Remaining(), c.candidate.Stats().LeaseDuration) {
			c.supervisor.send(order{Do: orderLease, Token: c.term.Token(), Lease: s.lease})
		}
	}
	if c.unwritten != 0 && c.term != nil && s.term == c.term && now >= c.unwritten.Add(s.length) {
		c.log.Warn("handing over: the file of the lease could not be written for %v", s.length)
		c.resign() // the next start writes it elsewhere; with --notify another candidate may have room
	}
	late := s.answerBy
	if c.won == 0 && s.leaseBy != 0 && (late == 0 || s.leaseBy < late) {
		late = s.leaseBy
	}
	if late != 0 && now >= late && !c.supervisor.unread() { // natsleader itself may have been stopped
		s.hung = true
		c.supervisor.kill()
		if now >= c.supervisor.killed.Add(patienceWithKilled) && c.supervisor.process.Signal(unix.Signal(0)) == nil {
			c.handleReport(supervisorReport{What: reportStuck, PID: c.supervisor.pid, Error: "it is held up in the kernel"})
		}
	}
	wait := min(longestBeat, most)
	if s.lease.Warn != 0 {
		wait = s.lease.Beat
		if s.lease.Warn.sub(now) < 2*wait { // the end is near: an extension must not come late
			wait = shortestBeat
		}
	}
	if late > now {
		wait = min(wait, late.sub(now))
	}
	return wait
}

// leaseWritten handles a report on the file of the lease: why it cannot be written, or none. A command that asks it before each
// item does nothing meanwhile.
func (c *runLoop) leaseWritten(fault string) {
	if c.current != nil {
		c.command.leaseWritten(fault == "")
	}
	switch s := c.current; {
	case s == nil || s.ending || c.term == nil || c.resigned == c.term:
	case fault == "" && c.unwritten != 0:
		c.unwritten = 0
		c.log.Say("the file of the lease is written again")
	case fault != "" && c.unwritten == 0:
		c.unwritten = ClockNow()
		c.log.Log(slog.LevelError, front.Fields{"error", fault}, "cannot write the file of the lease (%s): the command does not see that it leads; hands over in %v if that lasts", fault, s.length)
	}
}

// brake slows the restarts of a command that fails again and again. Its pauses double, and
// --restart bounds their number. A run of steadyRun forgets the failures before it.
type brake struct {
	failures int // in a row
	pause    <-chan time.Time
}

const (
	firstRestart   = time.Second
	longestRestart = 30 * time.Second
	steadyRun      = time.Minute
)

// next returns the pause before the next start of a command that has failed after a run, and
// whether it is to be started again.
func (b *brake) next(most int, ran time.Duration) (pause time.Duration, again bool) {
	if ran >= steadyRun {
		b.failures = 0
	}
	if b.failures >= most {
		return 0, false
	}
	pause = min(firstRestart<<min(b.failures, 10), longestRestart)
	b.failures++
	return pause, true
}

// finished handles the end of the command, as the supervisor reports it.
func (c *runLoop) finished(b supervisorReport) {
	if s := c.current; s != nil && s.begun {
		level := slog.LevelInfo
		if b.Code != 0 && !b.Stopped {
			level = slog.LevelWarn
		}
		f := front.Fields{"pid", s.pid, "exit_code", b.Code}
		ran, stop := b.At.sub(s.since), ""
		if s.asked != 0 && s.asked <= b.At {
			ran, stop = s.asked.sub(s.since), " and a stop of "+front.Left(b.At.sub(s.asked))
			f = append(f, "stop_seconds", b.At.sub(s.asked).Seconds())
		}
		c.log.Log(level, append(f, "ran_seconds", ran.Seconds(), "stopped", b.Stopped),
			"command ended: PID %d, exit code %d%s, after %s%s", s.pid, b.Code, signalOf(b.Code), front.Left(ran), stop)
	}
	c.ended(front.ExitError{Code: b.Code}, b.Stopped)
}

// signalOf names the signal of an exit code for a person.
func signalOf(code int) string {
	if code <= 128 {
		return ""
	}
	name := unix.SignalName(unix.Signal(code - 128))
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", name)
}

// finish handles the end of a command that was not asked to end: it is started again, or the
// leadership is held or handed over.
func (c *runLoop) finish(s *commandRun, outcome error, stopped bool) {
	code := front.CodeOf(outcome)
	if s.begun && !stopped && !s.hung && code != 0 && c.restart > 0 && (c.won != 0 || c.term != nil) {
		pause, again := c.brake.next(c.restart, ClockNow().sub(s.since))
		if again {
			c.log.Log(slog.LevelWarn, front.Fields{"failures", c.brake.failures, "pause_seconds", pause.Seconds()},
				"failure %d of %d in a row: starting the command again in %v", c.brake.failures, c.restart+1, pause)
			c.brake.pause = time.After(pause)
			return
		}
		c.log.Warn("failure %d of %d in a row: giving up the leadership", c.restart+1, c.restart+1)
	}
	if s.begun && !stopped && !s.hung && c.hold > 0 && c.term != nil {
		c.log.Log(slog.LevelInfo, front.Fields{"hold_seconds", c.hold.Seconds()}, "keeping the leadership for %v (--hold)", c.hold)
		c.outcome, c.held = outcome, time.After(c.hold)
		if c.value == "" {
			term, done := c.term, fmt.Sprintf("the command has ended with exit code %d; held until %s", code, time.Now().Add(c.hold).UTC().Format(time.RFC3339))
			go func() { _ = term.Proclaim(context.Background(), []byte(done)) }()
		}
		return
	}
	c.leave(outcome)
}

// leftBy names the process of reportLeft.
func leftBy(b supervisorReport) string {
	if b.PID == 0 {
		return "a process"
	}
	return fmt.Sprintf("%s (PID %d)", front.Printable(b.Error), b.PID)
}
