package leader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Error codes of the JetStream API that mean something here (nats-server,
// server/errors.json).
const (
	codeClusterNotAvailable = 10008
	codeClusterNotLeader    = 10009
	codeNoMessage           = 10037
	codeStreamInvalidConfig = 10052
	codeMessageTooLarge     = 10054
	codeMirrorFixed         = 10055
	codeStreamNotFound      = 10059
	codeSubjectOverlap      = 10065
	codeWrongLastSequence   = 10071
	codeReplicasUnsupported = 10074
	codeWrongLastConstant   = 10164 // without the sequence
)

// Settings implements [Store]. The stream's leader answers.
func (b *Bucket) Settings(ctx context.Context, reply func(Settings, error)) {
	go func() {
		info, err := b.streamInfo(ctx)
		if err != nil {
			reply(Settings{}, err)
			return
		}
		s, err := b.settings(info.Config)
		s.LastRevision = info.State.LastSeq
		reply(s, err)
	}()
}

// Get implements [Store]. Where the stream allows direct gets the answer may
// come from a replica.
func (b *Bucket) Get(ctx context.Context, key string, reply func(Entry, error)) {
	go func() { reply(b.get(ctx, key)) }()
}

// Update implements [Store]. It is one request, and never sent twice.
func (b *Bucket) Update(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error)) {
	go func() { reply(b.update(ctx, key, value, revision)) }()
}

func (b *Bucket) update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	if err := checkElection(key); err != nil {
		return 0, err
	}
	resp, err := b.request(ctx, &nats.Msg{
		Subject: b.put + key,
		Header:  nats.Header{jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(revision, 10)}},
		Data:    value,
	})
	if err != nil {
		return 0, err
	}
	if seq := b.acknowledged(resp.Data); seq != 0 {
		return seq, nil
	}
	var ack struct {
		Stream string              `json:"stream"`
		Seq    uint64              `json:"seq"`
		Error  *jetstream.APIError `json:"error"`
	}
	switch err := json.Unmarshal(resp.Data, &ack); {
	case err != nil:
		return 0, fmt.Errorf("%w: the reply to a write of %s is no acknowledgement: %w", ErrUnreachable, key, err)
	case ack.Error != nil:
		return 0, b.refusal(ack.Error)
	case ack.Stream != b.stream || ack.Seq == 0:
		return 0, fmt.Errorf("%w: a write of %s was acknowledged by stream %q, not by %s", ErrUnfit, key, ack.Stream, b.stream)
	}
	return ack.Seq, nil
}

