package jsapi

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
)

// LastOf reads the newest message of a subject from the stream's leader. No
// message is an Entry with Revision 0.
func (a *Stream) LastOf(ctx context.Context, subject string) (backend.Entry, error) {
	e, _, err := a.LastWithHeader(ctx, subject)
	return e, err
}

// LastWithHeader is LastOf with the header of the message.
func (a *Stream) LastWithHeader(ctx context.Context, subject string) (backend.Entry, nats.Header, error) {
	req, err := json.Marshal(map[string]string{"last_by_subj": subject})
	if err != nil {
		return backend.Entry{}, nil, err
	}
	var resp struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Sequence uint64    `json:"seq"`
			Header   []byte    `json:"hdrs"`
			Data     []byte    `json:"data"`
			Time     time.Time `json:"time"`
		} `json:"message"`
	}
	err = a.ask(ctx, "STREAM.MSG.GET."+a.Name, req, &resp)
	switch {
	case err != nil:
		return backend.Entry{}, nil, err
	case resp.Error != nil && resp.Error.ErrorCode == CodeNoMessage:
		return backend.Entry{}, nil, nil
	case resp.Error != nil:
		return backend.Entry{}, nil, a.refusal(resp.Error)
	case resp.Message == nil:
		return backend.Entry{}, nil, fmt.Errorf("%w: get of %s: the reply has no message", backend.ErrUnreachable, subject)
	}
	m := resp.Message
	var header nats.Header
	if len(m.Header) > 0 {
		// A header that does not parse is no marker; the value decides.
		header, _ = nats.DecodeHeadersMsg(m.Header)
	}
	return NewEntry(m.Sequence, m.Time, header, m.Data), header, nil
}

// StoredEntry decodes a message that the server has published with metadata in its
// headers. The server appends them to the headers of the publisher (nats-server,
// stream.go, genHeader). The publisher may have sent the same headers, so the last value
// of each counts. StoredEntry returns false for a message of another origin.
func StoredEntry(m *nats.Msg, stream, subject string) (backend.Entry, bool) {
	if LastValue(m.Header, jetstream.StreamHeader) != stream || LastValue(m.Header, jetstream.SubjectHeader) != subject {
		return backend.Entry{}, false
	}
	seq, err := strconv.ParseUint(LastValue(m.Header, jetstream.SequenceHeader), 10, 64)
	if err != nil || seq == 0 {
		return backend.Entry{}, false
	}
	created, err := time.Parse(time.RFC3339Nano, LastValue(m.Header, jetstream.TimeStampHeaer))
	if err != nil {
		return backend.Entry{}, false
	}
	return newEntry(seq, created, m.Header, m.Data, delivery{added: 1}), true
}

// NewEntry makes an entry of a message with the headers that are stored with it.
//
// It recognises a marker by its headers, as jetstream/kv.go does (ADR-8 and
// ADR-43). An empty value alone is no marker. Only a delete marker may carry a value, see
// [backend.Store].Mark; the value of a server's marker or of a purge does not count.
//
// The value of a message that this library cannot have written does not count either, so the
// entry is foreign. The server publishes a reply to any subject that the requester names, also
// to a key that the requester may not write. The reply to a direct get has a value of the
// requester's choice, and either headers of the server or, with the option no_hdr, none at all.
// Every write of this library has a condition or a message TTL, and no header of the server.
func NewEntry(revision uint64, created time.Time, h nats.Header, value []byte) backend.Entry {
	return newEntry(revision, created, h, value, delivery{})
}

// SourcedEntry is NewEntry for a message that a direct get has returned from a stream that has the bucket as its
// source. The server removes the condition from such a message, so a copy without headers looks like a write.
func SourcedEntry(revision uint64, created time.Time, h nats.Header, value []byte) backend.Entry {
	return newEntry(revision, created, h, value, delivery{added: 1, sourced: true})
}

// delivery is how a message has come to the client.
type delivery struct {
	added   int  // how many values of each of its headers the server has added to those stored
	sourced bool // through another stream
}

func newEntry(revision uint64, created time.Time, h nats.Header, value []byte, how delivery) backend.Entry {
	e := backend.Entry{Revision: revision, Value: value, Created: created}
	op := h[KVOperation]
	switch {
	case how.isReply(h):
		e.Value = nil
	case LastValue(h, jetstream.MarkerReasonHeader) != "", len(op) > 0 && op[0] == KVPurge:
		e.Marker, e.Value = true, nil
	case len(op) > 0 && op[0] == KVDelete:
		e.Marker = true
	case !how.sourced && len(h[jetstream.ExpectedLastSubjSeqHeader]) == 0 && len(h[jetstream.MsgTTLHeader]) == 0:
		e.Value = nil
	}
	return e
}

// IsReply reports whether the headers that are stored with a message are those of a reply to a
// direct get.
func IsReply(h nats.Header) bool { return delivery{}.isReply(h) }

// isReply is IsReply for the headers of a message that was delivered.
func (d delivery) isReply(h nats.Header) bool {
	return len(h[jetstream.StreamHeader]) > d.added || len(h[jetstream.SubjectHeader]) > d.added ||
		len(h[jetstream.SequenceHeader]) > d.added || len(h[jetstream.TimeStampHeaer]) > d.added
}

// The header of a marker and its values (jetstream/kv.go, kvop; ADR-8).
const (
	KVOperation = "KV-Operation"
	KVDelete    = "DEL"
	KVPurge     = "PURGE"
)

// LastValue returns the last value of a header, or an empty string.
func LastValue(h nats.Header, key string) string {
	v := h[key]
	if len(v) == 0 {
		return ""
	}
	return v[len(v)-1]
}
