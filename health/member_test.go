package health_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/health"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/golden"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/shard"
)

// A member whose shards have waited for Serve for a lease is not live, and not ready, until Serve begins the work.
func TestMember_NotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from, said := time.Now(), new(strings.Builder)
		m := check.Got(shard.Join(t.Context(), leadertest.NewStore(nil), "orders", shard.Config{ID: "a", Shards: 4}))(t)
		ask := func(after time.Duration) {
			time.Sleep(after)
			synctest.Wait()
			w, live := ask(health.MemberConnected(m), http.MethodGet), ask(health.MemberLive(m), http.MethodGet)
			fmt.Fprintf(said, "%v: %d %s%d %s", time.Since(from), w.Code, w.Body, live.Code, live.Body)
		}
		ask(15*time.Second - 1)
		ask(1)
		go func() { _ = m.Serve(func(lead context.Context, _ *shard.Shard) { <-lead.Done() }) }()
		ask(0)
		check.OK(t, m.Stop())
		golden.Check(t, said.String())
	})
}

// A member is connected while its lease is valid, and live until it has ended with an error. The assigner knows the group.
func TestMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, from, said := leadertest.NewStore(nil), time.Now(), new(strings.Builder)
		ask := func(members ...*shard.Member) {
			synctest.Wait()
			for _, m := range members {
				w, live := ask(health.MemberConnected(m), http.MethodGet), ask(health.MemberLive(m), http.MethodGet)
				fmt.Fprintf(said, "%v: %d %s%d %s", time.Since(from), w.Code, w.Body, live.Code, live.Body)
			}
		}
		hangs := make(chan struct{})
		join := func(id string, shards int) *shard.Member {
			m := check.Got(shard.Join(t.Context(), store.Link(id), "orders", shard.Config{ID: id, Shards: shards}))(t)
			go func() {
				_ = m.Serve(func(lead context.Context, _ *shard.Shard) {
					<-lead.Done()
					<-hangs
				})
			}()
			time.Sleep(time.Second)
			return m
		}
		a, b := join("a", 5), join("b", 5)
		ask(a, b)
		close(hangs)
		ask(a, b)
		store.Link("b").Cut()
		time.Sleep(12 * time.Second)
		ask(a, b)
		store.Link("b").Restore()
		ask(join("c", 6), nil)
		check.OK(t, a.Stop())
		check.OK(t, b.Stop())
		ask(a)
		golden.Check(t, said.String())
	})
}
