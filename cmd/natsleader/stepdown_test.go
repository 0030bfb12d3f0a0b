package main

import (
	"context"
	"errors"
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
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
		expect.OK(w, alone.Stop(w.Context()))
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

// step-down and transfer report a leader that refuses, is silent or is slow, or leads again. step-down --id goes on after
// one that fails.
func TestStepDown_RefusedOrSlow(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.campaigns("refused", leader.Config{ID: "a", RefuseRequests: true})
		w.campaigns("mail", leader.Config{ID: "a"})
		w.campaigns("mail", leader.Config{ID: "b"})
		w.timed("step-down refused", "transfer refused b", "step-down --id a")
		put(w.T, w.js, "silent", record(w.T, w.js, "refused", "s", time.Hour))
		w.timed("step-down silent", "transfer silent c")
		c := w.campaigns("slow", leader.Config{ID: "c", DrainTimeout: time.Hour})
		term, _ := c.Term()
		w.timed("step-down slow --wait 1s")
		term.Release()
		time.Sleep(time.Minute)
		term, _ = c.Term()
		defer term.Release()
		w.timed("transfer slow d --wait 1s", "step-down --id c --wait 1s")
		w.campaigns("alone", leader.Config{ID: "d"})
		w.timed("step-down --id d")
	})
}

// step-down asks if no other candidate is in the roster. Where it cannot ask, it does nothing without --yes.
func TestStepDown_AsksAboutLast(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		a := w.campaigns("billing", leader.Config{ID: "a", Roster: true})
		w.prompt("step-down billing")
		for _, answer := range []string{"", "no"} {
			w.answers("step-down billing", answer, nil)
		}
		expect.That(w, a.IsLeader(), "a has handed over")
		w.answers("step-down billing --json", "y", nil)
		w.notef("# another candidate stands\n")
		w.campaigns("billing", leader.Config{ID: "b", Roster: true})
		w.prompt("step-down billing")
		w.notef("# the leader of alone has not announced itself\n")
		w.campaigns("alone", leader.Config{ID: "c"})
		w.prompt("step-down alone", "step-down alone --yes")
	})
}

// A roster that may not be read does not keep step-down from asking the leader.
func TestStepDown_RosterDenied(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		w.campaigns("billing", leader.Config{ID: "a", Roster: true})
		w.prompt("step-down billing " + as("limited"))
	}, withUser("limited", denied("$JS.API.CONSUMER.>")))
}

// Each way in which a request fails has its exit code. What is not known of the leader is not said.
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
		if err := explainFailure(x.err, "billing", x.was, 3*time.Second); codeOf(err) != x.code || err.Error() != x.says {
			t.Errorf("%d: %d, %v", i, codeOf(err), err)
		}
	}
}
