package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// worker is a member of a group.
type worker struct {
	*shard.Member
	nc    *nats.Conn   // that only it uses
	hangs atomic.Int64 // how long its work goes on after the end of its context
}

// dies lets nothing of the member reach the server any more.
func (m *worker) dies() { m.nc.Close() }

// joins starts a member, and waits until it has its share.
func (w *world) joins(id string, cfg shard.Config) *worker {
	w.Helper()
	nc := w.dial()
	bucket := expect.Got(leader.OpenBucket(expect.Got(jetstream.New(nc))(w), "elections"))(w)
	cfg.ID, cfg.Shards = id, 8
	w.Cleanup(nc.Close)
	m := works(w, bucket, "orders", cfg)
	m.nc = nc
	time.Sleep(11 * time.Second) // no renewal is due
	return m
}

// works starts a member of a group that works on its shards.
func works(tb testing.TB, store leader.Store, group string, cfg shard.Config) *worker {
	tb.Helper()
	m := &worker{Member: expect.Got(shard.Join(context.Background(), store, group, cfg))(tb)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = m.Serve(func(lead context.Context, _ *shard.Shard) {
			<-lead.Done()
			time.Sleep(time.Duration(m.hangs.Load()))
		})
	}()
	tb.Cleanup(func() {
		_ = m.Stop() // its connection may be closed
		<-ended
	})
	return m
}

// status shows the members of a group, the owner of a shard, what moves and what has no owner.
func TestShards(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("status orders", "status orders --json", "status orders --shard 7", "status a.*")
		a := w.joins("a", shard.Config{Value: []byte("10.0.0.7:80")})
		w.prompt("status orders")
		b := w.joins("b", shard.Config{Value: []byte("\xff\x1b[2J"), Weight: 2, Most: 3, Hold: time.Minute})
		w.prompt("status orders", "status orders --json", "status orders --shard 0", "status orders --key customer-17")
		w.prompt("status orders --json --shard 7", "status --json orders --key order-4711")
		w.prompt("status orders --shard 8", "status orders --shard=-1", "status orders --shard 1 --key x", "status --shard 1", "status o* --key x", "status orders --shard 1 --roster", "status orders --key x --host h")
		w.notef("# the work of a does not end\n")
		a.hangs.Store(int64(10 * time.Second))
		c := w.joins("c", shard.Config{})
		a.hangs.Store(0)
		time.Sleep(10 * time.Second)
		a.hangs.Store(int64(10 * time.Second))
		w.prompt("step-down orders --shard 0 --to b --wait 2s", "status orders", "status orders --shard 0", "status orders --json --shard 0")
		time.Sleep(20700 * time.Millisecond) // no renewal is due after that
		a.hangs.Store(0)
		w.notef("# b dies, and its shards wait for a member of the same ID\n")
		b.dies()
		time.Sleep(14 * time.Second)
		w.prompt("status orders --shard 5")
		time.Sleep(4 * time.Second)
		w.prompt("status orders --shard 5", "status orders", "status orders --json --shard 5")
		w.notef("# a dies, too\n")
		a.dies()
		time.Sleep(2*time.Minute + 600*time.Millisecond) // a or c notes that b is gone, up to 800 ms apart
		w.prompt("status orders")
		w.complete("status ''", "step-down ''", "step-down orders --shard 0 --to ''", "drain x --only ''")
		w.notef("# the work of c goes on after its GracePeriod\n")
		c.hangs.Store(int64(time.Minute))
		w.joins("d", shard.Config{})
		time.Sleep(6100 * time.Millisecond) // see above
		w.prompt("status orders", "status orders --shard 0", "status orders --shard 7", "status orders --shard 7 --json")
		w.follow("watch orders")()
		w.follow("watch orders --json")()
		time.Sleep(time.Minute)
		w.prompt("status orders --shard 7")
	})
}

