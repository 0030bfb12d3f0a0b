package jsapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
)

// A write is stored if the stream itself acknowledges it. That is a sign of a majority, and no
// other reply is.
func TestStore_Replies(t *testing.T) {
	withWire(t, func(t *wired) {
		t.serve("silence", func(*nats.Msg) {})
		for name, tt := range map[string]struct {
			answer string
			seq    uint64
			want   error
		}{
			"plain":          {`{"stream":"S","seq":7}`, 7, nil},
			"a duplicate":    {`{"stream":"S","seq":8,"duplicate":true}`, 8, nil},
			"another stream": {`{"stream":"T","seq":7}`, 0, backend.ErrIncompatibleBucket},
			"no sequence":    {`{"stream":"S","seq":0}`, 0, backend.ErrIncompatibleBucket},
			"a refusal":      {refused(wire.CodeWrongLastConstant), 0, backend.ErrRefused},
			"too large":      {refused(CodeMessageTooLarge), 0, backend.ErrValueTooLarge},
			"no leader":      {refused(CodeClusterNotLeader), 0, backend.ErrUnreachable},
			"no cluster":     {refused(CodeClusterNotAvailable), 0, backend.ErrUnreachable},
			"offline":        {refused(CodeStreamOffline), 0, backend.ErrUnreachable},
			"no stream":      {refused(CodeStreamNotFound), 0, backend.ErrNoBucket},
			"no JetStream":   {refused(CodeNotEnabledForAccount), 0, backend.ErrUnreachable},
			"no JSON":        {`seq`, 0, backend.ErrUnreachable},
		} {
			time.Sleep(time.Second)
			seq, err := t.a.Store(t.Context(), &nats.Msg{Subject: "echo", Data: []byte(tt.answer)})
			if seq != tt.seq || !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) || t.a.isQuiet(time.Second) != (err != nil) {
				t.Errorf("%s: %d, %v, a sign: %v", name, seq, err, !t.a.isQuiet(time.Second))
			}
			replies := 0
			t.a.StoreThen(t.Context(), &nats.Msg{Subject: "echo", Data: []byte(tt.answer)}, func(again uint64, later error) {
				replies++
				check.That(t, again == seq && fmt.Sprint(later) == fmt.Sprint(err), "%s, later: %d, %v", name, again, later)
			})
			synctest.Wait()
			check.Equal(t, replies, 1, "%d replies")
		}
		_, err := t.a.Store(t.within(time.Second), &nats.Msg{Subject: "silence"})
		check.That(t, IsUnanswered(err), "no reply: %v", err)
	})
}

// The last message of a subject is an entry, with its header. No message is an empty entry. Any
// other answer is an error.
func TestLastOf_Replies(t *testing.T) {
	withWire(t, func(t *wired) {
		const get = "STREAM.MSG.GET.S"
		header := "TkFUUy8xLjANCktWLU9wZXJhdGlvbjogREVMDQoNCg==" // KV-Operation: DEL
		s := t.script(map[string][]string{get: {
			`{"message":{"seq":7,"data":"dg==","hdrs":"` + header + `","time":"2026-11-01T00:00:00Z"}}`,
			`{"message":{"seq":8,"data":"dg==","hdrs":"eA==","time":"2026-11-01T00:00:00Z"}}`,
			refused(CodeNoMessage), refused(CodeStreamNotFound), `{}`, `x`,
		}})
		at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		for i, tt := range []struct {
			revision uint64
			value    string
			marker   bool
			want     error
		}{
			{7, "v", true, nil}, {8, "", false, nil}, {}, {want: backend.ErrNoBucket}, {want: backend.ErrUnreachable}, {want: backend.ErrUnreachable},
		} {
			e, h, err := t.a.LastWithHeader(t.Context(), "x")
			if e.Revision != tt.revision || string(e.Value) != tt.value || e.Marker != tt.marker || (err == nil) != (tt.want == nil) || !errors.Is(err, tt.want) {
				t.Errorf("answer %d: %+v, %v", i, e, err)
			}
			check.That(t, (e.Revision == 0 || e.Created.Equal(at)) && (h.Get(KVOperation) == KVDelete) == tt.marker,
				"answer %d: created at %v, with %v", i, e.Created, h)
		}
		check.That(t, s.bodies[0] == `{"last_by_subj":"x"}`, "asked %s", s.bodies[0])
		check.Says(t, check.Err(t.a.LastOf(t.Context(), "x")), backend.ErrUnreachable, "the reply to STREAM.MSG.GET.S is not understood")
		err := check.Err(t.a.LastOf(check.Ended(), "x"))
		check.That(t, errors.Is(err, backend.ErrUnreachable) && IsUnsent(err), "it was not sent: %v", err)
	})
}

