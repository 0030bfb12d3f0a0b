package main

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// status shows the members of a group, the owner of a shard, what moves and what has no owner.
func TestShards(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("status orders", "status orders --json", "status orders --shard 7", "status a.*")
		a := w.Joins("a", shard.Config{Value: []byte("10.0.0.7:80")})
		w.Prompt("status orders")
		b := w.Joins("b", shard.Config{Value: []byte("\xff\x1b[2J"), Weight: 2, Most: 3, Hold: time.Minute})
		w.Prompt("status orders", "status orders --json", "status orders --shard 0", "status orders --key customer-17")
		w.Prompt("status orders --json --shard 1", "status --json orders --key order-4711")
		w.Prompt("status orders --shard 8", "status orders --shard=-1", "status orders --shard 1 --key x", "status --shard 1", "status o* --key x", "status orders --shard 1 --roster", "status orders --key x --host h")
		w.Notef("# the work of a does not end\n")
		a.Hangs.Store(int64(10 * time.Second))
		c := w.Joins("c", shard.Config{})
		a.Hangs.Store(0)
		time.Sleep(10 * time.Second)
		a.Hangs.Store(int64(10 * time.Second))
		w.Prompt("step-down orders --shard 5 --to b --wait 2s", "status orders", "status orders --shard 5", "status orders --json --shard 5")
		time.Sleep(20700 * time.Millisecond) // no renewal is due after that
		a.Hangs.Store(0)
		w.Notef("# b dies, and its shards wait for a member of the same ID\n")
		b.Dies()
		time.Sleep(14 * time.Second)
		w.Prompt("status orders --shard 5")
		time.Sleep(4 * time.Second)
		w.Prompt("status orders --shard 5", "status orders", "status orders --json --shard 5")
		w.Notef("# a dies, too\n")
		a.Dies()
		time.Sleep(2*time.Minute + 600*time.Millisecond) // a or c notes that b is gone, up to 800 ms apart
		w.Prompt("status orders")
		w.Complete("status ''", "step-down ''", "step-down orders --shard 0 --to ''", "drain x --only ''")
		w.Notef("# the work of c goes on after its GracePeriod\n")
		c.Hangs.Store(int64(time.Minute))
		w.Joins("d", shard.Config{})
		time.Sleep(6100 * time.Millisecond) // see above
		w.Prompt("status orders", "status orders --shard 0", "status orders --shard 2", "status orders --shard 2 --json")
		w.Follow("watch orders")()
		w.Follow("watch orders --json")()
		time.Sleep(time.Minute)
		w.Prompt("status orders --shard 2")
	})
}

// While members work whose map was removed without a message, as by a TTL, the owners of their shards are not known: no tool
// calls a shard one without an owner, a member gone, or a group one that does not exist. The same is so in a bucket that was
// made anew, until the members lead again.
func TestShards_LostMap(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Remove("KV_elections")
		w.Made(w.Js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "elections"})) // from which clients may remove records
		f := w.FindingsBeside("")
		w.Joins("a", shard.Config{})
		time.Sleep(time.Minute)
		end := w.Follow("watch orders")
		remove := func(key string) {
			stream := expect.Got(w.Js.Stream(w.Context(), "KV_elections"))(w)
			expect.OK(w, stream.Purge(w.Context(), jetstream.WithPurgeSubject("$KV.elections."+key)))
		}
		look := func(what string) {
			w.Notef("# %s\n", what)
			w.Prompt("status orders", "status", "status orders --shard 1", "status orders --json", "status --json", "status orders --shard 1 --json", "step-down orders --shard 1 --to a --dry-run", "drain a --only orders --dry-run", "wait orders")
			f.Show("")
		}
		remove("orders.shard.page.0")
		look("a page of the map is gone")
		remove("orders.shard.map")
		look("the registry is gone, too")
		end()
		time.Sleep(10 * time.Minute)
		w.Prompt("status orders")
		w.Notef("# the bucket is made anew\n")
		w.Remove("KV_elections")
		w.Made(w.Js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "elections"}))
		time.Sleep(5 * time.Second)
		look("5 s later")
	})
}

