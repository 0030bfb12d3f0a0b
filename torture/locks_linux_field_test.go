//go:build field && linux

package torture_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/natsleader/natsleader/leader"
)

// Faults of any kind, at any time, while processes take a lock and give it back. A process that has freed it writes before it reads.
func TestTorture_Locks(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	d := newDriver(t, startCluster(t, 3), seeded(t),
		candidateSpec{Lease: lease, Ping: time.Second, Locks: true}, lease*8/10, sealed(lease), expiring(lease))
	for range 4 {
		d.seat()
	}
	defer func() { // also if the test ends early
		d.table(d.check())
	}()
	d.calm()
	d.torture(*duration, d.faults)
	d.close()
}

// longest is how long a process has a lock, and how long it does without.
const longest = 100 * time.Millisecond

// lock takes the lock again and again until ctx ends.
func (w *worker) lock(ctx context.Context, store leader.Store, cfg leader.Config) {
	for ctx.Err() == nil {
		time.Sleep(rand.N(longest))
		l, err := leader.Acquire(ctx, store, electionName, cfg)
		if err != nil {
			continue
		}
		p := w.of(l.Term)
		p.write(entry{At: monotonic(), What: pending})
		p.write(entry{At: monotonic(), What: elected})
		for end := time.Now().Add(rand.N(longest)); !p.over && time.Now().Before(end); time.Sleep(pace) {
			p.claim()
		}
		p.flush()
		limited, cancel := context.WithTimeout(context.Background(), cfg.LeaseDuration)
		_ = l.Unlock(limited) // its error is also the cause of the context
		cancel()
		p.lose(monotonic(), deposed, context.Cause(l.Context()))
	}
}

// hadSince reports whether the life has had the lock since an instant.
func (l *life) hadSince(tb testing.TB, since int64) bool {
	tb.Helper()
	l.follow(tb)
	return slices.ContainsFunc(l.entries, func(e entry) bool { return e.What == leads && e.From > since })
}
