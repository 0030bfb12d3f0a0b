//go:build field && linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

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
		(&drain{globals: &globals{}, id: "a", wait: patience}).pass(t.Context(), look.bucket, led, all)
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
