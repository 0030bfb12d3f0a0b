package main

import (
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
	"github.com/natsleader/natsleader/shard"
)

// The exporter asks twice a minute whether the streams of the history and of the roster have a leader. It does not ask
// again without the permission.
func TestExporter_StreamsBeside(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		w.Run("bucket add --roster --history 30d")
		var silent atomic.Bool
		var asked atomic.Int32
		w.Dialled = func(c net.Conn) net.Conn {
			return &deaf{c, func(b []byte) bool {
				asks := strings.Contains(string(b), "STREAM.INFO.natsleader_history_")
				if asks {
					asked.Add(1)
				}
				return !asks || !silent.Load()
			}}
		}
		at := func(what string, later time.Duration) {
			w.Helper()
			time.Sleep(later)
			_, page := w.Get("/metrics")
			w.Notef("# %s\n", what)
			for line := range strings.Lines(page) {
				if strings.HasPrefix(line, "natsleader_bucket_") {
					w.Notef("  %s", line)
				}
			}
		}
		end := w.Follow("serve --metrics :9847")
		at("both have a leader", 5*time.Second)
		silent.Store(true)
		at("the history has none: not known yet", 5*time.Second)
		at("that is known", view.StreamsEvery)
		silent.Store(false)
		at("it has one again", view.StreamsEvery+view.LookEvery)
		expect.OK(w, w.Js.DeleteStream(w.Context(), "natsleader_history_elections"))
		at("it is gone", view.StreamsEvery+view.LookEvery)
		w.Notef("# it was asked for %d times\n", asked.Swap(0))
		end()
		end = w.Follow("serve --metrics :9847 -s nats://blind:blind@127.0.0.1:4222")
		at("a user may not read the settings of the history", 5*time.Minute)
		end()
		w.Notef("# it was asked for %d times\n", asked.Load())
	}, testworld.WithUser("blind", testworld.Denied("$JS.API.STREAM.INFO.natsleader_history_elections")))
}

// One connection and one feed serve the page and the metrics. A line says once what is not up to date.
func TestServe_PageAndMetrics(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		a := w.Campaigns("billing", leader.Config{ID: "a"})
		count := func() (clients, consumers int) {
			stream := expect.Got(w.Js.Stream(w.Context(), "KV_elections"))(w)
			return w.S.NumClients(), expect.Got(stream.Info(w.Context()))(w).State.Consumers
		}
		clients, consumers := count()
		stop := w.Follow("serve --page :9848 --metrics :80")
		time.Sleep(time.Second)
		withBoth, feeds := count()
		expect.That(w, withBoth == clients+1 && feeds == consumers+1, "%d more clients and %d more consumers", withBoth-clients, feeds-consumers)
		metrics := w.Served
		w.Served = w.ServedAt["page"]
		w.Reads("/api/elections")
		w.Served = metrics
		time.Sleep(2 * time.Nanosecond) // for the head of the page
		w.Exported()
		w.Notef("# a hands over to b, in less than a tick\n")
		expect.OK(w, a.Stop())
		time.Sleep(time.Millisecond) // the feed delivers it before the next record takes its place
		b := w.Campaigns("billing", leader.Config{ID: "b"})
		time.Sleep(view.Tick)
		expect.That(w, b.IsLeader(), "b does not lead")
		w.Exported()
		w.Notef("# the server is gone\n")
		w.S.Shutdown()
		w.S.WaitForShutdown()
		time.Sleep(2 * time.Nanosecond)
		w.Exported()
		stop()
		w.Serve()
	})
}

