//go:build field

package leader_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

func public(tb testing.TB, pair nkeys.KeyPair) string {
	tb.Helper()
	return check.Got(pair.PublicKey())(tb)
}

// issueUser signs a user without limits.
func issueUser(tb testing.TB, account, user nkeys.KeyPair) nats.Option {
	tb.Helper()
	token := check.Got(jwt.NewUserClaims(public(tb, user)).Encode(account))(tb)
	return nats.UserJWT(func() (string, error) { return token, nil }, user.Sign)
}

// jwtServer is a server of an operator, with a system account and an account that has JetStream.
type jwtServer struct {
	tb                        testing.TB
	url                       string
	operator, system, account nkeys.KeyPair
	users                     map[string]nkeys.KeyPair
}

func startJWTServer(tb testing.TB) *jwtServer {
	tb.Helper()
	s := &jwtServer{
		tb: tb, operator: check.Got(nkeys.CreateOperator())(tb),
		system: check.Got(nkeys.CreateAccount())(tb), account: check.Got(nkeys.CreateAccount())(tb),
		users: map[string]nkeys.KeyPair{"a": check.Got(nkeys.CreateUser())(tb), "b": check.Got(nkeys.CreateUser())(tb)},
	}
	operator := jwt.NewOperatorClaims(public(tb, s.operator))
	operator.SystemAccount = public(tb, s.system)
	s.url = tcpServe(tb, tcpOptions(tb, fmt.Sprintf(`
		operator: %q
		system_account: %q
		resolver { type: full, dir: %q }
		resolver_preload { %s: %q, %s: %q }`,
		check.Got(operator.Encode(s.operator))(tb), public(tb, s.system), tb.TempDir(),
		public(tb, s.system), s.issue(s.system, jwt.JetStreamLimits{}),
		public(tb, s.account), s.issue(s.account, withJetStream)))).ClientURL()
	return s
}

// withJetStream are the limits of an account that may use JetStream without a limit.
var withJetStream = jwt.JetStreamLimits{
	MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
}

// issue signs an account without other limits. The tokens of revoked users from before now are void.
func (s *jwtServer) issue(account nkeys.KeyPair, limits jwt.JetStreamLimits, revoked ...string) string {
	s.tb.Helper()
	claims := jwt.NewAccountClaims(public(s.tb, account))
	claims.Limits.JetStreamLimits = limits
	for _, user := range revoked {
		claims.Revoke(public(s.tb, s.users[user]))
	}
	return check.Got(claims.Encode(s.operator))(s.tb)
}

func (s *jwtServer) dial(user string, opts ...nats.Option) *nats.Conn {
	s.tb.Helper()
	return tcpDial(s.tb, s.url, append(opts, issueUser(s.tb, s.account, s.users[user]))...)
}

// update replaces the account on the server.
func (s *jwtServer) update(limits jwt.JetStreamLimits, revoked ...string) {
	s.tb.Helper()
	nc := tcpDial(s.tb, s.url, issueUser(s.tb, s.system, check.Got(nkeys.CreateUser())(s.tb)))
	reply := check.Got(nc.Request("$SYS.REQ.CLAIMS.UPDATE", []byte(s.issue(s.account, limits, revoked...)), tcpLimit))(s.tb)
	check.Must(s.tb, strings.Contains(string(reply.Data), `"code":200`),
		"the server does not take the account: %s", reply.Data)
}

// A leader hands over with decentralised JWT accounts.
func TestTopology_JWTAccounts(t *testing.T) {
	t.Parallel()
	s := startJWTServer(t)
	if nc, err := nats.Connect(s.url, issueUser(t, check.Got(nkeys.CreateAccount())(t), s.users["a"])); err == nil {
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
			el := tcpElectionOf(t, "e")
			a := el.stand(tcpBucket(t, tcpJS(t, s.dial("a", k.opts...))), leader.Config{ID: "a", LeaseDuration: operationLease})
			term := tcpTerm(a)
			b := el.stand(tcpBucket(t, tcpJS(t, s.dial("b"))), leader.Config{ID: "b", LeaseDuration: operationLease})
			b.Expect(leadertest.Observed("a"))
			s.update(withJetStream, "a")
			if k.ends {
				a.Expect(leadertest.Deposed(leader.ErrConnectionClosed))
				<-a.Done()
			} else {
				a.Expect(leadertest.Faulted(leader.ErrUnreachable), leadertest.Fenced(leader.ErrLeaseExpired))
			}
			b.Expect(leadertest.Elected())
			next := b.Watcher.Term().Token()
			check.That(t, next > term.Token(), "token %d after %d", next, term.Token())
			if !k.ends {
				s.update(withJetStream)
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
	term := tcpTerm(a)
	s.update(jwt.JetStreamLimits{})
	a.Expect(leadertest.Faulted(leader.ErrUnreachable), leadertest.Fenced(leader.ErrLeaseExpired))
	s.update(withJetStream)
	a.Expect(leadertest.Elected())
	next := a.Watcher.Term().Token()
	check.That(t, next > term.Token(), "token %d after %d", next, term.Token())
}
