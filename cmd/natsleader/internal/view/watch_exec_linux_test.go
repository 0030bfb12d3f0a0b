package view

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// One command runs at a time, a minute at most. Of the changes of one election that come meanwhile the newest counts, and
// no change is held up. The end ends the command that runs.
func TestHooks_NewestCounts(t *testing.T) {
	testworld.Alone(t, func(w *testworld.World) {
		began := time.Now()
		h := newHooks((&front.Globals{Stdio: front.Stdio{Stderr: testworld.NoteWriter{W: w, Mark: "! "}}}), "")
		h.run = func(ctx context.Context, c ElectionChange, was facts.State) error {
			w.Notef("%v: %s was %q, is %s\n", time.Since(began), c.Now.Election, was, c.State)
			if c.State == facts.Foreign { // the command hangs
				<-ctx.Done()
				w.Notef("%v: ended\n", time.Since(began))
				return ctx.Err()
			}
			if c.State == facts.Deleted {
				return errors.New("exit status 3")
			}
			time.Sleep(10 * time.Second)
			return nil
		}
		change := func(election string, st facts.State) {
			expect.OK(w, h.Changed(ElectionChange{Now: facts.ElectionStatus{Election: election}, State: st}))
		}
		expect.OK(w, h.begin())
		change("a", facts.Leading)
		synctest.Wait()
		change("a", facts.Expired)
		change("b", facts.Deleted)
		change("a", facts.Released)
		time.Sleep(time.Minute)
		change("c", facts.Foreign)
		change("b", facts.Leading)
		time.Sleep(2 * time.Minute)
		change("a", facts.Foreign)
		change("b", facts.Released)
		time.Sleep(time.Second)
		h.end()
	})
}

// The command of --exec finds the change in its environment, without zero bytes, which a variable cannot have.
func TestHooks_Environment(t *testing.T) {
	c := ElectionChange{Now: facts.ElectionStatus{Election: "e", Holder: leader.Holder{ID: "a", Token: 7, Value: []byte("10.0.0.7\x00:80")}}, State: facts.Leading}
	got := hookEnvironment("b", c, facts.Released)
	want := []string{
		"NATSLEADER_BUCKET=b", "NATSLEADER_ELECTION=e", "NATSLEADER_STATE=leading", "NATSLEADER_WAS=released", "NATSLEADER_ID=a",
		"NATSLEADER_TOKEN=7", "NATSLEADER_VALUE=10.0.0.7:80",
	}
	expect.That(t, slices.Equal(got, want), "%q", got)
}
