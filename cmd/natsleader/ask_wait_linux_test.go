package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

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

// An attempt that fails leaves no connection: with --retry-connect there are many.
func TestConnect_FailedAttemptClosesConnection(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		in := func(bucket string) *globals {
			g := w.globals()
			g.bucket = bucket
			return g
		}
		attempt := func(bucket string, s succession, want error) {
			w.Helper()
			s.seats = 1
			log := newRunLog(new(lockedText), "jobs", logText, false)
			c := &runLoop{run: &run{globals: in(bucket), election: "jobs", succession: s}, log: log}
			defer c.log.close()
			if _, _, err := c.attempt(); !errors.Is(err, want) {
				w.Errorf("%+v: %v, not %v", s, err, want)
			}
		}
		attempt("nowhere", succession{kind: byRace}, leader.ErrNoBucket)
		attempt("elections", succession{kind: byRace, roster: true}, leader.ErrNoRoster)
		attempt("elections", succession{kind: byQueue}, leader.ErrNoRoster)
		attempt("elections", succession{kind: byPriority}, leader.ErrNoRoster)
		if _, _, _, err := in("a b").open(); err == nil {
			w.Error("a bucket of that name can be opened")
		}
		if _, err := in("nowhere").newInspector(w.Context()); !errors.Is(err, leader.ErrNoBucket) {
			w.Errorf("no bucket: %v", err)
		}
		synctest.Wait()
		if n := w.s.NumClients(); n != 1 { // of the test itself
			w.Errorf("%d connections are open", n)
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

// A signal that ends a run, and the end of --wait, interrupt the connecting. Other signals do not.
func TestReach_Interrupted(t *testing.T) {
	reach := func(signals []os.Signal, waited bool) error {
		c := &runLoop{
			run: &run{globals: globalsOf("nats://127.0.0.1:1", "none"), retryConnect: true, wait: time.Hour},
			log: newRunLog(new(lockedText), "jobs", logText, false),
		}
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
