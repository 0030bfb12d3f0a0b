package fence

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// Stream is a stream that only the leader may write. It is a [leader.Guard], to be given to
// [leader.Campaign], and makes writers for the term. Any number of candidates may use it at
// once. It needs no closing.
type Stream struct {
	guardedStream
}

// OpenStream returns a stream that exists, or is created later. guard is the subject of the
// stream that is its guard. OpenStream sends no request. Errors: [leader.ErrInvalidConfig].
func OpenStream(js jetstream.JetStream, stream, guard string) (*Stream, error) {
	if err := jsapi.CheckJetStream(js); err != nil {
		return nil, err
	}
	if err := jsapi.CheckSubject("guard", guard); err != nil {
		return nil, err
	}
	if !jsapi.LiteralSubject(stream) || strings.ContainsAny(stream, "./\\\f") || len(stream) > wire.MaxBucketName+len("KV_") {
		return nil, fmt.Errorf("%w: stream %.300q is not the name of a stream", leader.ErrInvalidConfig, stream)
	}
	if hidden := hides(guard); hidden != "" {
		return nil, fmt.Errorf("%w: guard %q: nats-server may take it for the header %s", leader.ErrInvalidConfig, guard, hidden)
	}
	s := &Stream{}
	s.api.Init(js, stream)
	s.api.Make = "make it with fence.CreateStream"
	s.title, s.guard, s.whole = s.String(), guard, guard
	return s, nil
}

// CreateStream creates the stream, or updates it if it exists, so that it contains the
// subject guard, keeps it and takes atomic batches, and returns it as [OpenStream] does. It
// switches AllowAtomicPublish on. If the stream has a MaxAge, it also switches AllowMsgTTL
// on, so that the guard never expires. It adds the guard's subject to Subjects unless they
// cover it. The revisions of a new stream without FirstSeq begin at the Unix time of its
// creation, in microseconds.
//
// Of an existing stream only the settings in cfg are changed. The zero value of a field
// keeps the existing setting, and Subjects and Metadata are added. Only the Storage must
// be the same, because it cannot be changed. If nothing needs to change, nothing is
// written.
//
// CreateStream does not make limits safe, because that would change the nature of a
// stream. With MaxMsgs or MaxBytes, Discard must be jetstream.DiscardNew. The stream
// then rejects messages when it is full, including those that raise the guard.
// MaxMsgsPerSubject and MaxAge keep the guard and may be used freely.
//
// Errors: those of [CreateBucket].
func CreateStream(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig, guard string) (*Stream, error) {
	s, err := OpenStream(js, cfg.Name, guard)
	if err != nil {
		return nil, err
	}
	var fresh jetstream.StreamConfig
	if len(cfg.Subjects) == 0 {
		fresh.Subjects = []string{cfg.Name} // the server's default, which the server does not add to the guard's subject
	}
	if err := s.create(ctx, fresh, cfg); err != nil {
		return nil, err
	}
	return s, nil
}

// String names the stream.
func (s *Stream) String() string { return "stream " + s.api.Name }

// Backend is for this module. It returns nil for a Stream that was not opened.
func (s *Stream) Backend() backend.Guard {
	if s == nil {
		return nil
	}
	return s.backend()
}
