package leader_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

// queue makes candidates that wait in a queue, a second apart, until 20 s. The first
// one leads. Their events so far are dropped.
func (w *world) queue(ids ...string) []*candidate {
	w.Helper()
	var all []*candidate
	for i, id := range ids {
		w.at(time.Duration(i) * time.Second)
		all = append(all, w.standAs(leader.Config{ID: id, Queue: &leader.Queue{}}))
	}
	w.at(20 * time.Second)
	w.ledBy(all[0], all...)
	for _, c := range all {
		c.news()
	}
	return all
}

// ledBy fails the test unless, of all of them, this candidate leads.
func (w *world) ledBy(want *candidate, all ...*candidate) {
	w.Helper()
	synctest.Wait()
	if got := w.leads(all...); got != want {
		w.Errorf("at %v %s leads, want %s", w.now(), got.ID(), want.ID())
	}
}

// unrostered deletes the roster.
func (w *world) unrostered() {
	w.Helper()
	w.ok(w.ops.js.DeleteStream(w.Context(), "KV_E_roster"))
}

// The candidate that has waited longest follows at once, with the only write. A
// candidate that resigned stands behind the others when its time is over.
func TestQueue_OnAServer(t *testing.T) { story(t) }

// From outside: to a named candidate with the longest ID, to the next one, and requests that are
// refused.
func TestTransfer_FromOutside(t *testing.T) {
	inRostered(t, func(w *world) {
		operator := w.dial("jane").bucket(t)
		transfer := func(id string, want error) leader.Holder {
			w.Helper()
			h, err := leader.StepDown(w.Context(), operator, "e", leader.StepDownOptions{To: id, Next: id == "", By: "jane@laptop"})
			check.That(w, errors.Is(err, want), "at %v Transfer to %q: %v, want %v", w.now(), id, err, want)
			return h
		}
		transfer("a", leader.ErrNoLeader)
		c := strings.Repeat("c", 256)
		cs := w.queue("a", "b", c, "d")
		before := w.petition(cs[0].lastTerm(t).Token())
		transfer("stranger", leader.ErrRequestRefused)
		transfer("a", leader.ErrRequestRefused) // it leads, and so it does not stand
		cs[0].saw(t)
		h := transfer(c, nil)
		check.That(w, h.ID == "a", "%v was asked", h)
		w.isAt(20*time.Second, "transferred")
		w.ledBy(cs[2], cs...)
		w.at(21 * time.Second)
		if h := transfer("", nil); h.ID != c {
			w.Errorf("%v was asked", h)
		}
		w.isAt(21*time.Second, "transferred to the next")
		w.ledBy(cs[1], cs...)
		cs[1].news()
		w.at(22 * time.Second)
		// Late: of an earlier term. Twice: for one term only.
		late := as(before, map[string]any{"do": "transfer", "to": "d"})
		now := as(w.petition(cs[1].lastTerm(t).Token()), map[string]any{"do": "transfer", "to": "d"})
		for _, request := range [][]byte{late, late, now, now, now} {
			w.ok(w.ops.nc.PublishRequest(asks, w.ops.nc.NewInbox(), request))
		}
		w.at(23 * time.Second)
		cs[1].saw(t, "22s deposed resigned", "22s observed nobody", "22s observed d")
		w.ledBy(cs[3], cs...)
		cs[3].news()
		w.at(24 * time.Second)
		cs[3].saw(t)
	})
}

// as returns a petition with other fields.
func as(petition []byte, other map[string]any) []byte {
	all := make(map[string]any)
	_ = json.Unmarshal(petition, &all)
	for name, value := range other {
		all[name] = value
	}
	data, _ := json.Marshal(all)
	return data
}

func TestTransfer_IsRefused(t *testing.T) { story(t) }

// A missing roster is reported once, and a queue is a race.
func TestQueue_WithoutRoster(t *testing.T) { story(t) }

// rosterOf makes the roster of the existing bucket E.
func (w *world) rosterOf() {
	w.Helper()
	w.create(leader.BucketConfig{MaxLease: lease, Roster: true})
}

// A roster that is deleted and made anew fills within a lease, in the order in which
// the candidates announce themselves. They follow in that order.
func TestRoster_LostIsFilledAgain(t *testing.T) {
	inRostered(t, func(w *world) {
		cs := w.queue("a", "b", "c", "d")
		w.unrostered()
		w.at(20*time.Second + 3*lease)
		for _, c := range cs {
			if got := c.news(); len(got) == 0 || len(got) > 2 || slices.ContainsFunc(got, func(s string) bool { return !strings.Contains(s, "faulted") }) {
				w.Errorf("%s saw %q of the roster's end", c.ID(), got)
			}
		}
		w.rostered()
		w.at(20*time.Second + 5*lease)
		all := check.Got(roster.Lookup(w.Context(), w.ops.bucket(t), "e"))(w)
		check.Must(w, len(all) == 3, "%v stand", all)
		w.ok(leadertest.Resign(w.Context(), cs[0]))
		w.isAt(20*time.Second+5*lease, "resigned")
		synctest.Wait()
		next := w.leads(cs...)
		check.That(w, next.ID() == all[0].ID, "%s follows, although %v stand", next.ID(), all)
		for _, c := range cs[1:] {
			got := c.without("observed", "pending", "elected")
			check.That(w, len(got) <= 0, "%s saw %q", c.ID(), got)
		}
	})
}

// The leader's connection is lost and comes back, and its view is opened anew. A
// candidate's connection is lost, and it keeps its place.
func TestQueue_Reconnections(t *testing.T) { story(t) }

// A restart of the server with the roster on file changes nothing.
func TestQueue_OutlivesRestart(t *testing.T) { story(t) }

// Among many candidates on one connection, the next leader receives the release first.
// The others learn only of its term.
func TestQueue_NextHearsFirst(t *testing.T) {
	inRostered(t, func(w *world) {
		cfg := leader.Config{ID: "a", Queue: &leader.Queue{}}
		a := w.standAs(cfg)
		w.at(time.Second)
		cfg.ID = "b"
		shared := w.dial("shared")
		b := w.campaign(w.Context(), shared, "e", cfg)
		store := shared.bucket(t)
		w.at(2 * time.Second)
		all := []*candidate{b}
		for i := range 100 {
			cfg.ID, cfg.LeaseDuration = fmt.Sprint("c", i), lease
			all = append(all, w.standOn(shared, store, cfg))
		}
		w.at(20 * time.Second)
		w.ledBy(a, append(all, a)...)
		next := all[1:]
		for _, c := range all {
			c.news()
		}
		w.ok(leadertest.Led(a).TransferTo(w.Context(), "c7"))
		w.isAt(20*time.Second, "transferred")
		w.at(21 * time.Second)
		next[7].saw(t, "20s observed nobody", "20s pending", "20s elected")
		for i, c := range next {
			got := c.news()
			check.That(t, i == 7 || len(got) == 1 && strings.HasSuffix(got[0], "s observed c7"),
				"%s saw %q", c.ID(), got)
		}
	})
}
