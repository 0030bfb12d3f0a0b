package keys_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/keyset"
	"github.com/natsleader/natsleader/keys"
)

// remote is a bucket of keys whose connection the test loses, and notices that it has.
type remote struct {
	keyset.Bucket
	lost chan struct{} // one value for each loss
	back chan struct{} // and for each return
}

func (r *remote) KeySet() keyset.Bucket { return r }

func (r *remote) Follow(ctx context.Context, filters []string, deliver func(keyset.Change)) error {
	until, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Bucket.Follow(until, filters, deliver) }()
	select {
	case err := <-ended:
		end()
		return err
	case <-r.lost:
	}
	end()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		return err
	}
	deliver(keyset.Change{Kind: keyset.Away})
	select {
	case <-r.back:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// While the connection to the keys is known to be lost nothing begins, also with guards, which need no read. What works goes on.
func TestAway(t *testing.T) {
	for _, guards := range []string{"", "g"} {
		t.Run("guards="+guards, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				r := &remote{lost: make(chan struct{}), back: make(chan struct{})}
				f.config = func(cfg *keys.Config) {
					r.Bucket = cfg.Bucket.KeySet()
					cfg.Guards, cfg.Bucket = guards, r
				}
				f.work = func(_ *process, k *keys.Key) {
					if k.Name() == "t.stays" {
						<-k.Context().Done()
					}
				}
				f.start("a")
				time.Sleep(coldStart)
				f.tenants.Put("t.stays", nil)
				f.tenants.Put("t.returns", nil)
				check.Deep(t, sorted(f.said()), []string{"a begins t.returns=", "a begins t.stays=", "a ends t.returns: <nil>"})
				r.lost <- struct{}{}
				time.Sleep(time.Hour)
				check.Equal(t, f.said(), "", "%s")
				r.back <- struct{}{}
				check.Equal(t, f.said(), "a begins t.returns=\na ends t.returns: <nil>", "%s")
			})
		})
	}
}
