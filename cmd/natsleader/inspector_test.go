package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/leader"
)

// An operation ends with its time, and with the first permission that is missing. A permission that was
// missing before, or for something else, does not count.
func TestInspector_Within(t *testing.T) {
	const limit = 3 * time.Second
	const silent = "JetStream does not answer on the server, which hangs or is cut off, or the cluster has lost its quorum or elects a leader"
	violation := fmt.Errorf("%w: Permissions Violation for Publish to %q", nats.ErrPermissionViolation, "$JS.API.STREAM.INFO.KV_e")
	noLeader := &jetstream.APIError{ErrorCode: codeNoMetaLeader}
	offline := &jetstream.APIError{ErrorCode: codeOffline}
	for name, x := range map[string]struct {
		before bool          // a permission was missing before
		of     []string      // streams whose permissions count
		denied time.Duration // when one is missing; 0: never
		takes  time.Duration // 0: for ever
		goesOn bool          // when its context has ended
		err    error         // of the operation
		want   any
		after  time.Duration
	}{
		"in time":                     {takes: time.Second, after: time.Second},
		"too late":                    {want: silent, after: limit},
		"no leader of the cluster":    {takes: time.Second, err: noLeader, want: silent, after: time.Second},
		"no server of the bucket":     {takes: time.Second, err: offline, want: "all servers that keep the bucket are away", after: time.Second},
		"a permission is missing":     {denied: time.Second, want: fmt.Errorf("%w: %w", leader.ErrPermission, violation), after: time.Second},
		"one of the bucket":           {of: []string{"x", "KV_e"}, denied: time.Second, want: fmt.Errorf("%w: %w", leader.ErrPermission, violation), after: time.Second},
		"one of another bucket":       {of: []string{"x", "KV", "e"}, denied: time.Second, takes: 2 * time.Second, after: 2 * time.Second},
		"one was missing before":      {before: true, takes: time.Second, after: time.Second},
		"one for something else":      {denied: time.Second, takes: 2 * time.Second, goesOn: true, after: 2 * time.Second},
		"another error":               {takes: time.Second, err: errOfSource, want: errOfSource, after: time.Second},
		"another error, and too late": {takes: limit, goesOn: true, err: errOfSource, want: errOfSource, after: limit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &inspector{limit: limit, denials: &denials{}, streams: x.of}
				if x.before {
					s.denials.handle(violation)
				}
				if x.denied > 0 {
					time.AfterFunc(x.denied, func() { s.denials.handle(violation) })
				}
				began := time.Now()
				err := s.within(t.Context(), func(ctx context.Context) error {
					finished := time.After(cmp.Or(x.takes, time.Hour))
					select {
					case <-finished:
					case <-ctx.Done():
						if !x.goesOn {
							return ctx.Err()
						}
						<-finished
					}
					return x.err
				})
				expect.Equal(t, fmt.Sprint(err), fmt.Sprint(x.want), "returns %s")
				expect.Equal(t, time.Since(began), x.after, "after %v")
			})
		})
	}
}

// watches is a bucket whose watches report what a test wants, each the next part of it. If it is slow, it
// opens a watch when the context has ended, and so does it the first so many times that are lost.
type watches struct {
	jetstream.KeyValue
	parts [][]jetstream.KeyValueEntry
	slow  bool
	lost  int
	open  int
}

func (w *watches) WatchAll(ctx context.Context, _ ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	if w.lost--; w.lost >= 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if w.slow {
		<-ctx.Done()
	}
	if len(w.parts) == 0 {
		return nil, errOfSource
	}
	updates := make(chan jetstream.KeyValueEntry, 10)
	for _, e := range w.parts[0] {
		updates <- e
	}
	w.parts = w.parts[1:]
	w.open++
	return &aWatch{w: w, updates: updates}, nil
}

func (w *watches) Status(context.Context) (jetstream.KeyValueStatus, error) { return aStatus{}, nil }

// aStatus is that of a bucket with two keys.
type aStatus struct{ jetstream.KeyValueStatus }

func (aStatus) History() int64 { return 1 }
func (aStatus) Values() uint64 { return 2 }

type aWatch struct {
	w       *watches
	updates chan jetstream.KeyValueEntry
}

func (a *aWatch) Updates() <-chan jetstream.KeyValueEntry { return a.updates }
func (a *aWatch) Stop() error                             { a.w.open--; return nil }

