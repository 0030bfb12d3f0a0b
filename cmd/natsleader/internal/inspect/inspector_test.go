package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
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
	noLeader := &jetstream.APIError{ErrorCode: front.CodeNoMetaLeader}
	offline := &jetstream.APIError{ErrorCode: front.CodeOffline}
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
		"another error":               {takes: time.Second, err: testworld.ErrOfSource, want: testworld.ErrOfSource, after: time.Second},
		"another error, and too late": {takes: limit, goesOn: true, err: testworld.ErrOfSource, want: testworld.ErrOfSource, after: limit},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Inspector{Limit: limit, Denials: &denials{}, Streams: x.of}
				if x.before {
					s.Denials.handle(violation)
				}
				if x.denied > 0 {
					time.AfterFunc(x.denied, func() { s.Denials.handle(violation) })
				}
				began := time.Now()
				err := s.Within(t.Context(), func(ctx context.Context) error {
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
		"it cannot be read":      {want: "[]", err: testworld.ErrOfSource},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				kv := &testworld.Watches{Parts: slices.Clone(x.parts), Lost: x.lost}
				began := time.Now()
				entries, err := entriesOf(ctx, kv)
				got := []string{}
				for _, e := range entries {
					got = append(got, fmt.Sprint(e.Key(), e.Revision()))
				}
				expect.That(t, fmt.Sprint(got) == x.want && errors.Is(err, x.err) && time.Since(began) == x.after,
					"%v, %v after %v", got, err, time.Since(began))
				expect.Equal(t, kv.Open, 0, "%d watches are open")
			})
		})
	}
}

// A probe of doctor leaves no subscription on the connection, answered or not.
func TestDoctor_LeavesNoSubscription(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		nc := w.Connect()
		defer nc.Close()
		e := &Asker{Nc: nc, Wait: time.Minute}
		expect.OK(w, e.Listen("x")())
		expect.Is(w, expect.Err(e.Ask(&nats.Msg{Subject: "nobody.answers"})), nats.ErrNoResponders)
		expect.OK(w, expect.Err(e.Ask(&nats.Msg{Subject: "$JS.API.INFO"})))
		expect.Equal(w, nc.NumSubscriptions(), 0, "%d subscriptions")
	})
}

// Gather asks again in each quarter of the time, because a request or a reply may be lost, and waits for a server that is
// silent for the whole time. That is no error. A request that the servers do not get is one.
func TestAsker_Gathers(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		nc := w.Connect()
		defer nc.Close()
		asked := 0
		w.Made(nc.Subscribe("servers", func(m *nats.Msg) {
			if asked++; asked == 2 { // the first is lost
				_ = m.Respond([]byte("late"))
			}
		}))
		w.Made(nc.Subscribe("servers", func(m *nats.Msg) { _ = m.Respond([]byte("prompt")) }))
		e := &Asker{Nc: nc, Wait: 4 * time.Second}
		for _, x := range []struct {
			enough int
			asked  int
			after  time.Duration
		}{{2, 2, time.Second}, {3, 4, 4 * time.Second}} {
			asked = 0
			names := make(map[string]bool)
			began := time.Now()
			err := e.Gather(&nats.Msg{Subject: "servers"}, func(reply []byte) bool {
				names[string(reply)] = true
				return len(names) == x.enough
			})
			synctest.Wait()
			expect.That(w, err == nil && len(names) == 2 && asked == x.asked && time.Since(began) == x.after,
				"%v, %v after %v and %d requests", err, names, time.Since(began), asked)
		}
		expect.Is(w, e.Gather(&nats.Msg{Subject: "nobody.answers"}, func([]byte) bool { return false }), nats.ErrNoResponders)
		expect.Equal(w, nc.NumSubscriptions(), 2, "%d subscriptions")
	})
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
		s := &Inspector{mover: &got}
		want := tt.err
		if tt.info == cutOff {
			want = ErrNoMajority
		}
		err := s.Heard(tt.info, tt.err)
		expect.That(t, errors.Is(err, want), "%s: returns %v", name, err)
		expect.That(t, got == tt.want, "%s: %+v, not %+v", name, got, tt.want)
	}
}

// A read is sent so many times within the limit, and no more often, also if the limit is next to nothing.
func TestAgain_Bound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tries := range []int{OfOne, OfMany} {
			for _, limit := range []time.Duration{4 * time.Second, 3} {
				var sent atomic.Int64
				began := time.Now()
				_, err := Again(t.Context(), &Inspector{Limit: limit}, "KV_elections", tries, func(ctx context.Context) (int, error) {
					sent.Add(1)
					<-ctx.Done()
					return 0, ctx.Err()
				})
				synctest.Wait()
				expect.That(t, errors.Is(err, context.DeadlineExceeded) && time.Since(began) == limit, "%v after %v", err, time.Since(began))
				expect.That(t, sent.Load() <= int64(tries) && (limit == 3 || sent.Load() == int64(tries)), "it was sent %d times of %d", sent.Load(), tries)
			}
		}
	})
}
