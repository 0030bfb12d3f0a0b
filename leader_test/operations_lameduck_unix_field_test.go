//go:build field && unix

package leader_test

import (
	"syscall"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/leader"
)

// The server that leads the stream, and to which all candidates are connected, enters lame duck mode:
// it gives up JetStream, moves its clients to the others and ends. The leader stays the same.
func TestOperations_LameDuckMode(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	c := clusterOf(t, 3, testcluster.Options{More: func(string) string {
		return `lame_duck_duration: "30s", lame_duck_grace_period: "100ms"`
	}})
	lame := c.Leads("E")
	ofA, ofB := c.dialTo(lame), c.dialTo(lame)
	a, b, term := tcpElectionOf(t, "e").pair(tcpBucket(t, tcpJS(t, ofA)),
		tcpBucket(t, tcpJS(t, ofB)), leader.Config{TurnTimeout: longTurn})

	check.OK(t, lame.Process.Cmd.Process.Signal(syscall.SIGUSR2))
	lame.Process.Wait()
	check.That(t, lame.Process.Cmd.ProcessState.Success(), "%v", lame.Process.Cmd.ProcessState)
	lame.Process = nil
	tcpEventually(t, "the candidates are connected to other servers", func() bool {
		return ofA.IsConnected() && ofB.IsConnected()
	})
	tcpRenewed(t, tcpBucket(t, c.JS), "e", 2)
	check.Is(t, leader.Err(term.Context()), nil)
	h := b.Leader()
	check.That(t, h.State == leader.HolderLeading && h.Token == term.Token() && b.State() == leader.StateCandidate,
		"b is %v and believes %v", b.State(), h)
	check.OK(t, leadertest.Resign(t.Context(), a.Candidate))
	b.Expect(leadertest.Elected())
}
