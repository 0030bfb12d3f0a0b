package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// later calls f while a command runs.
func (w *world) later(after time.Duration, f func()) {
	time.AfterFunc(after, f)
}

// wait ends as soon as the election is in the state that is waited for: at once if it is, or in the moment when it changes.
// A lease ends at its instant, which no message announces.
func TestWait_UntilState(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("wait", "wait billing --leader a --no-leader", "wait a.>", "wait billing --bucket other")
		w.timed("wait billing --wait 3s", "wait billing --no-leader")
		var a *leader.Candidate
		w.later(1500*time.Millisecond, func() { a = w.campaigns("billing", leader.Config{ID: "a", Value: []byte("10.0.0.7:80")}) })
		w.timed("wait billing")
		time.Sleep(2 * time.Minute)
		w.timed("wait billing --leader a", "wait billing --leader b --wait 3s", "wait billing --no-leader --wait 3s", "wait billing --json")
		w.later(1500*time.Millisecond, func() { w.campaigns("billing", leader.Config{ID: "b"}) })
		w.later(2500*time.Millisecond, func() { expect.OK(w, a.Stop()) })
		w.timed("wait billing --leader b")
		time.Sleep(2 * time.Minute)
		put(w.T, w.js, "mail", record(w.T, w.js, "billing", "dead", 10*time.Second))
		time.Sleep(4500 * time.Millisecond)
		w.timed("wait mail --no-leader")
		put(w.T, w.js, "mail", `{"v":1,"state":"pending","session":"s","n":1,"lease":"3s","id":"soon"}`)
		w.timed("wait mail --no-leader")
		expect.OK(w, expect.Got(w.js.KeyValue(w.Context(), "elections"))(w).Delete(w.Context(), "mail"))
		time.Sleep(time.Second)
		w.timed("wait mail --no-leader")
		put(w.T, w.js, "lock", "hello")
		time.Sleep(time.Second)
		w.timed("wait lock --wait 3s", "wait lock --no-leader")
		expect.Got(shard.Join(w.Context(), w.bucket, "orders", shard.Config{ID: "m", Shards: 4}))(w)
		time.Sleep(time.Minute)
		w.prompt("wait orders")
	})
}

// cutOff lets the server answer for a time as one that leads the stream, or knows no leader, and does not hear from a
// majority.
func (w *world) cutOff(from, until time.Duration, c *jetstream.ClusterInfo) {
	info := expect.Got(w.js.Stream(w.Context(), "KV_elections"))(w).CachedInfo()
	info.Cluster = c
	nc := w.dial()
	w.Cleanup(nc.Close)
	_, err := nc.Subscribe("cut.off", func(m *nats.Msg) {
		info.TimeStamp = time.Now()
		_ = m.Respond(expect.Got(json.Marshal(info))(w))
	})
	expect.OK(w, err)
	expect.OK(w, nc.Flush())
	w.later(from, func() {
		expect.OK(w, w.s.GlobalAccount().AddMapping("$JS.API.STREAM.INFO.KV_elections", "cut.off"))
	})
	w.later(until, func() { w.s.GlobalAccount().RemoveMapping("$JS.API.STREAM.INFO.KV_elections") })
}

// A server that is away, and one that does not hear from a majority, show nothing: wait goes on.
func TestWait_NeedsMajority(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.cutOff(1500*time.Millisecond, 5500*time.Millisecond, &jetstream.ClusterInfo{
			Leader: "a", Replicas: []*jetstream.PeerInfo{{Name: "b", Offline: true}, {Name: "c", Offline: true}},
		})
		put(w.T, w.js, "mail", `{"v":1,"state":"leading","session":"s","n":1,"lease":"3s","token":7,"id":"dead"}`)
		w.timed("wait mail --no-leader")
		w.later(1500*time.Millisecond, w.restart)
		w.timed("wait mail --wait 5s")
		w.later(1500*time.Millisecond, func() { expect.OK(w, w.js.DeleteStream(w.Context(), "KV_elections")) })
		w.timed("wait mail")
		synctest.Wait()
	})
}

// A replica that knows no leader answers reads, with what was stored before. No tool says by that who leads, or that an
// election is in trouble: each says within five seconds that there is no majority, by which server, and since when. The
// history shows the past, and the present as not known.
func TestTools_WithoutMajority(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.run("bucket add --history 30d")
		time.Sleep(time.Second)
		put(w.T, w.js, "billing", `{"v":1,"state":"leading","session":"s","n":1,"lease":"3s","token":7,"id":"a"}`)
		put(w.T, w.js, "lock", "hello")
		stop := w.follow("watch")
		time.Sleep(2 * time.Second)
		w.cutOff(0, time.Hour, &jetstream.ClusterInfo{Name: "c", Replicas: []*jetstream.PeerInfo{
			{Name: "n1"}, {Name: "n2", Active: 20 * time.Second}, {Name: "n3", Active: 8 * time.Second},
		}})
		time.Sleep(10 * time.Second)
		w.timed("status billing", "status", "history billing", "history billing --at 0s", "watch", "bucket info")
		out, _, _ := w.run("doctor --read-only")
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) > 1 && slices.Contains([]string{"server", "cluster", "replicas"}, f[1]) {
				w.notef("%s", line)
			}
		}
		stop()
	})
}
