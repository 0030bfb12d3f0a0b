package leader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/wire"
)

// Error codes of the JetStream API that matter here, beside those in package wire (nats-server,
// server/errors.json).
const (
	codeResourcesExceeded   = 10002
	codeClusterNotAvailable = 10008
	codeClusterNotLeader    = 10009
	codeNoResources         = 10023
	codeNoMessage           = 10037
	codeStreamInvalidConfig = 10052
	codeMessageTooLarge     = 10054
	codeMirrorFixed         = 10055
	codeStreamNotFound      = 10059
	codeSubjectOverlap      = 10065
	codeReplicasUnsupported = 10074
	codeStoreFailed         = 10077
	codeIDInProcess         = 10158
	codeMessageTTLDisabled  = 10166
	codeTooManyRequests     = 10167
	codeBatchDisabled       = 10174
	codeBatchIncomplete     = 10176
	codeBatchDuplicate      = 10201
	codeBatchesInflight     = 10210 // too many
)

// streamAPI is one stream as its server knows it: requests to the JetStream API, and the
// meaning of their failures.
type streamAPI struct {
	js     jetstream.JetStream
	nc     *nats.Conn
	stream string // its name
	api    string // prefix of the JetStream API, with the dot
	ack    []byte // prefix of an acknowledgement

	known atomic.Pointer[jetstream.StreamConfig] // as last read; nil: to be read
	left  atomic.Int32                           // calls of nats.go that were left behind; see inTime
}

func (a *streamAPI) init(js jetstream.JetStream, stream string) {
	a.js, a.nc, a.stream, a.api = js, js.Conn(), stream, apiPrefix(js.Options())
	a.ack = []byte(`{"stream":"` + stream + `","seq":`)
}

// apiPrefix returns the prefix that nats.go uses and does not export
// (jetstream/jetstream.go, NewWithAPIPrefix and NewWithDomain).
func apiPrefix(o jetstream.JetStreamOptions) string {
	switch {
	case o.APIPrefix != "":
		return strings.TrimSuffix(o.APIPrefix, ".") + "."
	case o.Domain != "":
		return "$JS." + o.Domain + ".API."
	default:
		return jetstream.DefaultAPIPrefix
	}
}

// putPrefix returns the prefix of the subjects to which a bucket's keys are written. pre
// is the prefix of the subjects under which they are stored.
func (a *streamAPI) putPrefix(pre string) string {
	if a.api != jetstream.DefaultAPIPrefix {
		return a.api + pre // as nats.go does: jetstream/kv.go, useJSPfx
	}
	return pre
}

// store publishes a message to the stream, once, and returns the sequence with
// which it was acknowledged.
func (a *streamAPI) store(ctx context.Context, m *nats.Msg) (uint64, error) {
	resp, err := a.request(ctx, m)
	return a.stored(m, resp, err)
}

// stored decodes the reply to a message that was to be stored.
func (a *streamAPI) stored(m, resp *nats.Msg, err error) (uint64, error) {
	if err != nil {
		return 0, err
	}
	if seq := a.acknowledged(resp.Data); seq != 0 {
		return seq, nil
	}
	ack, err := a.decodeAck(m.Subject, resp.Data)
	return ack.Sequence, err
}

