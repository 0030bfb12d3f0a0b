package main

import (
	"errors"
	"net"
	"sync"
	"time"
)

var errLinkDown = errors.New("the link is down")

// link is the network between one candidate and its server. It dials for
// nats.go, and its connections can be cut or black-holed.
type link struct {
	inner dialer // nil: TCP

	mu    sync.Mutex
	open  chan struct{} // closed while bytes may pass
	cut   bool
	conns map[*linkConn]struct{}
}

// dialer is nats.CustomDialer.
type dialer interface {
	Dial(network, address string) (net.Conn, error)
}

func newLink() *link {
	open := make(chan struct{})
	close(open)
	return &link{open: open, conns: map[*linkConn]struct{}{}}
}

// Dial implements nats.CustomDialer.
func (l *link) Dial(network, address string) (net.Conn, error) {
	if !l.passes() {
		return nil, errLinkDown
	}
	inner := l.inner
	if inner == nil {
		inner = &net.Dialer{Timeout: 2 * time.Second}
	}
	conn, err := inner.Dial(network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		return nil, errors.Join(errLinkDown, conn.Close())
	}
	c := &linkConn{Conn: conn, link: l, closed: make(chan struct{})}
	l.conns[c] = struct{}{}
	return c, nil
}

// Cut breaks the connections and refuses new ones, for good.
func (l *link) Cut() {
	l.mu.Lock()
	l.cut = true
	conns := l.all()
	l.mu.Unlock()
	for _, c := range conns {
		_ = c.Close() // it is broken either way
	}
}

// BlackHole lets nothing through any more, in either direction, while the
// connections stay. As with TCP, data that was sent meanwhile arrives late.
func (l *link) BlackHole() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held() {
		return
	}
	l.open = make(chan struct{})
}

// Restore ends a black hole.
func (l *link) Restore() {
	l.mu.Lock()
	if !l.held() {
		l.mu.Unlock()
		return
	}
	close(l.open)
	conns := l.all()
	l.mu.Unlock()
	for _, c := range conns {
		_, _ = c.Write(nil) // sends the data that waits; a failure shows at the next write
	}
}

// In held and all, the lock is held.
func (l *link) held() bool {
	select {
	case <-l.open:
		return false
	default:
		return true
	}
}

func (l *link) all() []*linkConn {
	conns := make([]*linkConn, 0, len(l.conns))
	for c := range l.conns {
		conns = append(conns, c)
	}
	return conns
}

func (l *link) passes() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.cut && !l.held()
}

func (l *link) gate() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

func (l *link) forget(c *linkConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// linkConn is a connection over a link.
type linkConn struct {
	net.Conn
	link   *link
	once   sync.Once
	closed chan struct{}

	mu   sync.Mutex
	late []byte // written into the black hole
}

// Read returns data that has arrived, once the link lets it through.
func (c *linkConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	select {
	case <-c.link.gate():
		return n, err
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

// Write never waits for a black hole, as the socket buffer would not.
func (c *linkConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.link.gate():
	default:
		c.late = append(c.late, b...)
		return len(b), nil
	}
	if len(c.late) > 0 {
		late := c.late
		c.late = nil
		if _, err := c.Conn.Write(late); err != nil {
			return 0, err
		}
	}
	if len(b) == 0 {
		return 0, nil
	}
	return c.Conn.Write(b)
}

// Close ends the connection, also one that hangs in a black hole.
func (c *linkConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.link.forget(c)
	return c.Conn.Close()
}
