//go:build field && linux

package main

import (
	"strings"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// A line about the roster does not look as if the lease were at stake, and one about a
// foreign record names no other candidate.
func TestRunLog_NamesTheCause(t *testing.T) {
	t.Parallel()
	s := &runFixture{T: t, server: startServer(t), dir: t.TempDir()}
	s.url = s.server.ClientURL()
	newBucket(t, s.url, "elections", leader.BucketConfig{MaxLease: 15 * time.Second, Roster: true})
	a := s.leads("--roster")
	_, js := connectTo(t, s.url)
	put(t, js, "jobs", "not a record")
	a.says("lost: another client has overwritten the key with a foreign record")
	if said := a.text(); strings.Contains(said, "another candidate") || !strings.Contains(said, "the key holds a foreign record at revision") {
		t.Errorf("%s", said)
	}
	expect.OK(t, js.DeleteStream(t.Context(), "KV_elections_roster"))
	a.says("WARN  natsleader: jobs: roster: ")
	a.terminated()
}
