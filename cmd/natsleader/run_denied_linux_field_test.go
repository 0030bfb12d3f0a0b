//go:build field && linux

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/leader"
)

// newRunFixtureWith makes a fixture with a server that has the users "boss" and "worker". The
// bucket is made by "boss". The function changes what "worker" may do.
func newRunFixtureWith(t *testing.T, worker *server.Permissions) (s *runFixture, revoke func(*server.Permissions)) {
	t.Helper()
	t.Parallel()
	var options *server.Options
	users := func(p *server.Permissions) []*server.User {
		boss := &server.User{Username: "boss", Password: "boss"}
		if p == noUser {
			return []*server.User{boss}
		}
		return []*server.User{boss, {Username: "worker", Password: "worker", Permissions: p}}
	}
	s = &runFixture{T: t, dir: t.TempDir()}
	s.server = startServer(t, func(o *server.Options) {
		o.Users = users(worker)
		options = o.Clone()
	})
	s.url = strings.Replace(s.server.ClientURL(), "//", "//worker:worker@", 1)
	newBucket(t, strings.Replace(s.server.ClientURL(), "//", "//boss:boss@", 1), "elections", leader.BucketConfig{MaxLease: 15 * time.Second})
	return s, func(worker *server.Permissions) {
		o := options.Clone()
		o.Users = users(worker)
		if err := s.server.ReloadOptions(o); err != nil {
			t.Fatal(err)
		}
	}
}

// noUser stands for a server without the user "worker".
var noUser = new(server.Permissions)

// A missing permission is found before the run stands, and not at the first election.
func TestRun_MissingPermission(t *testing.T) {
	for _, subject := range []string{"$KV.elections.jobs", "$JS.API.STREAM.INFO.KV_elections", "$JS.API.DIRECT.GET.KV_elections.$KV.elections.jobs"} {
		t.Run(subject, func(t *testing.T) {
			s, _ := newRunFixtureWith(t, &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{subject}}})
			began := time.Now()
			a := s.start("a", "--timeout", "10m", "--", "true")
			a.exits(exitDenied)
			if last := lastLine(a.text()); !strings.HasSuffix(last, "permission denied: this connection may not publish to "+subject) {
				t.Errorf("after %v: %q", time.Since(began), last)
			}
		})
	}
}

// A wait that ends in vain names the permission that was revoked during it.
func TestRunWait_NamesPermission(t *testing.T) {
	s, revoke := newRunFixtureWith(t, nil)
	leads := campaigns(t, strings.Replace(s.server.ClientURL(), "//", "//boss:boss@", 1), "elections", "jobs", leader.Config{ID: "boss"})
	a := s.start("a", "--wait", "8s", "--", "true")
	a.says("waiting")
	revoke(&server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$KV.elections.jobs"}}})
	if err := leads.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.exits(exitDenied)
	if last := lastLine(a.text()); !strings.Contains(last, "$KV.elections.jobs") || !strings.Contains(last, "--wait 8s") {
		t.Errorf("%q", last)
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return lines[len(lines)-1]
}

// Revoked credentials are named once.
func TestRun_RevokedCredentials(t *testing.T) {
	s, revoke := newRunFixtureWith(t, nil)
	a := s.start("a", "--", s.obedient())
	a.waitBegun(1)
	a.says("command started")
	if strings.Count(a.text(), "\n") != 2 {
		t.Errorf("a has said:\n%s", a.text())
	}
	revoke(noUser)
	a.says("no connection to NATS: authorization violation")
	a.says("the lease is valid for another")
	revoke(nil)
	a.says("connected to NATS again")
	a.signal(unix.SIGTERM)
	a.exits(128 + 15)
	if said := a.text(); strings.Count(said, ": authorization violation\n") != 1 {
		t.Errorf("a has said:\n%s", said)
	}
}

// A command that does not handle the signal is sent nothing. By default the signal would
// end the command.
func TestRunNotify_Unhandled(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	a := s.start("a", "--notify", "USR1,USR2", "--", "sleep", "1000")
	a.says("the command does not handle USR1; not sent")
	if len(a.commandProcesses()) != 1 {
		t.Errorf("of the command live %d", a.commandProcesses())
	}
	a.signal(unix.SIGTERM)
	a.exits(128 + 15)
}
