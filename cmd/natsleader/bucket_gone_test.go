package main

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

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
		b := seenBucket{name: "e", conf: x.conf}
		if line := b.addLine(); line != "natsleader bucket add e "+x.flags || b.longestLease() != x.lease {
			t.Errorf("%v, %s", b.longestLease(), line)
		}
		now := time.Unix(1000, 0)
		longer := seenBucket{name: "e", conf: x.conf}
		err := longer.gone(now, nil, 2*time.Hour)
		expect.That(t, longer.until.Equal(now.Add(2*time.Hour+time.Second)) && errors.Is(err, leader.ErrNoBucket),
			"%v, %v", longer.until, err)
	}
}
