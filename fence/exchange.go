package fence

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/leader"
)

// The headers of atomic publishing (nats-server, stream.go, JSBatchId; ADR-50).
const (
	batchIDHeader       = "Nats-Batch-Id"
	batchSequenceHeader = "Nats-Batch-Sequence"
	batchCommitHeader   = "Nats-Batch-Commit"
)

// errNotNow means that nothing was written, and that the same write may succeed a moment
// later.
var errNotNow = errors.New("the stream takes no writes now")

// errIncomplete means that the server has thrown a message of the batch away. It did so
// without a reply, because none was requested.
var errIncomplete = fmt.Errorf("%w: a message of the batch is missing", errNotNow)

// replicated reports whether concurrent conditions on the guard reject one another.
func (s *guardedStream) replicated() bool {
	c := s.api.Known.Load()
	return c == nil || c.Replicas > 1
}

// batches reports whether the stream takes atomic batches.
func (s *guardedStream) batches() bool {
	c := s.api.Known.Load()
	return c != nil && c.AllowAtomicPublish
}

// window returns how long the stream remembers a Nats-Msg-Id.
func (s *guardedStream) window() time.Duration {
	if c := s.api.Known.Load(); c != nil && c.Duplicates > 0 {
		return c.Duplicates
	}
	return jsapi.DuplicateWindow
}

// moveGuard writes the guard again with the token that it has, and returns its new
// revision.
func (s *guardedStream) moveGuard(ctx context.Context, f backend.Fence, revision uint64) (uint64, error) {
	ack, err := s.exchange(ctx, s.guardMessage(f.Value(), revision))
	return ack.Sequence, err
}

// exchange sends a message and classifies the outcome: an acknowledgement, a
// [backend.RefusedError], errNotNow, [ErrUnknownOutcome], or another error if the server rejects
// the message for good. Of the errors, only ErrUnknownOutcome leaves open whether the
// message is written.
func (s *guardedStream) exchange(ctx context.Context, m *nats.Msg) (jetstream.PubAck, error) {
	resp, err := s.api.Request(ctx, m)
	switch {
	case err == nil:
	case jsapi.IsUnsent(err) && !errors.Is(err, leader.ErrUnreachable):
		return jetstream.PubAck{}, err
	case jsapi.IsUnsent(err), errors.Is(err, nats.ErrNoResponders):
		return jetstream.PubAck{}, fmt.Errorf("%w: %w", errNotNow, err)
	case errors.Is(err, leader.ErrValueTooLarge), errors.Is(err, nats.ErrBadHeaderMsg), errors.Is(err, leader.ErrPermission) && strings.Contains(err.Error(), `Publish to "`+m.Subject+`"`):
		return jetstream.PubAck{}, unwritten(err)
	default:
		return jetstream.PubAck{}, unknown(err)
	}
	return s.sort(ctx, m, resp.Data)
}

// sort classifies the server's reply.
func (s *guardedStream) sort(ctx context.Context, m *nats.Msg, data []byte) (jetstream.PubAck, error) {
	ack, err := s.api.DecodeAck(m.Subject, data)
	if err == nil {
		return ack, nil
	}
	var api *jetstream.APIError
	if errors.As(err, &api) {
		switch int(api.ErrorCode) {
		case jsapi.CodeBatchIncomplete:
			return ack, fmt.Errorf("%w: %w", errIncomplete, err)
		case jsapi.CodeClusterNotAvailable, jsapi.CodeClusterNotLeader, jsapi.CodeTooManyRequests, jsapi.CodeBatchesInflight, jsapi.CodeIDInProcess:
			return ack, fmt.Errorf("%w: %w", errNotNow, err)
		case jsapi.CodeBatchDuplicate:
			return ack, fmt.Errorf("%w: %w", errStored, err)
		case jsapi.CodeBatchDisabled:
			s.api.Known.Store(nil)
			_, _ = s.api.Info(ctx)
			return ack, fmt.Errorf("%w: %w: %w", errStage, leader.ErrIncompatibleBucket, err) // single messages may be accepted
		}
		return ack, err
	}
	if errors.Is(err, backend.ErrRefused) {
		return ack, err
	}
	return ack, unknown(err)
}

// stalest is the number of reads in a row that may return an older revision than the
// condition of a change names, before the condition counts as one that does not hold.
const stalest = 3

// compare finds out from the stream's leader which condition of a change's own did not
// hold. It returns nil if all of them hold, so that the change may be tried again.
func (s *guardedStream) compare(c *writeSet) error {
	ctx, cancel := deadline.Limit(context.Background())
	defer cancel()
	for i := range c.messages {
		m := &c.messages[i]
		if !m.conditioned {
			continue
		}
		e, err := s.api.LastOf(ctx, m.on)
		switch {
		case errors.Is(err, leader.ErrUnreachable):
			return fmt.Errorf("%w: %w", errNotNow, err)
		case err != nil:
			return unwritten(err)
		case e.Revision == m.expected:
		case m.create && e.Marker:
			m.expected = e.Revision
		case e.Revision < m.expected && c.older < stalest:
			c.older++ // perhaps the answer is late
		default:
			return m.mismatch(e.Revision)
		}
	}
	return nil
}

// ErrUnknownOutcome is returned for a guarded write that was sent and not answered. It may
// have been written, or may yet be written as long as the guard of its term stands, but not
// after a later write of the same term has been acknowledged.
var ErrUnknownOutcome = errors.New("fence: the outcome of the write is not known")
