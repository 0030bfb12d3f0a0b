package leader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/kvelect"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// campaign makes a candidate and writes down its transitions.
func (p *parity) campaign(s leader.Store, election string, cfg leader.Config) *leader.Candidate {
	c, err := leader.Campaign(p.Context(), s, election, cfg)
	p.say("campaign of %.20s in %.20q: %s", cfg.ID, election, p.name(err))
	if err != nil {
		return nil
	}
	p.Cleanup(func() {
		_ = c.Stop() // the context of the test has ended
		<-c.Done()
	})
	go func() {
		for e := range c.Events(context.Background()) {
			switch e := e.(type) {
			case leader.Pending:
				p.say("  [%s] pending for %v", c.ID(), time.Until(e.Until).Round(time.Second))
			case leader.Elected:
				p.say("  [%s] elected, token %d", c.ID(), p.rev("key", e.Term.Token()))
			case leader.Fenced:
				p.say("  [%s] fenced: %s", c.ID(), p.name(e.Cause))
			case leader.Deposed:
				p.say("  [%s] deposed: %s", c.ID(), p.name(e.Cause))
			case leader.Faulted:
				p.say("  [%s's faults] %s", c.ID(), p.name(e.Err)) // of requests that are made at the same time
			case leader.Observed:
				if e.Holder.ID != "" { // a free key may be taken before it is seen
					p.say("  [%s] observes %q", c.ID(), e.Holder.ID)
				}
			}
		}
	}()
	synctest.Wait()
	return c
}

// The settings of a bucket are known when a candidate is made.
func TestParity_Campaign(t *testing.T) {
	inParity(t, func(p *parity) {
		s, _, _, _ := p.open("a")
		p.settings(s)
		for i, cfg := range []leader.Config{
			{LeaseDuration: 16 * time.Second},
			{LeaseDuration: time.Hour},
			{LeaseDuration: -1},
			{LeaseDuration: time.Microsecond},
			{LeaseDuration: 2 * time.Second, RenewDeadline: 3 * time.Second},
			{LeaseDuration: 2 * time.Second, RenewInterval: 3 * time.Second},
			{RenewDeadline: 20 * time.Second},
			{TurnTimeout: 20 * time.Second},
			{MinToken: 1 << 63},
			{Guards: []leader.Guard{nil}},
			{ID: strings.Repeat("i", 300)},
			{Value: make([]byte, maxValue+1)},
		} {
			if cfg.ID == "" {
				cfg.ID = fmt.Sprint("c", i)
			}
			if c := p.campaign(s, "e", cfg); c != nil {
				p.result("stop", func() error { return c.Stop() })
			}
		}
		for i, marked := range []leader.Store{kvelect.Beside(s), seats.Of(s, -1), seats.Of(kvelect.Beside(s), 2)} {
			if c := p.campaign(marked, "e", leader.Config{ID: fmt.Sprint("m", i)}); c != nil {
				p.result("stop", func() error { return c.Stop() })
			}
		}
		p.campaign(s, "", leader.Config{})
		p.campaign(s, "a b", leader.Config{ID: "a"})
		p.pass(time.Minute)
	}, bucketSealed, bucketExpiring, bucketOrdinary, bucketSmall)
}

// Candidates hand over, are asked to hand over, and lose the key and the bucket.
func TestParity_Candidates(t *testing.T) {
	inParity(t, func(p *parity) {
		sa, _, _, _ := p.open("a")
		sb, cutB, restoreB, _ := p.open("b")
		so, _, _, _ := p.open("o")
		lookup := func() {
			h, err := leader.Lookup(p.Context(), so, "e")
			p.say("lookup: %q, token %d, %s", h.ID, p.rev("key", h.Token), p.name(err))
		}
		lookup()
		cfg := leader.Config{LeaseDuration: 5 * time.Second}
		cfg.ID = "a"
		a := p.campaign(sa, "e", cfg)
		p.pass(15 * time.Second) // unless the bucket is purge-protected it is pending
		cfg.ID = "b"
		b := p.campaign(sb, "e", cfg)
		p.pass(time.Second)
		lookup()
		p.result("step down", func() error {
			_, err := leader.StepDown(p.Context(), so, "e", leader.StepDownOptions{By: "me"})
			return err
		})
		p.pass(time.Second)
		lookup()
		p.result("transfer to nobody", func() error {
			_, err := leader.StepDown(p.Context(), so, "e", leader.StepDownOptions{To: "nobody", By: "me"})
			return err
		})
		p.pass(20 * time.Second)
		lookup()
		for _, c := range []*leader.Candidate{a, b} {
			p.result("resign", func() error { return leadertest.Resign(p.Context(), c) })
			p.result("transfer", func() error { return leadertest.Led(c).TransferTo(p.Context(), "nobody") })
			p.result("transfer", func() error { return leadertest.Led(c).TransferTo(p.Context(), "") })
			p.result("proclaim", func() error { return leadertest.Led(c).Proclaim(p.Context(), []byte("v")) })
			p.result("proclaim", func() error { return leadertest.Led(c).Proclaim(p.Context(), make([]byte, maxValue+1)) })
			p.pass(20 * time.Second)
		}
		p.del("e")
		p.pass(20 * time.Second)
		lookup()
		if !p.sealed() {
			return // a foreign record expires when it lapses; and without republished messages a feed ends with its connection
		}
		p.result("stop", func() error { return a.Stop() }) // both would wait for the same instant
		p.put("e", "foreign")
		p.pass(30 * time.Second)
		lookup()
		cutB()
		p.pass(20 * time.Second)
		restoreB()
		p.pass(time.Second)
		p.result("stop", func() error { return b.Stop() })
		p.pass(10 * time.Second)
		lookup()
	}, bucketSealed, bucketExpiring, bucketOrdinary)
}

