package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// One command runs at a time, a minute at most. Of the changes of one election that come meanwhile the newest counts, and
// no change is held up. The end ends the command that runs.
func TestHooks_NewestCounts(t *testing.T) {
	alone(t, func(w *world) {
		began := time.Now()
		h := (&globals{stdio: stdio{stderr: noteWriter{w, "! "}}}).newHooks("")
		h.run = func(ctx context.Context, c electionChange, was state) error {
			w.notef("%v: %s was %q, is %s\n", time.Since(began), c.now.election, was, c.state)
			if c.state == stateForeign { // the command hangs
				<-ctx.Done()
				w.notef("%v: ended\n", time.Since(began))
				return ctx.Err()
			}
			if c.state == stateDeleted {
				return errors.New("exit status 3")
			}
			time.Sleep(10 * time.Second)
			return nil
		}
		change := func(election string, st state) {
			expect.OK(w, h.changed(electionChange{now: electionStatus{election: election}, state: st}))
		}
		expect.OK(w, h.begin())
		change("a", stateLeading)
		synctest.Wait()
		change("a", stateExpired)
		change("b", stateDeleted)
		change("a", stateReleased)
		time.Sleep(time.Minute)
		change("c", stateForeign)
		change("b", stateLeading)
		time.Sleep(2 * time.Minute)
		change("a", stateForeign)
		change("b", stateReleased)
		time.Sleep(time.Second)
		h.end()
	})
}

// The command of --exec finds the change in its environment, without zero bytes, which a variable cannot have.
func TestHooks_Environment(t *testing.T) {
	c := electionChange{now: electionStatus{election: "e", holder: leader.Holder{ID: "a", Token: 7, Value: []byte("10.0.0.7\x00:80")}}, state: stateLeading}
	got := hookEnvironment("b", c, stateReleased)
	want := []string{
		"NATSLEADER_BUCKET=b", "NATSLEADER_ELECTION=e", "NATSLEADER_STATE=leading", "NATSLEADER_WAS=released", "NATSLEADER_ID=a",
		"NATSLEADER_TOKEN=7", "NATSLEADER_VALUE=10.0.0.7:80",
	}
	expect.That(t, slices.Equal(got, want), "%q", got)
}

// The flags that --exec takes.
func TestWatch_ExecFlags(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("watch --exec true --json", "watch --exec true --timeline", "watch *a..b")
	})
}