// Operators move a shard, drain members and undrain them. What cannot be done is said before, or after the wait.
func TestShardsSteer(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		orders := func() {
			time.Sleep(1100 * time.Millisecond) // no renewal is due
			w.prompt("status orders")
		}
		w.prompt("step-down orders --shard 0 --to a", "drain a --only orders", "undrain a --only orders")
		w.joins("web-2_7_x", shard.Config{})
		a := w.joins("web-1", shard.Config{Most: 6})
		w.prompt("step-down orders --shard 7 --to web-2_7_x", "step-down orders --shard 7 --to web-2_7_x", "step-down orders --shard 7 --to web-2_7_x --json")
		orders()
		w.prompt("step-down orders --shard 8 --to web-1", "step-down orders --shard=-1 --to web-1", "step-down orders --shard 0 --to web-3",
			"step-down orders --shard 0", "step-down orders --shard 0 --to next", "step-down orders --shard 7 --to web-1 --dry-run", "step-down orders --shard 7 --to web-1 --dry-run --json")
		w.prompt("drain web-3 --only orders", "undrain web-3 --only orders")
		w.notef("# web-1 alone takes 6 of 8 shards\n")
		w.prompt("drain web-2_7_x --only orders", "drain web-2 --only orders --dry-run", "drain web-2 --dry-run --json")
		orders()
		w.answers("drain web-2", "n", nil)
		w.answers("drain web-2 --only orders", "y", nil)
		orders()
		w.prompt("step-down orders --shard 0 --to web-2_7_x", "step-down orders --shard 0 --to web-1", "undrain web-2 --only orders --json")
		time.Sleep(11 * time.Second)
		orders()
		w.prompt("undrain web-3")
		w.notef("# the work of web-1 does not end at once\n")
		a.hangs.Store(int64(10 * time.Second))
		w.prompt("drain web-1 --only orders --wait 5s", "drain web-1 --only orders --json", "undrain web-1 --only orders")
		time.Sleep(11 * time.Second)
		a.hangs.Store(0)
		w.prompt("drain web-1 --only orders --json")
		w.prompt("step-down orders --shard 1 --to web-1")
		w.notef("# another program overwrites the key of the assigner\n")
		put(w.T, w.js, "orders.shard.assigner", "junk")
		time.Sleep(time.Second)
		w.prompt("undrain web-1 --only orders", "step-down orders --shard 1 --to web-1 --wait 5s")
		orders()
		w.notef("# web-1 dies\n")
		a.dies()
		time.Sleep(time.Minute)
		w.prompt("step-down orders --shard 1 --to web-1")
		orders()
		w.notef("# web-3 dies, and is drained at once\n")
		w.joins("web-3", shard.Config{}).dies()
		w.prompt("drain web-3 --only orders")
		orders()
		w.notef("# web-4 dies, and its shards wait for a member of the same ID until it is drained\n")
		w.joins("web-4", shard.Config{Hold: time.Minute}).dies()
		time.Sleep(20 * time.Second)
		w.prompt("status orders", "step-down orders --shard 4 --to web-4", "drain web-4 --only orders --json")
		w.notef("# web-5 stops, and its work does not end at once\n")
		leaves := w.joins("web-5", shard.Config{})
		leaves.hangs.Store(int64(5 * time.Second))
		ended := make(chan error)
		go func() { ended <- leaves.Stop() }()
		time.Sleep(time.Second)
		w.prompt("status orders", "step-down orders --shard 4 --to web-5")
		expect.OK(w, <-ended)
	})
}

// drain leaves neither elections nor shards to a host, and says what it has not moved.
func TestDrain_Members(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.campaigns("billing", leader.Config{ID: "h_1_aaaaaa"})
		time.Sleep(time.Second)
		w.campaigns("billing", leader.Config{ID: "web-2"})
		h := w.joins("h_2_bbbbbb", shard.Config{})
		w.joins("web-2", shard.Config{})
		w.prompt("status --host h", "status --host h --json", "status b* --host web-2 --sort for", "status --host nobody", "drain h --dry-run")
		time.Sleep(time.Second) // no renewal is due
		w.notef("# the work does not end at once\n")
		h.hangs.Store(int64(10 * time.Second))
		w.timed("drain h --wait 5s", "drain h", "status orders --json", "drain h --json", "drain h --dry-run")
		w.prompt("undrain h")
		time.Sleep(12 * time.Second)
		h.hangs.Store(0)
		w.prompt("status orders")
		w.notef("# web-2 is drained, so that nobody is left\n")
		w.prompt("drain web-2 --only orders --yes", "drain h", "status", "drain h --yes", "drain nobody")
		w.notef("# another group cannot be read, and elections are handed over all the same\n")
		put(w.T, w.js, "mails.shard.map", `{"v":99}`)
		w.prompt("undrain h web-2", "status mails", "status mails --shard 0")
		w.follow("watch mails")()
		time.Sleep(12 * time.Second)
		w.prompt("drain h --dry-run", "drain web-2", "undrain web-2")
		time.Sleep(12 * time.Second)
		w.prompt("drain h --yes", "undrain h", "undrain h")
		w.notef("# a cordon is left, or a drained member\n")
		expect.OK(w, expect.Got(w.js.KeyValue(w.Context(), "elections"))(w).Delete(w.Context(), "mails.shard.map"))
		time.Sleep(12 * time.Second)
		w.prompt("drain h --keep", "undrain h", "drain h --only orders", "undrain h", "undrain h")
	})
}

