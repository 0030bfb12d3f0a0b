package fence

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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
	s.init(js, stream)
	s.api.Make = "make it with fence.CreateOrUpdateStream"
	s.title, s.guard, s.whole = s.String(), guard, guard
	return s, nil
}

// CreateOrUpdateStream creates the stream, or updates it if it exists, so that it contains the
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
// CreateOrUpdateStream does not make limits safe, because that would change the nature of a
// stream. With MaxMsgs or MaxBytes, Discard must be jetstream.DiscardNew. The stream
// then rejects messages when it is full, including those that raise the guard.
// MaxMsgsPerSubject and MaxAge keep the guard and may be used freely.
//
// Errors: those of [CreateOrUpdateBucket].
func CreateOrUpdateStream(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig, guard string) (*Stream, error) {
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

// StreamWriter publishes to a guarded stream as the leader of one term. The rules of
// [BucketWriter] for writes and their errors apply to it, too. If a condition of the
// caller's own does not hold, the error is a *jetstream.APIError with the code
// [jetstream.JSErrCodeStreamWrongLastSequence].
type StreamWriter struct {
	s *Stream
	l *writeQueue
}

// Writer returns the writer of a term. The candidate of that term must have been given
// the stream as one of its Guards.
func (s *Stream) Writer(t *leader.Term) *StreamWriter {
	return &StreamWriter{s: s, l: queueOf(t, s, &s.guardedStream)}
}

// GuardRevision returns the revision at which the guard stands for the term, or 0 if the term has
// no such guard. The messages of earlier terms have lower revisions. It changes when the guard is
// written again: when the candidate has to raise it again, with each write that has a condition of the
// caller's own, and at times with others.
func (w *StreamWriter) GuardRevision() uint64 { return w.l.guardRevision() }

// Publish writes a message to a subject of the stream.
func (w *StreamWriter) Publish(ctx context.Context, subject string, data []byte) (*jetstream.PubAck, error) {
	return w.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data})
}

// PublishMsg writes a message to a subject of the stream. Beside headers of the application
// it may carry Nats-Msg-Id, Nats-TTL, Nats-Rollup for its subject, Nats-Expected-Stream, and
// as a condition of its own Nats-Expected-Last-Subject-Sequence, also with
// Nats-Expected-Last-Subject-Sequence-Subject. It is rejected with [leader.ErrInvalidConfig]
// if it carries Nats-Expected-Last-Sequence, Nats-Expected-Last-Msg-Id or a Nats-Schedule
// header. It is also rejected if one of the texts Nats-Msg-Id,
// Nats-Expected-Last-Subject-Sequence and Nats-Batch- stands inside the name of another
// header, in the value of a header, or in the subject of a condition. If the server knows
// the Nats-Msg-Id of a message, the message was written before, perhaps by an earlier term,
// and is acknowledged as a duplicate. In a batch, or together with a condition of its own,
// it is rejected instead.
func (w *StreamWriter) PublishMsg(ctx context.Context, m *nats.Msg) (*jetstream.PubAck, error) {
	b := w.Batch()
	b.PublishMsg(m)
	return b.Commit(ctx)
}

// StreamBatch is several messages that are all written, or none of them; see
// [BucketBatch]. It is not for use by several goroutines.
type StreamBatch struct {
	w        *StreamWriter
	messages []message
	named    bool  // one of them has a Nats-Msg-Id
	err      error // of the first message that cannot be written
}

// Batch returns an empty batch.
func (w *StreamWriter) Batch() *StreamBatch { return &StreamBatch{w: w} }

// Publish adds a message.
func (b *StreamBatch) Publish(subject string, data []byte) {
	b.PublishMsg(&nats.Msg{Subject: subject, Data: data})
}

// PublishMsg adds a message, which is not changed. See [StreamWriter.PublishMsg]; its
// condition is about the messages that were stored before the batch.
func (b *StreamBatch) PublishMsg(m *nats.Msg) {
	if m == nil {
		b.err = cmp.Or(b.err, fmt.Errorf("%w: the message is nil", leader.ErrInvalidConfig))
		return
	}
	to := message{subject: m.Subject, header: m.Header, data: m.Data, on: m.Subject}
	if b.err == nil {
		b.err = checkHeader(m.Header)
	}
	if text := m.Header.Get(jetstream.ExpectedLastSubjSeqHeader); text != "" {
		seq, err := strconv.ParseUint(text, 10, 64)
		if err != nil && b.err == nil {
			b.err = fmt.Errorf("%w: the header %s %q is not a sequence", leader.ErrInvalidConfig, jetstream.ExpectedLastSubjSeqHeader, text)
		}
		to.conditioned, to.expected = true, seq
		if on := m.Header.Get(jetstream.ExpectedLastSubjSeqSubjHeader); on != "" {
			to.on = on
		}
	}
	b.messages = append(b.messages, to)
	b.named = b.named || m.Header.Get(jetstream.MsgIDHeader) != ""
}

// Commit writes the messages and returns the acknowledgement of the last. The sequences
// of the messages before it are one less each.
func (b *StreamBatch) Commit(ctx context.Context) (*jetstream.PubAck, error) {
	switch {
	case b.err != nil:
		return nil, b.err
	case b.w == nil || b.w.s == nil:
		return nil, fmt.Errorf("%w: the writer was not made by Stream.Writer", leader.ErrInvalidConfig)
	}
	c, err := b.w.l.commit(ctx, b.w.s, &writeSet{messages: slices.Clone(b.messages), single: b.named})
	if err != nil {
		return nil, err
	}
	ack := c.ack
	return &ack, nil
}
