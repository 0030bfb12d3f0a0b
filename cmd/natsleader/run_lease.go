//go:build unix

package main

import (
	"time"

	"golang.org/x/sys/unix"

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
	warn := now.add(left)
	if left <= 0 || warn <= s.lease.Warn.add(time.Millisecond) {
		return false
	}
	if s.length == 0 || length < s.length { // the lease may be from before a change of the bucket
		s.length = length
	}
	margin := leaseMargin(s.length)
	s.lease = lease{Warn: warn, Kill: warn.add(margin * 2 / 3), Beat: beatOf(s.length)}
	s.leaseBy = s.lease.Kill.add(margin / 6)
	return true
}

// look sends an extended lease to the supervisor, kills a supervisor that does not
// work, and returns the time until the next look. It kills no supervisor with an unread
// report, which may say that the command has ended in time.
func (c *runLoop) look(now instant) time.Duration {
	s := c.current
	if s == nil {
		return time.Hour
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
	late := s.answerBy
	if c.won == 0 && s.leaseBy != 0 && (late == 0 || s.leaseBy < late) {
		late = s.leaseBy
	}
	if late != 0 && now >= late && !c.supervisor.unread() { // natsleader itself may have been stopped
		s.hung = true
		c.supervisor.kill()
		if now >= c.supervisor.killed.add(patienceWithKilled) && c.supervisor.process.Signal(unix.Signal(0)) == nil {
			c.handleReport(supervisorReport{What: reportStuck, PID: c.supervisor.pid, Error: "it is held up in the kernel"})
		}
	}
	wait := longestBeat
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
