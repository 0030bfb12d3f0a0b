package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// step-down makes the leader hand over.
func TestStepDown_HandsOver(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("step-down", "step-down billing --id a", "step-down b*", "step-down billing --bucket other",
			"step-down billing", "step-down billing --force --yes")
		put(w.T, w.js, "foreign", "hello")
		w.prompt("step-down foreign")
		w.campaigns("billing", leader.Config{ID: "a"})
		b := w.campaigns("billing", leader.Config{ID: "b"})
		time.Sleep(time.Second) // after the renewal
		w.prompt("step-down billing --dry-run", "step-down billing")
		time.Sleep(time.Second)
		expect.That(w, b.IsLeader(), "b does not lead")
		w.prompt("step-down billing --json")
		w.notef("# no other candidate stands\n")
		alone := w.campaigns("alone", leader.Config{ID: "c"})
		w.prompt("step-down alone")
		expect.OK(w, alone.Stop())
		w.prompt("step-down alone", "step-down alone --force --yes")
	})
}

// timed is prompt, and adds how long the command took.
func (w *world) timed(lines ...string) {
	for _, line := range lines {
		began := time.Now()
		w.prompt(line)
		w.notef("# after %v\n", time.Since(began))
	}
}

// step-down reports a leader that refuses, is silent or is slow, or leads again. drain goes on after
// one that fails.
func TestStepDown_RefusedOrSlow(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.campaigns("refused", leader.Config{ID: "a", RefuseRequests: true})
		w.campaigns("mail", leader.Config{ID: "a"})
		w.campaigns("mail", leader.Config{ID: "b"})
		w.timed("step-down refused", "step-down refused --to b", "drain a")
		put(w.T, w.js, "silent", record(w.T, w.js, "refused", "s", time.Hour))
		w.timed("step-down silent", "step-down silent --to c")
		c := w.campaigns("slow", leader.Config{ID: "c", GracePeriod: time.Hour})
		end, _ := leadertest.Work(leadertest.Led(c))
		w.timed("step-down slow --wait 1s")
		end()
		time.Sleep(time.Minute)
		end, _ = leadertest.Work(leadertest.Led(c))
		defer end()
		w.timed("step-down slow --to d --wait 1s", "drain c --wait 1s")
		w.campaigns("alone", leader.Config{ID: "d"})
		w.timed("drain d", "drain a")
	})
}

// The leader that follows is awaited for a moment, not for as long as the request may take.
func TestStepDown_NobodyFollows(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		began := time.Now()
		done := expect.Got(handedOver(w.Context(), w.bucket, "billing", time.Minute, leader.Holder{ID: "a", Token: 7}, nil))(w)
		expect.That(w, done.Leader == nil && time.Since(began) == 4*time.Second, "%+v after %v", done.Leader, time.Since(began))
	})
}

// step-down asks if no other candidate is in the roster. Where it cannot ask, it does nothing without --yes.
func TestStepDown_AsksAboutLast(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		a := w.campaigns("billing", leader.Config{ID: "a", Queue: &leader.Queue{AtOnce: true}})
		w.prompt("step-down billing")
		for _, answer := range []string{"", "no"} {
			w.answers("step-down billing", answer, nil)
		}
		expect.That(w, a.IsLeader(), "a has handed over")
		w.answers("step-down billing --json", "y", nil)
		w.notef("# another candidate stands\n")
		w.campaigns("billing", leader.Config{ID: "b", Queue: &leader.Queue{AtOnce: true}})
		w.prompt("step-down billing")
		w.notef("# the leader of alone has not announced itself\n")
		w.campaigns("alone", leader.Config{ID: "c"})
		w.prompt("step-down alone", "step-down alone --yes")
	})
}

// A roster that may not be read does not keep step-down from asking the leader.
func TestStepDown_RosterDenied(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		w.campaigns("billing", leader.Config{ID: "a", Queue: &leader.Queue{AtOnce: true}})
		w.prompt("step-down billing " + as("limited"))
	}, withUser("limited", denied("$JS.API.CONSUMER.>")))
}

// Each way in which a request fails has its exit code. The text leaves out what is not known of the leader.
func TestExplainFailure(t *testing.T) {
	named := leader.Holder{ID: "a"}
	other := errors.New("other")
	for i, x := range []struct {
		err  error
		was  leader.Holder
		code int
		says string
	}{
		{leader.ErrNoLeader, named, exitFailed, "nobody leads billing"},
		{leader.ErrUnreachable, leader.Holder{}, exitUnreachable, leader.ErrUnreachable.Error()},
		{context.DeadlineExceeded, named, exitWaited, "a has not handed over within 3s; it still may"},
		{context.DeadlineExceeded, leader.Holder{}, exitUnreachable, context.DeadlineExceeded.Error()},
		{other, named, exitFailed, "other"},
	} {
		err := explainFailure(x.err, "billing", x.was, 3*time.Second)
		expect.That(t, codeOf(err) == x.code && err.Error() == x.says, "%d: %d, %v", i, codeOf(err), err)
	}
}

