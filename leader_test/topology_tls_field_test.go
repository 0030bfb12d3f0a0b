//go:build field

package leader_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// operationLease is the lease where a test waits until it is over.
const operationLease = 10 * time.Second

// authority signs certificates.
type authority struct {
	tb   testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(tb testing.TB, name string) *authority {
	tb.Helper()
	ca := &authority{tb: tb}
	ca.cert = &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	signed := ca.sign(ca.cert)
	ca.cert = check.Got(x509.ParseCertificate(signed.Certificate[0]))(tb)
	return ca
}

// sign makes a certificate. The first one is the authority's own.
func (ca *authority) sign(template *x509.Certificate) tls.Certificate {
	ca.tb.Helper()
	key := check.Got(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(ca.tb)
	if ca.key == nil {
		ca.key = key
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der := check.Got(x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key))(ca.tb)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (ca *authority) server() tls.Certificate {
	return ca.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

func (ca *authority) client(user string) tls.Certificate {
	return ca.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: user}, EmailAddresses: []string{user + "@example.org"},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func pool(cas ...*authority) *x509.CertPool {
	p := x509.NewCertPool()
	for _, ca := range cas {
		p.AddCert(ca.cert)
	}
	return p
}

// mutualTLS returns the options of a server that demands client certificates of these authorities,
// and takes the user from the address in the certificate.
func mutualTLS(tb testing.TB, own tls.Certificate, trusted ...*authority) *server.Options {
	tb.Helper()
	opts := tcpOptions(tb, `
		port: -1
		authorization { users: [ { user: "a@example.org" }, { user: "b@example.org" } ] }`)
	opts.TLS, opts.TLSVerify, opts.TLSMap = true, true, true
	opts.TLSConfig = &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool(trusted...),
	}
	return opts
}

// secure returns the option of a client that trusts the authority and shows these certificates.
func (ca *authority) secure(certs ...tls.Certificate) nats.Option {
	return nats.Secure(&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool(ca), Certificates: certs})
}

// A leader hands over where clients need certificates. Without a good one there is no connection, so
// there is nothing to give to the library.
func TestTopology_ClientCertificates(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	s := tcpServe(t, mutualTLS(t, ca.server(), ca))
	for name, opt := range map[string]nats.Option{
		"without a certificate":          ca.secure(),
		"of an unknown user":             ca.secure(ca.client("c")),
		"of an unknown authority":        ca.secure(newAuthority(t, "unknown").client("a")),
		"with a certificate for servers": ca.secure(ca.server()),
	} {
		if nc, err := nats.Connect(s.ClientURL(), opt); err == nil {
			nc.Close()
			t.Errorf("a client %s may connect", name)
		}
	}
	open := func(user string) func() *leader.Bucket {
		cert := ca.client(user)
		return func() *leader.Bucket { return tcpBucket(t, tcpJS(t, tcpDial(t, s.ClientURL(), ca.secure(cert)))) }
	}
	tcpCreate(t, tcpJS(t, tcpDial(t, s.ClientURL(), ca.secure(ca.client("a")))), leader.BucketConfig{MaxLease: tcpLong})
	tcpHandover(t, open("a"), open("b"), leader.Config{})
}

// The server is restarted and trusts the leader's authority no more. Another candidate takes over
// when the lease is over. When the authority is trusted again, the first goes on by itself.
func TestTopology_CertificateDistrusted(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	old, renewed := newAuthority(t, "old"), newAuthority(t, "renewed")
	opts := mutualTLS(t, old.server(), old, renewed)
	host := tcpHostOf(t, opts)
	s := host.up()
	open := func(cert tls.Certificate) *leader.Bucket {
		return tcpBucket(t, tcpJS(t, tcpDial(t, s.ClientURL(), old.secure(cert))))
	}
	tcpCreate(t, tcpJS(t, tcpDial(t, s.ClientURL(), old.secure(old.client("a")))), leader.BucketConfig{})
	a, b, _ := tcpElectionOf(t, "e").pair(open(old.client("a")),
		open(renewed.client("b")), leader.Config{LeaseDuration: operationLease})
	trust := func(cas ...*authority) {
		host.down()
		opts.TLSConfig.ClientCAs = pool(cas...)
		host.up()
	}
	trust(renewed)
	a.Expect(leadertest.Faulted(leader.ErrUnreachable), leadertest.Fenced(leader.ErrLeaseExpired))
	b.Expect(leadertest.Elected())
	trust(old, renewed)
	a.Expect(leadertest.Deposed(leader.ErrLeaseExpired), leadertest.Observed("b"))
}
