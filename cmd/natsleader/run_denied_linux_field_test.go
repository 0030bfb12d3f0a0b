//go:build field && linux

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	expect "github.com/natsleader/natsleader/internal/check"
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
		expect.OK(t, s.server.ReloadOptions(o))
	}
}

// noUser stands for a server without the user "worker".
var noUser = new(server.Permissions)

// Revoked credentials are named once.
func TestRun_RevokedCredentials(t *testing.T) {
	s, revoke := newRunFixtureWith(t, nil)
	a := s.leads()
	a.says("command started")
	expect.That(t, strings.Count(a.text(), "\n") == 2, "a has said:\n%s", a.text())
	revoke(noUser)
	a.says("no connection to NATS: auth: authorization violation")
	a.says("the connection is reconnecting: auth: Authorization Violation")
	a.says("the lease is valid for another")
	revoke(nil)
	a.says("connected to NATS again")
	a.terminated()
	said := a.text()
	expect.That(t, strings.Count(said, ": authorization violation\n") == 1, "a has said:\n%s", said)
}

// A command that does not handle the signal is sent nothing. By default the signal would
// end the command.
func TestRunNotify_Unhandled(t *testing.T) {
	s := newRunFixture(t, 15*time.Second)
	a := s.start("a", "--notify", "USR1,USR2", "--", "sleep", "1000")
	a.says("the command does not handle USR1; not sent")
	expect.That(t, len(a.commandProcesses()) == 1, "of the command live %d", a.commandProcesses())
	a.terminated()
}

// watch says why there is no connection, and which nats.go tells to another of its handlers than the loss.
func TestWatch_RevokedCredentials(t *testing.T) {
	s, revoke := newRunFixtureWith(t, nil)
	cmd := natsleader(t, "--server", s.url, "watch", "--timeline")
	watch := started(t, cmd)
	s.leads()
	watch.says(t, "leads with token")
	revoke(noUser)
	watch.says(t, "the connection was lost: the servers refuse the credentials")
	revoke(nil)
	watch.says(t, "up to date again")
	interrupted(t, cmd)
}
