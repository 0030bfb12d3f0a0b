package main

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// wait ends as soon as the election is in the state that is waited for: at once if it is, or in the moment when it changes.
// A lease ends at its instant, which no message announces.
func TestWait_UntilState(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("wait", "wait billing --leader a --no-leader", "wait a.>", "wait billing --bucket other")
		w.Timed("wait billing --wait 3s", "wait billing --no-leader")
		var a *leader.Candidate
		w.Later(1500*time.Millisecond, func() { a = w.Campaigns("billing", leader.Config{ID: "a", Value: []byte("10.0.0.7:80")}) })
		w.Timed("wait billing")
		time.Sleep(2 * time.Minute)
		w.Timed("wait billing --leader a", "wait billing --leader b --wait 3s", "wait billing --no-leader --wait 3s", "wait billing --json")
		w.Later(1500*time.Millisecond, func() { w.Campaigns("billing", leader.Config{ID: "b"}) })
		w.Later(2500*time.Millisecond, func() { expect.OK(w, a.Stop()) })
		w.Timed("wait billing --leader b")
		time.Sleep(2 * time.Minute)
		testworld.Put(w.T, w.Js, "mail", testworld.Record(w.T, w.Js, "billing", "dead", 10*time.Second))
		time.Sleep(4500 * time.Millisecond)
		w.Timed("wait mail --no-leader")
		testworld.Put(w.T, w.Js, "mail", `{"v":1,"state":"pending","session":"s","n":1,"lease":"3s","id":"soon"}`)
		w.Timed("wait mail --no-leader")
		expect.OK(w, expect.Got(w.Js.KeyValue(w.Context(), "elections"))(w).Delete(w.Context(), "mail"))
		time.Sleep(time.Second)
		w.Timed("wait mail --no-leader")
		testworld.Put(w.T, w.Js, "lock", "hello")
		time.Sleep(time.Second)
		w.Timed("wait lock --wait 3s", "wait lock --no-leader")
		expect.Got(shard.Join(w.Context(), w.Bucket, "orders", shard.Config{ID: "m", Shards: 4}))(w)
		time.Sleep(time.Minute)
		w.Prompt("wait orders")
	})
}

// A server that is away, and one that does not hear from a majority, show nothing: wait goes on.
func TestWait_NeedsMajority(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.CutOff(1500*time.Millisecond, 5500*time.Millisecond, &jetstream.ClusterInfo{
			Leader: "a", Replicas: []*jetstream.PeerInfo{{Name: "b", Offline: true}, {Name: "c", Offline: true}},
		})
		testworld.Put(w.T, w.Js, "mail", `{"v":1,"state":"leading","session":"s","n":1,"lease":"3s","token":7,"id":"dead"}`)
		w.Timed("wait mail --no-leader")
		w.Later(1500*time.Millisecond, w.Restart)
		w.Timed("wait mail --wait 5s")
		w.Later(1500*time.Millisecond, func() { expect.OK(w, w.Js.DeleteStream(w.Context(), "KV_elections")) })
		w.Timed("wait mail")
		synctest.Wait()
	})
}

// A replica that knows no leader answers reads, with what was stored before. No tool says by that who leads, or that an
// election is in trouble: each says within five seconds that there is no majority, by which server, and since when. The
// history shows the past, and the present as not known.
func TestTools_WithoutMajority(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Run("bucket add --history 30d")
		time.Sleep(time.Second)
		testworld.Put(w.T, w.Js, "billing", `{"v":1,"state":"leading","session":"s","n":1,"lease":"3s","token":7,"id":"a"}`)
		testworld.Put(w.T, w.Js, "lock", "hello")
		stop := w.Follow("watch")
		time.Sleep(2 * time.Second)
		w.CutOff(0, time.Hour, &jetstream.ClusterInfo{Name: "c", Replicas: []*jetstream.PeerInfo{
			{Name: "n1"}, {Name: "n2", Active: 20 * time.Second}, {Name: "n3", Active: 8 * time.Second},
		}})
		time.Sleep(10 * time.Second)
		w.Timed("status billing", "status", "history billing", "history billing --at 0s", "watch", "bucket info")
		out, _, _ := w.Run("doctor --read-only")
		for line := range strings.Lines(out) {
			if f := strings.Fields(line); len(f) > 1 && slices.Contains([]string{"server", "cluster", "replicas"}, f[1]) {
				w.Notef("%s", line)
			}
		}
		stop()
	})
}
