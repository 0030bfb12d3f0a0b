package snippets_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// The times of README.md's table, with the default settings.
const (
	programLease    = 15 * time.Second // after the last renewal others lead
	programDeadline = 12 * time.Second // after it the term of a leader that is cut off ends
	// longestPause is the longest between two tries of a candidate that cannot reach the store: 5 s, and a quarter more.
	longestPause = 6250 * time.Millisecond
)

// service is a program of the pages. It runs until ctx has ended, and calls item for each item of its work.
type service func(ctx context.Context, store leader.Store, cfg leader.Config, item itemFunc) error

// itemFunc does an item with that context. The key is the number of a shard, and otherwise 0.
type itemFunc func(ctx context.Context, key int, token uint64)

// loop does one item after the other while the term leads.
func loop(lead context.Context, token uint64, item itemFunc) {
	for lead.Err() == nil {
		item(lead, 0, token)
	}
}

// campaign returns a program with a candidate whose terms work uses. It ends when the candidate has ended.
func campaign(work func(c *leader.Candidate, item itemFunc)) service {
	return func(ctx context.Context, store leader.Store, cfg leader.Config, item itemFunc) error {
		c, err := leader.Campaign(ctx, store, "e", cfg)
		if err != nil {
			return err
		}
		work(c, item)
		return c.Err()
	}
}

// grouped returns the program whose body is an errgroup. exact makes the context of a worker from that of the group.
func grouped(exact func(context.Context) context.Context) service {
	return campaign(func(c *leader.Candidate, item itemFunc) {
		for term := range c.Terms() {
			g, derived := errgroup.WithContext(term.Context())
			for range 3 {
				g.Go(func() error {
					loop(exact(derived), term.Token(), item)
					return nil
				})
			}
			_ = g.Wait()
		}
	})
}

// eventful returns the program that reads events. start starts the work of a term.
func eventful(start func(term *leader.Term, work func(lead context.Context))) service {
	return campaign(func(c *leader.Candidate, item itemFunc) {
		for e := range c.Events(context.Background(), leader.Elected{}) { // closed when the candidate has ended
			term := e.(leader.Elected).Term
			start(term, func(lead context.Context) { loop(lead, term.Token(), item) })
		}
	})
}

// The programs of README.md, of package leader, and of docs/howto.
var (
	bodies = campaign(func(c *leader.Candidate, item itemFunc) {
		for term := range c.Terms() {
			loop(term.Context(), term.Token(), item)
		}
	})
	crews = campaign(func(c *leader.Candidate, item itemFunc) {
		for term := range c.Terms() {
			for range 3 {
				term.Go(func(lead context.Context) { loop(lead, term.Token(), item) })
			}
		}
	})
	eventLoops   = eventful(func(term *leader.Term, work func(context.Context)) { term.Go(work) })
	errgroups    = grouped(leader.Exact)
	transactions = campaign(func(c *leader.Candidate, item itemFunc) {
		for term := range c.Terms() {
			for lead := term.Context(); lead.Err() == nil; {
				item(leader.Grace(lead), 0, term.Token())
			}
		}
	})
)

func locks(ctx context.Context, store leader.Store, cfg leader.Config, item itemFunc) error {
	for ctx.Err() == nil {
		lock, err := leader.Acquire(ctx, store, "e", cfg)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		lock.Go(func(lead context.Context) { item(lead, 0, lock.Token()) })
		item(lock.Context(), 0, lock.Token())
		_ = lock.Unlock(context.WithoutCancel(ctx)) // a lock that was lost is taken again
	}
	return nil
}

// serving returns the program of a member of a group. hand makes the context of an item from that of its shard.
func serving(hand func(lead context.Context) context.Context) service {
	return func(ctx context.Context, store leader.Store, cfg leader.Config, item itemFunc) error {
		m, err := shard.Join(ctx, store, "e", shard.Config{
			Shards: 3, ID: cfg.ID, GracePeriod: cfg.GracePeriod, ForceReconnect: cfg.ForceReconnect, Logger: cfg.Logger,
		})
		if err != nil {
			return err
		}
		return m.Serve(func(lead context.Context, s *shard.Shard) {
			for lead.Err() == nil {
				item(hand(lead), s.Number(), s.Token())
			}
		})
	}
}

