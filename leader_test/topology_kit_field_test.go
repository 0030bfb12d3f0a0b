//go:build field

package leader_test

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

// tcpLink is a TCP proxy for the connections between servers, which can be cut.
type tcpLink struct {
	tb     testing.TB
	port   int // of the proxy
	listen net.Listener
	to     string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
	done  sync.WaitGroup
}

// linkTo starts a proxy for a port of the loopback interface. The proxy ends with the test.
func linkTo(tb testing.TB, port int) *tcpLink {
	tb.Helper()
	listen := check.Got(net.Listen("tcp", "127.0.0.1:0"))(tb)
	l := &tcpLink{tb: tb, listen: listen, to: fmt.Sprintf("127.0.0.1:%d", port), conns: make(map[net.Conn]bool)}
	addr, ok := listen.Addr().(*net.TCPAddr)
	if !ok {
		tb.Fatalf("the proxy listens on %v", listen.Addr())
	}
	l.port = addr.Port
	l.done.Go(l.accept)
	tb.Cleanup(func() {
		_ = listen.Close()
		l.setCut(true)
		l.done.Wait()
	})
	return l
}

func (l *tcpLink) accept() {
	for {
		from, err := l.listen.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", l.to)
		if err != nil {
			_ = from.Close()
			continue
		}
		if !l.keep(from, to) {
			continue
		}
		l.done.Go(func() { l.pass(from, to) })
		l.done.Go(func() { l.pass(to, from) })
	}
}

// keep notes two connections, or closes them while the link is cut.
func (l *tcpLink) keep(conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		if l.cut {
			_ = c.Close()
		} else {
			l.conns[c] = true
		}
	}
	return !l.cut
}

func (l *tcpLink) pass(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	_, _ = from.Close(), to.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, from)
}

// setCut closes all connections and refuses others, or accepts them again.
func (l *tcpLink) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if cut {
		for c := range l.conns {
			_ = c.Close()
		}
	}
}
