//go:build field && linux

package main

import (
	"strings"
	"testing"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// Runs follow one another in the queue.
func TestRunQueue_FollowsInOrder(t *testing.T) {
	s := newRunFixtureIn(t, leader.BucketConfig{Roster: true})
	command := s.obedient()
	s.begins(command, "--succession", "queue", "--turn-timeout", "2s", "--value", "10.0.0.7:80")
	b := s.start("b", "--succession", "queue", "--turn-timeout", "2s", "--", command)
	inLine(t, s.url, "jobs", "b")
	c := s.start("c", "--roster", "--", command)
	inLine(t, s.url, "jobs", "b", "c")
	leaderSees(t, s.url, "jobs", 2)

	out := succeeds(t, "transfer", "jobs", "c", "-s", s.url)
	if !strings.HasPrefix(out, "a has handed over jobs (token ") || !strings.Contains(out, "\nc leads with token ") {
		t.Errorf("%q", out)
	}
	c.waitBegun(1)
	inLine(t, s.url, "jobs", "b", "a") // it stands again, in the last place
	c.terminated()
	b.waitBegun(1)
	n := s.count("begin a ")
	expect.That(t, n == 1, "a, who is the last in the queue, has begun %d times", n)
	s.noOverlap()
}

// A run of higher priority takes over.
func TestRunPriority_HigherTakesOver(t *testing.T) {
	s := newRunFixtureIn(t, leader.BucketConfig{Roster: true, MaxLease: runLease})
	command := s.obedient()
	a := s.begins(command, "--succession", "priority", "--priority", "1")
	b := s.start("b", "--succession", "priority", "--priority", "2", "--preempt", "--", command)
	b.waitBegun(1)
	eventually(t, "a's command has been told to end", func() bool { return s.count("end a ") == 1 })
	a.says("lost: resigned")
	s.noOverlap()
}
