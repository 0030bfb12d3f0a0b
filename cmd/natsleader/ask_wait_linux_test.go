package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/natsleader/natsleader/leader"
)

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

// A signal that ends a run, and the end of --wait, interrupt the connecting. Other signals do not.
func TestReach_Interrupted(t *testing.T) {
	reach := func(signals []os.Signal, waited bool) error {
		c := &runLoop{run: &run{globals: globalsOf("nats://127.0.0.1:1", "elections"), retryConnect: true, wait: time.Hour}, log: newRunLog(new(lockedText), "jobs", logText, false)}
		defer c.log.close()
		all := make(chan os.Signal, len(signals))
		for _, sig := range signals {
			all <- sig
		}
		c.signals = all
		if waited {
			over := make(chan time.Time)
			close(over)
			c.waited = over
		}
		_, _, err := c.reach()
		return err
	}
	if err := reach([]os.Signal{unix.SIGUSR1, unix.SIGWINCH, unix.SIGINT}, false); codeOf(err) != 128+2 {
		t.Errorf("interrupted: %v", err)
	}
	if err := reach(nil, true); codeOf(err) != exitWaited || !strings.HasPrefix(err.Error(), "not connected within --wait 1h0m0s") {
		t.Errorf("--wait is over: %v", err)
	}
}
