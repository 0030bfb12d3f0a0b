package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/natsleader/natsleader/leader"
)

// --wait bounds each command that asks a leader to hand over, if the leader goes on with its work.
func TestAsk_WaitIsBounded(t *testing.T) {
	for name, line := range map[string]string{
		"step-down": "step-down billing", "transfer": "transfer billing b", "drain": "drain --id a",
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, leader.BucketConfig{}, func(w *world) {
				c := w.campaigns("billing", leader.Config{ID: "a", DrainTimeout: time.Hour})
				term, _ := c.Term()
				defer term.Release()
				began := time.Now()
				_, errs, code := w.run(line + " --wait 300ms")
				if took := time.Since(began); code != exitWaited || took != 300*time.Millisecond {
					w.Errorf("exit code %d after %v: %s", code, took, errs)
				}
			})
		})
	}
}

// Requests that have ended make room for others.
func TestDrain_SlotsComeBack(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		look, err := w.globals().newInspector(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		defer look.close()
		var led []electionStatus
		for i := range 2*mostAtOnce + 1 {
			led = append(led, electionStatus{election: fmt.Sprint("free-", i), holder: leader.Holder{ID: "a"}})
		}
		all, done := map[asked]error{}, make(chan struct{})
		go func() {
			defer close(done)
			(&drain{globals: w.globals(), id: "a", wait: time.Minute}).pass(w.Context(), look.bucket, led, all)
		}()
		select {
		case <-done:
		case <-time.After(time.Minute):
			w.Fatal("it waits for ever")
		}
		for a, err := range all {
			if err != nil {
				w.Errorf("%s: %v", a.election, err)
			}
		}
		if len(all) != len(led) {
			w.Errorf("%d of %d", len(all), len(led))
		}
	})
}

// Of several failures the exit code is the greatest, in any order, and a leader that leads again is
// a failure.
func TestDrain_EndsWithTheGreatestCode(t *testing.T) {
	d := &drain{globals: &globals{bucket: "elections"}, id: "a", asJSON: true}
	again := []electionStatus{{election: "billing"}}
	for i := range 50 { // the order of a map differs
		all := map[asked]error{{"ok", "a"}: nil}
		for j, code := range []int{exitFailed, exitWaited, exitUnreachable, exitFailed, exitUnreachable} {
			all[asked{fmt.Sprint(i, j), "a"}] = exitError{code, errors.New("no")}
		}
		if err := d.end(all, again); codeOf(err) != exitWaited || err.Error() != "5 of 6 leaders have not handed over" {
			t.Fatalf("%d: %v", codeOf(err), err)
		}
	}
	if err := d.end(map[asked]error{{"billing", "a"}: nil}, again); codeOf(err) != exitFailed {
		t.Errorf("leads again: %v", err)
	}
	if err := d.end(map[asked]error{{"billing", "a"}: nil}, nil); err != nil {
		t.Error(err)
	}
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
		{leader.ErrUnreachable, named, exitUnreachable, "a has not handed over, and does not answer: it may be draining, or may not be allowed to answer, or is gone; wait and look again, or force"},
		{leader.ErrUnreachable, leader.Holder{}, exitUnreachable, leader.ErrUnreachable.Error()},
		{context.DeadlineExceeded, named, exitWaited, "a has not handed over within 3s; it still may"},
		{context.DeadlineExceeded, leader.Holder{}, exitUnreachable, context.DeadlineExceeded.Error()},
		{other, named, exitFailed, "other"},
	} {
		if err := explainFailure(x.err, "billing", x.was, 3*time.Second, ", or force"); codeOf(err) != x.code || err.Error() != x.says {
			t.Errorf("%d: %d, %v", i, codeOf(err), err)
		}
	}
}
