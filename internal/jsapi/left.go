package jsapi

import "time"

// Left is what a stream and its connection hold. Tests require in the end that it is empty.
type Left struct {
	Subscriptions int // of the connection, that were not closed
	Slots         int // of the stream's window
	Turns         int // of callers that wait for a slot of that window
	Requests      int // of the connection, without a reply so far
	Feeds         int // of the bucket, with its listeners on the connection itself
}

// Left returns what the stream and its connection hold at the moment. A zero stream holds nothing.
func (a *Stream) Left() Left {
	if a.conn == nil {
		return Left{}
	}
	turns, _ := a.window.Waiting(time.Time{})
	return Left{Subscriptions: a.conn.subscriptions(), Slots: a.window.Used(), Turns: turns, Requests: a.conn.requests()}
}

// subscriptions returns the number of subscriptions that were not closed.
func (c *Connection) subscriptions() int {
	c.lanes.mu.Lock()
	defer c.lanes.mu.Unlock()
	n := int(c.lone.Load())
	for _, l := range c.lanes.all {
		n += l.size
	}
	return n
}

// requests returns the number of requests that wait to be sent or for their replies.
func (c *Connection) requests() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.pending) + len(c.delegated)
	for r := c.first; r != nil; r = r.next {
		if r.stage == requestWaits { // the others are pending or delegated, too
			n++
		}
	}
	return n
}
