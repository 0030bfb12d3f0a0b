//go:build field

package leader_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// jwtServer is a server of an operator, with a system account and an account that has JetStream.
// testdata/jwt has their claims and those of their users.
type jwtServer struct {
	tb  testing.TB
	url string
}

func startJWTServer(tb testing.TB) *jwtServer {
	tb.Helper()
	config := check.Got(os.ReadFile("testdata/jwt/server.conf"))(tb)
	return &jwtServer{tb, tcpServe(tb, tcpOptions(tb, fmt.Sprintf("%sresolver { type: full, dir: %q }", config, tb.TempDir()))).ClientURL()}
}

func (s *jwtServer) dial(user string, opts ...nats.Option) *nats.Conn {
	s.tb.Helper()
	return tcpDial(s.tb, s.url, append(opts, nats.UserCredentials("testdata/jwt/"+user+".creds"))...)
}

// update replaces the account on the server.
func (s *jwtServer) update(account string) {
	s.tb.Helper()
	claims := check.Got(os.ReadFile("testdata/jwt/" + account + ".jwt"))(s.tb)
	reply := check.Got(s.dial("system").Request("$SYS.REQ.CLAIMS.UPDATE", claims, tcpLimit))(s.tb)
	check.Must(s.tb, strings.Contains(string(reply.Data), `"code":200`),
		"the server does not take the account: %s", reply.Data)
}

// A leader hands over with decentralised JWT accounts.
func TestTopology_JWTAccounts(t *testing.T) {
	t.Parallel()
	s := startJWTServer(t)
	if nc, err := nats.Connect(s.url, nats.UserCredentials("testdata/jwt/a-of-another-account.creds")); err == nil {
		nc.Close()
		t.Error("a user of an unknown account may connect")
	}
	tcpCreate(t, tcpJS(t, s.dial("a")), leader.BucketConfig{MaxLease: tcpLong})
	open := func(user string) func() *leader.Bucket {
		return func() *leader.Bucket { return tcpBucket(t, tcpJS(t, s.dial(user))) }
	}
	tcpHandover(t, open("a"), open("b"), leader.Config{})
}

// Revoking the leader's user in the JWT of the account ends its connection, and another candidate
// takes over. By default nats.go closes the connection when the server has refused it twice, so the
// candidate ends. With nats.IgnoreAuthErrorAbort it goes on trying, and campaigns again when the
// user is good again.
func TestTopology_JWTUserRevoked(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	for _, k := range []struct {
		name string
		opts []nats.Option
		ends bool
	}{
		{"by default", nil, true},
		{"with IgnoreAuthErrorAbort", []nats.Option{nats.IgnoreAuthErrorAbort()}, false},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := startJWTServer(t)
			tcpCreate(t, tcpJS(t, s.dial("a")), leader.BucketConfig{})
			a, b, _ := tcpElectionOf(t, "e").pair(tcpBucket(t, tcpJS(t, s.dial("a", k.opts...))),
				tcpBucket(t, tcpJS(t, s.dial("b"))), leader.Config{LeaseDuration: operationLease})
			s.update("account-without-a")
			if k.ends {
				a.Expect(leadertest.Deposed(leader.ErrConnectionClosed))
				<-a.Done()
			} else {
				a.Expect(leadertest.Faulted(leader.ErrUnreachable), leadertest.Fenced(leader.ErrLeaseExpired))
			}
			b.Expect(leadertest.Elected())
			if !k.ends {
				s.update("account")
				a.Expect(leadertest.Deposed(leader.ErrLeaseExpired), leadertest.Observed("b"))
			}
		})
	}
}

// The account loses JetStream, as when a limit is set to 0 by mistake. Nobody leads until it has it
// again.
func TestTopology_JWTAccountLosesJetStream(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	s := startJWTServer(t)
	tcpCreate(t, tcpJS(t, s.dial("a")), leader.BucketConfig{})
	el := tcpElectionOf(t, "e")
	a := el.stand(tcpBucket(t, tcpJS(t, s.dial("a"))), leader.Config{ID: "a", LeaseDuration: operationLease})
	tcpTerm(a)
	s.update("account-without-jetstream")
	a.Expect(leadertest.Faulted(leader.ErrUnreachable), leadertest.Fenced(leader.ErrLeaseExpired))
	s.update("account")
	a.Expect(leadertest.Elected())
}
