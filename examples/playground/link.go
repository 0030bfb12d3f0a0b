package main

import (
	"io"
	"net"
	"sync"
	"time"
)

// mode is what a link does with the bytes of a candidate.
type mode string

const (
	works     mode = "works"
	isCut     mode = "cut"       // connections break, and new ones are refused
	holdsAll  mode = "held"      // nothing passes, either way
	holdsUp   mode = "held-up"   // nothing passes to the server
	holdsDown mode = "held-down" // nothing passes from the server
	isSlow    mode = "slow"
)

// slowness is how long bytes take each way over a slow link.
const slowness = 100 * time.Millisecond

// mostPipes is how many connections a link carries. A client that meets a black hole connects again
// and again.
const mostPipes = 8

// link is the network between one candidate and the server: a proxy on a port of its own. Like TCP it
// keeps the bytes that do not pass, and delivers them late. Toxiproxy would drop them, after which no
// connection can go on.
type link struct {
	listener net.Listener
	server   string // its address

	mu    sync.Mutex
	mode  mode
	moved chan struct{} // closed when the mode changes
	pipes []*pipe       // the oldest first
	done  bool
}

// pipe is one connection over a link.
type pipe struct {
	client, server net.Conn
	once           sync.Once
	closed         chan struct{}
}

func (p *pipe) close() {
	p.once.Do(func() { close(p.closed) })
	_ = p.client.Close() // it is of no use any more, whatever the error
	_ = p.server.Close()
}

// newLink returns a link to the server at an address.
func newLink(server string) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &link{listener: l, server: server, mode: works, moved: make(chan struct{})}
	go k.accept()
	return k, nil
}

// url is where the candidate connects.
func (k *link) url() string { return "nats://" + k.listener.Addr().String() }

// set changes what the link does.
func (k *link) set(to mode) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mode = to
	close(k.moved)
	k.moved = make(chan struct{})
	if to == isCut {
		k.drop(len(k.pipes))
	}
}

// drop closes the oldest connections. The caller has the lock.
func (k *link) drop(n int) {
	for _, p := range k.pipes[:n] {
		p.close()
	}
	k.pipes = append([]*pipe(nil), k.pipes[n:]...)
}

// close ends the link.
func (k *link) close() {
	_ = k.listener.Close()
	k.set(isCut)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.done = true
}

func (k *link) accept() {
	for {
		client, err := k.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.DialTimeout("tcp", k.server, time.Second)
		if err != nil {
			_ = client.Close() // the server is away
			continue
		}
		k.mu.Lock()
		p := &pipe{client: client, server: server, closed: make(chan struct{})}
		if k.mode == isCut || k.done {
			p.close()
		} else {
			k.pipes = append(k.pipes, p)
			k.drop(max(0, len(k.pipes)-mostPipes))
			go k.carry(p, client, server, holdsUp)
			go k.carry(p, server, client, holdsDown)
		}
		k.mu.Unlock()
	}
}

// parcel is what one read has returned.
type parcel struct {
	bytes []byte
	at    time.Time
}

// carry carries bytes one way until the connection ends, in either direction. held is the mode that
// holds this direction alone.
func (k *link) carry(p *pipe, from io.Reader, to io.Writer, held mode) {
	parcels := make(chan parcel, 256) // beyond it the sender waits, as with TCP
	go func() {
		defer close(parcels)
		for {
			b := make([]byte, 32<<10)
			n, err := from.Read(b)
			if n > 0 {
				parcels <- parcel{b[:n], time.Now()}
			}
			if err != nil {
				return
			}
		}
	}()
	for c := range parcels {
		k.pass(p, c.at, held)
		if _, err := to.Write(c.bytes); err != nil {
			break
		}
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

// pass waits until bytes that came at an instant may go on in a direction, or the connection is
// closed.
func (k *link) pass(p *pipe, at time.Time, held mode) {
	for {
		k.mu.Lock()
		m, moved := k.mode, k.moved
		k.mu.Unlock()
		switch m {
		case holdsAll, held:
			select {
			case <-moved:
			case <-p.closed:
				return
			}
		case isSlow:
			wait := time.Until(at.Add(slowness))
			if wait <= 0 {
				return
			}
			select {
			case <-time.After(wait):
			case <-moved:
			case <-p.closed:
				return
			}
		case works, isCut, holdsUp, holdsDown:
			return
		}
	}
}
