package inspect

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// The history of a bucket with a long name has a name of its own.
func TestHistoryStream_Names(t *testing.T) {
	a, b := facts.HistoryStream(strings.Repeat("a", 252)), facts.HistoryStream(strings.Repeat("a", 251)+"b")
	expect.That(t, a != b && len(a) <= 255 && len(b) <= 255 && facts.HistoryStream("e") == "natsleader_history_e",
		"%q, %q", a, b)
}

// The advice repeats the settings that the bucket had, and the bound is the longest lease that they allow.
func TestSeenBucket_Settings(t *testing.T) {
	for _, x := range []struct {
		conf  jetstream.StreamConfig
		flags string
		lease time.Duration
	}{
		{jetstream.StreamConfig{Replicas: 1}, "--replicas 1 --storage file", wire.DefaultLease},
		{jetstream.StreamConfig{Replicas: 5, Storage: jetstream.MemoryStorage, MaxAge: time.Hour}, "--replicas 5 --storage memory --ttl 1h0m0s", time.Hour},
		{
			jetstream.StreamConfig{Replicas: 3, MaxAge: time.Hour, Metadata: map[string]string{wire.MaxLeaseKey: "1m", wire.RosterKey: "x"}},
			"--replicas 3 --storage file --max-lease 1m0s --ttl 1h0m0s --roster", time.Minute,
		},
		{jetstream.StreamConfig{Replicas: 1, Metadata: map[string]string{wire.MaxLeaseKey: "`reboot`"}}, "--replicas 1 --storage file", wire.DefaultLease},
	} {
		b := SeenBucket{Name: "e", Conf: x.conf}
		expect.Equal(t, b.addLine(), "natsleader bucket add e "+x.flags, "%s")
		expect.Equal(t, b.LongestLease(), x.lease, "%v")
		now := time.Unix(1000, 0)
		expect.Is(t, b.Gone(now, nil, 2*time.Hour), leader.ErrNoBucket)
		expect.Equal(t, b.Until.Sub(now), 2*time.Hour+time.Second, "%v")
	}
}
