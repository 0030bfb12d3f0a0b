package fence

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/leader"
)

// publishRequest is the content of one request: one message, or an atomic batch.
//
// A rejection by a stream with one replica is final. With several replicas, two of them
// may believe that they lead. A leader that was cut off can be reached again before it
// knows that it was deposed. Then both leaders get the request, and both answer: the old
// one rejects the message that the new one stores. So a rejection proves something only
// if it shows that a condition cannot have held since. Until then the same message is
// sent again with the same Nats-Msg-Id, under which it is written once.
type publishRequest struct {
	s        *guardedStream
	f        backend.Fence
	changes  []*writeSet
	revision uint64 // of the guard
	move     bool   // the guard's message is the last of the batch
	id       string // of all its tries
	try      int

	replicated bool
	careful    bool // a message of the last try was missing
}

// settle sends the publish request until its outcome is known, or ctx has ended. It returns the
// guard's new revision, or 0. A [backend.RefusedError] is proven.
func (p *publishRequest) settle(ctx context.Context) (moved uint64, err error) {
	if p.replicated = p.s.replicated(); !p.replicated {
		moved, err = p.send(ctx)
		if errors.Is(err, errIncomplete) {
			p.careful = true
			p.try++ // another batch: late messages of this one must not be taken for a part of it
			moved, err = p.send(ctx)
		}
		return moved, err
	}
	// Half of the time for which the stream remembers an ID is left to the last try.
	window, cancel := deadline.Within(ctx, p.s.window()/2)
	defer cancel()
	for doubt := false; ; {
		p.try++
		moved, err = p.send(ctx)
		var refused *backend.RefusedError
		switch {
		case err == nil, errors.Is(err, ErrUnknownOutcome):
			return moved, err
		case errors.As(err, &refused) && refused.Named && refused.Actual > p.highest():
			return 0, err // a server that has got that far would have known the ID
		case errors.Is(err, errStored) && p.named() && !doubt:
			return 0, err // the IDs are the caller's: something was stored before
		case errors.As(err, &refused), errors.Is(err, errStored):
			var known bool
			if moved, known, err = p.find(ctx, err); known {
				return moved, err
			}
		case errors.Is(err, errStage):
			return 0, err
		case errors.Is(err, errNotNow) && (doubt || p.answered(err)):
		case doubt:
			return 0, unknown(err)
		default:
			return 0, err
		}
		doubt, p.careful = true, p.careful || errors.Is(err, errIncomplete)
		if ended := pause(window, p.try); ended != nil {
			return 0, unknown(ended)
		}
	}
}

// answered reports whether a server has answered that it takes no writes now. The other
// one may take them.
func (p *publishRequest) answered(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api)
}

// errStage means that the batch cannot be written as it is, because of one of its
// messages, or because the stream takes no batch at all. So no earlier try can have
// written it.
var errStage = errors.New("fence: nothing was written")

// errStored means that the server knows the ID.
var errStored = errors.New("fence: a message with this Nats-Msg-Id was stored before")

// named reports whether the caller has given an ID to a message.
func (p *publishRequest) named() bool {
	for _, c := range p.changes {
		if c.single {
			return true
		}
	}
	return false
}

// highest is the greatest sequence that a condition of the publish request names.
func (p *publishRequest) highest() uint64 {
	h := p.revision
	for _, c := range p.changes {
		for _, m := range c.messages {
			if m.conditioned {
				h = max(h, m.expected)
			}
		}
	}
	return h
}

// find looks for proof that the publish request was stored, or that it cannot have been. It was
// stored if its last message is the newest of its subject. It cannot have been stored if
// a subject has a message newer than a condition allows. The message that is read may be
// old, but the answer was true once, and sequences only rise.
func (p *publishRequest) find(ctx context.Context, refused error) (moved uint64, known bool, err error) {
	guard, h, err := p.s.api.LastWithHeader(ctx, p.s.guard)
	if err == nil && p.f.Judge(guard) == backend.GuardNot {
		p.f.Suspect() // there is proof only when it is raised again, or by another term
	}
	last := guard
	if !p.move {
		c := p.changes[len(p.changes)-1]
		last, h, err = p.s.api.LastWithHeader(ctx, c.messages[len(c.messages)-1].subject)
	}
	if err == nil && p.wrote(h) && !jsapi.IsReply(h) {
		return p.stored(jetstream.PubAck{Stream: p.s.api.Name, Sequence: last.Revision}), true, nil
	}
	if errors.Is(refused, errStored) {
		return 0, false, nil
	}
	for _, c := range p.changes {
		for _, m := range c.messages {
			if !m.conditioned {
				continue
			}
			e, h, err := p.s.api.LastWithHeader(ctx, m.on)
			if err == nil && e.Revision > m.expected && !p.wrote(h) && !jsapi.IsReply(h) {
				return 0, true, refused
			}
		}
	}
	return 0, false, nil
}

// wrote reports whether a message with that header belongs to this publish request.
func (p *publishRequest) wrote(h nats.Header) bool {
	return jsapi.LastValue(h, jetstream.MsgIDHeader) == p.id || strings.HasPrefix(jsapi.LastValue(h, batchIDHeader), p.id+".")
}

