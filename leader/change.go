package leader

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The headers of a conditioned write and of atomic publishing (nats-server,
// stream.go, JSExpectedLastSubjSeqSubj and JSBatchId; ADR-50).
const (
	guardSubjectHeader  = "Nats-Expected-Last-Subject-Sequence-Subject"
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
	single   bool // must not share a batch with others

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

// write writes a change of one message under the condition that the guard's last
// revision is that.
func (s *guardedStream) write(ctx context.Context, c *change, revision uint64) error {
	m := &c.messages[0]
	h := make(nats.Header, 2+len(m.header))
	maps.Copy(h, m.header)
	s.demand(h, revision)
	ack, err := s.exchange(ctx, &nats.Msg{Subject: s.to + m.subject, Header: h, Data: m.data})
	c.ack = ack
	return err
}

// moveGuard raises the guard to where it stands, and returns its new revision.
func (s *guardedStream) moveGuard(ctx context.Context, f *fence, revision uint64) (uint64, error) {
	ack, err := s.exchange(ctx, s.guardMessage(f.value, revision))
	return ack.Sequence, err
}

// demand conditions a message on the guard.
func (s *guardedStream) demand(h nats.Header, revision uint64) {
	h[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(revision, 10)}
	h[guardSubjectHeader] = []string{s.guard}
}

// writeBatch writes changes in one atomic batch under the condition that the
// guard's last revision is that. If it is to move, its message is the last: so
// others may carry conditions of their own, of which each message has but one.
// Its new revision is returned, or 0.
//
// The server compares at the commit, in the order of the batch, and refuses a
// condition on a subject that the batch has written before.
func (s *guardedStream) writeBatch(ctx context.Context, changes []*change, f *fence, revision uint64, move bool) (moved uint64, err error) {
	var batch []*nats.Msg
	add := func(m *nats.Msg, h nats.Header) {
		h[batchIDHeader] = []string{""}
		h[batchSequenceHeader] = []string{strconv.Itoa(len(batch) + 1)}
		m.Header = h
		batch = append(batch, m)
	}
	for _, c := range changes {
		for i := range c.messages {
			m := &c.messages[i]
			h := make(nats.Header, 4+len(m.header))
			maps.Copy(h, m.header)
			if m.conditioned {
				h[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(m.expected, 10)}
				h[guardSubjectHeader] = []string{m.on}
			} else if len(batch) == 0 && !move {
				s.demand(h, revision)
			}
			add(&nats.Msg{Subject: s.to + m.subject, Data: m.data}, h)
		}
	}
	if move {
		g := s.guardMessage(f.value, revision)
		add(g, g.Header)
	}
	id := []string{crand.Text()}
	for _, m := range batch {
		m.Header[batchIDHeader] = id
	}
	last := len(batch) - 1
	batch[last].Header[batchCommitHeader] = []string{"1"}
	if err = s.ready(); err != nil {
		return 0, err
	}
	for _, m := range batch[:last] {
		if err = s.nc.PublishMsg(m); err != nil {
			return 0, unwritten(err) // without its commit a batch is nothing
		}
	}
	ack, err := s.exchange(ctx, batch[last])
	if err != nil {
		return 0, err
	}
	seq := ack.Sequence - uint64(len(batch))
	for _, c := range changes {
		seq += uint64(len(c.messages))
		c.ack = ack
		c.ack.Sequence = seq
	}
	if move {
		moved = ack.Sequence
	}
	return moved, nil
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
		case codeClusterNotAvailable, codeClusterNotLeader, codeBatchIncomplete, codeBatchesInflight:
			return ack, fmt.Errorf("%w: %w", errNotNow, err)
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
