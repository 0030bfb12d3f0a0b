package jsapi

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/backend"
)

// ConnErrorOf classifies an error of a connection that nats.go cannot make, or has lost. The text leaves out the
// local port, which would make the error of each attempt another one.
func ConnErrorOf(err error) backend.ConnError {
	e := backend.ConnError{Kind: "other", Text: strings.TrimPrefix(err.Error(), "nats: ")}
	var op *net.OpError
	if errors.As(err, &op) {
		e.Text = op.Err.Error()
		if op.Addr != nil {
			e.Text = fmt.Sprintf("%v: %v", op.Addr, op.Err)
		}
	}
	text := strings.ToLower(e.Text)
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
	var network net.Error
	switch {
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, nats.ErrTimeout), errors.Is(err, nats.ErrStaleConnection):
		e.Kind = "timeout"
	case has("authorization violation", "authentication "): // nats-server, errors.go
		e.Kind = "auth"
	case errors.Is(err, nats.ErrTLS), errors.Is(err, nats.ErrSecureConnWanted), has("tls: ", "x509: "):
		e.Kind = "tls"
	case has("refused"): // also of a proxy, and on Windows
		e.Kind = "refused"
	}
	return e
}

// Note remembers why the connection is down. nats.go keeps an error of the server and of the TLS handshake as the
// last one of the connection. Only its ReconnectErrHandler receives the error of an address that cannot be dialled.
func (c *Connection) Note(err error) {
	if err != nil && !errors.Is(err, nats.ErrPermissionViolation) {
		e := ConnErrorOf(err)
		c.why.Store(&e)
	}
}

// heldUp remembers that nats.go has held up a request for longer than its context. It dials, or writes to the socket, and
// the network does not answer.
func (c *Connection) heldUp() {
	c.why.CompareAndSwap(nil, &backend.ConnError{Kind: "timeout", Text: "the network does not answer"})
}

// down is the error of a request while the connection takes none.
func (c *Connection) down(s nats.Status) error {
	c.Note(c.nc.LastError())
	err := fmt.Errorf("%w: the connection is %v", backend.ErrUnreachable, strings.ToLower(s.String()))
	if why := c.why.Load(); why != nil {
		err = fmt.Errorf("%w: %w", err, *why)
	}
	return err
}

// up forgets the errors of an outage that is over.
func (c *Connection) up() {
	if c.why.Load() != nil {
		c.why.Store(nil)
	}
}

// ConnError returns the last error of the connection if requests found it down, or held up, when they last tried; nil otherwise.
func (a *Stream) ConnError() error {
	if a.conn == nil {
		return nil
	}
	if why := a.conn.why.Load(); why != nil {
		return *why
	}
	return nil
}
