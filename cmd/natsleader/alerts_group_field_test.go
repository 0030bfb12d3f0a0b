//go:build field && alerts && unix

package main

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// joins makes a member of a group of eight shards. It is not scraped.
func (p *scrapedProcess) joins(program string) *shard.Member {
	p.Helper()
	b := expect.Got(leader.OpenBucket(p.js, "elections"))(p)
	return testworld.Works(p.T, b, "orders", shard.Config{ID: p.name, Shards: 8, Program: program}).Member
}

// What an exporter sees of a group whose members are not scraped fires one alert, which ends with the fault.
func TestAlerts_OfGroups(t *testing.T) {
	t.Parallel()
	trio := startTrio(t, "2.11.8")
	trio.makes(leader.BucketConfig{Name: "elections"})
	all := make(map[string]*scrapedProcess)
	for _, name := range []string{"a", "b", "c"} {
		all[name] = startScraped(t, name, trio.url("candidate"))
	}
	all["a"].joins("one")
	all["b"].joins("one")
	s := alertScript{t, startPrometheus(t, map[string]string{"exporter": startExporter(t, trio.url("admin"), "elections")}), time.Now()}
	s.quiet("all is well", 20*time.Second)

	other := all["c"].joins("two")
	s.fire("a member of another program joins", "ShardsProgramsDiffer,bucket:elections,group:orders}")
	expect.OK(t, other.Stop())
	s.over("it has left")

	trio.permit("$KV.elections.orders.shard.assigner")
	s.fire("no member may be the assigner", "ShardsNoAssigner,bucket:elections,group:orders}")
	trio.permit()
	s.over("they may again")

	for _, name := range []string{"a", "b"} {
		all[name].setCut(true)
	}
	s.fire("all members are cut off, as if they were dead", "ShardsUnowned,bucket:elections,group:orders}")
	for _, name := range []string{"a", "b"} {
		all[name].setCut(false)
	}
	s.over("they are back")
	s.quiet("after the repairs", 30*time.Second)
}
