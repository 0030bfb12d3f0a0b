package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// status --roster shows the leader and the candidates that would follow it.
func TestRoster_Succession(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		w.Prompt("status billing --roster", "status billing --roster --json")
		w.Campaigns("billing", leader.Config{ID: "a", Value: []byte("10.0.0.7:80"), Queue: &leader.Queue{AtOnce: true}})
		w.Campaigns("billing", leader.Config{ID: "b", Queue: &leader.Queue{AtOnce: true}, Value: []byte("\xff\x00")})
		w.Campaigns("billing", leader.Config{ID: "c", Queue: &leader.Queue{}})
		w.Campaigns("billing", leader.Config{ID: "d", Queue: &leader.Queue{Priority: -1, Preempt: true}})
		w.Campaigns("billing", leader.Config{ID: "e", Queue: &leader.Queue{Priority: 5}, Value: []byte("10.0.0.8:80")})
		w.Campaigns("billing", leader.Config{ID: "f"}) // is not in the roster
		time.Sleep(time.Second)                        // one renews after the other
		w.Campaigns("mail", leader.Config{ID: "a"})
		time.Sleep(time.Second)
		w.Prompt("status billing --roster", "status billing --roster --json", "status billing --json")
		w.Prompt("status --roster", "status --roster --json")
		testworld.Put(w.T, w.Js, "soon", `{"v":1,"state":"pending","session":"s","n":1,"lease":"1h","id":"p","value":"10.0.0.9:80"}`)
		testworld.Put(w.T, w.Js, "foreign", "hello")
		w.Prompt("status soon --roster", "status soon --roster --json", "status foreign --roster", "status foreign --roster --json")
	})
}

// --roster reports a bucket without a roster, and one whose roster is lost.
func TestRoster_WithoutRoster(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("bucket add robbed --roster")
		expect.OK(w, w.Js.DeleteKeyValue(w.Context(), "robbed_roster"))
		for _, bucket := range []string{"elections", "robbed"} {
			in := " --bucket " + bucket
			w.Prompt("status billing --roster"+in, "status billing --roster --json"+in, "watch billing --roster"+in)
			w.Prompt("status --roster"+in, "status billing --roster"+in)
		}
		w.Prompt("status billing --roster --bucket none", "status b* --roster", "watch --roster", "watch b* --roster", "watch billing --roster --shard 1", "watch billing --roster --exec true")
	})
}

// status --roster shows the elections also where the roster does not answer, and is not finished with 0.
func TestStatus_SilentRoster(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		w.Campaigns("billing", leader.Config{ID: "a"})
		time.Sleep(time.Second)
		for ask, nobody := range map[string]string{"STREAM.INFO.KV_elections_roster": "silence", "CONSUMER.CREATE.KV_elections_roster.>": "silence.>"} {
			expect.OK(w, w.S.GlobalAccount().AddMapping("$JS.API."+ask, nobody))
		}
		w.Prompt("status --roster", "status --roster --json", "status --roster --all-buckets")
		w.Prompt("status billing --roster", "status billing --roster --json", "status none --roster")
	})
}

// A roster whose stream has no leader is not blamed on the server of the connection.
func TestStatus_LeaderlessRoster(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		w.Campaigns("billing", leader.Config{ID: "a"})
		time.Sleep(time.Second)
		nc := w.Js.Conn()
		w.Made(nc.Subscribe("LEADERLESS.>", func(m *nats.Msg) {
			if strings.Contains(m.Subject, ".KV_elections_roster") {
				expect.OK(w, m.Respond([]byte(`{"error":{"code":503,"err_code":10008,"description":"no leader"}}`)))
				return
			}
			expect.OK(w, nc.PublishRequest("$JS.API"+strings.TrimPrefix(m.Subject, "LEADERLESS"), m.Reply, m.Data))
		}))
		synctest.Wait() // for the subscription
		w.Prompt("status --roster --js-api-prefix LEADERLESS", "status billing --roster --js-api-prefix LEADERLESS")
	})
}

