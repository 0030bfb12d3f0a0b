package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

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
			want = leader.ErrUnreachable
		}
		if err := s.heard(tt.info, tt.err); !errors.Is(err, want) {
			t.Errorf("%s: returns %v", name, err)
		}
		if got != tt.want {
			t.Errorf("%s: %+v, not %+v", name, got, tt.want)
		}
	}
}
