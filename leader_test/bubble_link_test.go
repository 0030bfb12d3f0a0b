package leader_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing/synctest"

	"github.com/nats-io/nats.go"
)

// direction is the direction of a frame on the link of a client to the server.
type direction int

const (
	up   direction = iota // to the server
	down                  // to the client
)

// frame is one message of the NATS protocol.
type frame struct {
	dir     direction
	subject string // of a PUB, HPUB, MSG or HMSG
	reply   string // where an answer is expected
	sid     string // of a MSG or HMSG: the number of the subscription
	head    int    // length of the headers
	body    []byte // headers, payload and a line end
	raw     []byte
}

// treatment is the treatment of a frame by a link.
type treatment int

const (
	pass treatment = iota
	drop           // swallow it while the connection stays
	hold           // keep it until the link is opened
)

// link is the connection of one client to the server. It can be cut, and it can swallow
// or hold back messages, frame by frame.
type link struct {
	w *world

	mu     sync.Mutex
	closed bool
	rule   func(frame) treatment // nil: pass
	held   []heldFrame
	conns  map[*linkConn]struct{}
}

type heldFrame struct {
	to *queue
	f  frame
}

// linkConn is one connection over a link.
type linkConn struct {
	near, far net.Conn
	queues    [2]*queue
}

// InProcessConn implements nats.InProcessConnProvider.
func (l *link) InProcessConn() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.w.current()
	if l.closed || s == nil {
		return nil, errors.New("the link is closed")
	}
	far, err := s.InProcessConn()
	if err != nil {
		return nil, err
	}
	client, near := net.Pipe()
	c := &linkConn{near: near, far: far, queues: [2]*queue{newQueue(), newQueue()}}
	l.conns[c] = struct{}{}
	go l.receive(up, near, c)
	go l.receive(down, far, c)
	go c.queues[up].send(far)
	go c.queues[down].send(near)
	return client, nil
}

// receive reads frames from one end of a connection. It never waits for the other end.
func (l *link) receive(dir direction, from net.Conn, c *linkConn) {
	q := c.queues[dir]
	defer q.close()
	r := bufio.NewReader(from)
	for {
		f, err := readFrame(r, dir)
		if err != nil {
			l.mu.Lock()
			delete(l.conns, c)
			l.mu.Unlock()
			return
		}
		l.mu.Lock()
		v := pass
		if l.rule != nil {
			v = l.rule(f)
		}
		switch v {
		case pass:
			q.put(f)
		case hold:
			l.held = append(l.held, heldFrame{q, f})
		case drop:
		}
		l.mu.Unlock()
	}
}

func readFrame(r *bufio.Reader, dir direction) (frame, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return frame{}, err
	}
	f := frame{dir: dir, raw: line}
	fields := bytes.Fields(line)
	if len(fields) < 3 {
		return f, nil
	}
	switch string(bytes.ToUpper(fields[0])) {
	case "PUB", "HPUB", "MSG", "HMSG":
		size, err := strconv.Atoi(string(fields[len(fields)-1]))
		if err != nil {
			return frame{}, err
		}
		f.address(fields)
		f.body = make([]byte, size+2)
		if _, err := io.ReadFull(r, f.body); err != nil {
			return frame{}, err
		}
		f.raw = append(bytes.Clone(line), f.body...)
	}
	return f, nil
}

// address parses the fields of a PUB subject [reply] size, and of similar operations.
func (f *frame) address(fields [][]byte) {
	f.subject = string(fields[1])
	rest := fields[2 : len(fields)-1]
	if f.dir == down {
		f.sid, rest = string(rest[0]), rest[1:]
	}
	if op := fields[0][0]; op == 'H' || op == 'h' {
		f.head, _ = strconv.Atoi(string(rest[len(rest)-1]))
		rest = rest[:len(rest)-1]
	}
	if len(rest) > 0 {
		f.reply = string(rest[0])
	}
}

// header returns the headers of a message.
func (f frame) header() nats.Header {
	if f.head == 0 {
		return nil
	}
	h, err := nats.DecodeHeadersMsg(f.body[:f.head])
	if err != nil {
		panic(err)
	}
	return h
}

// data returns the payload of a message.
func (f frame) data() []byte { return f.body[f.head : len(f.body)-2] }

// cut closes the connections of the client, without notice, and prevents others.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for c := range l.conns {
		_ = c.near.Close()
		_ = c.far.Close()
	}
}

// filter applies a rule to every frame from now on.
func (l *link) filter(rule func(frame) treatment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rule = rule
}

// treat gives these frames that treatment from now on.
func (l *link) treat(as treatment, which func(frame) bool) { l.filter(treat(as, which)) }

func treat(as treatment, which func(frame) bool) func(frame) treatment {
	return func(f frame) treatment {
		if which(f) {
			return as
		}
		return pass
	}
}

// blackhole swallows all frames in these directions, while the connection stays.
func (l *link) blackhole(dirs ...direction) { l.filter(all(drop, dirs)) }

// detain keeps all frames in these directions until the link is opened.
func (l *link) detain(dirs ...direction) { l.filter(all(hold, dirs)) }

func all(as treatment, dirs []direction) func(frame) treatment {
	return treat(as, func(f frame) bool { return slices.Contains(dirs, f.dir) })
}

// open delivers the held frames and lets all frames pass again.
func (l *link) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed, l.rule = false, nil
	l.deliver(len(l.held))
}

// release delivers the oldest held frames, at most n. The rule stays.
func (l *link) release(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deliver(min(n, len(l.held)))
}

// deliver delivers the oldest n held frames. The link is locked.
func (l *link) deliver(n int) {
	for _, h := range l.held[:n] {
		h.to.put(h.f)
	}
	l.held = l.held[n:]
}

// openInTurn is open, but each held frame takes its effect before the next is delivered.
// Replies and messages of a feed reach a client on different goroutines, so that otherwise
// the scheduler decides which of them it acts on first.
func (l *link) openInTurn() {
	for {
		l.mu.Lock()
		if len(l.held) == 0 {
			l.closed, l.rule = false, nil
			l.mu.Unlock()
			return
		}
		h := l.held[0]
		l.held = l.held[1:]
		l.mu.Unlock()
		h.to.put(h.f)
		synctest.Wait()
	}
}

// queue carries frames from one end of a connection to the other, in order.
type queue struct {
	mu     sync.Mutex
	some   *sync.Cond
	frames []frame
	ended  bool
}

func newQueue() *queue {
	q := &queue{}
	q.some = sync.NewCond(&q.mu)
	return q
}

func (q *queue) put(f frame) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.frames = append(q.frames, f)
	q.some.Signal()
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.some.Signal()
}

// send writes the queued frames, and closes the connection after the last.
func (q *queue) send(to net.Conn) {
	defer func() { _ = to.Close() }()
	for {
		q.mu.Lock()
		for len(q.frames) == 0 && !q.ended {
			q.some.Wait()
		}
		frames := q.frames
		q.frames = nil
		q.mu.Unlock()
		if len(frames) == 0 {
			return
		}
		for _, f := range frames {
			if _, err := to.Write(f.raw); err != nil {
				return
			}
		}
	}
}
