//go:build field && linux

package torture_test

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

const (
	noPurge  = 10110 // not allowed by the stream's configuration
	noRollup = 10111
	notLast  = wire.CodeWrongLastSequence // the condition does not hold
)

// code returns the number of an error from the server. It returns 0 for any other
// error, and for the refusals that only mean that the server has no quorum at the
// moment.
func code(err error) int {
	var api *jetstream.APIError
	if errors.As(err, &api) && api.Code != 503 {
		return int(api.ErrorCode)
	}
	return 0
}

// oblivions make a store forget writes that it has acknowledged. One leader is not
// promised then, and the checker only notes two at once. But a leader that was
// overwritten must learn of it within a fence. Tokens must go on rising, because all
// live candidates remember the last one. And afterwards one candidate leads again.
func (d *driver) oblivions() []fault {
	return []fault{
		{"bucket deleted and made anew", "store", 0, 0, (*driver).remake},
		{"stream purged", "store", 0, 0, (*driver).purgeStream},
		{"all stores rolled back", "store", 0, 0, (*driver).rollBackAll},
	}
}

// forgets runs a fault that destroys the memory of some buckets, in a void. The void
// ends when order is restored and no operation can still be in progress.
func (d *driver) forgets(how string, do func(), buckets ...*bucket) {
	d.tb.Helper()
	for _, b := range buckets {
		b.voids = append(b.voids, void{from: monotonic(), to: forever, how: how})
	}
	do()
	d.calm()
	time.Sleep(d.fence)
	d.calm()
	for _, b := range buckets {
		b.voids[len(b.voids)-1].to = monotonic()
	}
}

func (d *driver) remake() func() {
	b := d.buckets[d.rng.IntN(len(d.buckets))]
	d.forgets("bucket deleted and made anew", func() {
		d.ask(func(ctx context.Context) error { return d.c.JS.DeleteKeyValue(ctx, b.cfg.Name) })
		if d.rng.IntN(2) == 0 {
			d.hold(0, 2*d.spec.Lease)
		}
		d.c.create(b.cfg)
	}, b)
	return nil
}

// purgeStream purges the streams that are not purge-protected.
func (d *driver) purgeStream() func() {
	for _, b := range d.buckets {
		if b.cfg.TTL == 0 {
			continue
		}
		d.forgets("stream purged", func() {
			refused := d.purge(b)
			expect.That(d.tb, refused == 0, "a purge was refused with %d", refused)
		}, b)
	}
	return nil
}

// rollBackAll gives all servers an earlier copy of their stores, as a restored
// backup would.
func (d *driver) rollBackAll() func() {
	copies := make(map[*testcluster.Node]string)
	for _, n := range d.c.Nodes {
		n.Shut()
	}
	for _, n := range d.c.Nodes {
		copies[n] = save(d.tb, n)
	}
	d.calm()
	for range 1 + d.rng.IntN(3) {
		d.resign()
		d.hold(d.spec.Lease/2, d.spec.Lease)
	}
	d.calm()
	d.forgets("all stores rolled back", func() {
		for _, n := range d.c.Nodes {
			n.Kill()
			swap(d.tb, n, copies[n])
		}
	}, d.buckets...)
	return nil
}

// sealed is the purge-protected bucket that CreateOrUpdateBucket makes by default.
func sealed(lease time.Duration) leader.BucketConfig {
	return leader.BucketConfig{Name: "sealed", MaxLease: lease}
}

// expiring is a bucket that cannot be purge-protected.
func expiring(lease time.Duration) leader.BucketConfig {
	return leader.BucketConfig{Name: "expiring", MaxLease: lease, TTL: 2 * lease}
}
