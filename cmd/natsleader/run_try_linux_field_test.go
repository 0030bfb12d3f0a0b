//go:build field && linux

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/leader"
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
		if n := s.count("begin ") - begun; n != 1 || winner == nil {
			t.Fatalf("reported %d times", n)
		}
		return winner
	}
	winner := night("a", "b", "c")
	winner.signal(unix.SIGTERM)
	winner.exits(0) // the command's
	if !strings.HasSuffix(winner.text(), "handed over\n") {
		t.Errorf("%s", winner.text())
	}
	winner = night("d", "e", "f")
	s.stepDown()
	winner.exits(0)
}

// --try leads although the key holds the record of a leader that has died.
func TestRunTry_ExpiredRecord(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	nc, err := nats.Connect(s.url)
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	b, err := leader.OpenBucket(js, "elections")
	if err != nil {
		t.Fatal(err)
	}
	dead, err := leader.Campaign(context.WithoutCancel(t.Context()), b, "jobs", leader.Config{ID: "dead", LeaseDuration: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "it leads", dead.IsLeader)
	nc.Close()
	<-dead.Done()
	eventually(t, "the record has expired", func() bool {
		out, _, _ := outcome(t, natsleader(t, "status", "jobs", "--json", "--server", s.url))
		return strings.Contains(out, `"expired"`)
	})
	s.start("a", "--try", "--", "sh", "-c", "exit 3").exits(3)
}

// With several seats --try ends if all of them are taken.
func TestRunTry_Seats(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	try := func(id, command string) *runProcess {
		return s.start(id, "--try", "--quiet", "--seats", "2", "--", command)
	}
	for _, id := range []string{"a", "b"} {
		try(id, s.obedient()).waitBegun(1)
	}
	c := try("c", "true")
	c.exits(exitLost)
	if said := c.text(); said != "" {
		t.Errorf("%q", said)
	}
}

// --try does not wait for a server.
func TestRunTry_WithoutServer(t *testing.T) {
	fails(t, natsleader(t, "run", "--server", "nats://127.0.0.1:1", "jobs", "--try", "--", "true"), exitUnreachable, "cannot connect")
}