// parityWriter is the interface of the writers of both kinds.
type parityWriter interface {
	Put(ctx context.Context, key string, value []byte) (uint64, error)
	Create(ctx context.Context, key string, value []byte) (uint64, error)
	Update(ctx context.Context, key string, value []byte, last uint64) (uint64, error)
	Delete(ctx context.Context, key string) error
	Purge(ctx context.Context, key string) error
}

// guardedParity is a guarded bucket on either side.
type guardedParity struct {
	guard  leader.Guard
	writer func(*leader.Term) parityWriter
	del    func(key string)
	put    func(key, value string)
	drop   func()
}

var errNoGuard = errors.New("no guard")

func (p *parity) guarded(name string) guardedParity {
	switch o := p.operator.(type) {
	case *realOperator:
		_, err := fence.CreateOrUpdateBucket(p.Context(), o.ops.js, jetstream.KeyValueConfig{Bucket: "G", Storage: jetstream.MemoryStorage})
		o.ok(err)
		g, err := fence.OpenBucket(o.dial(name+"'s writer").js, "G")
		o.ok(err)
		kv, err := o.ops.js.KeyValue(p.Context(), "G")
		o.ok(err)
		return guardedParity{
			g,
			func(t *leader.Term) parityWriter { return g.Writer(t) },
			func(key string) { o.ok(kv.Delete(p.Context(), key)) },
			func(key, value string) { o.write(kv, key, value) },
			func() { o.ok(o.ops.js.DeleteStream(p.Context(), "KV_G")) },
		}
	case kitOperator:
		g := o.guarded.Link(name).Guard()
		return guardedParity{
			g,
			func(t *leader.Term) parityWriter { return g.Writer(t) },
			func(key string) { o.guarded.Delete(key) },
			func(key, value string) { o.guarded.Put(key, []byte(value)) },
			o.guarded.Drop,
		}
	}
	p.Fatal(errNoGuard)
	return guardedParity{}
}

func TestParity_GuardedWrites(t *testing.T) {
	inParity(t, func(p *parity) {
		s, _, _, _ := p.open("a")
		g := p.guarded("a")
		c := p.campaign(s, "e", leader.Config{ID: "a", LeaseDuration: 10 * time.Second, Guards: []leader.Guard{g.guard}})
		p.pass(time.Second)
		term, ok := c.Term()
		check.Must(t, ok, "it does not lead")
		w := g.writer(term)
		last := uint64(0)
		write := func(what string, do func(ctx context.Context) (uint64, error)) {
			p.result(what, func() error {
				ctx, cancel := context.WithTimeout(p.Context(), 20*time.Second)
				defer cancel()
				revision, err := do(ctx)
				if err == nil {
					last = revision
				}
				return err
			})
		}
		put := func(key, value string) {
			write(fmt.Sprintf("put %.20q %.20q", key, value), func(ctx context.Context) (uint64, error) { return w.Put(ctx, key, []byte(value)) })
		}
		put("x", "1")
		for _, key := range []string{"", "a b", ".", "a..b", "*", "ä", fence.DefaultGuardKey} {
			put(key, "1")
		}
		put("x", strings.Repeat("x", 2<<20))
		write("create x", func(ctx context.Context) (uint64, error) { return w.Create(ctx, "x", []byte("2")) })
		write("create y", func(ctx context.Context) (uint64, error) { return w.Create(ctx, "y", []byte("2")) })
		write("update y", func(ctx context.Context) (uint64, error) { return w.Update(ctx, "y", []byte("3"), last) })
		write("update y late", func(ctx context.Context) (uint64, error) { return w.Update(ctx, "y", []byte("3"), last-1) })
		write("update z", func(ctx context.Context) (uint64, error) { return w.Update(ctx, "z", []byte("3"), 0) })
		write("delete y", func(ctx context.Context) (uint64, error) { return last, w.Delete(ctx, "y") })
		write("create y", func(ctx context.Context) (uint64, error) { return w.Create(ctx, "y", []byte("4")) })
		write("purge y", func(ctx context.Context) (uint64, error) { return last, w.Purge(ctx, "y") })
		g.del(fence.DefaultGuardKey)
		put("x", "after the guard was deleted")
		p.pass(time.Second)
		g.put(fence.DefaultGuardKey, "junk")
		put("x", "after the guard was overwritten")
		p.pass(time.Second)
		p.result("resign", func() error { return leadertest.Resign(p.Context(), c) })
		put("x", "after the term, the guard stands")
		p.pass(15 * time.Second)
		put("x", "in the next term, by the writer of the first")
		next, ok := c.Term()
		check.Must(t, ok, "it does not lead again")
		w = g.writer(next)
		put("x", "in the next term")
		g.put(fence.DefaultGuardKey, `{"v":1,"election":"E.other","token":5,"id":"o","session":"o"}`)
		put("x", "at another election's guard")
		p.pass(time.Second)
		g.del(fence.DefaultGuardKey)
		p.pass(11 * time.Second)
		put("x", "after that was deleted")
		other := g.writer(new(leader.Term))
		p.result("put of a term without the guard", func() error { _, err := other.Put(p.Context(), "x", nil); return err })
		p.result("resign", func() error { return leadertest.Resign(p.Context(), c) })
		g.del(fence.DefaultGuardKey)
		put("x", "after the term, the guard is gone")
		g.drop()
		put("x", "after the bucket is gone")
	}, bucketSealed)
}
