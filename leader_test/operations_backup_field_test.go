//go:build field

package leader_test

import (
	"encoding/json"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// streamBackup is a backup of a stream, as `nats stream backup` makes it.
type streamBackup struct {
	config, state json.RawMessage
	chunks        [][]byte
}

// apiAsk sends a request to the JetStream API and decodes the reply.
func apiAsk(t *testing.T, nc *nats.Conn, subject string, data []byte, reply any) {
	t.Helper()
	m := check.Got(nc.Request(subject, data, tcpLimit))(t)
	if len(m.Data) == 0 {
		return // the acknowledgement of a chunk
	}
	var failed struct{ Error json.RawMessage }
	check.OK(t, json.Unmarshal(m.Data, &failed))
	check.Must(t, failed.Error == nil, "%s: %s", subject, failed.Error)
	if reply != nil {
		check.OK(t, json.Unmarshal(m.Data, reply))
	}
}

// streamSave makes a backup of the bucket E by the server's interface for snapshots.
func streamSave(t *testing.T, nc *nats.Conn) streamBackup {
	t.Helper()
	inbox := nc.NewInbox()
	sub := check.Got(nc.SubscribeSync(inbox))(t)
	request := check.Got(json.Marshal(map[string]any{"deliver_subject": inbox, "no_consumers": true}))(t)
	var answer struct{ Config, State json.RawMessage }
	apiAsk(t, nc, "$JS.API.STREAM.SNAPSHOT.KV_E", request, &answer)
	saved := streamBackup{config: answer.Config, state: answer.State}
	for {
		m := check.Got(sub.NextMsg(tcpLimit))(t)
		if len(m.Data) == 0 {
			break
		}
		saved.chunks = append(saved.chunks, m.Data)
		if m.Reply != "" { // the server wants to know that the chunk has arrived
			check.OK(t, m.Respond(nil))
		}
	}
	check.OK(t, sub.Unsubscribe())
	return saved
}

// streamRestore replaces the bucket E by the backup. The server restores a stream only where there is
// none of that name.
func streamRestore(t *testing.T, nc *nats.Conn, saved streamBackup) {
	t.Helper()
	check.OK(t, tcpJS(t, nc).DeleteStream(t.Context(), "KV_E"))
	request := check.Got(json.Marshal(map[string]any{"config": saved.config, "state": saved.state}))(t)
	var answer struct {
		To string `json:"deliver_subject"`
	}
	apiAsk(t, nc, "$JS.API.STREAM.RESTORE.KV_E", request, &answer)
	for _, chunk := range saved.chunks {
		apiAsk(t, nc, answer.To, chunk, nil)
	}
	apiAsk(t, nc, answer.To, nil, nil)
}

// A backup replaces the bucket under a leader. The leader finds that the store has forgotten its
// renewals and ends its term. It leads again one MaxLease later, and its next token is greater than all
// before, because live candidates remember the last one.
func TestOperations_BackupRestoredUnderALeader(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	s := tcpServe(t, tcpOptions(t, ""))
	nc := tcpDial(t, s.ClientURL())
	tcpCreate(t, tcpJS(t, nc), leader.BucketConfig{MaxLease: operationLease})
	open := func() *leader.Bucket { return tcpBucket(t, tcpJS(t, tcpDial(t, s.ClientURL()))) }
	el := tcpElectionOf(t, "e")
	a := el.stand(open(), leader.Config{ID: "a", LeaseDuration: operationLease})
	tcpTerm(a)
	saved := streamSave(t, nc)
	tcpRenewed(t, open(), "e", 4)
	streamRestore(t, nc, saved)
	a.Expect(leadertest.Faulted(leader.ErrRegressed), leadertest.Deposed(leader.ErrRegressed), leadertest.Pending(), leadertest.Elected())
}

// A backup replaces the bucket while no candidate runs. Tokens are used again, unless the candidates
// are started with a MinToken.
func TestOperations_BackupRestoredWithoutCandidates(t *testing.T) {
	t.Parallel()
	s := tcpServe(t, tcpOptions(t, ""))
	nc := tcpDial(t, s.ClientURL())
	tcpCreate(t, tcpJS(t, nc), leader.BucketConfig{})
	// lead returns the token of a new candidate's term, which it ends. The tokens of all terms do not
	// rise, so each is of an election of its own for the checks.
	lead := func(cfg leader.Config) uint64 {
		t.Helper()
		c := tcpElectionOf(t, "e").stand(tcpBucket(t, tcpJS(t, tcpDial(t, s.ClientURL()))), cfg)
		token := tcpTerm(c).Token()
		check.OK(t, c.Stop())
		return token
	}
	first := lead(leader.Config{ID: "a"})
	saved := streamSave(t, nc)
	second := lead(leader.Config{ID: "b"})
	check.That(t, second > first, "token %d after %d", second, first)
	streamRestore(t, nc, saved)
	check.Equal(t, lead(leader.Config{ID: "c"}), second,
		"after the restore the token is %d, want that of before, %d", second)
	streamRestore(t, nc, saved)
	next := lead(leader.Config{ID: "c", MinToken: second})
	check.That(t, next > second, "with MinToken %d the token is %d", second, next)
}