// acknowledged reads {"stream":"KV_E","seq":12}, which is what the server writes
// where nothing is out of the ordinary (nats-server, stream.go, pubAck), or
// returns 0.
func (b *Bucket) acknowledged(reply []byte) (revision uint64) {
	rest, ok := bytes.CutPrefix(reply, b.ack)
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

func (b *Bucket) get(ctx context.Context, key string) (Entry, error) {
	if err := checkElection(key); err != nil {
		return Entry{}, err
	}
	conf, err := b.config(ctx)
	if err != nil {
		return Entry{}, err
	}
	var e Entry
	if conf.AllowDirect {
		e, err = b.getDirect(ctx, key)
	} else {
		e, err = b.getFromLeader(ctx, key)
	}
	if err != nil {
		b.known.Store(nil) // perhaps direct gets were switched off, or the bucket is gone: ask before the next try
	}
	return e, err
}

func (b *Bucket) getDirect(ctx context.Context, key string) (Entry, error) {
	resp, err := b.request(ctx, &nats.Msg{Subject: b.direct + key})
	if err != nil {
		return Entry{}, err
	}
	// A stored message first: a publisher may have sent a Status header of its own.
	if e, ok := storedEntry(resp, b.stream, b.pre+key); ok {
		return e, nil
	}
	status := resp.Header.Get("Status")
	if status == "404" {
		return Entry{}, nil
	}
	return Entry{}, fmt.Errorf("%w: direct get of %s: status %q, %s", ErrUnreachable, key, status, resp.Header.Get("Description"))
}

func (b *Bucket) getFromLeader(ctx context.Context, key string) (Entry, error) {
	req, err := json.Marshal(map[string]string{"last_by_subj": b.pre + key})
	if err != nil {
		return Entry{}, err
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
	err = b.ask(ctx, "STREAM.MSG.GET."+b.stream, req, &resp)
	switch {
	case err != nil:
		return Entry{}, err
	case resp.Error != nil && resp.Error.ErrorCode == codeNoMessage:
		return Entry{}, nil
	case resp.Error != nil:
		return Entry{}, b.refusal(resp.Error)
	case resp.Message == nil:
		return Entry{}, fmt.Errorf("%w: get of %s: the reply has no message", ErrUnreachable, key)
	}
	m := resp.Message
	var header nats.Header
	if len(m.Header) > 0 {
		// What does not parse is no marker; the value decides.
		header, _ = nats.DecodeHeadersMsg(m.Header)
	}
	return newEntry(m.Sequence, m.Time, header, m.Data), nil
}

// streamInfo asks for the stream's settings and remembers them.
func (b *Bucket) streamInfo(ctx context.Context) (*jetstream.StreamInfo, error) {
	var resp struct {
		Error *jetstream.APIError `json:"error"`
		jetstream.StreamInfo
	}
	if err := b.ask(ctx, "STREAM.INFO."+b.stream, nil, &resp); err != nil {
		return nil, err
	}
	if resp.Error != nil {
		b.known.Store(nil)
		return nil, b.refusal(resp.Error)
	}
	if resp.Config.Name != b.stream {
		return nil, fmt.Errorf("%w: the reply to STREAM.INFO is about stream %q, not %s", ErrUnreachable, resp.Config.Name, b.stream)
	}
	b.known.Store(&resp.Config)
	return &resp.StreamInfo, nil
}

// config returns the settings that are remembered, or asks.
func (b *Bucket) config(ctx context.Context) (jetstream.StreamConfig, error) {
	if c := b.known.Load(); c != nil {
		return *c, nil
	}
	info, err := b.streamInfo(ctx)
	if err != nil {
		return jetstream.StreamConfig{}, err
	}
	return info.Config, nil
}

// ask sends a request to the JetStream API and decodes the reply.
func (b *Bucket) ask(ctx context.Context, subject string, data []byte, into any) error {
	resp, err := b.request(ctx, &nats.Msg{Subject: b.api + subject, Data: data})
	if err != nil {
		return err
	}
	if err := json.Unmarshal(resp.Data, into); err != nil {
		return fmt.Errorf("%w: the reply to %s is not understood: %w", ErrUnreachable, subject, err)
	}
	return nil
}

// request sends one request and waits for one reply or the end of ctx. The
// functions of package jetstream are not used for that: they wait 5s where ctx
// has no deadline, and try again by themselves.
func (b *Bucket) request(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	if err := b.connected(); err != nil {
		return nil, err
	}
	before := b.nc.LastError()
	resp, err := b.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return nil, b.failure(m.Subject, before, err)
	}
	return resp, nil
}

// connected returns nil if there is a connection to hand something to.
func (b *Bucket) connected() error {
	switch s := b.nc.Status(); s {
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

// failure tells why a request was not answered. before is the connection's last
// error from before it was sent.
func (b *Bucket) failure(subject string, before, err error) error {
	switch {
	case errors.Is(err, nats.ErrConnectionClosed):
		return ErrConnectionClosed
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		if denied := b.denied(subject, before); denied != nil {
			return denied
		}
		if errors.Is(err, context.Canceled) { // the candidate gave it up; that text would mislead
			return fmt.Errorf("%w: no reply on %s in time", ErrUnreachable, subject)
		}
		return fmt.Errorf("%w: no reply on %s: %w", ErrUnreachable, subject, err)
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", ErrValueTooLarge, err)
	default: // no responders, disconnected, reconnect buffer full, draining
		return fmt.Errorf("%w: %s: %w", ErrUnreachable, subject, err)
	}
}

// denied returns an error if the last error of the connection is about a
// subject of ours. It is one sticky slot: what was there before the request is
// not about it. The subscription to the inbox is the exception, as it is made
// once for all requests (nats.go, createNewRequestAndSend), so that a denial
// holds until the connection is made anew, which clears the slot.
func (b *Bucket) denied(subject string, before error) error {
	last := b.nc.LastError()
	if !errors.Is(last, nats.ErrPermissionViolation) {
		return nil
	}
	text := last.Error()
	inbox := b.nc.Opts.InboxPrefix
	if inbox == "" {
		inbox = strings.TrimSuffix(nats.InboxPrefix, ".")
	}
	fresh := last != before //nolint:errorlint // the same value, not the same kind
	ours := fresh && strings.Contains(text, `"`+subject+`"`)
	if ours || strings.Contains(text, `Subscription to "`+inbox+".") {
		return fmt.Errorf("%w: %w", ErrPermission, last)
	}
	return nil
}

// refusal is what an error of the JetStream API means.
func (b *Bucket) refusal(err *jetstream.APIError) error {
	switch int(err.ErrorCode) {
	case codeWrongLastSequence:
		return wrongSequence(err.Description)
	case codeWrongLastConstant:
		return &RefusedError{}
	case codeStreamNotFound:
		return fmt.Errorf("%w: %w", ErrNoBucket, err)
	case codeMessageTooLarge:
		return fmt.Errorf("%w: %w", ErrValueTooLarge, err)
	case codeClusterNotAvailable, codeClusterNotLeader:
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	default:
		return fmt.Errorf("leader: stream %s: %w", b.stream, err)
	}
}

// wrongSequence reads "wrong last sequence: 12" (nats-server, errors.json).
func wrongSequence(description string) *RefusedError {
	_, digits, ok := strings.Cut(description, ": ")
	if !ok {
		return &RefusedError{}
	}
	actual, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 64)
	if err != nil {
		return &RefusedError{}
	}
	return &RefusedError{Actual: actual, Named: true}
}

// storedEntry reads a message that the server has published with what it knows
// of it in headers. The server appends them to those of the publisher
// (nats-server, stream.go, genHeader), who may have sent the same: so the last
// value of each counts. It returns false for a message of another origin.
func storedEntry(m *nats.Msg, stream, subject string) (Entry, bool) {
	if lastValue(m.Header, jetstream.StreamHeader) != stream || lastValue(m.Header, jetstream.SubjectHeader) != subject {
		return Entry{}, false
	}
	seq, err := strconv.ParseUint(lastValue(m.Header, jetstream.SequenceHeader), 10, 64)
	if err != nil || seq == 0 {
		return Entry{}, false
	}
	created, err := time.Parse(time.RFC3339Nano, lastValue(m.Header, jetstream.TimeStampHeaer))
	if err != nil {
		return Entry{}, false
	}
	return newEntry(seq, created, m.Header, m.Data), true
}

// newEntry knows a marker by its headers, as jetstream/kv.go does (ADR-8 and
// ADR-43); an empty value alone is none.
func newEntry(revision uint64, created time.Time, h nats.Header, value []byte) Entry {
	e := Entry{Revision: revision, Value: value, Created: created}
	op := h["KV-Operation"]
	deleted := len(op) > 0 && (op[0] == "DEL" || op[0] == "PURGE")
	if deleted || lastValue(h, jetstream.MarkerReasonHeader) != "" {
		e.Marker, e.Value = true, nil
	}
	return e
}

func lastValue(h nats.Header, key string) string {
	v := h[key]
	if len(v) == 0 {
		return ""
	}
	return v[len(v)-1]
}
