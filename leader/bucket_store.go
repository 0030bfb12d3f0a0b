package leader

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
)

// Known implements [backend.Store].
func (b *bucketStore) Known() (s backend.Settings, ok bool, err error) {
	conf := b.known.Load()
	if conf == nil {
		return s, false, nil
	}
	s, err = settings(*conf, b.name, 0)
	return s, true, err
}

// Settings implements [backend.Store]. The stream's leader answers.
func (b *bucketStore) Settings(ctx context.Context, reply func(backend.Settings, error)) {
	go func() {
		info, err := b.streamInfo(ctx)
		if err != nil {
			reply(backend.Settings{}, err)
			return
		}
		payload, err := b.maxPayload(ctx)
		if err != nil {
			reply(backend.Settings{}, err)
			return
		}
		s, err := settings(info.Config, b.name, payload)
		s.LastRevision = info.State.LastSeq
		reply(s, err)
	}()
}

// Get implements [backend.Store]. If the stream allows direct gets, the answer may come from a
// replica.
func (b *bucketStore) Get(ctx context.Context, key string, reply func(backend.Entry, error)) {
	go func() { reply(b.get(ctx, key)) }()
}

// Update implements [backend.Store]. It is one request, and never sent twice.
func (b *bucketStore) Update(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error)) {
	b.update(ctx, key, value, revision, nats.Header{}, reply)
}

// Mark implements [backend.Store]. It is one request, and never sent twice.
func (b *bucketStore) Mark(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error)) {
	b.update(ctx, key, value, revision, nats.Header{kvOperation: {kvDelete}}, reply)
}

// update adds the condition to the headers h and sends the write.
func (b *bucketStore) update(ctx context.Context, key string, value []byte, revision uint64, h nats.Header, reply func(uint64, error)) {
	if err := checkKey(key); err != nil {
		reply(0, err)
		return
	}
	h[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(revision, 10)}
	m := &nats.Msg{Subject: b.put + key, Header: h, Data: value}
	begin(ctx, &b.streamAPI, b.sending(ctx, m), nil, func(resp *nats.Msg, err error) { reply(b.stored(m, resp, err)) })
}

func (b *bucketStore) get(ctx context.Context, key string) (backend.Entry, error) {
	if err := checkKey(key); err != nil {
		return backend.Entry{}, err
	}
	conf, err := b.config(ctx)
	if err != nil {
		return backend.Entry{}, err
	}
	var e backend.Entry
	if conf.AllowDirect {
		e, err = b.getDirect(ctx, key)
	} else {
		e, err = b.lastOf(ctx, b.pre+key)
	}
	if err != nil {
		b.known.Store(nil) // perhaps direct gets were switched off, or the bucket is gone: read the settings before the next try
	}
	return e, err
}

func (b *bucketStore) getDirect(ctx context.Context, key string) (backend.Entry, error) {
	resp, err := b.request(ctx, &nats.Msg{Subject: b.direct + key})
	if err != nil {
		return backend.Entry{}, err
	}
	// Check for a stored message first: its publisher may have sent a Status header.
	if e, ok := storedEntry(resp, b.stream, b.pre+key); ok {
		return e, nil
	}
	status := resp.Header.Get("Status")
	if status == "404" {
		return backend.Entry{}, nil
	}
	return backend.Entry{}, fmt.Errorf("%w: direct get of %s: status %q, %s", ErrUnreachable, key, status, resp.Header.Get("Description"))
}

// storedEntry decodes a message that the server has published with metadata in its
// headers. The server appends them to the headers of the publisher (nats-server,
// stream.go, genHeader). The publisher may have sent the same headers, so the last value
// of each counts. storedEntry returns false for a message of another origin.
func storedEntry(m *nats.Msg, stream, subject string) (backend.Entry, bool) {
	if lastValue(m.Header, jetstream.StreamHeader) != stream || lastValue(m.Header, jetstream.SubjectHeader) != subject {
		return backend.Entry{}, false
	}
	seq, err := strconv.ParseUint(lastValue(m.Header, jetstream.SequenceHeader), 10, 64)
	if err != nil || seq == 0 {
		return backend.Entry{}, false
	}
	created, err := time.Parse(time.RFC3339Nano, lastValue(m.Header, jetstream.TimeStampHeaer))
	if err != nil {
		return backend.Entry{}, false
	}
	return newEntry(seq, created, m.Header, m.Data), true
}

// newEntry recognises a marker by its headers, as jetstream/kv.go does (ADR-8 and
// ADR-43). An empty value alone is no marker. Only a delete marker may carry a value, see
// [backend.Store].Mark; the value of a server's marker or of a purge does not count.
func newEntry(revision uint64, created time.Time, h nats.Header, value []byte) backend.Entry {
	e := backend.Entry{Revision: revision, Value: value, Created: created}
	op := h[kvOperation]
	switch {
	case lastValue(h, jetstream.MarkerReasonHeader) != "", len(op) > 0 && op[0] == kvPurge:
		e.Marker, e.Value = true, nil
	case len(op) > 0 && op[0] == kvDelete:
		e.Marker = true
	}
	return e
}

func lastValue(h nats.Header, key string) string {
	v := h[key]
	if len(v) == 0 {
		return ""
	}
	return v[len(v)-1]
}