// size returns the number of messages.
func (p *publishRequest) size() int {
	n := 0
	for _, c := range p.changes {
		n += len(c.messages)
	}
	if p.move {
		n++
	}
	return n
}

// send sends the publish request once.
func (p *publishRequest) send(ctx context.Context) (moved uint64, err error) {
	messages := p.pack()
	last := len(messages) - 1
	// Without its commit a batch has no effect.
	switch err = p.stage(ctx, messages[:last]); {
	case errors.Is(err, errNotNow), errors.Is(err, leader.ErrConnectionClosed):
		return 0, err
	case err != nil:
		return 0, fmt.Errorf("%w: %w", errStage, err)
	}
	ack, err := p.s.exchange(ctx, messages[last])
	if err != nil {
		var api *jetstream.APIError
		if errors.As(err, &api) && last > 0 && !p.replicated {
			switch int(api.ErrorCode) {
			case jsapi.CodeResourcesExceeded, jsapi.CodeNoResources, jsapi.CodeStoreFailed:
				return 0, unknown(err) // a server alone stores a batch message by message
			}
		}
		return 0, err
	}
	return p.stored(ack), nil
}

// stage sends the messages of a batch except the last. After a message was missing, it
// requests a reply to each, which gives the reason.
func (p *publishRequest) stage(ctx context.Context, messages []*nats.Msg) error {
	if len(messages) == 0 {
		return nil
	}
	if !p.careful {
		_, err := jsapi.InTime(ctx, &p.s.api, func() (struct{}, error) { return struct{}{}, p.publish(messages) }, nil)
		if errors.Is(err, leader.ErrUnreachable) {
			return fmt.Errorf("%w: %w", errNotNow, err)
		}
		return err
	}
	for _, m := range messages {
		if err := p.stageOne(ctx, m); err != nil {
			return err
		}
	}
	return nil
}

// publish hands messages to the connection, if there is one.
func (p *publishRequest) publish(messages []*nats.Msg) error {
	if err := p.s.api.Connected(); err != nil {
		return err
	}
	for _, m := range messages {
		switch err := p.s.api.Conn.PublishMsg(m); {
		case errors.Is(err, nats.ErrMaxPayload):
			return fmt.Errorf("%w: %w", leader.ErrValueTooLarge, err)
		case err != nil:
			return err
		}
	}
	return nil
}

// stageOne sends one message of a batch and waits for the server's reply.
func (p *publishRequest) stageOne(ctx context.Context, m *nats.Msg) error {
	limited, cancel := deadline.Within(ctx, time.Second)
	defer cancel()
	resp, err := p.s.api.Request(limited, m)
	switch {
	case errors.Is(err, leader.ErrUnreachable):
		return fmt.Errorf("%w: %w", errNotNow, err)
	case err != nil || len(resp.Data) == 0:
		return err
	}
	_, err = p.s.sort(limited, m, resp.Data)
	return err
}

// stored records in the changes where they were stored, and returns the guard's new
// revision, or 0. The messages of a batch are stored one after the other.
func (p *publishRequest) stored(ack jetstream.PubAck) (moved uint64) {
	seq := ack.Sequence - uint64(p.size())
	for _, c := range p.changes {
		seq += uint64(len(c.messages))
		c.ack = ack
		c.ack.Sequence = seq
		c.ack.Duplicate = ack.Duplicate && c.single // otherwise it is a duplicate of an earlier try
	}
	if p.move {
		return ack.Sequence
	}
	return 0
}

// pack makes the messages. A single message carries the condition on the guard. The
// server checks the conditions of a batch at the commit, in the order of the batch, and
// rejects a condition on a subject that the batch has written before. So the guard, if it
// moves, is the last message, and others may carry conditions of their own. Each message
// has only one condition.
func (p *publishRequest) pack() []*nats.Msg {
	var messages []*nats.Msg
	for _, c := range p.changes {
		for i := range c.messages {
			m := &c.messages[i]
			h := make(nats.Header, 6+len(m.header))
			maps.Copy(h, m.header)
			if m.conditioned {
				h[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(m.expected, 10)}
				h[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{m.on}
			} else if len(messages) == 0 && !p.move {
				h[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(p.revision, 10)}
				h[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{p.s.guard}
			}
			messages = append(messages, &nats.Msg{Subject: p.s.to + m.subject, Header: h, Data: m.data})
		}
	}
	if p.move {
		messages = append(messages, p.s.guardMessage(p.f.Value(), p.revision))
	}
	first := messages[0].Header
	if p.replicated && !p.named() {
		first[jetstream.MsgIDHeader] = []string{p.id}
	}
	if len(messages) == 1 {
		return messages
	}
	id := []string{p.id + "." + strconv.Itoa(p.try)}
	for i, m := range messages {
		m.Header[batchIDHeader] = id
		m.Header[batchSequenceHeader] = []string{strconv.Itoa(i + 1)}
	}
	messages[len(messages)-1].Header[batchCommitHeader] = []string{"1"}
	return messages
}
