package jsapi

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// Errors of nats.go, of the network and of the server have a kind, and a text that is the same at each attempt.
func TestConnErrorOf(t *testing.T) {
	local, remote := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 54321}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 4222}
	network := func(op string, err error) error {
		return &net.OpError{Op: op, Net: "tcp", Source: local, Addr: remote, Err: err}
	}
	for want, err := range map[string]error{
		"refused: 10.0.0.1:4222: connect: connection refused":           network("dial", os.NewSyscallError("connect", syscall.ECONNREFUSED)),
		"timeout: 10.0.0.1:4222: i/o timeout":                           network("dial", os.ErrDeadlineExceeded),
		"timeout: i/o timeout":                                          fmt.Errorf("%w: %w", nats.ErrTLS, &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}),
		"timeout: stale connection":                                     nats.ErrStaleConnection,
		"tls: tls error: x509: certificate signed by unknown authority": fmt.Errorf("%w: %w", nats.ErrTLS, x509.UnknownAuthorityError{}),
		"tls: 10.0.0.1:4222: tls: bad certificate":                      network("remote error", errors.New("tls: bad certificate")),
		"tls: secure connection not available":                          nats.ErrSecureConnWanted,
		"auth: authorization violation":                                 nats.ErrAuthorization,
		"auth: authentication revoked":                                  nats.ErrAuthRevoked,
		"auth: authentication expired":                                  nats.ErrAuthExpired,
		"auth: account authentication expired":                          nats.ErrAccountAuthExpired,
		"other: EOF":                                                    io.EOF,
		"other: lookup nats: no such host":                              &net.DNSError{Err: "no such host", Name: "nats"},
	} {
		check.Equal(t, ConnErrorOf(err).Error(), want, "%q")
	}
}

// The error of a request while the connection is down has the kind of its last error, until it is up again. What is denied is
// no reason to be down.
func TestConnection_NamesOutage(t *testing.T) {
	withWire(t, func(w *wired) {
		const refused = "refused: connection refused"
		w.a.conn.Note(nats.ErrPermissionViolation)
		check.OK(w, w.a.ConnError())
		w.lose()
		check.Equal(w, w.a.Connected().Error(), "leader: the store did not answer: the connection is reconnecting", "%q")
		w.a.conn.Note(syscall.ECONNREFUSED)
		check.Says(w, w.a.Connected(), backend.ErrUnreachable, "reconnecting: "+refused)
		check.Equal(w, w.a.ConnError().Error(), refused, "%q")
		time.Sleep(2 * time.Second)
		check.OK(w, w.a.Connected())
		check.OK(w, w.a.ConnError())

		w.refuse(true)
		w.lose()
		time.Sleep(5500 * time.Millisecond) // between two attempts, during which nats.go holds a mutex
		check.Says(w, w.a.Connected(), backend.ErrUnreachable, "reconnecting: auth: Authorization Violation")
		w.refuse(false)
		time.Sleep(2 * time.Second)
		check.OK(w, w.a.Connected())
		check.OK(w, w.a.ConnError())
	})
}
