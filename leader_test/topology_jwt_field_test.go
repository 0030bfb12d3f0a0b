//go:build field

package leader_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha512"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// nkey is a key pair of an operator, an account or a user, with the public key in the notation of
// NATS. It is made here because the module requires no more than nats-server and nats.go, not the
// packages jwt and nkeys.
type nkey struct {
	public string
	secret ed25519.PrivateKey
}

// The first bytes of public keys: they make the first letter O, A or U.
const (
	keyOfOperator = 14 << 3
	keyOfAccount  = 0
	keyOfUser     = 20 << 3
)

func newNkey(tb testing.TB, kind byte) *nkey {
	tb.Helper()
	public, secret, err := ed25519.GenerateKey(rand.Reader)
	check.OK(tb, err)
	raw := append([]byte{kind}, public...)
	raw = binary.LittleEndian.AppendUint16(raw, crc16(raw))
	return &nkey{base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(raw), secret}
}

// crc16 is the checksum of the notation: polynomial 0x1021, start 0.
func crc16(data []byte) uint16 {
	var crc uint16
	for _, b := range data {
		crc ^= uint16(b) << 8
		for range 8 {
			high := crc & 0x8000
			crc <<= 1
			if high != 0 {
				crc ^= 0x1021
			}
		}
	}
	return crc
}

// issue signs claims on a subject.
func (k *nkey) issue(tb testing.TB, subject *nkey, claims map[string]any) string {
	tb.Helper()
	claims["version"] = 2
	body := map[string]any{"iss": k.public, "sub": subject.public, "name": claims["type"], "iat": time.Now().Unix(), "nats": claims}
	unsigned := check.Got(json.Marshal(body))(tb)
	hash := sha512.Sum512_256(unsigned)
	body["jti"] = base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(hash[:])
	payload := check.Got(json.Marshal(body))(tb)
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"typ":"JWT","alg":"ed25519-nkey"}`)) +
		"." + base64.RawURLEncoding.EncodeToString(payload)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(k.secret, []byte(text)))
}

// withJetStream are the limits of an account that may use JetStream without a limit.
var withJetStream = map[string]int64{"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}

// issueAccount signs an account without limits other than those of JetStream that are given.
func (k *nkey) issueAccount(tb testing.TB, account *nkey, jetStream, revocations map[string]int64) string {
	tb.Helper()
	limits := map[string]any{
		"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
	}
	for name, limit := range jetStream {
		limits[name] = limit
	}
	return k.issue(tb, account, map[string]any{"type": "account", "limits": limits, "revocations": revocations})
}

// issueUser signs a user without limits.
func (k *nkey) issueUser(tb testing.TB, user *nkey) nats.Option {
	tb.Helper()
	token := k.issue(tb, user, map[string]any{"type": "user", "subs": -1, "data": -1, "payload": -1})
	return nats.UserJWT(
		func() (string, error) { return token, nil },
		func(nonce []byte) ([]byte, error) { return ed25519.Sign(user.secret, nonce), nil })
}

// jwtServer is a server of an operator, with a system account and an account that has JetStream.
type jwtServer struct {
	tb                        testing.TB
	url                       string
	operator, system, account *nkey
	users                     map[string]*nkey
}

func startJWTServer(tb testing.TB) *jwtServer {
	tb.Helper()
	s := &jwtServer{
		tb: tb, operator: newNkey(tb, keyOfOperator), system: newNkey(tb, keyOfAccount), account: newNkey(tb, keyOfAccount),
		users: map[string]*nkey{"a": newNkey(tb, keyOfUser), "b": newNkey(tb, keyOfUser)},
	}
	s.url = tcpServe(tb, tcpOptions(tb, fmt.Sprintf(`
		operator: %q
		system_account: %q
		resolver { type: full, dir: %q }
		resolver_preload { %s: %q, %s: %q }`,
		s.operator.issue(tb, s.operator, map[string]any{"type": "operator", "system_account": s.system.public}),
		s.system.public, tb.TempDir(),
		s.system.public, s.operator.issueAccount(tb, s.system, nil, nil),
		s.account.public, s.operator.issueAccount(tb, s.account, withJetStream, nil)))).ClientURL()
	return s
}

func (s *jwtServer) dial(user string, opts ...nats.Option) *nats.Conn {
	s.tb.Helper()
	return tcpDial(s.tb, s.url, append(opts, s.account.issueUser(s.tb, s.users[user]))...)
}

// update replaces the account on the server.
func (s *jwtServer) update(limits map[string]int64, revoked ...string) {
	s.tb.Helper()
	revocations := make(map[string]int64)
	for _, user := range revoked { // tokens from before now
		revocations[s.users[user].public] = time.Now().Unix()
	}
	nc := tcpDial(s.tb, s.url, s.system.issueUser(s.tb, newNkey(s.tb, keyOfUser)))
	reply, err := nc.Request("$SYS.REQ.CLAIMS.UPDATE", []byte(s.operator.issueAccount(s.tb, s.account, limits, revocations)), tcpLimit)
	check.OK(s.tb, err)
	check.Must(s.tb, strings.Contains(string(reply.Data), `"code":200`),
		"the server does not take the account: %s", reply.Data)
}

// A leader hands over with decentralised JWT accounts.
func TestTopology_JWTAccounts(t *testing.T) {
	t.Parallel()
	s := startJWTServer(t)
	if nc, err := nats.Connect(s.url, newNkey(t, keyOfAccount).issueUser(t, s.users["a"])); err == nil {
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
			s.update(withJetStream, "a")
			if k.ends {
				a.Expect(leadertest.Deposed(leader.ErrConnectionClosed))
				<-a.Done()
			} else {
				a.Expect(leadertest.Faulted(leader.ErrUnreachable), leadertest.Fenced(leader.ErrLeaseExpired))
			}
			b.Expect(leadertest.Elected())
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
	tcpTerm(a)
	s.update(nil)
	a.Expect(leadertest.Faulted(leader.ErrUnreachable), leadertest.Fenced(leader.ErrLeaseExpired))
	s.update(withJetStream)
	a.Expect(leadertest.Elected())
}