var servedShards = serving(func(lead context.Context) context.Context { return lead })

// rows are the rows of README.md's table, one for each sentence. Only the bucket that the first candidate makes is
// missing, because a store in memory has its bucket from the beginning.
var rows = []row{
	{name: "SIGTERM", run: func(t *trial) { t.handover(t.both()) }},
	{
		name: "SIGTERM/long item and GracePeriod", cfg: leader.Config{GracePeriod: 25 * time.Second}, long: 20 * time.Second,
		run: func(t *trial) { t.handover(t.both()) },
	},
	{name: "SIGTERM/item of more than 6 s", long: 14 * time.Second, run: func(t *trial) {
		t.strikes(now, func(v *replica) {
			v.leaves = true
			v.stop()
			t.pass(6*time.Second - 1)
			t.excuse(v)
		}, func(b bound, end time.Time) time.Time {
			if late := b.from.Add(6 * time.Second); end.After(late) && t.name != "locks" { // StopTimeout is not for locks
				end = late
			}
			return end.Add(4 * t.oneWay)
		})
	}},
	{name: "crash", run: func(t *trial) { t.strikes(now, t.crash, t.lease) }},
	{name: "crash/the next starts later", run: func(t *trial) {
		v := t.alone()
		t.ends(now, v)
		t.crash(v)
		t.pass(time.Minute)
		begun, other := time.Now(), t.start("b")
		t.pass(time.Minute)
		t.cold = time.Second
		t.begins(other, func(bound, time.Time) time.Time { return begun.Add(programLease + 8*t.oneWay) })
	}},
	{name: "pause/items go on first", run: func(t *trial) { t.pause(true) }},
	{name: "pause/timers go on first", run: func(t *trial) { t.pause(false) }},
	{name: "pause/a day, alone", run: func(t *trial) {
		v := t.alone()
		t.ends(t.fenced, v)
		items, timers := t.hold(v), t.sleep(v)
		t.pass(24 * time.Hour)
		back := time.Now()
		items()
		synctest.Wait()
		timers()
		t.pass(time.Minute)
		t.begins(v, func(bound, time.Time) time.Time {
			if t.spare() { // the next candidate of the process finds a record, and cannot know how old it is
				return back.Add(programLease)
			}
			return back.Add(4 * t.oneWay)
		})
	}},
	{name: "black hole", run: func(t *trial) {
		v := t.strikes(t.fenced, func(v *replica) { v.Freeze() }, t.lease)
		v.Restore()
	}},
	{
		name: "black hole/back while an item runs", cfg: leader.Config{GracePeriod: 25 * time.Second}, long: 20 * time.Second,
		run: func(t *trial) {
			v, _ := t.both()
			t.ends(t.fenced, v)
			v.Freeze()
			t.pass(time.Until(t.bounds[0].from.Add(time.Second)))
			v.Thaw()
			t.pass(time.Minute)
			t.begins(nil, func(_ bound, end time.Time) time.Time { return end.Add(2 * t.oneWay) })
		},
	},
	{name: "no routes", run: func(t *trial) {
		v := t.strikes(t.fenced, func(v *replica) { v.Isolate() }, t.lease)
		v.Restore()
	}},
	{name: "no routes/ForceReconnect", cfg: leader.Config{ForceReconnect: true}, run: func(t *trial) {
		v, _ := t.both()
		t.ends(never, v)
		v.Isolate()
		t.pass(time.Minute)
		if t.name != "locks" {
			t.stays()
		}
	}},
	{name: "work hangs", run: func(t *trial) {
		v, _ := t.both()
		t.ends(never, v)
		resume := t.hold(v)
		t.pass(10 * time.Minute)
		t.stays()
		resume()
	}},
	{
		name: "work hangs/StallTimeout", cfg: leader.Config{StallTimeout: 5 * time.Second, GracePeriod: 2 * time.Second},
		run: func(t *trial) {
			var resume func()
			t.strikes(now, func(v *replica) {
				resume = t.hold(v)
				t.pass(4 * time.Second)
				t.excuse(v)
			}, func(b bound, _ time.Time) time.Time { return b.begun.Add(7*time.Second + 4*t.oneWay) })
			resume()
		},
	},
	{name: "away", run: func(t *trial) {
		a, b := t.both()
		t.ends(t.fenced, a, b)
		back := t.away()
		t.begins(nil, func(bound, time.Time) time.Time { return back.Add(5 * t.oneWay) })
	}},
	{name: "away/at the start", run: func(t *trial) {
		t.store.Link("a").Cut()
		t.store.Link("b").Cut()
		t.start("a")
		t.start("b")
		back := t.away()
		t.mu.Lock()
		defer t.mu.Unlock()
		if len(t.items) == 0 || t.items[0].begin.Before(back) || t.items[0].begin.Sub(back) > longestPause {
			t.accuse("the first item of %d does not begin within %v after NATS is there", len(t.items), longestPause)
		}
	}},
	{name: "connection closed", run: func(t *trial) {
		v := t.strikes(now, func(v *replica) {
			v.leaves = true
			v.Close()
		}, t.lease)
		check.Is(t, v.err, leader.ErrConnectionClosed)
	}},
}

