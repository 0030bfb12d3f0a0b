//go:build field

package leader_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// BenchmarkHandoverBound fails if a handover on a real server takes too long. It makes 300
// handovers, each after an idle moment, whatever -benchtime is. The bound is about 70 times what
// a machine of two cores takes (docs/results.md). On a machine so busy that the bare operation
// is slow, the bound follows that operation.
func BenchmarkHandoverBound(b *testing.B) {
	const handovers = 300
	s := benchServer(b, jetstream.MemoryStorage)
	left := handovers
	again := func() bool { left--; return left >= 0 }
	dial := func() *nats.Conn { return tcpDial(b, s.ClientURL()) }
	ours, bare := benchHandovers(b, again, dial, benchWarmth{5 * time.Millisecond, 5}, leader.Config{}, (*leader.Term).Resign)
	benchBoth(b, ours, bare)
	err := handoverBound(ours, bare)
	check.That(b, err == nil && len(ours) == handovers, "%d handovers: %v", len(ours), err)
}

// handoverBound returns an error if the 99th percentile of ours is 100 ms or more, and five
// times that of the bare operation or more.
func handoverBound(ours, bare benchSamples) error {
	const least, factor = 100 * time.Millisecond, 5
	if took, bound := ours.at(0.99), max(least, factor*bare.at(0.99)); took >= bound {
		return fmt.Errorf("the 99th percentile of a handover is %v, the bound %v", took, bound)
	}
	return nil
}

// Two handovers of 300 may take any time. The third counts.
func TestHandoverBound_NinetyNine(t *testing.T) {
	const ms = time.Millisecond
	of := func(usual, slow time.Duration, n int) benchSamples {
		s := slices.Repeat(benchSamples{usual}, 300-n)
		return append(s, slices.Repeat(benchSamples{slow}, n)...)
	}
	for _, tt := range []struct {
		name       string
		ours, bare benchSamples
		over       bool
	}{
		{"below", of(2*ms, 99*ms, 300), of(ms, ms, 0), false},
		{"two are slow", of(2*ms, time.Minute, 2), of(ms, ms, 0), false},
		{"three are slow", of(2*ms, 100*ms, 3), of(ms, ms, 0), true},
		{"bare is slow, too", of(2*ms, 149*ms, 3), of(ms, 30*ms, 3), false},
		{"bare is slow, too, and not as slow", of(2*ms, 150*ms, 3), of(ms, 30*ms, 3), true},
	} {
		err := handoverBound(tt.ours, tt.bare)
		check.That(t, (err != nil) == tt.over, "%s: %v, want an error: %t", tt.name, err, tt.over)
	}
}
