// Package link is the network between a client and its server, or between two servers, in the
// examples, in bench and in field tests: it works, or does harm. Like TCP it keeps the bytes that do
// not pass, and delivers them late. Toxiproxy would drop them, after which no connection can go on.
package link

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// The modes of a link: what it does with the bytes of its client.
const (
	Works    = "works"
	Cut      = "cut"       // connections break, and new ones are refused
	Held     = "held"      // nothing passes, either way
	HeldUp   = "held-up"   // nothing passes to the server
	HeldDown = "held-down" // nothing passes from the server
	Slow     = "slow"
)

// Slowness is how long bytes take each way over a slow link without a Delay of its own.
const Slowness = 100 * time.Millisecond

// mostPipes is how many connections a link carries. A client that meets a black hole connects again
// and again. A client of bench has 64 connections at once.
const mostPipes = 64

// Link is a link. It works at first.
type Link struct {
	// Delay is how long bytes take each way while the link is Slow. It may be set before the link is.
	Delay time.Duration

	dialer   Dialer
	listener net.Listener // of a proxy
	bytes    atomic.Uint64

	mu    sync.Mutex
	mode  string
	moved chan struct{} // closed when the mode changes
	pipes []*pipe       // the oldest first
	asked int           // the trip of the newest bytes that the server has
	done  bool
}

// Dialer is nats.CustomDialer.
type Dialer interface {
	Dial(network, address string) (net.Conn, error)
}

// pipe is one connection over a link.
type pipe struct {
	client, server net.Conn
	answered       int // the trip of the newest bytes that the client has; by the link's lock
	once           sync.Once
	closed         chan struct{}
}

func (p *pipe) close() {
	p.once.Do(func() { close(p.closed) })
	_ = p.client.Close() // it is of no use any more, whatever the error
	_ = p.server.Close()
}

// New returns a link that is a proxy of the server at an address, on a port of its own.
func New(server string) (*Link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := Over(&net.Dialer{Timeout: time.Second})
	k.listener = l
	go k.accept(server)
	return k, nil
}

// Over returns a link that is a nats.CustomDialer itself, and dials with another.
func Over(d Dialer) *Link {
	return &Link{Delay: Slowness, dialer: d, mode: Works, moved: make(chan struct{})}
}

// Addr is where the client of a proxy connects.
func (k *Link) Addr() string { return k.listener.Addr().String() }

// Bytes returns how many bytes have passed, in both directions.
func (k *Link) Bytes() uint64 { return k.bytes.Load() }

// Trips returns a function that returns how many round trips have passed one after the other since then: what the
// server sends belongs to the trip after that of all it has received, and what a client sends to the trip of what it
// has received. A busy machine makes trips longer. It makes them more only where a client does not wait for the answer.
func (k *Link) Trips() (since func() int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	newest := func() int {
		n := k.asked
		for _, p := range k.pipes {
			n = max(n, p.answered)
		}
		return n
	}
	began := newest()
	k.asked = began // also for connections that are new
	for _, p := range k.pipes {
		p.answered = began
	}
	return func() int {
		k.mu.Lock()
		defer k.mu.Unlock()
		return newest() - began
	}
}

// Mode returns what the link does.
func (k *Link) Mode() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.mode
}

// Set changes what the link does.
func (k *Link) Set(mode string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mode = mode
	close(k.moved)
	k.moved = make(chan struct{})
	if mode == Cut {
		k.drop(len(k.pipes))
	}
}

// drop closes the oldest connections. The caller has the lock.
func (k *Link) drop(n int) {
	for _, p := range k.pipes[:n] {
		p.close()
	}
	k.pipes = append([]*pipe(nil), k.pipes[n:]...)
}

// Close ends the link.
func (k *Link) Close() {
	if k.listener != nil {
		_ = k.listener.Close()
	}
	k.Set(Cut)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.done = true
}

// Dial implements nats.CustomDialer.
func (k *Link) Dial(network, address string) (net.Conn, error) {
	server, err := k.dialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	client, far := net.Pipe()
	if !k.join(far, server) {
		return nil, errors.New("the link is cut")
	}
	return client, nil
}

func (k *Link) accept(address string) {
	for {
		client, err := k.listener.Accept()
		if err != nil {
			return
		}
		server, err := k.dialer.Dial("tcp", address)
		if err != nil {
			_ = client.Close() // the server is away
			continue
		}
		k.join(client, server)
	}
}

// join carries bytes between two ends, or closes them and returns false.
func (k *Link) join(client, server net.Conn) bool {
	p := &pipe{client: client, server: server, closed: make(chan struct{})}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.mode == Cut || k.done {
		p.close()
		return false
	}
	k.pipes = append(k.pipes, p)
	k.drop(max(0, len(k.pipes)-mostPipes))
	go k.carry(p, client, server, HeldUp)
	go k.carry(p, server, client, HeldDown)
	return true
}

// parcel is what one read has returned.
type parcel struct {
	bytes []byte
	at    time.Time
	trip  int
}

// carry carries bytes one way until the connection ends, in either direction. held is the mode that
// holds this direction alone.
func (k *Link) carry(p *pipe, from io.Reader, to io.Writer, held string) {
	parcels := make(chan parcel, 256) // beyond it the sender waits, as with TCP
	go func() {
		defer close(parcels)
		for {
			b := make([]byte, 32<<10)
			n, err := from.Read(b)
			if n > 0 {
				parcels <- parcel{b[:n], time.Now(), k.tripOf(p, held)}
			}
			if err != nil {
				return
			}
		}
	}()
	for c := range parcels {
		k.pass(p, c.at, held)
		k.arrive(p, c.trip, held)
		if _, err := to.Write(c.bytes); err != nil {
			break
		}
		k.bytes.Add(uint64(len(c.bytes)))
	}
	k.pass(p, time.Now(), held) // the end of a connection does not pass either
	k.mu.Lock()
	p.close()
	for i, other := range k.pipes {
		if other == p {
			k.pipes = append(k.pipes[:i:i], k.pipes[i+1:]...)
			break
		}
	}
	k.mu.Unlock()
	for range parcels { // the reader ends with its connection
	}
}

// tripOf returns the trip of bytes that a client (held-up) or the server sends now.
func (k *Link) tripOf(p *pipe, held string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if held == HeldUp {
		return p.answered
	}
	return k.asked + 1
}

// arrive records bytes before their receiver can react to them.
func (k *Link) arrive(p *pipe, trip int, held string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if held == HeldUp {
		k.asked = max(k.asked, trip)
	} else {
		p.answered = max(p.answered, trip)
	}
}

// pass waits until bytes that came at an instant may go on in a direction, or the connection is
// closed.
func (k *Link) pass(p *pipe, at time.Time, held string) {
	for {
		k.mu.Lock()
		mode, moved := k.mode, k.moved
		k.mu.Unlock()
		switch mode {
		case Held, held:
			select {
			case <-moved:
			case <-p.closed:
				return
			}
		case Slow:
			wait := time.Until(at.Add(k.Delay))
			if wait <= 0 {
				return
			}
			select {
			case <-time.After(wait):
			case <-moved:
			case <-p.closed:
				return
			}
		default:
			return
		}
	}
}
