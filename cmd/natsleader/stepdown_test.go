package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/act"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// step-down makes the leader hand over.
func TestStepDown_HandsOver(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("step-down", "step-down billing --id a", "step-down b*", "step-down billing --bucket other",
			"step-down billing", "step-down billing --force --yes")
		testworld.Put(w.T, w.Js, "foreign", "hello")
		w.Prompt("step-down foreign")
		w.Campaigns("billing", leader.Config{ID: "a"})
		b := w.Campaigns("billing", leader.Config{ID: "b"})
		time.Sleep(time.Second) // after the renewal
		w.Prompt("step-down billing --dry-run", "step-down billing")
		time.Sleep(time.Second)
		expect.That(w, b.IsLeader(), "b does not lead")
		w.Prompt("step-down billing --json")
		w.Notef("# no other candidate stands\n")
		alone := w.Campaigns("alone", leader.Config{ID: "c"})
		w.Prompt("step-down alone")
		expect.OK(w, alone.Stop())
		w.Prompt("step-down alone", "step-down alone --force --yes")
	})
}

// step-down reports a leader that refuses, is silent or is slow, or leads again. drain goes on after
// one that fails.
func TestStepDown_RefusedOrSlow(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Campaigns("refused", leader.Config{ID: "a", RefuseRequests: true})
		w.Campaigns("mail", leader.Config{ID: "a"})
		w.Campaigns("mail", leader.Config{ID: "b"})
		w.Timed("step-down refused", "step-down refused --to b", "drain a")
		testworld.Put(w.T, w.Js, "silent", testworld.Record(w.T, w.Js, "refused", "s", time.Hour))
		w.Timed("step-down silent", "step-down silent --to c")
		c := w.Campaigns("slow", leader.Config{ID: "c", GracePeriod: time.Hour})
		end, _ := leadertest.Work(leadertest.Led(c))
		w.Timed("step-down slow --wait 1s")
		end()
		time.Sleep(time.Minute)
		end, _ = leadertest.Work(leadertest.Led(c))
		defer end()
		w.Timed("step-down slow --to d --wait 1s", "drain c --wait 1s")
		w.Campaigns("alone", leader.Config{ID: "d"})
		w.Timed("drain d", "drain a")
	})
}

// step-down asks if no other candidate is in the roster. Where it cannot ask, it does nothing without --yes.
func TestStepDown_AsksAboutLast(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		a := w.Campaigns("billing", leader.Config{ID: "a", Queue: &leader.Queue{AtOnce: true}})
		w.Prompt("step-down billing")
		for _, answer := range []string{"", "no"} {
			w.Answers("step-down billing", answer, nil)
		}
		expect.That(w, a.IsLeader(), "a has handed over")
		w.Answers("step-down billing --json", "y", nil)
		w.Notef("# another candidate stands\n")
		w.Campaigns("billing", leader.Config{ID: "b", Queue: &leader.Queue{AtOnce: true}})
		w.Prompt("step-down billing")
		w.Notef("# the leader of alone has not announced itself\n")
		w.Campaigns("alone", leader.Config{ID: "c"})
		w.Prompt("step-down alone", "step-down alone --yes")
	})
}

// A roster that may not be read does not keep step-down from asking the leader.
func TestStepDown_RosterDenied(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		w.Campaigns("billing", leader.Config{ID: "a", Queue: &leader.Queue{AtOnce: true}})
		w.Prompt("step-down billing " + as("limited"))
	}, testworld.WithUser("limited", testworld.Denied("$JS.API.CONSUMER.>")))
}

// drain hands over each election that the ID leads, and no other.
func TestDrain_ByID(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		for _, election := range []string{"billing", "mail", "reports"} {
			w.Campaigns(election, leader.Config{ID: "web-1"})
			w.Campaigns(election, leader.Config{ID: "web-2"})
		}
		other := w.Campaigns("other", leader.Config{ID: "web-10"})
		time.Sleep(time.Second) // after the renewals
		w.Prompt("drain web-1 --dry-run")
		w.StepsDown("drain web-1")
		w.Prompt("drain web-1")
		expect.That(w, other.IsLeader(), "web-10 has handed over")
		w.Notef("# mistakes\n")
		w.Prompt("drain", "drain a --bucket none", "drain a --keep --only orders", "drain a --keep --wait 1s", "step-down mail --force --dry-run", "step-down mail --force --to b", "step-down mail --force --shard 0 --to b")
	})
}

// drain asks again if another candidate on the host has followed.
func TestDrain_WholeHost(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		for _, id := range []string{"h_1_aaaaaa", "h_2_bbbbbb", "elsewhere"} {
			w.Campaigns("billing", leader.Config{ID: id, Queue: &leader.Queue{}, TurnTimeout: longTurn})
		}
		time.Sleep(time.Second) // after the renewal
		w.Prompt("drain h --dry-run", "drain h --dry-run --json", "drain h --json", "drain h --json", "drain h --dry-run --json")
	})
}

