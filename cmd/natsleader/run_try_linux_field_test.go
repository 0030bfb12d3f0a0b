//go:build field && linux

package main

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	expect "github.com/natsleader/natsleader/internal/check"
)

// The example of the help is run once per night, however many hosts have it in their cron.
func TestRunTry_OncePerPeriod(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	report := s.script("report", s.prologue()+`echo "begin $NATSLEADER_ID $NATSLEADER_TOKEN" >>journal`+"\n")
	night := func(ids ...string) *runProcess {
		t.Helper()
		begun := s.count("begin ")
		var winner *runProcess
		var all []*runProcess
		for _, id := range ids {
			all = append(all, s.start(id, "--try", "--hold", "10m", "--shell", "--", report+" && true"))
		}
		for _, p := range all {
			eventually(t, p.id+" has led or not", func() bool {
				return strings.Contains(p.text(), "keeping the leadership for 10m0s") || strings.Contains(p.text(), "not leading (--try)")
			})
			if strings.Contains(p.text(), "keeping") {
				winner = p
				continue
			}
			p.exits(exitLost)
		}
		late := s.start(ids[0]+"-late", "--try", "--hold", "10m", "--", report) // the clock of that host is slow
		late.exits(exitLost)
		n := s.count("begin ") - begun
		expect.Must(t, n == 1 && winner != nil, "reported %d times", n)
		return winner
	}
	winner := night("a", "b", "c")
	winner.signal(unix.SIGTERM)
	winner.exits(0) // the command's
	expect.That(t, strings.HasSuffix(winner.text(), "handed over\n"), "%s", winner.text())
	winner = night("d", "e", "f")
	s.stepDown()
	winner.exits(0)
}