// stepsDown is prompt for a command whose lines come in any order, apart from the last.
func (w *world) stepsDown(line string) {
	out, errs, code := w.run(line)
	lines := strings.SplitAfter(out+errs, "\n")
	slices.Sort(lines[:max(0, len(lines)-2)])
	w.notef("$ natsleader %s\n%s[exit code %d]\n", line, strings.Join(lines, ""), code)
}

// drain hands over each election that the ID leads, and no other.
func TestDrain_ByID(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		for _, election := range []string{"billing", "mail", "reports"} {
			w.campaigns(election, leader.Config{ID: "web-1"})
			w.campaigns(election, leader.Config{ID: "web-2"})
		}
		other := w.campaigns("other", leader.Config{ID: "web-10"})
		time.Sleep(time.Second) // after the renewals
		w.prompt("drain web-1 --dry-run")
		w.stepsDown("drain web-1")
		w.prompt("drain web-1")
		expect.That(w, other.IsLeader(), "web-10 has handed over")
		w.notef("# mistakes\n")
		w.prompt("drain", "drain a --bucket none", "drain a --keep --only orders", "step-down mail --force --dry-run", "step-down mail --force --to b", "step-down mail --force --shard 0 --to b")
	})
}

// drain asks again if another candidate on the host has followed.
func TestDrain_WholeHost(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		for _, id := range []string{"h_1_aaaaaa", "h_2_bbbbbb", "elsewhere"} {
			w.campaigns("billing", leader.Config{ID: id, Queue: &leader.Queue{}, TurnTimeout: longTurn})
		}
		time.Sleep(time.Second) // after the renewal
		w.prompt("drain h --dry-run", "drain h --dry-run --json", "drain h --json", "drain h --json", "drain h --dry-run --json")
	})
}

// Cordoned candidates take no election, are shown where nobody leads, and take a free one when they are off the cordon.
func TestCordon(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		for _, id := range []string{"h_1_aaaaaa", "h_2_bbbbbb", "elsewhere"} {
			w.campaigns("billing", leader.Config{ID: id, Queue: &leader.Queue{}, TurnTimeout: longTurn})
		}
		time.Sleep(time.Second)
		w.prompt("drain h", "drain elsewhere --keep", "drain x --keep --dry-run --json", "drain x --keep --json", "drain x --keep --dry-run", "drain elsewhere --wait 10s", "drain nobody")
		w.prompt("status billing", "status", "status --json", "status natsleader.cordon", "undrain x y", "undrain x h nobody")
		time.Sleep(6 * time.Second) // after a renewal
		w.prompt("status billing", "undrain elsewhere --json", "drain --keep "+strings.Repeat("x", 257))
		put(w.T, w.js, "natsleader.cordon", "junk")
		w.prompt("drain a --keep", "drain b", "drain b --dry-run")
		w.notef("# the key is deleted\n")
		expect.OK(w, expect.Got(w.js.KeyValue(w.Context(), "elections"))(w).Delete(w.Context(), "natsleader.cordon"))
		w.prompt("drain b --keep", "drain c --keep")
		w.complete("undrain ''")
	})
}

// A cordoned candidate that has the key leads soon, or its lease ends: drain waits for either.
func TestDrain_WaitsForPending(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		put(w.T, w.js, "billing", `{"v":1,"state":"pending","session":"s","n":1,"lease":"3s","id":"h"}`)
		w.timed("drain h --dry-run", "drain h --wait 1s", "drain h")
	})
}

// A replica that lags lets a change of the cordon be refused. It is tried again after pauses, and not for ever.
func TestCordon_Refused(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("drain a --keep")
		read := "$JS.API.DIRECT.GET.KV_elections.$KV.elections.natsleader.cordon"
		nc, writes := w.dial(), 0
		w.Cleanup(nc.Close)
		expect.OK(w, expect.Err(nc.Subscribe("lags", func(m *nats.Msg) {
			if writes++; writes == 0 {
				w.s.GlobalAccount().RemoveMapping(read)
			}
			_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Status": {"404"}}})
		})))
		expect.OK(w, nc.Flush())
		expect.OK(w, w.s.GlobalAccount().AddMapping(read, "lags"))
		w.timed("drain b --keep")
		expect.Equal(w, writes, 5, "%d tries")
		w.notef("# one answer is from before the cordon\n")
		writes = -1
		w.prompt("undrain a", "undrain a")
	})
}

