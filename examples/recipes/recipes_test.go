// Package recipes_test holds the code of docs/recipes.md, word for word, and runs it.
package recipes_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pool works on a term with several goroutines. The first error ends all of them.
func pool(lead context.Context, workers int, item func(context.Context) error) error {
	group, ctx := errgroup.WithContext(lead)
	for range workers {
		group.Go(func() error {
			for {
				if err := leader.Err(ctx); err != nil { // asks the clock; ctx.Err may be late
					return err
				}
				if err := item(ctx); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait() // the body of the loop ends after the last goroutine
}

// shards stands in n elections. For each of them another replica comes first in the order.
func shards(ctx context.Context, store leader.Store, replica string, n int, work func(lead context.Context, shard int)) error {
	group, ctx := errgroup.WithContext(ctx)
	for shard := range n {
		group.Go(func() error {
			sum := sha256.Sum256(fmt.Appendf(nil, "%d %s", shard, replica))
			c, err := leader.Campaign(ctx, store, fmt.Sprintf("shard.%d", shard), leader.Config{
				Succession: leader.Queue{Priority: int(binary.BigEndian.Uint16(sum[:])), Preempt: true},
			})
			if err != nil {
				return err
			}
			for term := range c.Terms() {
				work(term.Context(), shard)
			}
			return c.Err() // nil if ctx has ended
		})
	}
	return group.Wait()
}

// An error of one goroutine ends all of a pool, and so does the end of the term.
func TestPool_EndsTogether(t *testing.T) {
	broken := errors.New("broken")
	var items atomic.Int32
	err := pool(leadertest.NewTerm(t, leader.Config{}).Context(), 4, func(context.Context) error {
		if items.Add(1) == 10 {
			return broken
		}
		return nil
	})
	check.That(t, errors.Is(err, broken), "%v", err)
	term := leadertest.NewTerm(t, leader.Config{})
	items.Store(0)
	err = pool(term.Context(), 4, func(context.Context) error {
		if items.Add(1) == 1 {
			term.End(leader.ErrLeaseExpired)
		}
		return nil
	})
	check.That(t, errors.Is(err, leader.ErrLeaseExpired), "%v", err)
}

// Each shard has one leader, and each replica leads some.
func TestShards_Spread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		leads := map[int]string{}
		var all sync.WaitGroup
		for _, replica := range []string{"a", "b", "c"} {
			all.Go(func() {
				err := shards(ctx, store.Link(replica), replica, 30, func(lead context.Context, shard int) {
					mu.Lock()
					leads[shard] = replica
					mu.Unlock()
					<-lead.Done()
				})
				if err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Second)
		}
		time.Sleep(10 * time.Minute)
		mu.Lock()
		of := map[string]int{}
		for _, replica := range leads {
			of[replica]++
		}
		mu.Unlock()
		check.That(t, of["a"] != 0 && of["b"] != 0 && of["c"] != 0 && len(leads) == 30, "replicas lead %v", of)
		cancel()
		all.Wait()
	})
}