// entriesOf begins again when a watch is silent, each time more patiently. It returns the newest entry of
// every key, and leaves no watch open.
func TestInspector_ReadsAllKeys(t *testing.T) {
	entry := func(key string, revision uint64) jetstream.KeyValueEntry {
		return natskv.KeyValue(backend.Entry{Revision: revision}, key)
	}
	a, b, newer := entry("a", 1), entry("b", 2), entry("a", 3)
	whole := []jetstream.KeyValueEntry{b, a, newer, nil}
	silent := []jetstream.KeyValueEntry{b}
	for name, x := range map[string]struct {
		parts [][]jetstream.KeyValueEntry
		lost  int
		want  string
		err   error
		after time.Duration
	}{
		"one consumer is lost":   {parts: [][]jetstream.KeyValueEntry{whole}, lost: 1, want: "[a3 b2]", after: 375 * time.Millisecond},
		"three consumers are":    {parts: [][]jetstream.KeyValueEntry{whole}, lost: 3, want: "[a3 b2]", after: 2625 * time.Millisecond},
		"all consumers are lost": {lost: 9, want: "[]", err: context.DeadlineExceeded, after: 3 * time.Second},
		"at once":                {parts: [][]jetstream.KeyValueEntry{whole}, want: "[a3 b2]"},
		"end before a key":       {parts: [][]jetstream.KeyValueEntry{{a, newer, nil, b}}, want: "[a3 b2]"},
		"a key has expired":      {parts: [][]jetstream.KeyValueEntry{{a, nil}}, want: "[a1]", after: 500 * time.Millisecond},
		"old after new":          {parts: [][]jetstream.KeyValueEntry{{newer, a, b, nil}}, want: "[a3 b2]"},
		"after two silent":       {parts: [][]jetstream.KeyValueEntry{silent, silent, whole}, want: "[a3 b2]", after: 1500 * time.Millisecond},
		"not in time":            {parts: [][]jetstream.KeyValueEntry{silent, silent, silent, silent}, want: "[]", err: leader.ErrUnreachable, after: 3 * time.Second},
		"it cannot be read":      {want: "[]", err: errOfSource},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				kv := &watches{parts: slices.Clone(x.parts), lost: x.lost}
				began := time.Now()
				entries, err := entriesOf(ctx, kv, "keys")
				got := []string{}
				for _, e := range entries {
					got = append(got, fmt.Sprint(e.Key(), e.Revision()))
				}
				expect.That(t, fmt.Sprint(got) == x.want && errors.Is(err, x.err) && time.Since(began) == x.after,
					"%v, %v after %v", got, err, time.Since(began))
				expect.Equal(t, kv.open, 0, "%d watches are open")
			})
		})
	}
}

// A probe of doctor leaves no subscription on the connection, answered or not.
func TestDoctor_LeavesNoSubscription(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		nc := w.dial()
		defer nc.Close()
		e := &environment{nc: nc, wait: time.Minute}
		expect.OK(w, e.listen("x")())
		expect.Is(w, expect.Err(e.ask(&nats.Msg{Subject: "nobody.answers"})), nats.ErrNoResponders)
		expect.OK(w, expect.Err(e.ask(&nats.Msg{Subject: "$JS.API.INFO"})))
		expect.Equal(w, nc.NumSubscriptions(), 0, "%d subscriptions")
	})
}

// withBucket is a JetStream with a bucket.
type withBucket struct {
	jetstream.JetStream
	kv jetstream.KeyValue
}

func (w withBucket) KeyValue(context.Context, string) (jetstream.KeyValue, error) { return w.kv, nil }

// A feed that is not opened in time is an outage, and not the end of the command.
func TestInspector_FeedIsNotOpenedInTime(t *testing.T) {
	for name, parts := range map[string][][]jetstream.KeyValueEntry{"no answer": nil, "late answers": {nil, nil, nil, nil, nil}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &inspector{js: withBucket{kv: &watches{parts: parts, slow: true}}, limit: 3 * time.Second}
				began := time.Now()
				_, _, err := s.watch(t.Context(), "")
				expect.Equal(t, s.js.(withBucket).kv.(*watches).open, 0, "%d watches are open")
				if took := time.Since(began); codeOf(err) != exitUnreachable || took != s.limit {
					t.Fatalf("%v with code %d after %v", err, codeOf(err), took)
				}
				w := newWatcher(&inspector{}, "", recorder{w: &world{T: t}})
				failed := w.lookedAt(look{err: err}, true)
				expect.That(t, failed == nil && w.troubled, "not reported: %v", failed)
				ended, end := context.WithCancel(t.Context())
				end()
				_, _, err = s.watch(ended, "")
				expect.That(t, errors.Is(err, context.Canceled) && !errors.Is(err, leader.ErrUnreachable),
					"given up: %v", err)
			})
		})
	}
}

// signs notes what a tool has concluded from an answer.
type signs struct{ signed, moves int }

func (s *signs) Signed() { s.signed++ }

func (s *signs) Move(time.Duration, func(string) bool) { s.moves++ }

// A tool that follows elections lets its connection move after a request of which no answer has shown a
// majority: none came, or one of a leader that hears from no other server. A bucket that does not exist
// is a sign of a majority. A missing permission, and a request that was given up, show nothing.
func TestInspector_MovesFromServerThatIsCutOff(t *testing.T) {
	cutOff := &jetstream.StreamInfo{Cluster: &jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{{Offline: true}, {Offline: true}}}}
	for name, tt := range map[string]struct {
		info *jetstream.StreamInfo
		err  error
		want signs
	}{
		"no answer":                    {err: nats.ErrTimeout, want: signs{moves: 1}},
		"no leader of JetStream":       {err: &jetstream.APIError{ErrorCode: 10008}, want: signs{moves: 1}},
		"a leader that is cut off":     {info: cutOff, want: signs{moves: 1}},
		"a leader":                     {info: &jetstream.StreamInfo{}, want: signs{signed: 1}},
		"a bucket that does not exist": {err: leader.ErrNoBucket, want: signs{signed: 1}},
		"a missing permission":         {err: leader.ErrPermission},
		"given up":                     {err: context.Canceled},
	} {
		var got signs
		s := &inspector{mover: &got}
		want := tt.err
		if tt.info == cutOff {
			want = errNoMajority
		}
		err := s.heard(tt.info, tt.err)
		expect.That(t, errors.Is(err, want), "%s: returns %v", name, err)
		expect.That(t, got == tt.want, "%s: %+v, not %+v", name, got, tt.want)
	}
}