// A bucket with a TTL would drop a cordon, and takes none.
func TestCordon_TTLBucket(t *testing.T) {
	bubble(t, leader.BucketConfig{TTL: time.Hour}, func(w *world) { w.prompt("drain a", "drain a --keep") })
}

// drain reports each leader that does not answer within 5 s. The last request waits until another
// one has ended.
func TestDrain_Silent(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.campaigns("model", leader.Config{ID: "m"})
		for i := range mostAtOnce + 1 {
			put(w.T, w.js, fmt.Sprint("silent-", i), renewal(w.T, w.js, "dead", time.Hour))
		}
		began := time.Now()
		w.stepsDown("drain dead")
		w.notef("# after %v\n", time.Since(began))
	})
}

// A term that is over when its leader is asked needs no request.
func TestDrain_TermIsOver(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		s := &stepDown{globals: w.globals(), wait: time.Minute}
		was := electionStatus{election: "free", holder: leader.Holder{ID: "a", Token: 7}}
		done, err := s.ask(w.Context(), w.bucket, was)
		expect.That(w, err == nil && done.Leader == nil && *done.From == (leaderSummary{"a", 7}),
			"%+v, %v", done, err)
	})
}

// Of several failures the exit code is the greatest, in any order. A leader that leads again is a failure, and so is a member that has
// joined after the drain.
func TestDrain_EndsWithGreatestCode(t *testing.T) {
	s := &drain{stepDown: stepDown{globals: &globals{bucket: "elections"}, asJSON: true}, name: "a", cordon: true}
	again := []electionStatus{{election: "billing"}}
	for i := range 50 { // the order of a map differs
		all := map[asked]error{{"ok", "a"}: nil}
		for j, code := range []int{exitFailed, exitWaited, exitUnreachable, exitFailed, exitUnreachable} {
			all[asked{fmt.Sprint(i, j), "a"}] = exitError{code, errors.New("no")}
		}
		err := s.end(all, again, "", nil)
		expect.Must(t, codeOf(err) == exitWaited && err.Error() == "5 of 6 leaders have not handed over", "%d: %v", codeOf(err), err)
	}
	silent := map[asked]error{{"billing", "a"}: exitError{exitUnreachable, errors.New("no")}}
	expect.Equal(t, codeOf(s.end(silent, again, "", exitError{exitWaited, errors.New("no")})), exitWaited, "members that wait: %d")
	expect.Equal(t, codeOf(s.end(silent, again, "", exitError{exitFailed, errors.New("no")})), exitUnreachable, "a leader that is silent: %d")
	err := s.end(nil, nil, "8 shards of group orders", nil)
	expect.That(t, codeOf(err) == exitFailed && err.Error() == "a owns 8 shards of group orders: a member has joined meanwhile", "%d: %v", codeOf(err), err)
}

// A list of elections counts those that it leaves out.
func TestShortList_LeftOut(t *testing.T) {
	var all []electionStatus
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		all = append(all, electionStatus{election: name})
	}
	for n, want := range map[int]string{1: "a", 5: "a, b, c, d, e", 6: "a, b, c, d, e and 1 more", 7: "a, b, c, d, e and 2 more"} {
		got := shortList(all[:n])
		expect.That(t, got == want, "%d elections: %q, want %q", n, got, want)
	}
}

// longTurn is the TurnTimeout of candidates that must not overtake one another, also when one of
// them is slow.
const longTurn = 2 * time.Second

// step-down --to hands over to the candidate that is named, or to the next.
func TestStepDownTo_ToNamed(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		w.campaigns("billing", leader.Config{ID: "a", Queue: &leader.Queue{AtOnce: true}})
		w.campaigns("billing", leader.Config{ID: "b", Queue: &leader.Queue{}})
		w.campaigns("billing", leader.Config{ID: "c", Queue: &leader.Queue{}})
		w.prompt("step-down billing --to a", "step-down billing --to a --json --dry-run", "step-down billing --to x", "step-down billing --to c --dry-run", "step-down billing --to c")
		time.Sleep(time.Minute)
		w.prompt("step-down billing --to next --dry-run --json", "step-down billing --to next")
	})
}

// step-down --to needs no roster for an ID. No candidate can know that no candidate "ghost" campaigns.
func TestStepDownTo_ByID(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("step-down billing --to next")
		w.campaigns("billing", leader.Config{ID: "a"})
		w.campaigns("billing", leader.Config{ID: "b"})
		w.prompt("step-down billing --to next", "step-down billing --to b", "step-down billing --to ghost")
		w.fails("step-down billing --to "+strings.Repeat("x", 10_000), exitUsage, "10000 bytes")
	})
}
