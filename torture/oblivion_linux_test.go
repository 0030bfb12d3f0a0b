package torture_test

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

const (
	noPurge  = 10110 // not allowed by the stream's configuration
	noRollup = 10111
	notLast  = 10071 // the condition does not hold
)

// code is the number of an error that the server gave, 0 of any other, and of the
// refusals that only mean that it has no quorum just now.
func code(err error) int {
	var api *jetstream.APIError
	if errors.As(err, &api) && api.Code != 503 {
		return int(api.ErrorCode)
	}
	return 0
}

// oblivions make a store forget what it has acknowledged. One leader is not
// promised then, and the checker only notes two at once; but who was overwritten
// must find out within a fence, tokens must go on rising, because everybody alive
// remembers the last, and afterwards one leads again.
func (d *driver) oblivions() []fault {
	return []fault{
		{"bucket deleted and made anew", "store", 0, 0, (*driver).remake},
		{"stream purged", "store", 0, 0, (*driver).purgeStream},
		{"all stores rolled back", "store", 0, 0, (*driver).rollBackAll},
	}
}

// forgets runs what destroys the memory of some buckets, in a void that ends when
// order is restored and nobody can be in the midst of something any more.
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
		d.ask(func(ctx context.Context) error { return d.c.js.DeleteKeyValue(ctx, b.cfg.Name) })
		if d.rng.IntN(2) == 0 {
			d.hold(0, 2*d.spec.Lease)
		}
		d.c.create(b.cfg)
	}, b)
	return nil
}

// purgeStream purges what is not sealed.
func (d *driver) purgeStream() func() {
	for _, b := range d.buckets {
		if b.cfg.TTL == 0 {
			continue
		}
		d.forgets("stream purged", func() {
			if refused := d.ask(func(ctx context.Context) error {
				s, err := d.c.js.Stream(ctx, "KV_"+b.cfg.Name)
				if err != nil {
					return err
				}
				return s.Purge(ctx)
			}); refused != 0 {
				d.tb.Errorf("a purge was refused with %d", refused)
			}
		}, b)
	}
	return nil
}

// rollBackAll gives all servers an earlier copy of their stores, as a restored
// backup would.
func (d *driver) rollBackAll() func() {
	copies := make(map[*node]string)
	for _, n := range d.c.nodes {
		n.shutdown()
	}
	for _, n := range d.c.nodes {
		copies[n] = n.save(d.tb)
	}
	d.calm()
	for range 1 + d.rng.IntN(3) {
		d.resign()
		d.hold(d.spec.Lease/2, d.spec.Lease)
	}
	d.calm()
	d.forgets("all stores rolled back", func() {
		for _, n := range d.c.nodes {
			n.kill()
			n.swap(d.tb, copies[n])
		}
	}, d.buckets...)
	return nil
}

// sealed is the bucket that CreateBucket makes unless told otherwise.
func sealed(lease time.Duration) leader.BucketConfig {
	return leader.BucketConfig{Name: "sealed", MaxLease: lease}
}

// expiring is a bucket that cannot be sealed.
func expiring(lease time.Duration) leader.BucketConfig {
	return leader.BucketConfig{Name: "expiring", MaxLease: lease, TTL: 2 * lease}
}