// Cordoned candidates take no election, are shown where nobody leads, and take a free one when they are off the cordon.
func TestCordon(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		for _, id := range []string{"h_1_aaaaaa", "h_2_bbbbbb", "elsewhere"} {
			w.Campaigns("billing", leader.Config{ID: id, Queue: &leader.Queue{}, TurnTimeout: longTurn})
		}
		time.Sleep(time.Second)
		w.Prompt("drain h", "drain elsewhere --keep", "drain x --keep --dry-run --json", "drain x --keep --json", "drain x --keep --dry-run", "drain elsewhere --wait 10s", "drain nobody")
		w.Prompt("status billing", "status", "status --json", "status natsleader.cordon", "undrain x y", "undrain x h nobody")
		time.Sleep(6 * time.Second) // after a renewal
		w.Prompt("status billing", "undrain elsewhere --json", "drain --keep "+strings.Repeat("x", 257))
		testworld.Put(w.T, w.Js, "natsleader.cordon", "junk")
		w.Prompt("drain a --keep", "drain b", "drain b --dry-run")
		w.Notef("# the key is deleted\n")
		expect.OK(w, expect.Got(w.Js.KeyValue(w.Context(), "elections"))(w).Delete(w.Context(), "natsleader.cordon"))
		w.Prompt("drain b --keep", "drain c --keep")
		w.Complete("undrain ''")
	})
}

// A cordoned candidate that has the key leads soon, or its lease ends: drain waits for either.
func TestDrain_WaitsForPending(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		testworld.Put(w.T, w.Js, "billing", `{"v":1,"state":"pending","session":"s","n":1,"lease":"3s","id":"h"}`)
		w.Timed("drain h --dry-run", "drain h --wait 1s", "drain h")
	})
}

// A replica that lags lets a change of the cordon be refused. It is tried again after pauses, and not for ever.
func TestCordon_Refused(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("drain a --keep")
		read := "$JS.API.DIRECT.GET.KV_elections.$KV.elections.natsleader.cordon"
		nc, writes := w.Connect(), 0
		w.Cleanup(nc.Close)
		expect.OK(w, expect.Err(nc.Subscribe("lags", func(m *nats.Msg) {
			if writes++; writes == 0 {
				w.S.GlobalAccount().RemoveMapping(read)
			}
			_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}}})
		})))
		expect.OK(w, nc.Flush())
		expect.OK(w, w.S.GlobalAccount().AddMapping(read, "lags"))
		w.Timed("drain b --keep")
		expect.Equal(w, writes, 5, "%d tries")
		w.Notef("# one answer is from before the cordon\n")
		writes = -1
		w.Prompt("undrain a", "undrain a")
	})
}

// A bucket with a TTL would drop a cordon, and takes none.
func TestCordon_TTLBucket(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{TTL: time.Minute, Storage: jetstream.MemoryStorage}, func(w *testworld.World) {
		w.Campaigns("billing", leader.Config{ID: "a"})
		time.Sleep(3 * time.Minute) // an empty key is led after the TTL
		w.Campaigns("billing", leader.Config{ID: "b"})
		time.Sleep(time.Second)
		w.Prompt("drain a --dry-run", "drain a", "drain a --keep", "drain a --keep --dry-run")
	})
}

// drain reports each leader that does not answer within 5 s. The last request waits until another
// one has ended.
func TestDrain_Silent(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Campaigns("model", leader.Config{ID: "m"})
		for i := range act.MostAtOnce + 1 {
			testworld.Put(w.T, w.Js, fmt.Sprint("silent-", i), renewal(w.T, w.Js, "dead", time.Hour))
		}
		began := time.Now()
		w.StepsDown("drain dead")
		w.Notef("# after %v\n", time.Since(began))
	})
}

// longTurn is the TurnTimeout of candidates that must not overtake one another, also when one of
// them is slow.
const longTurn = 2 * time.Second

// step-down --to hands over to the candidate that is named, or to the next.
func TestStepDownTo_ToNamed(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		w.Campaigns("billing", leader.Config{ID: "a", Queue: &leader.Queue{AtOnce: true}})
		w.Campaigns("billing", leader.Config{ID: "b", Queue: &leader.Queue{}})
		w.Campaigns("billing", leader.Config{ID: "c", Queue: &leader.Queue{}})
		w.Prompt("step-down billing --to a", "step-down billing --to a --json --dry-run", "step-down billing --to x", "step-down billing --to x --dry-run", "step-down billing --to c --dry-run", "step-down billing --to c")
		time.Sleep(time.Minute)
		w.Prompt("step-down billing --to next --dry-run --json", "step-down billing --to next")
	})
}

// step-down --to needs no roster for an ID. No candidate can know that no candidate "ghost" campaigns.
func TestStepDownTo_ByID(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("step-down billing --to next")
		w.Campaigns("billing", leader.Config{ID: "a"})
		w.Campaigns("billing", leader.Config{ID: "b"})
		w.Prompt("step-down billing --to next", "step-down billing --to b", "step-down billing --to ghost")
		w.Fails("step-down billing --to "+strings.Repeat("x", 10_000), front.ExitUsage, "10000 bytes")
	})
}