// A delivered message is an entry if the headers of the server are complete, and the last value
// of each counts.
func TestStoredEntry_Origin(t *testing.T) {
	of := func(stream, subject, seq, at string) nats.Header {
		return nats.Header{
			jetstream.StreamHeader: {"forged", stream}, jetstream.SubjectHeader: {"forged", subject},
			jetstream.SequenceHeader: {"9", seq}, jetstream.TimeStampHeaer: {"forged", at},
		}
	}
	const at = "2026-11-01T00:00:00Z"
	for name, tt := range map[string]struct {
		h    nats.Header
		want bool
	}{
		"complete":        {of("S", "x", "12", at), true},
		"another stream":  {of("T", "x", "7", at), false},
		"another subject": {of("S", "y", "7", at), false},
		"no sequence":     {of("S", "x", "", at), false},
		"a long sequence": {of("S", "x", "99999999999999999999", at), false},
		"revision 0":      {of("S", "x", "0", at), false},
		"no time":         {of("S", "x", "7", ""), false},
		"no header":       {nil, false},
	} {
		e, ok := StoredEntry(&nats.Msg{Header: tt.h}, "S", "x")
		check.That(t, ok == tt.want && (!ok || e.Revision == 12) && (ok || e.Revision == 0), "%s: %+v, %v", name, e, ok)
	}
	for _, name := range []string{jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader, jetstream.TimeStampHeaer} {
		check.That(t, IsReply(nats.Header{name: {"7"}}), "a reply is not known by the header %s of the server", name)
	}
	check.That(t, !IsReply(nats.Header{"X": {"y"}}), "any header makes a reply")
}

// The error of a stream that does not exist names the bucket and says what to do.
func TestMissing_Advice(t *testing.T) {
	for _, tt := range []struct {
		name, make, again string
		seen              bool
		want              string
	}{
		{"S", "", "", false, "leader: stream S does not exist"},
		{"S", "make it", "", true, "leader: stream S does not exist: make it"},
		{"KV_E", "make it", "again", false, "leader: bucket E does not exist: make it"},
		{"KV_E", "make it", "again", true, "leader: bucket E does not exist any more: again"},
		{"KV_KV_E", "make it", "", false, "leader: bucket KV_E does not exist: KV_ is the prefix of its stream; the name of the bucket may be E"},
		{"KV_KV_", "make it", "", false, "leader: bucket KV_ does not exist: make it"},
	} {
		var a Stream
		a.Name, a.Make, a.Again, a.Seen = tt.name, tt.make, tt.again, new(atomic.Bool)
		a.Seen.Store(tt.seen)
		cause := &jetstream.APIError{ErrorCode: CodeStreamNotFound}
		err := a.refusal(cause)
		check.That(t, err.Error() == tt.want && errors.Is(err, backend.ErrNoBucket) && errors.Is(err, cause), "%q", err)
	}
}

