package fence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/leader"
)

// errApart means that nothing was written, and that one of several changes is the reason.
var errApart = errors.New("to be written one by one")

// writeSet is the write set of one call: messages that are all written, or none of them.
type writeSet struct {
	messages []message
	single   bool // has a Nats-Msg-Id of its own, and must not share a batch with others

	turn chan struct{}    // closed when a change that is sent by itself may be sent
	done chan struct{}    // closed when the outcome is known
	ack  jetstream.PubAck // of its last message
	err  error

	older int   // reads in a row that returned older revisions than it knows
	why   error // why the last try has not written it

	// Under the queue's lock.
	sent bool // in flight at this moment, or its outcome known
	left bool // its caller does not wait any more
}

// message is one message of a write set.
type message struct {
	subject string
	header  nats.Header
	data    []byte

	conditioned bool   // written only under a condition
	on          string // the subject of the condition
	expected    uint64 // the sequence of its last message; 0: there is none
	create      bool   // a delete marker is as good as none
	key         string // of a bucket, for errors
}

// detach copies the caller's data, because the caller may return and use it again while
// the change is being sent.
func (c *writeSet) detach() {
	for i := range c.messages {
		m := &c.messages[i]
		m.data, m.header = bytes.Clone(m.data), maps.Clone(m.header)
	}
}

func (c *writeSet) conditioned() bool {
	for _, m := range c.messages {
		if m.conditioned {
			return true
		}
	}
	return false
}

// commit checks a change and writes it. A nil queue belongs to a term that does not know
// the guard.
func (l *writeQueue) commit(ctx context.Context, g leader.Guard, c *writeSet) (*writeSet, error) {
	if l == nil {
		return nil, fmt.Errorf("%w: %s is not among the Guards of the term's candidate", leader.ErrInvalidConfig, g)
	}
	_ = l.t.Context().Err() // a write is a sign that the work goes on
	if err := c.check(l.s); err != nil {
		return nil, err
	}
	return c, l.submit(ctx, c)
}

// check rejects a change that the server would reject, or that must not be sent to it.
func (c *writeSet) check(s *guardedStream) error {
	if n := len(c.messages); n == 0 || n > maxBatchMessages {
		return fmt.Errorf("%w: a batch of %d messages is not one of 1 to %d", leader.ErrInvalidConfig, n, maxBatchMessages)
	}
	for i := range c.messages {
		switch m := &c.messages[i]; {
		case m.subject == s.guard:
			return fmt.Errorf("%w: %s is the guard, which only candidates write", leader.ErrInvalidConfig, s.guard)
		case m.conditioned && m.key == "" && hides(m.on) != "": // a key has no colon
			return fmt.Errorf("%w: a condition on %q: nats-server may take the subject for the header %s", leader.ErrInvalidConfig, m.on, hides(m.on))
		case m.conditioned && m.on == s.guard:
			return fmt.Errorf("%w: a condition of your own is on %s, the guard", leader.ErrInvalidConfig, s.guard)
		}
		if c.messages[i].key != "" {
			continue // a key is valid, and in its bucket's stream
		}
		if err := c.messages[i].checkSubjects(); err != nil {
			return err
		}
		if conf := s.api.Known.Load(); conf != nil && !slices.ContainsFunc(conf.Subjects, func(sub string) bool { return jsapi.Covers(sub, c.messages[i].subject) }) {
			return fmt.Errorf("%w: %s is none of the Subjects %q of stream %s", leader.ErrInvalidConfig, c.messages[i].subject, conf.Subjects, s.api.Name)
		}
	}
	if len(c.messages) > 1 {
		if subject := c.conflict(make(map[string]bool)); subject != "" {
			return fmt.Errorf("%w: %s is written earlier in the same batch", leader.ErrInvalidConfig, subject)
		}
	}
	return nil
}

// checkSubjects rejects a message for a stream if one of its subjects cannot be used.
func (m *message) checkSubjects() error {
	if err := jsapi.CheckSubject("subject", m.subject); err != nil || !m.conditioned {
		return err
	}
	return jsapi.CheckSubject("the subject of a condition", m.on)
}

// conflict returns a subject that one of the messages has a condition on, or rolls up,
// although a message before it in the batch writes it; the server rejects that. conflict
// adds the subjects that the change writes to written.
func (c *writeSet) conflict(written map[string]bool) string {
	for i := range c.messages {
		m := &c.messages[i]
		switch {
		case m.conditioned && written[m.on]:
			return m.on
		case written[m.subject] && m.header.Get(jetstream.MsgRollup) != "":
			return m.subject
		}
		written[m.subject] = true
	}
	return ""
}

// mismatch returns the error that nats.go returns for a condition that does not hold.
func (m *message) mismatch(actual uint64) error {
	switch {
	case m.create:
		return fmt.Errorf("fence: %s: %w", m.key, jetstream.ErrKeyExists)
	case m.key != "":
		return fmt.Errorf("fence: %s is at revision %d, not %d: %w", m.key, actual, m.expected, jetstream.ErrKeyRevisionMismatch)
	default:
		return fmt.Errorf("fence: %s is at sequence %d, not %d: %w", m.on, actual, m.expected, &jetstream.APIError{
			Code: 400, ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence, Description: fmt.Sprintf("wrong last sequence: %d", actual),
		})
	}
}