// The exporter shows elections with a leader, with several, with dead candidates and without candidates, in
// buckets that go away and come back. While the bucket cannot be read it shows no election: what it has read
// may be wrong by then.
func TestExporter_AllElections(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		at := func(what string, do func() error) {
			w.Helper()
			w.Notef("# %s\n", what)
			expect.OK(w, do())
			time.Sleep(view.LookEvery + view.LookLimit)
			w.Exported()
		}
		var silent atomic.Bool
		w.Dialled = func(c net.Conn) net.Conn {
			return &deaf{c, func(b []byte) bool { return !silent.Load() || !strings.Contains(string(b), "$JS.API.") }}
		}
		defer w.Follow("serve --metrics :80 --bucket jobs --timeout 1h -s nats://boss:boss@127.0.0.1:4222")()
		at("there is no bucket", func() error { return nil })
		at("the bucket is made, many has two leaders, and the holder of dead, a one-shot job, has died", func() (err error) {
			w.Bucket, err = leader.CreateOrUpdateBucket(w.Context(), w.Js, leader.BucketConfig{Name: "jobs", MaxLease: 10 * time.Second})
			for _, id := range []string{"a", "b"} {
				w.CampaignsOn(seats.Of(w.Bucket, 2), "many", leader.Config{ID: id})
			}
			w.Prompt("note dead --one-shot --bucket jobs")
			record := `{"v":1,"state":"leading","id":"worker-c","session":"s","n":1,"lease":"100ms","token":1}`
			_, failed := w.Js.Publish(w.Context(), "$KV.jobs.dead", []byte(record))
			w.Prompt("drain web-1 --keep --bucket jobs", "drain web-2 --keep --bucket jobs")
			return errors.Join(err, failed)
		})
		at("the cluster has lost its quorum: JetStream does not answer", func() error { silent.Store(true); return nil })
		at("it answers again", func() error { silent.Store(false); return nil })
		publish := func(key, record, operation string) error {
			m := &nats.Msg{Subject: "$KV.jobs." + key, Data: []byte(record), Header: nats.Header{"KV-Operation": {operation}}}
			_, err := w.Js.PublishMsg(w.Context(), m)
			return err
		}
		at("the key of left is deleted after a release, and that of job without", func() error {
			err := publish("left", `{"v":1,"state":"released","id":"worker-l","session":"s","n":1,"lease":"1s"}`, "PUT")
			time.Sleep(time.Second) // the bucket keeps one revision
			return errors.Join(err, publish("left", "", "DEL"), publish("job", "", "DEL"))
		})
		at("job is a one-shot job", func() error { w.Prompt("note job --one-shot --bucket jobs"); return nil })
		w.Prompt("undrain web-1 --bucket jobs")
		w.Dialled = nil
		at("the server restarts", func() error { w.Restart(); return nil })
		reload := func(deny ...string) error {
			o := w.O.Clone()
			o.Users[1].Permissions = testworld.Denied(deny...)
			return w.Reload(o)
		}
		at("a permission is revoked", func() error { return reload("$JS.API.STREAM.INFO.>") })
		at("it is granted again", func() error { return reload() })
		at("the bucket is deleted", func() error { return w.Js.DeleteKeyValue(w.Context(), "jobs") })
		w.Notef("# the server is gone: no metrics at once, although the limit for an answer is an hour\n")
		w.S.Shutdown()
		w.S.WaitForShutdown()
		synctest.Wait()
		w.Exported()
		w.Serve()
	}, testworld.WithUser("boss", nil))
}

// The exporter shows with the rights that it has what is wrong with a group, for as long as it is so.
func TestExporter_Groups(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		at := func(what string) {
			w.Helper()
			_, page := w.Get("/metrics")
			w.Notef("# %s\n", what)
			for line := range strings.Lines(page) {
				if strings.HasPrefix(line, "natsleader_group_info") {
					w.Notef("  %s", line)
				}
			}
		}
		defer w.Follow("serve --metrics :9847 -s nats://exporter:exporter@127.0.0.1:4222")()
		time.Sleep(5 * time.Second)
		at("there is no group")
		a := w.Joins("a", shard.Config{Program: "one"})
		at("one member")
		b := w.Joins("b", shard.Config{Program: "two"})
		at("another member, of another program")
		b.Dies()
		time.Sleep(10 * time.Second)
		at("it has died, and its lease is valid")
		time.Sleep(10 * time.Second)
		at("a has its shards")
		a.Hangs.Store(int64(time.Minute))
		c := w.Joins("c", shard.Config{Program: "one"})
		time.Sleep(10 * time.Second)
		at("the work of a on the shards of c goes on after its GracePeriod")
		time.Sleep(time.Minute)
		at("it has ended")
		expect.Got(w.Js.Publish(w.Context(), "$KV.elections.orders.shard.assigner", []byte("junk")))(w)
		time.Sleep(5 * time.Second)
		at("a program overwrites the key of the assigner")
		time.Sleep(time.Minute)
		at("the key is taken again")
		a.Dies()
		c.Dies()
		time.Sleep(20 * time.Second)
		at("all have died")
		w.S.Shutdown()
		w.S.WaitForShutdown()
		synctest.Wait()
		at("the server is gone")
	}, withConf(t, granted(t, "exporter")))
}
