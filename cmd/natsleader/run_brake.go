//go:build unix

package main

import (
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"
)

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
		ran := clockNow().sub(s.since)
		c.log.log(level, fields{"pid", s.pid, "exit_code", b.Code, "ran_seconds", ran.Seconds(), "stopped", b.Stopped},
			"command ended: PID %d, exit code %d%s, after %s", s.pid, b.Code, signalOf(b.Code), left(ran))
	}
	c.ended(exitError{code: b.Code}, b.Stopped)
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
	code := codeOf(outcome)
	if s.begun && !stopped && !s.hung && code != 0 && c.restart > 0 && (c.won != 0 || c.term != nil) {
		pause, again := c.brake.next(c.restart, clockNow().sub(s.since))
		if again {
			c.log.log(slog.LevelWarn, fields{"failures", c.brake.failures, "pause_seconds", pause.Seconds()},
				"failure %d of %d in a row: starting the command again in %v", c.brake.failures, c.restart+1, pause)
			c.brake.pause = time.After(pause)
			return
		}
		c.log.warn("failure %d of %d in a row: giving up the leadership", c.restart+1, c.restart+1)
	}
	if s.begun && !stopped && !s.hung && c.hold > 0 && c.term != nil {
		c.log.log(slog.LevelInfo, fields{"hold_seconds", c.hold.Seconds()}, "keeping the leadership for %v (--hold)", c.hold)
		c.outcome, c.held = outcome, time.After(c.hold)
		return
	}
	c.leave(outcome)
}
