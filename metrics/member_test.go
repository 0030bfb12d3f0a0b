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

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/golden"
	"github.com/natsleader/natsleader/internal/leadertest"
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
			go func() {
				for s := range m.Shards() {
					context.AfterFunc(s.Context(), s.Release)
				}
			}()
			time.Sleep(time.Second)
			return m
		}
		a, b := join("a"), join("b")
		var said strings.Builder
		counts := regexp.MustCompile(`(?m)^natsleader_renewal_duration_seconds_.*\n`) // how many writes there were is no promise
		show := func(c *metrics.Collector) {
			said.WriteString(counts.ReplaceAllString(strings.ReplaceAll(scrape(t, c), runtime.Version(), "GO"), "") + "\n")
		}
		var of, other metrics.Collector
		check.OK(t, of.AddMember(a))
		check.OK(t, other.AddMember(b))
		show(&of)
		show(&other)
		check.Equal(t, fmt.Sprint(of.AddMember(b)), `metrics: a member of group "orders" is collected already: remove it first, or use another collector`, "%s")
		check.That(t, of.AddMember(nil) != nil, "nil is added")
		of.RemoveMember(nil)
		of.RemoveMember(b)
		check.That(t, of.AddMember(b) != nil, "a was removed")
		_ = a.Stop(check.Ended())
		check.OK(t, of.AddMember(b))
		of.RemoveMember(b)
		show(&of)
		_ = b.Stop(check.Ended())
		golden.Check(t, said.String())
	})
}