// Operators move a shard, drain members and undrain them. What cannot be done is said before, or after the wait.
func TestShardsSteer(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		orders := func() {
			time.Sleep(1100 * time.Millisecond) // no renewal is due
			w.Prompt("status orders")
		}
		w.Prompt("step-down orders --shard 0 --to a", "drain a --only orders", "undrain a --only orders")
		w.Joins("web-2_7_x", shard.Config{})
		a := w.Joins("web-1", shard.Config{Most: 6})
		w.Prompt("step-down orders --shard 0 --to web-2_7_x", "step-down orders --shard 0 --to web-2_7_x", "step-down orders --shard 0 --to web-2_7_x --json")
		orders()
		w.Prompt("step-down orders --shard 8 --to web-1", "step-down orders --shard=-1 --to web-1", "step-down orders --shard 0 --to web-3", "step-down orders --shard 0 --to web-3 --dry-run",
			"step-down orders --shard 0", "step-down orders --shard 0 --to next", "step-down orders --shard 7 --to web-1 --dry-run", "step-down orders --shard 7 --to web-1 --dry-run --json")
		w.Prompt("drain web-3 --only orders", "undrain web-3 --only orders")
		w.Notef("# web-1 alone takes 6 of 8 shards\n")
		w.Prompt("drain web-2_7_x --only orders", "drain web-2 --only orders --dry-run", "drain web-2 --dry-run --json")
		orders()
		w.Answers("drain web-2", "n", nil)
		w.Answers("drain web-2 --only orders", "y", nil)
		orders()
		w.Prompt("step-down orders --shard 4 --to web-2_7_x", "step-down orders --shard 4 --to web-1", "undrain web-2 --only orders --json")
		time.Sleep(11 * time.Second)
		orders()
		w.Prompt("undrain web-3")
		w.Notef("# the work of web-1 does not end at once\n")
		a.Hangs.Store(int64(10 * time.Second))
		w.Prompt("drain web-1 --only orders --wait 5s", "drain web-1 --only orders --json", "undrain web-1 --only orders")
		time.Sleep(11 * time.Second)
		w.Notef("# it is undrained while drain waits\n")
		undrained := make(chan string)
		go func() {
			out, errs, code := w.Run("drain web-1 --only orders --wait 15s")
			undrained <- fmt.Sprintf("%s%s[exit code %d]\n", out, errs, code)
		}()
		time.Sleep(time.Second)
		w.Prompt("undrain web-1 --only orders")
		w.Notef("%s", <-undrained)
		time.Sleep(11 * time.Second)
		a.Hangs.Store(0)
		w.Prompt("drain web-1 --only orders --json")
		w.Prompt("step-down orders --shard 1 --to web-1")
		w.Notef("# another program overwrites the key of the assigner\n")
		testworld.Put(w.T, w.Js, "orders.shard.assigner", "junk")
		time.Sleep(time.Second)
		w.Prompt("undrain web-1 --only orders", "step-down orders --shard 1 --to web-1 --wait 5s")
		orders()
		w.Notef("# web-1 dies\n")
		a.Dies()
		time.Sleep(time.Minute)
		w.Prompt("step-down orders --shard 1 --to web-1", "drain web-1 --only orders", "undrain web-1 --only orders")
		orders()
		w.Notef("# web-3 dies, and is drained at once\n")
		w.Joins("web-3", shard.Config{}).Dies()
		w.Prompt("drain web-3 --only orders")
		orders()
		w.Notef("# web-4 dies, and its shards wait for a member of the same ID until it is drained\n")
		w.Joins("web-4", shard.Config{Hold: time.Minute}).Dies()
		time.Sleep(20 * time.Second)
		w.Prompt("status orders", "step-down orders --shard 4 --to web-4", "drain web-4 --only orders --json")
		w.Notef("# web-5 stops, and its work does not end at once\n")
		leaves := w.Joins("web-5", shard.Config{})
		leaves.Hangs.Store(int64(5 * time.Second))
		ended := make(chan error)
		go func() { ended <- leaves.Stop() }()
		time.Sleep(time.Second)
		w.Prompt("status orders", "step-down orders --shard 4 --to web-5")
		expect.OK(w, <-ended)
		time.Sleep(time.Minute)
		w.Prompt("drain web-5 --only orders")
	})
}

