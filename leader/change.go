package leader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The headers of atomic publishing (nats-server, stream.go, JSBatchId; ADR-50).
const (
	batchIDHeader       = "Nats-Batch-Id"
	batchSequenceHeader = "Nats-Batch-Sequence"
	batchCommitHeader   = "Nats-Batch-Commit"
)

// errNotNow: nothing was written, and the same may be written a moment later.
var errNotNow = errors.New("the stream takes no writes now")

// errApart: nothing was written, and the reason is one of several changes.
var errApart = errors.New("to be written one by one")

// change is what one call asks to be written: messages that are all written, or
// none of them.
type change struct {
	messages []message
	single   bool // has a Nats-Msg-Id of its own, and must not share a batch with others

	turn chan struct{}    // closed when a change that goes by itself may go
	done chan struct{}    // closed when the outcome is known
	ack  jetstream.PubAck // of its last message
	err  error

	older int // looks in a row that told of older revisions than it knows

	// Under the lane's lock.
	sent bool // on its way at this moment, or its outcome known
	left bool // its caller does not wait any more
}

// message is one message of a change.
type message struct {
	subject string
	header  nats.Header
	data    []byte

	conditioned bool   // written only if
	on          string // the last message of this subject
	expected    uint64 // has this sequence; 0: there is none
	create      bool   // a delete marker is as good as none
	key         string // of a bucket, for errors
}

// detach copies what belongs to the caller, who may leave and use it again while
// the change is being sent.
func (c *change) detach() {
	for i := range c.messages {
		m := &c.messages[i]
		m.data, m.header = bytes.Clone(m.data), maps.Clone(m.header)
	}
}

func (c *change) conditioned() bool {
	for _, m := range c.messages {
		if m.conditioned {
			return true
		}
	}
	return false
}

// commit checks a change and writes it. A lane of nil is that of a term that does
// not know the guard.
func (l *lane) commit(ctx context.Context, g Guard, guard string, c *change) (*change, error) {
	if l == nil {
		return nil, fmt.Errorf("%w: %s is not among the Guards of the term's candidate", ErrInvalidConfig, g)
	}
	if err := c.check(guard); err != nil {
		return nil, err
	}
	return c, l.submit(ctx, c)
}

// check refuses what the server would, and what it must not be asked for.
func (c *change) check(guard string) error {
	if n := len(c.messages); n == 0 || n > maxBatchMessages {
		return fmt.Errorf("%w: a batch of %d messages is not one of 1 to %d", ErrInvalidConfig, n, maxBatchMessages)
	}
	var written map[string]bool
	if len(c.messages) > 1 {
		written = make(map[string]bool, len(c.messages))
	}
	for i := range c.messages {
		m := &c.messages[i]
		switch rollup := m.header.Get(jetstream.MsgRollup) != ""; {
		case m.subject == guard:
			return fmt.Errorf("%w: %s is the guard", ErrInvalidConfig, guard)
		case !literalSubject(m.subject):
			return fmt.Errorf("%w: %q is not a subject without wildcards", ErrInvalidConfig, m.subject)
		case m.conditioned && m.on == guard:
			return fmt.Errorf("%w: a condition of your own is on %s, the guard", ErrInvalidConfig, guard)
		case m.conditioned && written[m.on], rollup && written[m.subject]:
			return fmt.Errorf("%w: %s is written earlier in the same batch", ErrInvalidConfig, m.subject)
		}
		if written != nil {
			written[m.subject] = true
		}
	}
	return nil
}

// replicated reports whether conditions on the guard refuse one another.
func (s *guardedStream) replicated() bool {
	c := s.known.Load()
	return c == nil || c.Replicas > 1
}

// batches reports whether the stream takes atomic batches.
func (s *guardedStream) batches() bool {
	c := s.known.Load()
	return c != nil && c.AllowAtomicPublish
}

// moveGuard raises the guard to where it stands, and returns its new revision.
func (s *guardedStream) moveGuard(ctx context.Context, f *fence, revision uint64) (uint64, error) {
	ack, err := s.exchange(ctx, s.guardMessage(f.value, revision))
	return ack.Sequence, err
}

// ready reports [errNotNow] or another error if there is nothing to hand a write
// to.
func (s *guardedStream) ready() error {
	err := s.connected()
	if errors.Is(err, ErrUnreachable) {
		return fmt.Errorf("%w: %w", errNotNow, err)
	}
	return err
}

// exchange sends a message and sorts what may come of it: an acknowledgement, a
// [RefusedError], errNotNow, [ErrUnknownOutcome], or another error if the server
// refuses for good. Only after ErrUnknownOutcome may something be written.
func (s *guardedStream) exchange(ctx context.Context, m *nats.Msg) (jetstream.PubAck, error) {
	if err := s.ready(); err != nil {
		return jetstream.PubAck{}, err
	}
	resp, err := s.request(ctx, m)
	switch {
	case err == nil:
	case errors.Is(err, nats.ErrNoResponders):
		return jetstream.PubAck{}, fmt.Errorf("%w: %w", errNotNow, err)
	case errors.Is(err, ErrValueTooLarge), errors.Is(err, ErrPermission) && strings.Contains(err.Error(), `Publish to "`+m.Subject+`"`):
		return jetstream.PubAck{}, unwritten(err)
	default:
		return jetstream.PubAck{}, unknown(err)
	}
	if seq := s.acknowledged(resp.Data); seq != 0 {
		return jetstream.PubAck{Stream: s.stream, Sequence: seq}, nil
	}
	ack, err := s.decodeAck(m.Subject, resp.Data)
	if err == nil {
		return ack, nil
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch int(api.ErrorCode) {
		case codeClusterNotAvailable, codeClusterNotLeader, codeBatchIncomplete, codeBatchesInflight, codeIDInProcess:
			return ack, fmt.Errorf("%w: %w", errNotNow, err)
		case codeBatchDuplicate:
			return ack, fmt.Errorf("%w: %w", errStored, err)
		case codeBatchDisabled:
			s.known.Store(nil)
			_, _ = s.streamInfo(ctx)
			return ack, fmt.Errorf("%w: %w", errNotNow, err)
		}
		return ack, err
	}
	if errors.Is(err, ErrRefused) {
		return ack, err
	}
	return ack, unknown(err)
}

// compare finds out from the stream's leader which condition of a change's own did
// not hold. It returns nil if all do, so that the change may be tried again.
func (s *guardedStream) compare(c *change) error {
	ctx, cancel := limit(context.Background())
	defer cancel()
	for i := range c.messages {
		m := &c.messages[i]
		if !m.conditioned {
			continue
		}
		e, err := s.lastOf(ctx, m.on)
		switch {
		case errors.Is(err, ErrUnreachable):
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

// mismatch is what nats.go returns for a condition that does not hold.
func (m *message) mismatch(actual uint64) error {
	switch {
	case m.create:
		return fmt.Errorf("leader: %s: %w", m.key, jetstream.ErrKeyExists)
	case m.key != "":
		return fmt.Errorf("leader: %s is at revision %d, not %d: %w", m.key, actual, m.expected, jetstream.ErrKeyRevisionMismatch)
	default:
		return fmt.Errorf("leader: %s is at sequence %d, not %d: %w", m.on, actual, m.expected, &jetstream.APIError{
			Code: 400, ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence, Description: fmt.Sprintf("wrong last sequence: %d", actual),
		})
	}
}
