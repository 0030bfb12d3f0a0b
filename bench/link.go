package main

import (
	"net"
	"sync"
	"sync/atomic"
)

// link forwards TCP connections to a server, and counts the bytes in both directions. Once it
// is cut, it swallows all bytes and accepts no connection to the server, but closes none: like
// a network that drops packets.
type link struct {
	l     net.Listener
	to    string
	dead  atomic.Bool
	bytes atomic.Uint64

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
	wg     sync.WaitGroup
}

func newLink(to string) (*link, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &link{l: l, to: to}
	k.wg.Add(1)
	go k.accept()
	return k, nil
}

func (k *link) addr() string { return k.l.Addr().String() }
func (k *link) cut()         { k.dead.Store(true) }

func (k *link) accept() {
	defer k.wg.Done()
	for {
		in, err := k.l.Accept()
		if err != nil {
			return
		}
		k.keep(in)
		if k.dead.Load() {
			continue // stays open until the link is closed
		}
		out, err := net.Dial("tcp", k.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		k.keep(out)
		k.wg.Add(2)
		go k.forward(in, out)
		go k.forward(out, in)
	}
}

func (k *link) keep(c net.Conn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		_ = c.Close()
	}
	k.conns = append(k.conns, c)
}

func (k *link) forward(from, to net.Conn) {
	defer k.wg.Done()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if k.dead.Load() {
			if err != nil {
				return // the other side does not learn of it
			}
			continue
		}
		k.bytes.Add(uint64(n))
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			_ = to.Close()
			return
		}
	}
}

func (k *link) close() {
	_ = k.l.Close()
	k.mu.Lock()
	k.closed = true
	for _, c := range k.conns {
		_ = c.Close()
	}
	k.mu.Unlock()
	k.wg.Wait()
}