// drain leaves neither elections nor shards to a host, and says what it has not moved.
func TestDrain_Members(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Campaigns("billing", leader.Config{ID: "h_1_aaaaaa"})
		time.Sleep(time.Second)
		w.Campaigns("billing", leader.Config{ID: "web-2"})
		h := w.Joins("h_2_bbbbbb", shard.Config{})
		w.Joins("web-2", shard.Config{})
		w.Prompt("status --host h", "status --host h --json", "status b* --host web-2 --sort for", "status --host nobody", "drain h --dry-run")
		time.Sleep(time.Second) // no renewal is due
		w.Notef("# the work does not end at once\n")
		h.Hangs.Store(int64(10 * time.Second))
		w.Timed("drain h --wait 5s", "drain h", "status orders --json", "drain h --json", "drain h --dry-run")
		w.Prompt("undrain h")
		time.Sleep(12 * time.Second)
		h.Hangs.Store(0)
		w.Prompt("status orders")
		w.Notef("# web-2 is drained, so that nobody is left\n")
		w.Prompt("drain web-2 --only orders --yes", "drain h", "status", "drain h --yes", "drain nobody")
		w.Notef("# another group cannot be read, and elections are handed over all the same\n")
		testworld.Put(w.T, w.Js, "mails.shard.map", `{"v":99}`)
		w.Prompt("undrain h web-2", "status mails", "status mails --shard 0")
		w.Follow("watch mails")()
		time.Sleep(12 * time.Second)
		w.Prompt("drain h --dry-run", "drain web-2", "undrain web-2")
		time.Sleep(12 * time.Second)
		w.Prompt("drain h --yes", "undrain h", "undrain h")
		w.Notef("# a cordon is left, or a drained member\n")
		expect.OK(w, expect.Got(w.Js.KeyValue(w.Context(), "elections"))(w).Delete(w.Context(), "mails.shard.map"))
		time.Sleep(12 * time.Second)
		w.Prompt("drain h --keep", "undrain h", "drain h --only orders", "undrain h", "undrain h")
		w.Notef("# of a group only the key of a dead assigner is left, and a member has not been enrolled yet\n")
		testworld.Put(w.T, w.Js, "left.shard.assigner", testworld.Record(w.T, w.Js, "billing", "dead", 50*time.Millisecond))
		testworld.Put(w.T, w.Js, "orders.shard.member.new", testworld.Record(w.T, w.Js, "billing", "new", time.Hour))
		time.Sleep(time.Second)
		w.Prompt("drain h --dry-run", "drain new --only orders")
	})
}

// watch reports each change once, of the group and of one shard, also after the server was away.
func TestShardsWatch(t *testing.T) {
	for name, flags := range map[string]string{"people": "", "programs": " --json", "shard": " --shard 1"} {
		t.Run(name, func(t *testing.T) {
			testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
				follow := func() (stop func()) {
					stop = w.Follow("watch orders" + flags)
					time.Sleep(view.Tick / 2) // nothing happens at a tick
					return stop
				}
				var stop func()
				if name == "shard" { // the group need not exist
					stop = follow()
				}
				w.Joins("a", shard.Config{Value: []byte("10.0.0.7:80")}).Hangs.Store(int64(time.Second))
				if name != "shard" {
					stop = follow()
				}
				b := w.Joins("b", shard.Config{})
				w.Notef("# b leaves\n")
				expect.OK(w, b.Stop())
				time.Sleep(time.Minute)
				w.Notef("# the server restarts\n")
				w.Restart()
				time.Sleep(time.Minute)
				c := w.Joins("c", shard.Config{})
				stop()
				w.Notef("# c is drained, and not any more\n")
				stop = follow()
				time.Sleep(time.Second)
				w.Run("drain c --only orders")
				time.Sleep(time.Second)
				w.Run("undrain c --only orders")
				time.Sleep(11 * time.Second)
				w.Notef("# c dies\n")
				c.Dies()
				time.Sleep(20 * time.Second)
				w.Notef("# d dies, and is back before its Hold is over\n")
				w.Joins("d", shard.Config{Hold: time.Minute}).Dies()
				time.Sleep(20 * time.Second)
				d := w.Joins("d", shard.Config{Hold: 30 * time.Second})
				w.Notef("# d dies again, and its Hold is over\n")
				d.Dies()
				time.Sleep(time.Minute)
				stop()
				w.Notef("# the server is away for longer than leases\n")
				stop = follow()
				w.S.Shutdown()
				w.S.WaitForShutdown()
				time.Sleep(20 * time.Second)
				w.Serve()
				time.Sleep(30 * time.Second)
				stop()
				w.Notef("# a server answers that hears no majority, while e joins\n")
				stop = follow()
				w.CutOff(0, 20*time.Second, &jetstream.ClusterInfo{Name: "c", Replicas: []*jetstream.PeerInfo{{Name: "n2", Offline: true}, {Name: "n3", Offline: true}}})
				time.Sleep(10 * time.Second)
				w.Joins("e", shard.Config{})
				time.Sleep(20 * time.Second)
				stop()
				w.Notef("# the bucket is deleted\n")
				stop = follow()
				expect.OK(w, w.Js.DeleteKeyValue(w.Context(), "elections"))
				time.Sleep(20 * time.Second)
				stop()
			})
		})
	}
}

