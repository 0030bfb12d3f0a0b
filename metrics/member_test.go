package metrics_test

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/golden"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/metrics"
	"github.com/natsleader/natsleader/shard"
)

// The scrape of the assigner has the group's figures, that of another member has not. A member takes the place of one that
// has left.
func TestMember_AllMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leadertest.NewStore(nil)
		join := func(id string) *shard.Member {
			m := check.Got(shard.Join(t.Context(), store.Link(id), "orders", shard.Config{ID: id, Shards: 5}))(t)
			go func() { _ = m.Serve(func(lead context.Context, _ *shard.Shard) { <-lead.Done() }) }()
			time.Sleep(time.Second)
			return m
		}
		a := join("a")
		var said strings.Builder
		counts := regexp.MustCompile(`(?m)^natsleader_renewal_duration_seconds_.*\n`) // how many writes there were is no promise
		show := func(c *metrics.Collector) {
			said.WriteString(counts.ReplaceAllString(strings.ReplaceAll(scrape(t, c), runtime.Version(), "GO"), "") + "\n")
		}
		var of, other metrics.Collector
		check.OK(t, of.AddMember(a))
		check.That(t, strings.Contains(scrape(t, &of), "natsleader_shards_rebalance_age_seconds"), "the first grant has no age")
		b := join("b")
		check.OK(t, other.AddMember(b))
		show(&of)
		show(&other)
		check.Equal(t, fmt.Sprint(of.AddMember(b)), `metrics: a member of group "orders" is collected already: remove it first, or use another collector`, "%s")
		check.That(t, of.AddMember(nil) != nil, "nil is added")
		of.RemoveMember(nil)
		of.RemoveMember(b)
		check.That(t, of.AddMember(b) != nil, "a was removed")
		_ = a.Stop()
		check.OK(t, of.AddMember(b))
		of.RemoveMember(b)
		show(&of)
		_ = b.Stop()
		golden.Check(t, said.String())
	})
}

// busy is a link to a bucket that takes no request now.
type busy struct {
	*leadertest.Link
	in *backend.Window
}

func newBusy(name string) busy {
	b := busy{leadertest.NewStore(nil).Link(name), backend.NewWindow(1, 1)}
	b.in.Take(new(backend.Place), backend.RankOverdue, nil, time.Now())
	return b
}

func (b busy) Backend() backend.Store { return windowed{b.Link.Backend(), b.in} }

type windowed struct {
	backend.Store
	in *backend.Window
}

func (w windowed) Window() *backend.Window { return w.in }

// A scrape has the longest queue of all candidates and members, and the members of all groups.
func TestCollector_LongestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var of metrics.Collector
		add := func(b busy, group string) {
			check.OK(t, of.AddMember(check.Got(shard.Join(t.Context(), b, group, shard.Config{Shards: 1}))(t)))
			time.Sleep(2 * time.Second)
		}
		is := func(text string) {
			t.Helper()
			got := scrape(t, &of)
			check.That(t, strings.Contains(got, text), "%s", got)
		}
		b := newBusy("b")
		candidate := check.Got(leader.Campaign(t.Context(), b, "e", leader.Config{}))(t)
		check.OK(t, of.Add(candidate))
		time.Sleep(2 * time.Second)
		is("natsleader_queue_age_seconds 2\n")
		of.Remove(candidate)
		c := newBusy("c")
		add(c, "orders")
		add(c, "invoices")
		is("natsleader_queue_age_seconds 4\n")
		is(`natsleader_shards_owned{bucket="",group="invoices"} 0
natsleader_shards_owned{bucket="",group="orders"} 0
`)
	})
}