// watch reports each change once, of the group and of one shard, also after the server was away.
func TestShardsWatch(t *testing.T) {
	for name, flags := range map[string]string{"people": "", "programs": " --json", "shard": " --shard 7"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, leader.BucketConfig{}, func(w *world) {
				follow := func() (stop func()) {
					stop = w.follow("watch orders" + flags)
					time.Sleep(tick / 2) // nothing happens at a tick
					return stop
				}
				var stop func()
				if name == "shard" { // the group need not exist
					stop = follow()
				}
				w.joins("a", shard.Config{Value: []byte("10.0.0.7:80")}).hangs.Store(int64(time.Second))
				if name != "shard" {
					stop = follow()
				}
				b := w.joins("b", shard.Config{})
				w.notef("# b leaves\n")
				expect.OK(w, b.Stop())
				time.Sleep(time.Minute)
				w.notef("# the server restarts\n")
				w.restart()
				time.Sleep(time.Minute)
				c := w.joins("c", shard.Config{})
				stop()
				w.notef("# c is drained, and not any more\n")
				stop = follow()
				time.Sleep(time.Second)
				w.run("drain c --only orders")
				time.Sleep(time.Second)
				w.run("undrain c --only orders")
				time.Sleep(11 * time.Second)
				w.notef("# c dies\n")
				c.dies()
				time.Sleep(20 * time.Second)
				w.notef("# d dies, and is back before its Hold is over\n")
				w.joins("d", shard.Config{Hold: time.Minute}).dies()
				time.Sleep(20 * time.Second)
				d := w.joins("d", shard.Config{Hold: 30 * time.Second})
				w.notef("# d dies again, and its Hold is over\n")
				d.dies()
				time.Sleep(time.Minute)
				stop()
			})
		})
	}
}

// doctor and status know groups: their keys are no elections that are silent or foreign.
func TestShards_DoctorAndStatus(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		f := w.findingsBeside("")
		a := w.joins("a", shard.Config{})
		b := w.joins("b", shard.Config{Hold: time.Minute})
		w.campaigns("billing", leader.Config{ID: "x"})
		f.show("")
		w.prompt("status", "status --json", "status --roster")
		w.notef("# b dies\n")
		b.dies()
		time.Sleep(20 * time.Second)
		f.show("")
		w.prompt("status")
		w.notef("# a is drained, and its work does not end\n")
		a.hangs.Store(int64(time.Minute))
		w.prompt("drain a --only orders --yes")
		f.show("")
		w.notef("# a dies, too\n")
		a.dies()
		time.Sleep(time.Minute)
		f.show("")
		w.prompt("status")
		w.notef("# a later version is back as a\n")
		var fields map[string]any
		expect.OK(w, json.Unmarshal([]byte(record(w.T, w.js, "orders.shard.member.a", "a", time.Hour)), &fields))
		fields["value"] = `{"v":2}`
		put(w.T, w.js, "orders.shard.member.a", string(expect.Got(json.Marshal(fields))(w)))
		f.show("")
		w.notef("# others overwrite keys of the group\n")
		for _, key := range []string{"page.0", "member.a", "assigner", "map"} {
			w.publish("$KV.elections.orders.shard."+key, "junk")
			f.show("")
		}
		w.prompt("status", "status --json")
		w.publish("$KV.elections.orders.shard.map", `{"v":2}`)
		f.show("")
	})
}

