package main

import (
	"context"
	"errors"
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

// The command of --exec finds the change in its environment and on its standard input. It gets only the elections that the
// pattern matches, a text without zero bytes, which a variable cannot have, and no password.
func TestWatch_Exec(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.Chdir(w.TempDir())
		w.Setenv("NATS_PASSWORD", "secret")
		w.writeFile("hook", `echo "$NATSLEADER_BUCKET $NATSLEADER_ELECTION: was '$NATSLEADER_WAS', is $NATSLEADER_STATE: $NATSLEADER_ID $NATSLEADER_TOKEN $NATSLEADER_VALUE$NATS_PASSWORD"; cat; exit 3`)
		a := w.campaigns("tenant-1", leader.Config{ID: "a", Value: []byte("10.0.0.7\x00:80")})
		w.campaigns("other", leader.Config{ID: "a"})
		w.prompt("watch --exec sh${IFS}hook --json", "watch --exec sh${IFS}hook --timeline", "watch *a..b")
		stop := w.follow("watch tenant-* --exec sh${IFS}hook")
		time.Sleep(time.Second)
		expect.OK(w, a.Stop())
		time.Sleep(time.Second)
		put(w.T, w.js, "tenant-2", "hello")
		time.Sleep(time.Second)
		stop()
	})
}
