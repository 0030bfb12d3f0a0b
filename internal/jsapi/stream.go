// Package jsapi sends requests to one JetStream stream: settings, the last message of a
// subject, a message to be stored, an ephemeral consumer, a subscription. Each request is
// sent once and ends with its context, also while nats.go does not send. Errors are those of
// package leader (internal/backend has their values), and name the request that failed.
//
// Its files:
//
//	stream.go        Stream: requests to one stream, and whether the connection takes them; turns for requests
//	                 that no candidate sends; what is left behind, for tests
//	connection.go    Connection: the queue of requests that all streams on a connection share, and the
//	                 subscription to the replies; the end of requests that the server has denied
//	request.go       one request, from its queue to its reply or the end of its context
//	config.go        the stream's settings: read, remembered, created, updated
//	domain.go        the JetStream domain of a stream, and whether one would be created on a leaf node
//	shared.go        one request for all callers that ask the same at the same time, with pauses while a crowd
//	                 asks after a reconnection
//	publish.go       messages to be stored, and their acknowledgements
//	entry.go         the last message of a subject; markers and headers
//	subscription.go  a subscription that can be closed while nothing of it goes on; the ping that subscriptions
//	                 share; ephemeral push consumers
//	lane.go          goroutines that the subscriptions of a connection share
//	majority.go      whether a majority of the servers is there, and the move of a connection to another server
//	outage.go        why a connection is down
//	intime.go        calls of nats.go that may wait for the connection's lock
//	errors.go        error codes and their meaning, denied permissions
//	names.go         limits and rules for buckets, keys, subjects and prefixes
package jsapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
)

// Stream is one stream as its server knows it: requests to the JetStream API, and the
// meaning of their failures.
type Stream struct {
	JS     jetstream.JetStream
	Conn   *nats.Conn  // of JS; nil in a zero value
	conn   *Connection // of Conn
	window *backend.Window
	Name   string // of the stream
	Prefix string // prefix of the JetStream API, with the dot
	ack    []byte // prefix of an acknowledgement

	Make  string // advice in the error of a stream that does not exist: how to make it
	Again string // the same for one that has existed; empty: Make

	Seen       *atomic.Bool                           // the stream was found once
	Known      atomic.Pointer[jetstream.StreamConfig] // as last read; nil: to be read
	domain     atomic.Pointer[string]                 // of the stream, as last read; see Domain
	infos      shared[*jetstream.StreamInfo]          // the requests for the settings
	infoBefore atomic.Pointer[error]                  // the last error of the connection from before the last of them
	payload    atomic.Int64                           // the size of the largest message, as last read
	left       atomic.Int32                           // calls of nats.go that were left behind; see InTime
	signed     atomic.Int64                           // when the last sign of a majority came; see Signed
}

// Init prepares a zero Stream for the stream of that name, which need not exist.
func (a *Stream) Init(js jetstream.JetStream, stream string) {
	a.JS, a.Conn, a.Name, a.Prefix = js, js.Conn(), stream, APIPrefix(js.Options())
	a.ack = []byte(`{"stream":"` + stream + `","seq":`)
	a.Seen = new(atomic.Bool)
	a.Signed() // no sign is missing yet
	a.conn = ConnectionOf(a.Conn)
	a.window = backend.NewWindow(leastSlots, mostSlots)
}

// APIPrefix returns the prefix, with the dot, that nats.go uses and does not export
// (jetstream/jetstream.go, NewWithAPIPrefix and NewWithDomain).
func APIPrefix(o jetstream.JetStreamOptions) string {
	switch {
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	default:
		return jetstream.DefaultAPIPrefix
	}
}

// PutPrefix returns the prefix of the subjects to which a bucket's keys are written. pre
// is the prefix of the subjects under which they are stored.
func (a *Stream) PutPrefix(pre string) string {
	if a.Prefix != jetstream.DefaultAPIPrefix {
		return a.Prefix + pre // as nats.go does: jetstream/kv.go, useJSPfx
	}
	return pre
}

// Request sends one request and waits for one reply or the end of ctx. It does not use
// the functions of package jetstream, because they wait 5s if ctx has no deadline, and
// try again by themselves. The message is the caller's again when Request has returned,
// except for its header.
func (a *Stream) Request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	own := &nats.Msg{Subject: m.Subject, Header: m.Header, Data: bytes.Clone(m.Data)}
	r := <-replied(func(reply func(*nats.Msg, error)) { a.RequestThen(ctx, own, reply) })
	return r.value, r.err
}