// Each program of the pages does what README.md says in each fault of its table. Items of two terms do not overlap, tokens
// never go back, no item begins after its term, and the next term begins at the exact instant. The README counts the
// round trips of elections only. So locks and shards are tried without latency first, where their times are exact, too.
func TestPrograms(t *testing.T) {
	for _, p := range []struct {
		name string
		run  service
	}{
		{"bodies", bodies},
		{"crews", crews},
		{"events", eventLoops},
		{"errgroups", errgroups},
		{"transactions", transactions},
		{"locks", locks},
		{"shards", servedShards},
		{"transactions of shards", serving(leader.Grace)},
	} {
		latencies := []time.Duration{5 * time.Millisecond, 0}
		if p.name == "locks" || ofGroup(p.name) {
			slices.Reverse(latencies)
		}
		for _, oneWay := range latencies[:proof.Size(1, 2)] {
			for _, r := range rows {
				if ofGroup(p.name) && r.cfg.StallTimeout != 0 {
					continue // a group has none
				}
				t.Run(fmt.Sprintf("%s/%v/%s", p.name, oneWay, r.name), func(t *testing.T) {
					wrong := try(t, p.name, p.run, r, oneWay).wrong
					check.That(t, len(wrong) == 0, "%s", strings.Join(wrong[:min(8, len(wrong))], "\n"))
				})
			}
		}
	}
}

// The judge finds the mistakes that the pages warn of: work by a bare go statement, a derived context without Exact, and a
// transaction without Grace.
func TestPrograms_Judge(t *testing.T) {
	bare := eventful(func(term *leader.Term, work func(context.Context)) { go work(term.Context()) })
	derived := grouped(func(ctx context.Context) context.Context { return ctx })
	for _, c := range []struct {
		name, row, want string
		run             service
	}{
		{"bare", "SIGTERM", "beside one of a", bare},
		{"derived", "pause/items go on first", "after its term", derived},
		{"transactions", "SIGTERM", "rolled back", bodies},
		{"transactions of shards", "SIGTERM", "rolled back", servedShards},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rows[slices.IndexFunc(rows, func(r row) bool { return r.name == c.row })]
			wrong := strings.Join(try(t, c.name, c.run, r, 0).wrong, "\n")
			check.That(t, strings.Contains(wrong, c.want), "the judge does not say %q, but: %s", c.want, wrong)
		})
	}
}
