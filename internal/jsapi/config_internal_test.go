package jsapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// script is a JetStream API that answers each request by its next line, and repeats the last
// line. An empty line is silence.
type script struct {
	mu      sync.Mutex
	answers map[string][]string // by the subject without the prefix
	asked   []string
	bodies  []string
}

func (w *wired) script(answers map[string][]string) *script {
	w.Helper()
	s := &script{answers: answers}
	sub, err := w.replier.Subscribe("$JS.API.>", func(m *nats.Msg) {
		s.mu.Lock()
		defer s.mu.Unlock()
		subject := strings.TrimPrefix(m.Subject, "$JS.API.")
		s.asked, s.bodies = append(s.asked, subject), append(s.bodies, string(m.Data))
		lines := s.answers[subject]
		if len(lines) == 0 {
			return
		}
		if len(lines) > 1 {
			s.answers[subject] = lines[1:]
		}
		if lines[0] != "" {
			_ = m.Respond([]byte(lines[0]))
		}
	})
	w.ok(err)
	w.ok(w.replier.Flush())
	w.ends = append(w.ends, func() { _ = sub.Unsubscribe() })
	return s
}

func (s *script) wantAsked(t *wired, want ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	check.That(t, slices.Equal(s.asked, want), "asked %q, want %q", s.asked, want)
	s.asked = nil
}

// refused is the answer that has an error code.
func refused(code int) string {
	return fmt.Sprintf(`{"error":{"code":400,"err_code":%d,"description":"no"}}`, code)
}

// settled is the answer that has the settings of the stream with that description.
func settled(description string) string {
	return fmt.Sprintf(`{"config":{"name":"S","description":%q},"state":{}}`, description)
}

const (
	info, create, update, remove = "STREAM.INFO.S", "STREAM.CREATE.S", "STREAM.UPDATE.S", "STREAM.DELETE.S"
	nameInUse                    = 10058
)

// The settings of a stream are read, and the stream is created or updated. If another client was
// faster, that is repeated once.
func TestEstablish_Requests(t *testing.T) {
	failed := errors.New("failed")
	missing := refused(CodeStreamNotFound)
	for name, tt := range map[string]struct {
		answers            map[string][]string
		reshape, inspect   error
		noInspect          bool
		want               error
		asked              []string
		known              string
		after              time.Duration
		disconnect, unsent bool
	}{
		"created":              {answers: map[string][]string{info: {missing}, create: {settled("new")}}, asked: []string{info, create}, known: "new"},
		"as wanted":            {answers: map[string][]string{info: {settled("new")}}, asked: []string{info}, known: "new"},
		"updated":              {answers: map[string][]string{info: {settled("old")}, update: {settled("new")}}, asked: []string{info, update}, known: "new"},
		"without inspection":   {answers: map[string][]string{info: {settled("old")}, update: {settled("new")}}, noInspect: true, asked: []string{info, update}, known: "new"},
		"not fit":              {answers: map[string][]string{info: {settled("old")}}, reshape: failed, want: failed, asked: []string{info}, known: "old"},
		"inspection":           {answers: map[string][]string{info: {settled("old")}}, inspect: failed, want: failed, asked: []string{info}, known: "old"},
		"created by another":   {answers: map[string][]string{info: {missing, settled("new")}, create: {refused(nameInUse)}}, asked: []string{info, create, info}, known: "new"},
		"and deleted again":    {answers: map[string][]string{info: {missing}, create: {refused(nameInUse)}}, want: jetstream.ErrStreamNameAlreadyInUse, asked: []string{info, create, info, create}},
		"deleted meanwhile":    {answers: map[string][]string{info: {settled("old"), missing}, update: {missing}, create: {settled("new")}}, asked: []string{info, update, info, create}, known: "new"},
		"invalid settings":     {answers: map[string][]string{info: {missing}, create: {refused(CodeStreamInvalidConfig)}}, want: backend.ErrIncompatibleBucket, asked: []string{info, create}},
		"subjects overlap":     {answers: map[string][]string{info: {missing}, create: {refused(CodeSubjectOverlap)}}, want: backend.ErrIncompatibleBucket, asked: []string{info, create}},
		"a fixed mirror":       {answers: map[string][]string{info: {settled("old")}, update: {refused(CodeMirrorFixed)}}, want: backend.ErrIncompatibleBucket, asked: []string{info, update}, known: "old"},
		"too many replicas":    {answers: map[string][]string{info: {missing}, create: {refused(CodeReplicasUnsupported)}}, want: backend.ErrInvalidConfig, asked: []string{info, create}},
		"JetStream is off":     {answers: map[string][]string{info: {refused(CodeNotEnabled)}}, want: backend.ErrUnreachable, asked: []string{info}},
		"no answer":            {answers: map[string][]string{}, want: backend.ErrUnreachable, asked: []string{info}, after: time.Second},
		"no answer to request": {answers: map[string][]string{info: {missing}}, want: backend.ErrUnreachable, asked: []string{info, create}, after: time.Second},
		"disconnected":         {answers: map[string][]string{info: {missing}}, disconnect: true, want: backend.ErrUnreachable, asked: []string{info}},
	} {
		t.Run(name, func(t *testing.T) {
			withWire(t, func(t *wired) {
				s := t.script(tt.answers)
				began := time.Now()
				inspect := func(*jetstream.StreamInfo, jetstream.StreamConfig) error { return tt.inspect }
				if tt.noInspect {
					inspect = nil
				}
				err := t.a.Establish(t.within(time.Second), func() jetstream.StreamConfig {
					if tt.disconnect {
						t.lose()
					}
					return jetstream.StreamConfig{Name: "S", Description: "new"}
				}, func(old jetstream.StreamConfig) (jetstream.StreamConfig, bool, error) {
					changed := old.Description != "new"
					old.Description = "new"
					return old, changed, tt.reshape
				}, inspect)
				d := time.Since(began)
				check.That(t, (tt.want == nil) == (err == nil) && errors.Is(err, tt.want) && d == tt.after,
					"%v after %v, want %v after %v", err, d, tt.want, tt.after)
				known := ""
				if c := t.a.Known.Load(); c != nil {
					known = c.Description
				}
				check.That(t, known == tt.known && t.a.Seen.Load() == (tt.known != ""),
					"the settings of %q are remembered, seen: %v", known, t.a.Seen.Load())
				s.wantAsked(t, tt.asked...)
			})
		})
	}
}

