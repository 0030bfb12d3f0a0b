package keys_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/keyset"
	"github.com/natsleader/natsleader/keys"
	"github.com/natsleader/natsleader/leader"
)

// scripted is a bucket of which the test plays each watch, and each read of t.k.
type scripted struct {
	keyset.Bucket
	watches chan func(ctx context.Context, deliver func(keyset.Change)) error
	reads   chan keyset.Entry
}

func (s *scripted) KeySet() keyset.Bucket { return s }

func (s *scripted) Follow(ctx context.Context, _ []string, deliver func(keyset.Change)) error {
	select {
	case watch := <-s.watches:
		return watch(ctx, deliver)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *scripted) Get(ctx context.Context, key string) (keyset.Entry, error) {
	reads := s.reads
	if key != "t.k" {
		reads = nil
	}
	select {
	case e := <-reads:
		return e, nil
	case <-ctx.Done():
		return keyset.Entry{}, ctx.Err()
	}
}

// A read shows a loss of the bucket just after the watch has ended: the list that follows began before that, and is not believed,
// so the set is read once more.
func TestRelist_JustAfterABreak(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // the set takes the read before its follower goes on
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		b := &scripted{watches: make(chan func(context.Context, func(keyset.Change)) error), reads: make(chan keyset.Entry)}
		isBusy, goesOn := make(chan struct{}), make(chan struct{})
		f.config = func(cfg *keys.Config) {
			b.Bucket = cfg.Bucket.KeySet()
			cfg.Bucket = b
			cfg.Wants = func(e keys.Entry) bool {
				if e.Name == "t.slow" {
					close(isBusy)
					<-goesOn
				}
				return true
			}
		}
		f.start("a")
		time.Sleep(coldStart)
		put := func(name, value string, rev uint64) keyset.Change {
			return keyset.Change{Kind: keyset.Put, Entry: keyset.Entry{Name: name, Value: []byte(value), Revision: rev}}
		}
		list := func(deliver func(keyset.Change), value string) {
			deliver(put("t.k", value, 5))
			deliver(keyset.Change{Kind: keyset.Listed, Entry: keyset.Entry{Revision: 5}})
		}
		b.watches <- func(_ context.Context, deliver func(keyset.Change)) error {
			list(deliver, "old")
			deliver(put("t.slow", "", 6))
			return nil
		}
		<-isBusy
		synctest.Wait() // the follower waits to report the end of the watch
		b.reads <- keyset.Entry{Name: "t.k", Value: []byte("new"), Revision: 5}
		synctest.Wait() // and the read to be taken after that
		close(goesOn)
		for range 2 {
			select {
			case b.watches <- func(ctx context.Context, deliver func(keyset.Change)) error {
				list(deliver, "new")
				<-ctx.Done()
				return ctx.Err()
			}:
			case <-time.After(time.Hour):
				t.Fatal("the set is not read again")
			}
		}
		b.reads <- keyset.Entry{Name: "t.k", Value: []byte("new"), Revision: 5}
		check.Equal(t, f.said(), "a begins t.k=new", "%s")
		check.Equal(t, f.logged("has lost writes"), 1, "%d lines")
	})
}

// counted is a bucket whose keys cannot be read. It counts the lists.
type counted struct {
	keyset.Bucket
	lists atomic.Int32
}

func (c *counted) KeySet() keyset.Bucket { return c }

func (c *counted) Follow(ctx context.Context, filters []string, deliver func(keyset.Change)) error {
	c.lists.Add(1)
	return c.Bucket.Follow(ctx, filters, deliver)
}

func (c *counted) Get(context.Context, string) (keyset.Entry, error) {
	return keyset.Entry{}, leader.ErrUnreachable
}

// Keys that cannot be read have the set read again once in 30 s, however many they are and whenever they came.
func TestRelist_ManyReadsInVain(t *testing.T) {
	for _, n := range []int{1, 300} {
		t.Run(fmt.Sprint("keys=", n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t)
				c := new(counted)
				f.config = func(cfg *keys.Config) {
					c.Bucket = cfg.Bucket.KeySet()
					cfg.Bucket = c
				}
				f.start("a")
				time.Sleep(coldStart)
				for i := range n {
					f.tenants.Put(fmt.Sprint("t.", i), nil)
					time.Sleep(97 * time.Millisecond)
				}
				time.Sleep(time.Minute)
				c.lists.Store(0)
				time.Sleep(5 * time.Minute)
				check.Equal(t, c.lists.Load(), 10, "%d lists")
			})
		})
	}
}