// decodeAck decodes an acknowledgement, or returns the meaning of the rejection.
func (a *streamAPI) decodeAck(subject string, data []byte) (jetstream.PubAck, error) {
	var ack struct {
		jetstream.PubAck
		Error *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(data, &ack); {
	case err != nil:
		return jetstream.PubAck{}, fmt.Errorf("%w: the reply to a write of %s is no acknowledgement: %w", ErrUnreachable, subject, err)
	case ack.Error != nil:
		return jetstream.PubAck{}, a.refusal(ack.Error)
	case ack.Stream != a.stream || ack.Sequence == 0:
		return jetstream.PubAck{}, fmt.Errorf("%w: a write of %s was acknowledged by stream %q, not by %s", ErrIncompatibleBucket, subject, ack.Stream, a.stream)
	}
	return ack.PubAck, nil
}

// acknowledged decodes {"stream":"KV_E","seq":12}, which the server writes if nothing is
// out of the ordinary (nats-server, stream.go, pubAck). It returns 0 for any other reply.
func (a *streamAPI) acknowledged(reply []byte) (revision uint64) {
	rest, ok := bytes.CutPrefix(reply, a.ack)
	if !ok || len(rest) < 2 || len(rest) > len("9999999999999999999}") || rest[len(rest)-1] != '}' {
		return 0
	}
	for _, c := range rest[:len(rest)-1] {
		if c < '0' || c > '9' {
			return 0
		}
		revision = revision*10 + uint64(c-'0')
	}
	return revision
}

// lastOf reads the newest message of a subject from the stream's leader.
func (a *streamAPI) lastOf(ctx context.Context, subject string) (backend.Entry, error) {
	e, _, err := a.lastWithHeader(ctx, subject)
	return e, err
}

// lastWithHeader is lastOf with the header of the message.
func (a *streamAPI) lastWithHeader(ctx context.Context, subject string) (backend.Entry, nats.Header, error) {
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
	err = a.ask(ctx, "STREAM.MSG.GET."+a.stream, req, &resp)
	switch {
	case err != nil:
		return backend.Entry{}, nil, err
	case resp.Error != nil && resp.Error.ErrorCode == codeNoMessage:
		return backend.Entry{}, nil, nil
	case resp.Error != nil:
		return backend.Entry{}, nil, a.refusal(resp.Error)
	case resp.Message == nil:
		return backend.Entry{}, nil, fmt.Errorf("%w: get of %s: the reply has no message", ErrUnreachable, subject)
	}
	m := resp.Message
	var header nats.Header
	if len(m.Header) > 0 {
		// A header that does not parse is no marker; the value decides.
		header, _ = nats.DecodeHeadersMsg(m.Header)
	}
	return newEntry(m.Sequence, m.Time, header, m.Data), header, nil
}

// streamInfo reads the stream's settings and remembers them.
func (a *streamAPI) streamInfo(ctx context.Context) (*jetstream.StreamInfo, error) {
	var resp struct {
		Error *jetstream.APIError `json:"error"`
		jetstream.StreamInfo
	}
	if err := a.ask(ctx, "STREAM.INFO."+a.stream, nil, &resp); err != nil {
		return nil, err
	}
	if resp.Error != nil {
		if resp.Error.ErrorCode == codeStreamNotFound {
			a.known.Store(nil)
		}
		return nil, a.refusal(resp.Error)
	}
	if resp.Config.Name != a.stream {
		return nil, fmt.Errorf("%w: the reply to STREAM.INFO is about stream %q, not %s", ErrUnreachable, resp.Config.Name, a.stream)
	}
	a.known.Store(&resp.Config)
	return &resp.StreamInfo, nil
}

// config returns the settings that are remembered, or reads them.
func (a *streamAPI) config(ctx context.Context) (jetstream.StreamConfig, error) {
	if c := a.known.Load(); c != nil {
		return *c, nil
	}
	info, err := a.streamInfo(ctx)
	if err != nil {
		return jetstream.StreamConfig{}, err
	}
	return info.Config, nil
}

// submit sends a configuration to the server, and classifies the error if the server
// rejects it.
func (a *streamAPI) submit(ctx context.Context, verb string, send func() (jetstream.Stream, error)) error {
	_, err := inTime(ctx, a, func(maySend func() bool) (struct{}, error) {
		if err := a.connected(); err != nil || !maySend() {
			return struct{}{}, err
		}
		return struct{}{}, a.submitNow(verb, send)
	}, nil)
	return err
}

func (a *streamAPI) submitNow(verb string, send func() (jetstream.Stream, error)) error {
	before := a.nc.LastError()
	stream, err := send()
	if err == nil {
		a.known.Store(&stream.CachedInfo().Config)
		return nil
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		switch int(api.ErrorCode) {
		case codeStreamInvalidConfig, codeSubjectOverlap, codeMirrorFixed:
			return fmt.Errorf("%w: the server refuses these settings for stream %s: %w", ErrIncompatibleBucket, a.stream, api)
		case codeReplicasUnsupported:
			return fmt.Errorf("%w: Replicas is more than the server can keep: %w", ErrInvalidConfig, api)
		}
		return a.refusal(api)
	}
	return a.failure(a.api+"STREAM."+verb+"."+a.stream, before, err)
}

// ask sends a request to the JetStream API and decodes the reply.
func (a *streamAPI) ask(ctx context.Context, subject string, data []byte, into any) error {
	resp, err := a.request(ctx, &nats.Msg{Subject: a.api + subject, Data: data})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(resp.Data, into); err != nil {
		return fmt.Errorf("%w: the reply to %s is not understood: %w", ErrUnreachable, subject, err)
	}
	return nil
}

// request sends one request and waits for one reply or the end of ctx. It does not use
// the functions of package jetstream, because they wait 5s if ctx has no deadline, and
// try again by themselves. The message is the caller's again when request has returned,
// except for its header.
func (a *streamAPI) request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	return inTime(ctx, a, a.sending(ctx, m), nil)
}

// sending returns a request as a call that may wait for the connection's lock.
func (a *streamAPI) sending(ctx context.Context, m *nats.Msg) func(maySend func() bool) (*nats.Msg, error) {
	own := &nats.Msg{Subject: m.Subject, Header: m.Header, Data: bytes.Clone(m.Data)}
	return func(maySend func() bool) (*nats.Msg, error) {
		if err := a.connected(); err != nil {
			return nil, unsent{err}
		}
		before := a.nc.LastError()
		if !maySend() {
			return nil, ctx.Err()
		}
		resp, err := a.nc.RequestMsgWithContext(ctx, own)
		if err != nil {
			return nil, a.failure(own.Subject, before, err)
		}
		return resp, nil
	}
}

