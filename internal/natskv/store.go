package natskv

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"
)

// Known implements [backend.Store].
func (b *Bucket) Known() (s backend.Settings, ok bool, err error) {
	conf := b.api.Known.Load()
	if conf == nil {
		return s, false, nil
	}
	s, err = b.judge(*conf, 0)
	return s, true, err
}

// Memory returns what the candidates of this process remember of keys.
func (b *Bucket) Memory() *backend.Memory { return &b.memory }

// Crew returns the crew of the bucket's candidates.
func (b *Bucket) Crew() *backend.Crew { return &b.crew }

// Window returns the window for requests on the connection.
func (b *Bucket) Window() *backend.Window { return b.api.Window() }

// Left returns what the streams of the bucket hold, for tests that look for leaks.
func (b *Bucket) Left() []jsapi.Left {
	left := b.api.Left()
	b.hub.mu.Lock()
	left.Feeds = len(b.hub.sources) + len(b.hub.trusted)
	b.hub.mu.Unlock()
	noEcho.mu.Lock()
	defer noEcho.mu.Unlock()
	for l := range noEcho.listeners {
		if l.nc == b.api.Conn {
			left.Feeds++
		}
	}
	return []jsapi.Left{left, b.roster.api.Left()}
}

// Settings implements [backend.Store]. The stream's leader answers.
func (b *Bucket) Settings(ctx context.Context, reply func(backend.Settings, error)) {
	go func() { reply(b.readSettings(ctx)) }()
}

// Move implements [backend.Mover].
func (b *Bucket) Move(quiet time.Duration, moving func(from string) bool) {
	b.api.Move(quiet, moving)
}

// Signed implements [backend.Mover].
func (b *Bucket) Signed() { b.api.Signed() }

func (b *Bucket) readSettings(ctx context.Context) (backend.Settings, error) {
	info, err := b.api.Info(ctx)
	if err == nil {
		err = jsapi.Majority(info)
	}
	if err != nil {
		return backend.Settings{}, err
	}
	b.api.Signed()
	s, err := b.judge(info.Config, b.api.MaxPayload())
	s.LastRevision = info.State.LastSeq
	if !info.TimeStamp.IsZero() {
		s.Now = info.TimeStamp.UnixNano()
	}
	return s, err
}

// Get implements [backend.Store]. If the stream allows direct gets, the answer may come from a
// replica.
func (b *Bucket) Get(ctx context.Context, key string, reply func(backend.Entry, error)) {
	if conf := b.api.Known.Load(); conf != nil && conf.AllowDirect {
		b.getDirect(ctx, key, reply)
		return
	}
	go func() {
		conf, err := b.api.Config(ctx)
		switch {
		case err != nil:
			reply(backend.Entry{}, err)
		case conf.AllowDirect:
			b.getDirect(ctx, key, reply)
		default:
			e, err := b.api.LastOf(ctx, b.pre+key)
			b.judgeRead(key, false, err)
			reply(e, err)
		}
	}()
}

// Update implements [backend.Store]. It is one request, and never sent twice.
func (b *Bucket) Update(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error)) {
	b.update(ctx, key, value, revision, nats.Header{}, reply)
}

// Mark implements [backend.Store]. It is one request, and never sent twice.
func (b *Bucket) Mark(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error)) {
	b.update(ctx, key, value, revision, nats.Header{jsapi.KVOperation: {jsapi.KVDelete}}, reply)
}

// update adds the condition to the headers h and sends the write.
func (b *Bucket) update(ctx context.Context, key string, value []byte, revision uint64, h nats.Header, reply func(uint64, error)) {
	h[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(revision, 10)}
	m := &nats.Msg{Subject: b.put + key, Header: h, Data: value}
	b.api.StoreThen(ctx, m, reply)
}

// mostUnanswered is how many direct gets in a row may remain without an answer before the
// settings are read again. If direct gets were switched off, the server need not say so.
const mostUnanswered = 8

// judgeRead forgets the settings of the bucket if the outcome of a read means that they may
// have changed. A read that was not answered in time means nothing: the connection or the
// server may only be busy. Nor does that of the cordon, which a candidate may do without.
func (b *Bucket) judgeRead(key string, direct bool, err error) {
	switch {
	case key == wire.CordonKey:
		return
	case err == nil:
		b.unanswered.Store(0)
		return
	case jsapi.IsUnsent(err):
		return
	case jsapi.IsUnanswered(err):
		if !direct || b.unanswered.Add(1) < mostUnanswered {
			return
		}
	}
	b.unanswered.Store(0)
	b.api.Known.Store(nil)
}

func (b *Bucket) getDirect(ctx context.Context, key string, reply func(backend.Entry, error)) {
	b.api.RequestThen(ctx, &nats.Msg{Subject: b.direct + key}, func(resp *nats.Msg, err error) {
		var e backend.Entry
		if err == nil {
			e, err = b.directEntry(key, resp)
		}
		b.judgeRead(key, true, err)
		reply(e, err)
	})
}

// directEntry decodes the response to a direct get.
func (b *Bucket) directEntry(key string, resp *nats.Msg) (backend.Entry, error) {
	// Check for a stored message first: its publisher may have sent a Status header.
	if e, ok := jsapi.StoredEntry(resp, b.api.Name, b.pre+key); ok {
		return e, nil
	}
	status := resp.Header.Get("Status")
	if status == "404" {
		return backend.Entry{}, nil
	}
	if other := jsapi.LastValue(resp.Header, jetstream.StreamHeader); other != b.api.Name && other != "" {
		// Its copy of a record has lost the condition, without which a record does not count (NewEntry).
		return backend.Entry{}, fmt.Errorf("%w: stream %.100q has answered a direct get of %s, as a mirror of %s with MirrorDirect does: switch MirrorDirect off",
			backend.ErrUnreachable, other, key, b.api.Name)
	}
	return backend.Entry{}, fmt.Errorf("%w: direct get of %s: status %q, %s", backend.ErrUnreachable, key, status, resp.Header.Get("Description"))
}

// EntryOf returns the entry of a KV bucket as an Entry.
func EntryOf(e jetstream.KeyValueEntry) backend.Entry {
	value := e.Value()
	if e.Operation() == jetstream.KeyValuePurge {
		value = nil // candidates do not look at it either
	}
	return backend.Entry{
		Revision: e.Revision(), Value: value, Created: e.Created(),
		Marker: e.Operation() != jetstream.KeyValuePut,
	}
}

// KeyValue returns an entry, of that key, as one of a KV bucket without a name.
func KeyValue(e backend.Entry, key string) jetstream.KeyValueEntry { return keyValue{e, key} }

type keyValue struct {
	e   backend.Entry
	key string
}

func (k keyValue) Bucket() string     { return "" }
func (k keyValue) Key() string        { return k.key }
func (k keyValue) Value() []byte      { return k.e.Value }
func (k keyValue) Revision() uint64   { return k.e.Revision }
func (k keyValue) Created() time.Time { return k.e.Created }
func (k keyValue) Delta() uint64      { return 0 }

// Operation is a delete for all markers: an Entry does not tell them apart.
func (k keyValue) Operation() jetstream.KeyValueOp {
	if k.e.Marker {
		return jetstream.KeyValueDelete
	}
	return jetstream.KeyValuePut
}
