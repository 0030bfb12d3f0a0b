package leader_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"strconv"
	"sync"
	"testing/synctest"

	"github.com/nats-io/nats.go"
)

// direction is the direction of a frame on the link between a client and the server.
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

// verdict is the treatment of a frame by a gate.
type verdict int

const (
	pass verdict = iota
	drop         // swallow it while the connection stays
	hold         // keep it until the gate is opened
)

// gate is the connection of one client to the server. It can be cut, and it can swallow
// or hold back messages, frame by frame.
type gate struct {
	w *world

	mu     sync.Mutex
	closed bool
	rule   func(frame) verdict // nil: pass
	held   []heldFrame
	links  map[*link]struct{}
}

type heldFrame struct {
	to *queue
	f  frame
}

// link is one connection through a gate.
type link struct {
	near, far net.Conn
	queues    [2]*queue
}

// InProcessConn implements nats.InProcessConnProvider.
func (g *gate) InProcessConn() (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.w.current()
	if g.closed || s == nil {
		return nil, errors.New("the gate is closed")
	}
	far, err := s.InProcessConn()
	if err != nil {
		return nil, err
	}
	client, near := net.Pipe()
	l := &link{near: near, far: far, queues: [2]*queue{newQueue(), newQueue()}}
	g.links[l] = struct{}{}
	go g.receive(up, near, l)
	go g.receive(down, far, l)
	go l.queues[up].send(far)
	go l.queues[down].send(near)
	return client, nil
}

// receive reads frames from one end of a link. It never waits for the other end.
func (g *gate) receive(dir direction, from net.Conn, l *link) {
	q := l.queues[dir]
	defer q.close()
	r := bufio.NewReader(from)
	for {
		f, err := readFrame(r, dir)
		if err != nil {
			g.mu.Lock()
			delete(g.links, l)
			g.mu.Unlock()
			return
		}
		g.mu.Lock()
		v := pass
		if g.rule != nil {
			v = g.rule(f)
		}
		switch v {
		case pass:
			q.put(f)
		case hold:
			g.held = append(g.held, heldFrame{q, f})
		case drop:
		}
		g.mu.Unlock()
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
func (g *gate) cut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
	for l := range g.links {
		_ = l.near.Close()
		_ = l.far.Close()
	}
}

// filter applies a rule to every frame from now on.
func (g *gate) filter(rule func(frame) verdict) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rule = rule
}

// blackhole swallows all frames in these directions, while the connection stays.
func (g *gate) blackhole(dirs ...direction) { g.filter(all(drop, dirs)) }

// detain keeps all frames in these directions until the gate is opened.
func (g *gate) detain(dirs ...direction) { g.filter(all(hold, dirs)) }

func all(v verdict, dirs []direction) func(frame) verdict {
	return func(f frame) verdict {
		for _, d := range dirs {
			if f.dir == d {
				return v
			}
		}
		return pass
	}
}

// open delivers the held frames and lets all frames pass again.
func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed, g.rule = false, nil
	for _, h := range g.held {
		h.to.put(h.f)
	}
	g.held = nil
}

// openInTurn is open, but each held frame takes its effect before the next is delivered.
// Replies and messages of a feed reach a client on different goroutines, so that otherwise
// the scheduler decides which of them it acts on first.
func (g *gate) openInTurn() {
	for {
		g.mu.Lock()
		if len(g.held) == 0 {
			g.closed, g.rule = false, nil
			g.mu.Unlock()
			return
		}
		h := g.held[0]
		g.held = g.held[1:]
		g.mu.Unlock()
		h.to.put(h.f)
		synctest.Wait()
	}
}

// queue carries frames from one end of a link to the other, in order.
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