// maxPayload returns the size of the largest message that the connection takes.
func (a *streamAPI) maxPayload(ctx context.Context) (int64, error) {
	return inTime(ctx, a, func(func() bool) (int64, error) { return a.nc.MaxPayload(), nil }, nil)
}

// opened returns an error for a zero value.
func (a *streamAPI) opened() error {
	if a.nc == nil {
		return fmt.Errorf("%w: the bucket or stream %w", ErrInvalidConfig, errNotOpened)
	}
	return nil
}

// connected returns nil if the connection takes messages now.
func (a *streamAPI) connected() error {
	if err := a.opened(); err != nil {
		return err
	}
	switch s := a.nc.Status(); s {
	case nats.CONNECTED, nats.DRAINING_SUBS:
		return nil
	case nats.CLOSED:
		return ErrConnectionClosed
	case nats.DISCONNECTED, nats.RECONNECTING, nats.CONNECTING, nats.DRAINING_PUBS:
		fallthrough
	default:
		return fmt.Errorf("%w: the connection is %v", ErrUnreachable, strings.ToLower(s.String()))
	}
}

// failure returns the reason why a request was not answered. before is the connection's
// last error from before the request was sent.
func (a *streamAPI) failure(subject string, before, err error) error {
	switch {
	case errors.Is(err, nats.ErrConnectionClosed) && a.nc.IsClosed():
		return ErrConnectionClosed
	case errors.Is(err, nats.ErrConnectionClosed): // also what nats.go ends flushes with when it reconnects, and requests at ForceReconnect
		return fmt.Errorf("%w: the connection was lost during a request on %s", ErrUnreachable, subject)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		if denied := a.denied(subject, before); denied != nil {
			return denied
		}
		if errors.Is(err, context.Canceled) { // the candidate gave the request up; the text of err would mislead
			return fmt.Errorf("%w: no reply on %s in time", ErrUnreachable, subject)
		}
		return fmt.Errorf("%w: no reply on %s: %w", ErrUnreachable, subject, err)
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", ErrValueTooLarge, err)
	default: // no responders, disconnected, reconnect buffer full, draining
		return fmt.Errorf("%w: %s: %w", ErrUnreachable, subject, err)
	}
}

// denied returns an error if the last error of the connection is about the subject, or
// about the replies to requests. The error is in one slot that keeps its value: an error
// that was there before the request is not about it.
func (a *streamAPI) denied(subject string, before error) error {
	last := a.nc.LastError()
	if !errors.Is(last, nats.ErrPermissionViolation) {
		return nil
	}
	fresh := last != before //nolint:errorlint // the same value, not the same kind
	if text := last.Error(); fresh && strings.Contains(text, `"`+subject+`"`) || a.deniesReplies(text, fresh) {
		return fmt.Errorf("%w: %w", ErrPermission, last)
	}
	return nil
}

// deniesReplies reports whether the text is that of a denied subscription to the replies
// to requests. The application may subscribe to inboxes of its own; a denial of those
// proves nothing.
//
// nats.go makes one subscription for the replies to all requests of a connection
// (createNewRequestAndSend), under a name that it has chosen for the connection. The
// denial of that subscription holds, fresh or not, until the connection is
// re-established, which clears the slot. With nats.UseOldRequestStyle each request
// subscribes to an inbox of its own.
func (a *streamAPI) deniesReplies(text string, fresh bool) bool {
	_, subject, _ := strings.Cut(text, `Subscription to "`)
	subject, _, _ = strings.Cut(subject, `"`)
	if a.nc.Opts.UseOldRequestStyle {
		inbox := a.nc.NewInbox()
		at := strings.LastIndexByte(inbox, '.') + 1
		return fresh && len(subject) == len(inbox) && subject[:at] == inbox[:at] && !strings.Contains(subject[at:], ".")
	}
	inbox := a.nc.NewRespInbox()
	return subject == inbox[:strings.LastIndexByte(inbox, '.')+1]+"*"
}

// refusal returns the meaning of an error of the JetStream API.
func (a *streamAPI) refusal(err *jetstream.APIError) error {
	switch int(err.ErrorCode) {
	case wire.CodeWrongLastSequence:
		return wrongSequence(err.Description)
	case wire.CodeWrongLastConstant:
		return &backend.RefusedError{}
	case codeStreamNotFound:
		return fmt.Errorf("%w: %w", ErrNoBucket, err)
	case codeMessageTooLarge:
		return fmt.Errorf("%w: %w", ErrValueTooLarge, err)
	case codeClusterNotAvailable, codeClusterNotLeader:
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	default:
		return fmt.Errorf("leader: stream %s: %w", a.stream, err)
	}
}

// wrongSequence decodes "wrong last sequence: 12" (nats-server, errors.json).
func wrongSequence(description string) *backend.RefusedError {
	_, digits, ok := strings.Cut(description, ": ")
	if !ok {
		return &backend.RefusedError{}
	}
	actual, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 64)
	if err != nil {
		return &backend.RefusedError{}
	}
	return &backend.RefusedError{Actual: actual, Named: true}
}