// Create takes a stream that exists for created. Other refusals are errors, of Delete too. A
// deadline of the context is the only limit of such a request.
func TestStream_CreateAndDelete(t *testing.T) {
	withWire(t, func(t *wired) {
		s := t.script(map[string][]string{
			create: {settled("new"), refused(nameInUse), refused(CodeNoResources), ""},
			remove: {`{"success":true}`, refused(CodeStreamNotFound), ""},
		})
		make := func(ctx context.Context) error { return t.a.Create(ctx, jetstream.StreamConfig{Name: "S"}) }
		err := make(t.Context())
		check.That(t, err == nil && t.a.Known.Load().Description == "new", "create: %v", err)
		check.Is(t, make(t.Context()), nil)
		if err := make(t.Context()); err == nil || !strings.Contains(err.Error(), "stream S") {
			t.Errorf("create without resources: %v", err)
		}
		check.Is(t, t.a.Delete(t.Context()), nil)
		if err := t.a.Delete(t.Context()); !errors.Is(err, backend.ErrNoBucket) || !strings.Contains(err.Error(), "any more") == (t.a.Again != "") {
			t.Errorf("delete what does not exist: %v", err)
		}
		s.wantAsked(t, create, create, create, remove, remove)
		for what, do := range map[string]func(context.Context) error{"create": make, "delete": t.a.Delete} {
			began := time.Now()
			err := do(t.within(time.Minute))
			check.That(t, errors.Is(err, backend.ErrUnreachable) && time.Since(began) == time.Minute,
				"%s: %v after %v", what, err, time.Since(began))
		}
	})
}

// The settings are remembered until the connection was made again, or the stream is found gone.
// An answer about another stream is none, and its settings are not those of this one.
func TestConfig_IsRemembered(t *testing.T) {
	withWire(t, func(t *wired) {
		s := t.script(map[string][]string{info: {settled("old"), settled("new"), refused(CodeNoResources), `{"config":{"name":"T"}}`, "?", refused(CodeStreamNotFound)}})
		want := func(what, description string, asked ...string) {
			t.Helper()
			c, err := t.a.Config(t.Context())
			check.That(t, err == nil && c.Description == description, "%s: %q, %v", what, c.Description, err)
			s.wantAsked(t, asked...)
		}
		check.Equal(t, t.a.MaxPayload(), 0, "the largest payload is %d before it was read")
		want("read", "old", info)
		check.Equal(t, t.a.MaxPayload(), t.a.Conn.MaxPayload(), "the largest payload is %d")
		want("remembered", "old")
		t.a.Reconnected(crowd)
		check.That(t, t.a.infos.expected == crowd, "%d callers are expected", t.a.infos.expected)
		want("after a reconnection", "new", info)
		for _, tt := range []struct {
			want  error
			known bool
		}{{nil, true}, {backend.ErrUnreachable, true}, {backend.ErrUnreachable, true}, {backend.ErrNoBucket, false}} {
			_, err := t.a.Info(t.Context())
			c := t.a.Known.Load()
			if err == nil || tt.want != nil && !errors.Is(err, tt.want) || (c != nil) != tt.known {
				t.Errorf("%v, settings are remembered: %v", err, c != nil)
			}
			check.That(t, c == nil || c.Description == "new", "the settings of another stream are remembered: %+v", c)
			synctest.Wait()
			time.Sleep(time.Second)
		}
		check.Is(t, check.Err(t.a.Config(t.Context())), backend.ErrNoBucket)
	})
}

// The first revision of a new stream is the time in microseconds.
func TestFirstRevision_IsTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := FirstRevision()
		check.That(t, got == uint64(time.Now().UnixMicro()), "the first revision is %d", got)
	})
}