// ask sends a request to the JetStream API and decodes the reply.
func (a *Stream) ask(ctx context.Context, subject string, data []byte, into any) error {
	resp, err := a.Request(ctx, &nats.Msg{Subject: a.Prefix + subject, Data: data})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(resp.Data, into); err != nil {
		return fmt.Errorf("%w: the reply to %s is not understood: %w", backend.ErrUnreachable, subject, err)
	}
	return nil
}

// MaxPayload returns the size of the largest message that the connection took when Info last
// succeeded; 0: it has not.
func (a *Stream) MaxPayload() int64 { return a.payload.Load() }

// Reconnects returns how often the connection tries each server again before it is closed
// for good. The options are never changed after nats.go has connected.
func (a *Stream) Reconnects() (tries int, forever bool) {
	switch {
	case a.Conn == nil: // a zero value
		return 0, true
	case !a.Conn.Opts.AllowReconnect:
		return 0, false
	}
	return a.Conn.Opts.MaxReconnect, a.Conn.Opts.MaxReconnect < 0
}

// LastError returns the last error of the connection, or nil if nats.go does not return it
// soon.
func (a *Stream) LastError() error {
	if a.Conn == nil { // a zero value
		return nil
	}
	ctx, cancel := deadline.Within(context.Background(), patience)
	defer cancel()
	last, err := InTime(ctx, a, func() (error, error) { return a.Conn.LastError(), nil }, nil)
	if err != nil {
		return nil
	}
	return last
}

// Opened returns an error for a zero value.
func (a *Stream) Opened() error {
	if a.Conn == nil {
		return fmt.Errorf("%w: the bucket or stream %w", backend.ErrInvalidConfig, backend.ErrNotOpened)
	}
	return nil
}

// Connected returns nil if the connection takes messages now.
func (a *Stream) Connected() error {
	_, err := a.status()
	return err
}

// status returns the status of the connection, with an error unless it takes messages now.
func (a *Stream) status() (nats.Status, error) {
	if err := a.Opened(); err != nil {
		return nats.CLOSED, err
	}
	switch s := a.Conn.Status(); s {
	case nats.CONNECTED, nats.DRAINING_SUBS:
		a.conn.up()
		return s, nil
	case nats.CLOSED:
		return s, backend.ErrConnectionClosed
	case nats.DISCONNECTED, nats.RECONNECTING, nats.CONNECTING, nats.DRAINING_PUBS:
		fallthrough
	default:
		return s, a.conn.down(s)
	}
}

// The window of a stream on a connection. A server does all that it can with a few requests in
// flight, and with more than mostSlots each one only waits longer.
const (
	leastSlots = 32
	mostSlots  = 512
)

// Window returns the window for requests to the stream on its connection; nil for a zero value.
// Each stream has its own: one that hangs must not keep the elections of another waiting.
func (a *Stream) Window() *backend.Window { return a.window }

// urgent is after what time in line a request goes before the reads of waiting candidates.
const urgent = 5 * time.Second

// Turn waits until the connection has a slot for a request. The request has the rank of a waiting
// candidate's read, and that of its write after some time, because reads that the server does not
// answer may have all slots of theirs. done gives the slot back. If ctx ends before, the error is
// unsent and ErrUnreachable. The requests of a key are sent by candidates that have a slot already.
func (a *Stream) Turn(ctx context.Context) (done func(), err error) {
	t, w := turn{granted: make(chan struct{})}, a.window
	done = func() { w.Return(&t.place, backend.Reply{}) }
	take := func(r backend.Rank) bool {
		return w.Take(&t.place, r, &t, time.Time{}) // no instant: only candidates, which have clocks, count how long they wait
	}
	if take(backend.RankRead) {
		return done, nil
	}
	waited, cancel := deadline.Within(context.Background(), urgent)
	defer cancel()
	for late := waited.Done(); ; {
		select {
		case <-t.granted:
			return done, nil
		case <-late:
			if late = nil; take(backend.RankTake) {
				return done, nil
			}
		case <-ctx.Done():
			done() // or leaves the line
			return nil, unsent{fmt.Errorf("%w: too many requests to stream %s are in flight: %w", backend.ErrUnreachable, a.Name, ctx.Err())}
		}
	}
}

// turn waits for a slot.
type turn struct {
	place   backend.Place
	granted chan struct{}
}

// Granted implements [backend.Waiter].
func (t *turn) Granted() { close(t.granted) }

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
