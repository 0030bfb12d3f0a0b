package fence

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/jsapi"
)

// guardedStream is a stream that has messages which only the leader may write.
type guardedStream struct {
	guardSeal
	api   jsapi.Stream
	title string // for people: "bucket orders"
	guard string // the subject of the guard, in the stream
	whole string // the subject that the stream's subjects have to cover
	to    string // prefix of the subjects that are written to, in front of the stream's own

	keeps atomic.Bool // the stream takes a message TTL, and so also "never"
	muted atomic.Bool // the connection may not ask servers for their versions
}

// guardSeal keeps the method that returns the backend out of the documentation.
type guardSeal = backend.Seal[backend.Guard]

func (s *guardedStream) init(js jetstream.JetStream, stream string) {
	s.api.Init(js, stream)
	s.guardSeal = backend.NewSeal[backend.Guard](guardBackend{s})
}

// guardBackend is the backend of a guarded bucket or stream.
type guardBackend struct{ *guardedStream }

// Get implements [backend.Guard]. The stream's leader answers.
func (s guardBackend) Get(ctx context.Context, reply func(backend.Entry, error)) {
	go func() {
		e, err := s.api.LastOf(ctx, s.guard)
		if err == nil && e.Revision == 0 {
			_, err = s.settings(ctx) // perhaps it has expired, because the stream was given a maximum age
		}
		reply(e, err)
	}()
}

// Update implements [backend.Guard]. The message never expires.
func (s guardBackend) Update(ctx context.Context, value []byte, revision uint64, reply func(uint64, error)) {
	go func() { reply(s.api.Store(ctx, s.guardMessage(value, revision))) }()
}

// guardMessage returns a write of the guard, on the condition that the guard's last
// revision is revision.
func (s *guardedStream) guardMessage(value []byte, revision uint64) *nats.Msg {
	m := &nats.Msg{
		Subject: s.to + s.guard,
		Header:  nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(revision, 10)}},
		Data:    value,
	}
	if s.keeps.Load() {
		m.Header.Set(jetstream.MsgTTLHeader, "never")
	}
	return m
}