// Shards that are granted and not begun are shown by each command, and on the page, until the work begins.
func TestShards_NotBegun(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		f := w.findingsBeside("")
		w.joins("b", shard.Config{})
		a := expect.Got(shard.Join(context.Background(), w.bucket, "orders", shard.Config{ID: "a", Shards: 8}))(w)
		ended := make(chan struct{})
		w.Cleanup(func() {
			expect.OK(w, a.Stop())
			<-ended
		})
		time.Sleep(1050 * time.Millisecond) // between two ticks, here and below
		watch := w.follow("watch orders")
		time.Sleep(20 * time.Second)
		watch()
		w.prompt("status orders", "status orders --json", "status orders --shard 7", "status orders --shard 7 --json", "status", "status orders", "status orders --json", "step-down orders --shard 0 --to a --wait 2s")
		f.show("")
		page := w.follow("serve")
		w.reads("/api/elections")
		time.Sleep(2*time.Second + 7*time.Millisecond) // between two ticks
		w.notef("# a calls Serve\n")
		go func() {
			defer close(ended)
			_ = a.Serve(func(lead context.Context, _ *shard.Shard) { <-lead.Done() })
		}()
		time.Sleep(2 * time.Second)
		page()
		w.prompt("status orders", "status orders --shard 0")
		f.show("")
	})
}

// The name of a group is that of no election. The key of a member that has died shows who took it.
func TestShards_InPlaceOfElections(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("status orders")
		w.joins("a", shard.Config{})
		b := w.joins("b", shard.Config{Value: []byte("10.0.0.7:80")})
		w.prompt("bucket add --history 1d")
		w.follow("watch orders")()
		w.prompt("status orders", "status orders --json", "history orders", "step-down orders", "step-down orders --to next", "status orders.shard.member.b")
		b.dies()
		time.Sleep(20 * time.Second)
		w.follow("watch orders.shard.member.b")()
		w.prompt("status orders.shard.member.b", "status orders.shard.member.b --json")
		expect.OK(w, w.joins("c", shard.Config{}).Stop())
		time.Sleep(time.Second)
		w.prompt("status orders.shard.member.c", "status orders.shard.member.c --json", "status orders --json")
	})
}

// A group whose members have left needs no attention.
func TestShards_DoctorAllLeft(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		f := w.findingsBeside("")
		expect.OK(w, w.joins("a", shard.Config{}).Stop())
		f.show("")
		w.publish("$KV.elections.orders.shard.page.0", `{"v":2}`)
		f.show("")
	})
}

// watch takes the map of a group for no elections.
func TestShards_WatchedElections(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		for _, key := range []string{"billing", "orders.shard.map", "orders.shard.page.0"} {
			w.publish("$KV.elections."+key, "foreign")
		}
		w.follow("watch")()
	})
}

// A view of a group remembers so many changes of members.
func TestShards_WatchRemembersFew(t *testing.T) {
	w := &shardsWatcher{s: &inspector{}, newest: sharing{only: -1}, out: jsonLines{textLines{out: io.Discard}}}
	for i := range mostRecent + 6 {
		w.newest.view.Members = append(w.newest.view.Members, shard.Peer{ID: fmt.Sprint(i)})
		expect.OK(t, w.ticked(t.Context()))
	}
	expect.That(t, len(w.recent) == mostRecent && w.recent[mostRecent-1].ID == fmt.Sprint(mostRecent+5), "%d: %+v", len(w.recent), w.recent)
}

// What gives shards an owner depends on the members that live: one that takes shards will take them, and otherwise each reason
// why none does has its remedy.
func TestSharing_Remedy(t *testing.T) {
	peer := func(id string, most int, drained bool) shard.Peer {
		return shard.Peer{ID: id, Most: most, Drained: drained, Holder: leader.Holder{ID: id, State: leader.HolderLeading}}
	}
	for want, members := range map[string][]shard.Peer{
		"start members": {{ID: "a", Holder: leader.Holder{State: leader.HolderExpired}}},
		"let drained members take shards again (natsleader undrain b), or start members":                       {peer("b", 0, true)},
		"raise Most of a, or start members":                                                                    {peer("a", 3, false)},
		"let drained members take shards again (natsleader undrain b c), or raise Most of a, or start members": {peer("a", 3, false), peer("b", 0, true), peer("c", 1, true)},
		"look again after the lease and the Hold of the members; if it stays, see their logs":                  {peer("a", 0, false), peer("b", 0, true)},
	} {
		x := sharing{group: "orders", view: shard.View{Members: members}}
		expect.Equal(t, x.remedy(), want, "%q; want %q")
	}
}
