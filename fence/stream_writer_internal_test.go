package fence

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// streamWriter returns a writer of messages to the bucket's stream.
func (d *desk) streamWriter() *StreamWriter {
	d.Helper()
	s := check.Got(OpenStream(d.js, "KV_B", guardSubject))(d)
	check.OK(d, check.Err(s.settings(d.Context())))
	return &StreamWriter{s: s, l: &writeQueue{s: &s.guardedStream, f: &d.term}}
}

// publish begins to publish messages in one batch.
func (d *desk) publish(w *StreamWriter, ack *jetstream.PubAck, messages ...*nats.Msg) *call {
	return d.begin(func() error {
		b := w.Batch()
		for _, m := range messages {
			b.PublishMsg(m)
		}
		a, err := b.Commit(d.Context())
		if err == nil {
			*ack = *a
		}
		return err
	})
}

// A message with an ID of the caller keeps it and is a duplicate if the server knows it. A message
// that the server knows from an earlier try is none. The caller's header stays as it is.
func TestStreamWriter_Duplicates(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		atDesk(t, replicas, func(d *desk) {
			w := d.streamWriter()
			for i, want := range []jetstream.PubAck{{Sequence: 2}, {Sequence: 2, Duplicate: true}} {
				var ack jetstream.PubAck
				m := &nats.Msg{Subject: "$KV.B.k", Header: nats.Header{jetstream.MsgIDHeader: {"mine"}}}
				d.publish(w, &ack, m).is(0)
				check.That(t, ack.Sequence == want.Sequence && ack.Duplicate == want.Duplicate, "message %d: %+v", i+1, ack)
				check.That(t, len(m.Header) == 1, "the header of the caller: %v", m.Header)
			}
		})
	}
	atDesk(t, 3, func(d *desk) {
		d.stores(notNow)
		var ack jetstream.PubAck
		d.publish(d.streamWriter(), &ack, &nats.Msg{Subject: "$KV.B.k"}).is(0)
		check.That(t, ack.Sequence == 2 && !ack.Duplicate, "%+v", ack)
	})
}

// In a batch an ID of the caller that the server knows at the first try is an error. Later it may
// be known from the try before.
func TestStreamBatch_IDs(t *testing.T) {
	batch := func() []*nats.Msg {
		return []*nats.Msg{{Subject: "$KV.B.a", Header: nats.Header{jetstream.MsgIDHeader: {"mine"}}}, {Subject: "$KV.B.b"}}
	}
	atDesk(t, 3, func(d *desk) {
		d.replies(known)
		var ack jetstream.PubAck
		d.publish(d.streamWriter(), &ack, batch()...).is(0, errStored)
	})
	atDesk(t, 3, func(d *desk) {
		d.stores(notNow)
		var ack jetstream.PubAck
		c := d.publish(d.streamWriter(), &ack, batch()...)
		d.until(5 * time.Second)
		c.is(0)
		check.That(t, ack.Sequence == 3, "%+v", ack)
	})
}

// A condition on another subject than the message's own is sent, compared and reported.
func TestStreamBatch_Condition(t *testing.T) {
	header := func() nats.Header {
		return nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"2"}, jetstream.ExpectedLastSubjSeqSubjHeader: {"$KV.B.k"}}
	}
	atDesk(t, 1, func(d *desk) {
		d.have("$KV.B.k", "old")
		w := d.streamWriter()
		var ack jetstream.PubAck
		d.publish(w, &ack, &nats.Msg{Subject: "$KV.B.a", Header: header()}).is(0)
		if got := d.headers(); ack.Sequence != 3 || !slices.Equal(got, []string{"a batch=A0 nth=1 at=2 on=k", "guard commit=1 batch=A0 nth=2 at=1"}) {
			t.Errorf("%+v: %q", ack, got)
		}
		d.have("$KV.B.k", "new")
		d.publish(w, &ack, &nats.Msg{Subject: "$KV.B.a", Header: header()}).is(0, &jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamWrongLastSequence})
	})
}

// A batch with a message that cannot be written is rejected as a whole, with the error of the
// first.
func TestStreamBatch_FirstError(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		w := d.streamWriter()
		fine := &nats.Msg{Subject: "$KV.B.a"}
		scheduled := &nats.Msg{Subject: "$KV.B.a", Header: nats.Header{"Nats-Schedule": {"x"}}}
		noSequence := &nats.Msg{Subject: "$KV.B.a", Header: nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"x"}}}
		for _, messages := range [][]*nats.Msg{{nil, fine}, {scheduled, fine}, {noSequence, fine}, {fine, nil, scheduled}} {
			var ack jetstream.PubAck
			d.publish(w, &ack, messages...).is(0, leader.ErrInvalidConfig)
		}
		b := w.Batch()
		b.PublishMsg(nil)
		b.PublishMsg(noSequence)
		b.PublishMsg(scheduled)
		_, err := b.Commit(d.Context())
		check.That(t, err != nil && err.Error() == "leader: invalid configuration: the message is nil", "%v", err)
		b = w.Batch()
		b.PublishMsg(noSequence)
		b.PublishMsg(nil)
		if _, err := b.Commit(d.Context()); err == nil || !strings.Contains(err.Error(), "is not a sequence") {
			t.Errorf("%v", err)
		}
		if _, err := (&StreamBatch{}).Commit(d.Context()); !errors.Is(err, leader.ErrInvalidConfig) {
			t.Errorf("a batch without a writer: %v", err)
		}
		came := d.came()
		check.That(t, came == "", "written: %s", came)
	})
}
