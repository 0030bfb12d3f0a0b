//go:build field && linux

package main

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/leader"
)

// Runs follow one another in the queue.
func TestRunQueue_FollowsInOrder(t *testing.T) {
	s := newRunFixtureIn(t, leader.BucketConfig{Roster: true})
	command := s.obedient()
	a := s.start("a", "--succession", "queue", "--turn-timeout", "2s", "--value", "10.0.0.7:80", "--", command)
	a.waitBegun(1)
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
	c.signal(unix.SIGTERM)
	c.exits(128 + int(unix.SIGTERM))
	b.waitBegun(1)
	if n := s.count("begin a "); n != 1 {
		t.Errorf("a, who is the last in the queue, has begun %d times", n)
	}
	s.noOverlap()
}

// A run of higher priority takes over.
func TestRunPriority_HigherTakesOver(t *testing.T) {
	s := newRunFixtureIn(t, leader.BucketConfig{Roster: true, MaxLease: runLease})
	command := s.obedient()
	a := s.start("a", "--succession", "priority", "--priority", "1", "--", command)
	a.waitBegun(1)
	b := s.start("b", "--succession", "priority", "--priority", "2", "--preempt", "--", command)
	b.waitBegun(1)
	eventually(t, "a's command has been told to end", func() bool { return s.count("end a ") == 1 })
	a.says("lost: resigned")
	s.noOverlap()
}

func TestRun_OnSeveralSeats(t *testing.T) {
	s := newRunFixture(t, runLease)
	a, b := s.start("a", "--seats", "2", "--", s.obedient()), s.start("b", "--seats", "2", "--", s.obedient())
	a.waitBegun(1)
	b.waitBegun(1)
	c := s.start("c", "--seats", "2", "--", s.obedient())
	a.signal(unix.SIGTERM)
	a.exits(128 + int(unix.SIGTERM))
	c.waitBegun(1)
	if n := s.count("end b "); n != 0 {
		t.Errorf("b's command has ended %d times", n)
	}
}

func TestRun_BesideOldProcesses(t *testing.T) {
	s := newRunFixture(t, runLease)
	fails(t, natsleader(t, "run", "-s", s.url, "--kv-elect", "jobs", "--", "true"), exitBucket, "KVElect needs a bucket with a TTL, and this has none")
}

// Flags of the succession that contradict each other are refused.
func TestRunSuccession_Contradictions(t *testing.T) {
	for _, x := range []struct{ flags, says string }{
		{"--priority 5", "--priority 5 is for --succession priority, and that is race"},
		{"--succession queue --priority=-3", "--priority -3 is for --succession priority, and that is queue"},
		{"--succession queue --preempt", "--preempt is for --succession priority, and that is queue"},
		{"--lease 3s --turn-timeout 3s", "--turn-timeout 3s is not less than --lease 3s"},
		{"--turn-timeout=-1s", "--turn-timeout -1s is negative"},
		{"--turn-timeout 1us", "--turn-timeout 1µs is less than 1ms"},
		{"--succession random", "random"},
		{"--seats 0", "--seats 0 is not from 1 to 1000"},
		{"--priority high", "high"},
	} {
		args := append(append([]string{"run"}, strings.Fields(x.flags)...), "billing", "--", "true")
		fails(t, natsleader(t, args...), exitUsage, x.says)
	}
}

// A turn that is not shorter than the lease of the bucket is refused.
func TestRunSuccession_LongTurn(t *testing.T) {
	s := newRunFixture(t, 3*time.Second)
	fails(t, natsleader(t, "run", "-s", s.url, "--turn-timeout", "3s", "jobs", "--", "true"), exitUsage,
		"--turn-timeout 3s is not less than the lease, which is the bucket's MaxLease 3s")
}
