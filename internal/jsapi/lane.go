package jsapi

import (
	"sync"

	"github.com/nats-io/nats.go"
)

const (
	// laneSize is the greatest number of subscriptions of a lane.
	laneSize = 128
	// laneQueue is the number of messages that wait for the goroutine of a lane, and the number
	// of those that wait for the goroutine of one subscription. nats.go drops messages that the
	// first has no room for, as it does when another limit of a subscription is exceeded.
	laneQueue = 4096
)

// lanes handle the messages of the subscriptions of a connection.
type lanes struct {
	mu  sync.Mutex // not held during a call of nats.go, nor of a handler
	all []*lane
}

// lane is a goroutine that handles the messages of many subscriptions in their order.
type lane struct {
	of       *lanes
	messages chan *nats.Msg
	ended    chan struct{} // closed with the last subscription

	// The fields below are guarded by of.mu.
	size    int            // with the subscriptions that are being opened
	opening map[string]int // by subject: subscriptions that are being opened
	subs    map[*nats.Subscription]*Subscription
	early   []*nats.Msg // of subjects that are being opened
}

// join finds a lane for one more subscription to a subject.
func (ls *lanes) join(subject string) *lane {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.all {
		if l.size < laneSize {
			l.size++
			l.opening[subject]++
			return l
		}
	}
	l := &lane{
		of: ls, messages: make(chan *nats.Msg, laneQueue), ended: make(chan struct{}),
		size: 1, opening: map[string]int{subject: 1}, subs: make(map[*nats.Subscription]*Subscription),
	}
	ls.all = append(ls.all, l)
	go l.run()
	return l
}

// opened ends the opening of a subscription to a subject. s.sub is nil if it has failed.
func (l *lane) opened(s *Subscription, subject string) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.opening[subject]--; l.opening[subject] == 0 {
		delete(l.opening, subject)
	}
	var others []*nats.Msg
	for _, m := range l.early {
		if m.Sub == s.sub {
			s.enqueue(m)
		} else if l.opening[m.Sub.Subject] > 0 {
			others = append(others, m)
		}
	}
	l.early = others
	if s.sub == nil {
		l.shrink()
	} else {
		l.subs[s.sub] = s
	}
}

// remove takes a subscription out of the lane. It may be called with locks of nats.go held.
func (l *lane) remove(sub *nats.Subscription) {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.subs[sub] != nil {
		delete(l.subs, sub)
		l.shrink()
	}
}

// shrink ends the lane with its last subscription. The lanes are locked.
func (l *lane) shrink() {
	if l.size--; l.size > 0 {
		return
	}
	close(l.ended)
	for i, other := range l.of.all {
		if other == l {
			l.of.all = append(l.of.all[:i], l.of.all[i+1:]...)
			return
		}
	}
}

func (l *lane) run() {
	for {
		select {
		case m := <-l.messages:
			if s := l.find(m); s != nil {
				s.take(m)
			}
		case <-l.ended:
			return
		}
	}
}

// find returns the subscription of a message, or nil if there is none yet or any more. Only if
// one to the same subject is being opened, the message may be for that one, and is kept.
func (l *lane) find(m *nats.Msg) *Subscription {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	s := l.subs[m.Sub]
	if s == nil && l.opening[m.Sub.Subject] > 0 && len(l.early) < laneQueue {
		l.early = append(l.early, m)
	}
	return s
}

// handling is how the messages of a subscription on a lane are handled.
type handling struct {
	lane   *lane
	handle nats.MsgHandler
	apart  func() bool // whether the next message may take long to handle

	mu     sync.Mutex
	queue  []*nats.Msg   // for the subscription's own goroutine, which runs while there are any
	busy   bool          // a message is being handled
	closed bool          // no more messages are handled
	idle   chan struct{} // not nil: closed when no message is being handled
}

// take handles a message, or leaves it to a goroutine of the subscription's own. Only the
// lane calls it.
func (h *handling) take(m *nats.Msg) {
	if h.occupied() || h.apart() {
		h.enqueue(m)
		return
	}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return
	}
	h.busy = true
	h.mu.Unlock()
	h.handle(m)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rest()
}

func (h *handling) occupied() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.busy
}

// enqueue leaves a message to a goroutine of the subscription's own.
func (h *handling) enqueue(m *nats.Msg) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.queue) >= laneQueue {
		return
	}
	h.queue = append(h.queue, m)
	if !h.busy {
		h.busy = true
		go h.work()
	}
}

// work handles the messages of the queue.
func (h *handling) work() {
	for {
		h.mu.Lock()
		if len(h.queue) == 0 {
			h.queue = nil
			h.rest()
			h.mu.Unlock()
			return
		}
		m := h.queue[0]
		h.queue = h.queue[1:]
		h.mu.Unlock()
		h.handle(m)
	}
}

// rest is called after a message when no other waits. h is locked.
func (h *handling) rest() {
	h.busy = false
	if h.idle != nil {
		close(h.idle)
		h.idle = nil
	}
}

// end waits for the message that is being handled. No other is handled after it.
func (h *handling) end() {
	h.mu.Lock()
	h.closed, h.queue = true, nil
	if h.busy && h.idle == nil {
		h.idle = make(chan struct{})
	}
	idle := h.idle
	h.mu.Unlock()
	if idle != nil {
		<-idle
	}
}

// waiting reports whether messages wait for the subscription's own goroutine.
func (h *handling) waiting() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.queue) > 0
}