// watch --roster reports each change once, also after the server was away.
func TestRosterWatch_EachChangeOnce(t *testing.T) {
	for name, format := range map[string]string{"people": "", "programs": " --json"} {
		t.Run(name, func(t *testing.T) {
			testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
				stop := w.Follow("watch billing --roster" + format)
				a := w.Campaigns("billing", leader.Config{ID: "a", Queue: &leader.Queue{AtOnce: true}})
				w.Campaigns("billing", leader.Config{ID: "b", Queue: &leader.Queue{AtOnce: true}})
				w.Notef("# a stops\n")
				expect.OK(w, a.Stop())
				time.Sleep(time.Minute)
				w.Notef("# the server restarts\n")
				w.Restart()
				time.Sleep(time.Minute)
				c := w.Campaigns("billing", leader.Config{ID: "c", Queue: &leader.Queue{AtOnce: true}})
				w.Notef("# a server answers that hears no majority, while c stops\n")
				w.CutOff(0, 20*time.Second, &jetstream.ClusterInfo{Name: "c", Replicas: []*jetstream.PeerInfo{{Name: "n2", Offline: true}, {Name: "n3", Offline: true}}})
				time.Sleep(10 * time.Second)
				expect.OK(w, c.Stop())
				time.Sleep(20 * time.Second)
				stop()
			})
		})
	}
}

// Candidates whose permission to write was revoked stay in the roster, as denied. When it was
// granted again, without a new connection, they can be named, and the leader steps down.
func TestRoster_Denied(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		reload := func(deny ...string) {
			o := w.O.Clone()
			o.Users[0].Permissions = testworld.Denied(deny...)
			expect.OK(w, w.Reload(o))
		}
		for _, id := range []string{"a", "b", "c"} {
			w.Campaigns("billing", leader.Config{ID: id, Queue: &leader.Queue{}})
		}
		time.Sleep(time.Second)
		as := " -s nats://boss:boss@localhost"
		w.Prompt("status billing --roster" + as)
		w.Notef("# nobody may write the key of billing\n")
		reload("$KV.elections.billing")
		time.Sleep(time.Minute)
		w.Prompt("status billing --roster"+as, "status billing --roster"+as)
		w.Notef("# all may write it again\n")
		reload()
		time.Sleep(time.Minute)
		w.Prompt("status billing --roster"+as, "step-down billing --to c"+as)
		time.Sleep(time.Minute)
		w.Prompt("step-down billing" + as)
	}, testworld.WithUser("boss", nil))
}

// What another program has written into the roster is no candidate that stands, and is named.
func TestRoster_Damaged(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		for _, id := range []string{"a", "b"} {
			w.Campaigns("billing", leader.Config{ID: id, Queue: &leader.Queue{}})
		}
		time.Sleep(time.Minute)
		for _, key := range []string{"billing.ghost", "nothing", "billing." + strings.Repeat("B", 26)} {
			w.Publish("$KV.elections_roster."+key, "garbage")
		}
		w.Prompt("status --roster", "status --roster --json", "status billing --roster")
	})
}

// A candidate that died is not shown, although the server has forgotten that its announcement expires.
func TestRoster_ForgotExpiry(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		w.Campaigns("billing", leader.Config{ID: "a"})
		c := expect.Got(w.Js.Stream(w.Context(), "KV_elections_roster"))(w).CachedInfo().Config
		expect.OK(w, w.Js.DeleteStream(w.Context(), c.Name))
		w.Made(w.Js.CreateStream(w.Context(), jetstream.StreamConfig{Name: "FROM", Subjects: c.Subjects, AllowMsgTTL: true}))
		c.Subjects, c.AllowMsgTTL, c.SubjectDeleteMarkerTTL, c.Sources = nil, false, 0, []*jetstream.StreamSource{{Name: "FROM"}}
		w.Made(w.Js.CreateStream(w.Context(), c))
		w.Made(w.Js.PublishMsg(w.Context(), &nats.Msg{
			Subject: "$KV.elections_roster.billing." + strings.Repeat("B", 26), Header: nats.Header{jetstream.MsgTTLHeader: {"45"}},
			Data: []byte(`{"v":1,"id":"b","since":"2000-01-01T00:00:00Z"}`),
		}))
		for _, after := range []time.Duration{80 * time.Second, 20 * time.Second} {
			time.Sleep(after)
			w.Prompt("status --roster", "status billing --roster", "step-down billing --to next --dry-run")
		}
	})
}