// doctor and status know groups: their keys are no elections that are silent or foreign.
func TestShards_DoctorAndStatus(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		f := w.FindingsBeside("")
		a := w.Joins("a", shard.Config{})
		b := w.Joins("b", shard.Config{Hold: time.Minute})
		w.Campaigns("billing", leader.Config{ID: "x"})
		f.Show("")
		w.Prompt("status", "status --json", "status --roster")
		w.Notef("# b dies\n")
		b.Dies()
		time.Sleep(20 * time.Second)
		f.Show("")
		w.Prompt("status")
		w.Notef("# a is drained, and its work does not end\n")
		a.Hangs.Store(int64(time.Minute))
		w.Prompt("drain a --only orders --yes")
		f.Show("")
		w.Notef("# a dies, too\n")
		a.Dies()
		time.Sleep(time.Minute)
		f.Show("")
		w.Prompt("status")
		w.Notef("# a later version is back as a\n")
		var fields map[string]any
		expect.OK(w, json.Unmarshal([]byte(testworld.Record(w.T, w.Js, "orders.shard.member.a", "a", time.Hour)), &fields))
		fields["value"] = `{"v":2}`
		testworld.Put(w.T, w.Js, "orders.shard.member.a", string(expect.Got(json.Marshal(fields))(w)))
		f.Show("")
		w.Notef("# others overwrite keys of the group\n")
		for _, key := range []string{"page.0", "member.a", "assigner", "map"} {
			w.Publish("$KV.elections.orders.shard."+key, "junk")
			f.Show("")
		}
		w.Prompt("status", "status --json")
		w.Publish("$KV.elections.orders.shard.map", `{"v":2}`)
		f.Show("")
	})
}

// Shards that are granted and not begun are shown by each command, and on the page, until the work begins.
func TestShards_NotBegun(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		f := w.FindingsBeside("")
		w.Joins("b", shard.Config{})
		a := expect.Got(shard.Join(context.Background(), w.Bucket, "orders", shard.Config{ID: "a", Shards: 8}))(w)
		ended := make(chan struct{})
		w.Cleanup(func() {
			expect.OK(w, a.Stop())
			<-ended
		})
		time.Sleep(1050 * time.Millisecond) // between two ticks, here and below
		watch := w.Follow("watch orders")
		time.Sleep(20 * time.Second)
		watch()
		w.Prompt("status orders", "status orders --json", "status orders --shard 0", "status orders --shard 0 --json", "status", "status orders", "status orders --json", "step-down orders --shard 0 --to a --wait 2s")
		f.Show("")
		page := w.Follow("serve")
		w.Reads("/api/elections")
		time.Sleep(2*time.Second + 7*time.Millisecond) // between two ticks
		w.Notef("# a calls Serve\n")
		go func() {
			defer close(ended)
			_ = a.Serve(func(lead context.Context, _ *shard.Shard) { <-lead.Done() })
		}()
		time.Sleep(2 * time.Second)
		page()
		w.Prompt("status orders", "status orders --shard 0")
		f.Show("")
	})
}

// The name of a group is that of no election. The key of a member that has died shows who took it.
func TestShards_InPlaceOfElections(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("status orders")
		w.Joins("a", shard.Config{})
		b := w.Joins("b", shard.Config{Value: []byte("10.0.0.7:80")})
		w.Prompt("bucket add --history 1d")
		w.Follow("watch orders")()
		w.Prompt("status orders", "status orders --json", "history orders", "step-down orders", "step-down orders --to next", "status orders.shard.member.b")
		b.Dies()
		time.Sleep(20 * time.Second)
		w.Follow("watch orders.shard.member.b")()
		w.Prompt("status orders.shard.member.b", "status orders.shard.member.b --json")
		expect.OK(w, w.Joins("c", shard.Config{}).Stop())
		time.Sleep(time.Second)
		w.Prompt("status orders.shard.member.c", "status orders.shard.member.c --json", "status orders --json")
	})
}

// A group without an assigner is in trouble, also by the exit code of status, and one whose members have left needs no
// attention.
func TestShards_DoctorAllLeft(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		f := w.FindingsBeside("")
		a := w.Joins("a", shard.Config{})
		w.Prompt("status orders")
		w.Notef("# another program overwrites the key of the assigner\n")
		testworld.Put(w.T, w.Js, "orders.shard.assigner", "junk")
		time.Sleep(time.Second)
		w.Prompt("status orders", "status orders --shard 1")
		time.Sleep(time.Minute) // it leads again
		expect.OK(w, a.Stop())
		for line, want := range map[string]int{"status orders": 0, "status orders --json": 0, "status orders --shard 1": front.ExitFailed} {
			_, _, code := w.Run(line) // whether the assigner has removed its member is left to chance
			expect.Equal(w, code, want, line+": exit code %d, not %d")
		}
		f.Show("")
		w.Publish("$KV.elections.orders.shard.page.0", `{"v":2}`)
		f.Show("")
	})
}

// watch takes the map of a group for no elections.
func TestShards_WatchedElections(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		for _, key := range []string{"billing", "orders.shard.map", "orders.shard.page.0"} {
			w.Publish("$KV.elections."+key, "foreign")
		}
		w.Follow("watch")()
	})
}