// The reason of a failure follows the error of nats.go. Only a failure that says nothing about
// the request itself is unanswered.
func TestFailure_Reasons(t *testing.T) {
	withWire(t, func(t *wired) {
		for _, tt := range []struct {
			err        error
			subject    string
			want       error
			unanswered bool
			text       string
		}{
			{nats.ErrConnectionClosed, "x", backend.ErrUnreachable, true, "lost during a request on x"},
			{nats.ErrTimeout, "x", backend.ErrUnreachable, true, "no reply on x: nats: timeout"},
			{t.within(0).Err(), "x", backend.ErrUnreachable, true, "no reply on x: context deadline exceeded"},
			{context.Canceled, "x", backend.ErrUnreachable, true, "no reply on x in time"},
			{nats.ErrMaxPayload, "x", backend.ErrValueTooLarge, false, ""},
			{nats.ErrNoResponders, "$JS.API.STREAM.INFO.S", backend.ErrUnreachable, false, "not enabled"},
			{nats.ErrReconnectBufExceeded, "$JS.API.STREAM.INFO.S", backend.ErrUnreachable, false, "outbound buffer limit"},
			{nats.ErrNoResponders, "x", backend.ErrUnreachable, false, "x: nats: no responders"},
			{nats.ErrDisconnected, "x", backend.ErrUnreachable, true, "disconnected"},
		} {
			err := t.a.failure(tt.subject, nil, tt.err)
			if !errors.Is(err, tt.want) || IsUnanswered(err) != tt.unanswered || IsUnsent(err) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%v: %v, unanswered: %v", tt.err, err, IsUnanswered(err))
			}
		}
		t.a.Conn.Close()
		check.Is(t, t.a.failure("x", nil, nats.ErrConnectionClosed), backend.ErrConnectionClosed)
	})
}

// A denial of the inbox for replies concerns every request, also if it is old. One of an inbox
// of the application concerns none.
func TestDenied_OfReplies(t *testing.T) {
	withWire(t, func(t *wired) {
		t.want("prime", t.ask(t.Context(), "echo", ""), "", nil, 0)
		resp, own := t.a.Conn.NewRespInbox(), t.a.Conn.NewInbox()
		mux := resp[:strings.LastIndexByte(resp, '.')+1] + "*"
		for _, tt := range []struct {
			what       string
			old, fresh bool
			style      bool
		}{
			{what: `Publish to "x"`, fresh: true},
			{what: `Publish to "y"`},
			{what: `Subscription to "` + t.a.conn.inbox + `*"`, old: true, fresh: true},
			{what: `Subscription to "` + mux + `"`, old: true, fresh: true},
			{what: `Subscription to "` + own + `"`},
			{what: `Subscription to "` + own + `"`, fresh: true, style: true},
			{what: `Subscription to "` + own + `.x"`, style: true},
			{what: `Subscription to "_INBOX.x"`, style: true},
			{what: `Subscription to "_OTHER` + own[len("_INBOX"):] + `"`, style: true},
			{what: `Subscription to "` + own[:len(own)-2] + `.x"`, style: true},
		} {
			t.a.Conn.Opts.UseOldRequestStyle = tt.style
			last := fmt.Errorf("%w: nats: %s%s", nats.ErrPermissionViolation, violation, tt.what)
			old, fresh := t.a.deniedBy(last, "x", last), t.a.deniedBy(last, "x", nil)
			check.That(t, (old != nil) == tt.old && (fresh != nil) == tt.fresh, "%s: %v, %v", tt.what, old, fresh)
			if fresh != nil && (!errors.Is(fresh, backend.ErrPermission) || fresh.Error() != "leader: permission denied: "+tt.what) {
				t.Errorf("%s: %v", tt.what, fresh)
			}
		}
		check.Says(t, t.a.deniedBy(fmt.Errorf(`%w: no "x"`, nats.ErrPermissionViolation), "x", nil), backend.ErrPermission, `no "x"`)
		err := t.a.deniedBy(errors.New(`"x"`), "x", nil)
		check.That(t, err == nil, "another error: %v", err)
	})
}
