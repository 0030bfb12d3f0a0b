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

// --wait bounds each command that asks a leader to hand over, if the leader goes on with its work.
func TestAsk_WaitIsBounded(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	const wait = 300 * time.Millisecond
	for name, ask := range map[string]func(context.Context, *globals) error{
		"step-down": func(ctx context.Context, g *globals) error {
			return (&stepDown{globals: g, election: "step-down", wait: wait}).run(ctx)
		},
		"transfer": func(ctx context.Context, g *globals) error {
			return (&transfer{globals: g, election: "transfer", id: "b", wait: wait}).run(ctx)
		},
		"drain": func(ctx context.Context, g *globals) error {
			return (&drain{globals: g, id: "drain", wait: wait}).run(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := campaigns(t, url, "elections", name, leader.Config{ID: name, DrainTimeout: time.Hour})
			term, _ := c.Term()
			defer term.Release()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			if err := ask(ctx, globalsOf(url, "elections")); codeOf(err) != exitWaited || ctx.Err() != nil {
				t.Errorf("not within --wait: %v: %v", ctx.Err(), err)
			}
		})
	}
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

// Requests that have ended make room for others.
func TestDrain_SlotsComeBack(t *testing.T) {
	url := startServer(t).ClientURL()
	newBucket(t, url, "elections", leader.BucketConfig{})
	look, err := globalsOf(url, "elections").newInspector(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer look.close()
	stdout := os.Stdout
	defer func() { os.Stdout = stdout }()
	if os.Stdout, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Stdout.Close() }()
	var led []electionStatus
	for i := range 2*mostAtOnce + 1 {
		led = append(led, electionStatus{election: fmt.Sprint("free-", i), holder: leader.Holder{ID: "a"}})
	}
	all, done := map[asked]error{}, make(chan struct{})
	go func() {
		defer close(done)
		(&drain{id: "a", wait: patience}).pass(t.Context(), look.bucket, led, all)
	}()
	select {
	case <-done:
	case <-time.After(patience / 3):
		t.Fatal("it waits for ever")
	}
	for a, err := range all {
		if err != nil {
			t.Errorf("%s: %v", a.election, err)
		}
	}
	if len(all) != len(led) {
		t.Errorf("%d of %d", len(all), len(led))
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

// An attempt that fails leaves no connection: with --retry-connect there are many.
func TestConnect_FailedAttemptClosesConnection(t *testing.T) {
	s := startServer(t)
	c := &runLoop{run: &run{globals: globalsOf(s.ClientURL(), "nowhere"), election: "jobs", succession: succession{kind: byRace, seats: 1}}, log: newRunLog(new(lockedText), "jobs", logText, false)}
	defer c.log.close()
	if _, _, err := c.attempt(); !errors.Is(err, leader.ErrNoBucket) {
		t.Errorf("no bucket: %v", err)
	}
	if _, _, _, err := globalsOf(s.ClientURL(), "a b").open(); err == nil {
		t.Error("a bucket of that name can be opened")
	}
	if _, err := globalsOf(s.ClientURL(), "nowhere").newInspector(t.Context()); !errors.Is(err, leader.ErrNoBucket) {
		t.Errorf("no bucket: %v", err)
	}
	for limit := time.Now().Add(patience / 6); s.NumClients() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("%d connections are open", s.NumClients())
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
