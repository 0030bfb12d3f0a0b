package main

import (
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

// status --roster shows the leader and the candidates that would follow it.
func TestRoster_Succession(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		w.prompt("status billing --roster", "status billing --roster --json")
		w.campaigns("billing", leader.Config{ID: "a", Value: []byte("10.0.0.7:80"), Queue: &leader.Queue{AtOnce: true}})
		w.campaigns("billing", leader.Config{ID: "b", Queue: &leader.Queue{AtOnce: true}, Value: []byte("\xff\x00")})
		w.campaigns("billing", leader.Config{ID: "c", Queue: &leader.Queue{}})
		w.campaigns("billing", leader.Config{ID: "d", Queue: &leader.Queue{Priority: -1, Preempt: true}})
		w.campaigns("billing", leader.Config{ID: "e", Queue: &leader.Queue{Priority: 5}, Value: []byte("10.0.0.8:80")})
		w.campaigns("billing", leader.Config{ID: "f"}) // is not in the roster
		time.Sleep(time.Second)                        // one renews after the other
		w.campaigns("mail", leader.Config{ID: "a"})
		time.Sleep(time.Second)
		w.prompt("status billing --roster", "status billing --roster --json", "status billing --json")
		w.prompt("status --roster", "status --roster --json")
		put(w.T, w.js, "soon", `{"v":1,"state":"pending","session":"s","n":1,"lease":"1h","id":"p","value":"10.0.0.9:80"}`)
		put(w.T, w.js, "foreign", "hello")
		w.prompt("status soon --roster", "status soon --roster --json", "status foreign --roster", "status foreign --roster --json")
	})
}

// --roster reports a bucket without a roster, and one whose roster is lost.
func TestRoster_WithoutRoster(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("bucket add robbed --roster")
		expect.OK(w, w.js.DeleteKeyValue(w.Context(), "robbed_roster"))
		for _, bucket := range []string{"elections", "robbed"} {
			in := " --bucket " + bucket
			w.prompt("status billing --roster"+in, "status billing --roster --json"+in, "watch billing --roster"+in)
			w.prompt("status --roster"+in, "status billing --roster"+in)
		}
		w.prompt("status billing --roster --bucket none", "status b* --roster", "watch --roster", "watch b* --roster", "watch billing --roster --shard 1", "watch billing --roster --exec true")
	})
}

// status --roster shows the elections also where the roster does not answer, and is not finished with 0.
func TestStatus_SilentRoster(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		w.campaigns("billing", leader.Config{ID: "a"})
		time.Sleep(time.Second)
		for ask, nobody := range map[string]string{"STREAM.INFO.KV_elections_roster": "silence", "CONSUMER.CREATE.KV_elections_roster.>": "silence.>"} {
			expect.OK(w, w.s.GlobalAccount().AddMapping("$JS.API."+ask, nobody))
		}
		w.prompt("status --roster", "status --roster --json", "status --roster --all-buckets")
		w.prompt("status billing --roster", "status billing --roster --json", "status none --roster")
	})
}

// watch --roster reports each change once, also after the server was away.
func TestRosterWatch_EachChangeOnce(t *testing.T) {
	for name, format := range map[string]string{"people": "", "programs": " --json"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
				stop := w.follow("watch billing --roster" + format)
				a := w.campaigns("billing", leader.Config{ID: "a", Queue: &leader.Queue{AtOnce: true}})
				w.campaigns("billing", leader.Config{ID: "b", Queue: &leader.Queue{AtOnce: true}})
				w.notef("# a stops\n")
				expect.OK(w, a.Stop())
				time.Sleep(time.Minute)
				w.notef("# the server restarts\n")
				w.restart()
				time.Sleep(time.Minute)
				w.campaigns("billing", leader.Config{ID: "c", Queue: &leader.Queue{AtOnce: true}})
				stop()
			})
		})
	}
}

// Candidates whose permission to write was revoked stay in the roster, as denied. When it was
// granted again, without a new connection, they can be named, and the leader steps down.
func TestRoster_Denied(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		reload := func(deny ...string) {
			o := w.o.Clone()
			o.Users[0].Permissions = denied(deny...)
			expect.OK(w, w.s.ReloadOptions(o))
		}
		for _, id := range []string{"a", "b", "c"} {
			w.campaigns("billing", leader.Config{ID: id, Queue: &leader.Queue{}})
		}
		time.Sleep(time.Second)
		as := " -s nats://boss:boss@localhost"
		w.prompt("status billing --roster" + as)
		w.notef("# nobody may write the key of billing\n")
		reload("$KV.elections.billing")
		time.Sleep(time.Minute)
		w.prompt("status billing --roster"+as, "status billing --roster"+as)
		w.notef("# all may write it again\n")
		reload()
		time.Sleep(time.Minute)
		w.prompt("status billing --roster"+as, "step-down billing --to c"+as)
		time.Sleep(time.Minute)
		w.prompt("step-down billing" + as)
	}, withUser("boss", nil))
}

// A write that was denied again is no change of the roster. The table shows the last one.
func TestLineup_SameAfterAnotherDenial(t *testing.T) {
	at := func(s int64) lineup {
		return lineup{election: "e", candidates: []roster.Entry{{ID: "a", Denied: true, DeniedAt: time.Unix(s, 0)}}}
	}
	w := rosterWatcher{reported: at(1)}
	expect.OK(t, w.update(at(5), true)) // without a renderer
	expect.Equal(t, w.reported.next(time.Unix(8, 0)), "a (denied 3s ago)", "%s; want %s")
	expect.Equal(t, denial(roster.Entry{Denied: true}, time.Unix(8, 0)), "denied", "%s; want %s")
}
