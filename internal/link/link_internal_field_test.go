//go:build field

package link

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// patience is how long a test waits for what happens at once on an idle machine.
const patience = 30 * time.Second

// wire is a connection over a link: a line that one end writes is read at the other.
type wire struct {
	*testing.T
	link           *Link
	listener       net.Listener
	client, server net.Conn
	atClient       *bufio.Reader
	atServer       *bufio.Reader
}

func newWire(t *testing.T) *wire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.OK(t, err)
	k, err := New(listener.Addr().String())
	check.OK(t, err)
	w := &wire{T: t, link: k, listener: listener}
	t.Cleanup(func() {
		k.Close()
		_ = listener.Close()
		_ = w.client.Close()
		_ = w.server.Close()
	})
	w.client, w.server = w.connect()
	w.atClient, w.atServer = bufio.NewReader(w.client), bufio.NewReader(w.server)
	return w
}

func (w *wire) connect() (client, server net.Conn) {
	w.Helper()
	client, err := net.Dial("tcp", w.link.Addr())
	check.OK(w, err)
	server, err = w.listener.Accept()
	check.Must(w, err == nil, "%v", err)
	for _, c := range []net.Conn{client, server} {
		check.OK(w, c.SetDeadline(time.Now().Add(patience)))
	}
	return client, server
}

// up and down write a line at one end, which the other does not read yet.
func (w *wire) up(line string)   { w.write(w.client, line) }
func (w *wire) down(line string) { w.write(w.server, line) }

func (w *wire) write(c net.Conn, line string) {
	w.Helper()
	_, err := io.WriteString(c, line+"\n")
	check.Must(w, err == nil, "%v", err)
}

func (w *wire) arrives(at *bufio.Reader, lines ...string) {
	w.Helper()
	for _, want := range lines {
		got, err := at.ReadString('\n')
		check.Must(w, err == nil && got == want+"\n", "read %q, %v, not %q", got, err, want)
	}
}

// nothing finds that no line is at one end now. It cannot fail where it should not: lines arrive late
// in the worst case.
func (w *wire) nothing(c net.Conn, at *bufio.Reader) {
	w.Helper()
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	got, err := at.ReadString('\n')
	check.Must(w, errors.Is(err, os.ErrDeadlineExceeded), "read %q, %v", got, err)
	_ = c.SetReadDeadline(time.Now().Add(patience))
}

// A link that holds a direction delivers nothing in it, and everything afterwards, in order.
func TestLink_HoldsAndDelivers(t *testing.T) {
	for held, both := range map[string]struct{ up, down bool }{
		Held: {true, true}, HeldUp: {up: true}, HeldDown: {down: true},
	} {
		t.Run(held, func(t *testing.T) {
			w := newWire(t)
			w.up("hello")
			w.arrives(w.atServer, "hello")
			w.link.Set(held)
			w.up("one")
			w.down("two")
			if both.up {
				w.nothing(w.server, w.atServer)
			} else {
				w.arrives(w.atServer, "one")
			}
			if both.down {
				w.nothing(w.client, w.atClient)
			} else {
				w.arrives(w.atClient, "two")
			}
			w.up("three")
			w.link.Set(Works)
			if both.up {
				w.arrives(w.atServer, "one")
			}
			if both.down {
				w.arrives(w.atClient, "two")
			}
			w.arrives(w.atServer, "three")
		})
	}
}

// The end of a connection does not pass a link that holds, as with a network that swallows everything.
func TestLink_HoldsTheEnd(t *testing.T) {
	w := newWire(t)
	w.link.Set(Held)
	_ = w.client.Close()
	w.nothing(w.server, w.atServer)
	w.link.Set(Works)
	_, err := w.atServer.ReadString('\n')
	check.That(t, errors.Is(err, io.EOF), "the end was read as %v", err)
}

func TestLink_Cut(t *testing.T) {
	w := newWire(t)
	w.link.Set(Cut)
	for _, at := range []*bufio.Reader{w.atClient, w.atServer} {
		_, err := at.ReadString('\n')
		check.That(t, err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "the connection was not broken: %v", err)
	}
	again, err := net.Dial("tcp", w.link.Addr())
	check.OK(t, err)
	_ = again.SetDeadline(time.Now().Add(patience))
	if _, err := again.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a new connection goes over a link that is cut: %v", err)
	}
	_ = again.Close()
}

// Bytes take their time over a slow link, each way, and stay in order.
func TestLink_Slow(t *testing.T) {
	w := newWire(t)
	for _, delay := range []time.Duration{w.link.Delay, 2 * Slowness} {
		w.link.Set(Works)
		w.link.Delay = delay
		w.link.Set(Slow)
		began := time.Now()
		w.up("one")
		w.up("two")
		w.arrives(w.atServer, "one", "two")
		w.down("three")
		w.arrives(w.atClient, "three")
		took := time.Since(began)
		check.That(t, took >= 2*max(delay, Slowness), "there and back took %v with %v each way", took, delay)
	}
}

// A question and its answer are a trip, however many lines they have. What goes on beside it belongs to it.
func TestLink_Trips(t *testing.T) {
	w := newWire(t)
	for range 2 {
		trips := w.link.Trips()
		check.Equal(t, trips(), 0, "before a line: %d")
		for n := range 3 {
			w.up("one")
			w.up("two")
			w.arrives(w.atServer, "one", "two")
			check.Equal(t, trips(), n, "before the answer: %d")
			w.down("three")
			w.down("four")
			w.arrives(w.atClient, "three", "four")
			check.Equal(t, trips(), n+1, "after the answer: %d")
		}
		other, at := w.connect() // has seen none of that
		_, err := io.WriteString(other, "one\n")
		check.OK(t, err)
		_, err = bufio.NewReader(at).ReadString('\n')
		check.OK(t, err)
		w.down("the other's line")
		w.arrives(w.atClient, "the other's line")
		check.Equal(t, trips(), 3, "an answer to the other: %d")
	}
}

// A client that connects again and again over a link that holds leaves no more than the newest
// connections behind.
func TestLink_Bounded(t *testing.T) {
	w := newWire(t)
	w.link.Set(Held)
	for range mostPipes {
		client, server := w.connect()
		defer func() { _, _ = client.Close(), server.Close() }()
	}
	_, err := w.atServer.ReadString('\n')
	check.That(t, err != nil && !errors.Is(err, os.ErrDeadlineExceeded), "the oldest connection goes on: %v", err)
}
