package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/leader"
)

// longTurn is the TurnTimeout of candidates that must not overtake one another, also when one of
// them is slow.
const longTurn = 2 * time.Second

// transfer hands over to the candidate that is named, or to the next.
func TestTransfer_ToNamed(t *testing.T) {
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		w.campaigns("billing", leader.Config{ID: "a", Roster: true})
		w.campaigns("billing", leader.Config{ID: "b", Queue: true})
		w.campaigns("billing", leader.Config{ID: "c", Queue: true})
		w.prints("transfer billing a", "a leads billing already, with TOKEN\n")
		w.fails("transfer billing x", exitFailed, `refuses the request: "a" leads with TOKEN: not standing in the election: "x"`)
		w.prints("transfer billing c", "a has handed over billing (TOKEN)\nc leads with TOKEN\n")
		time.Sleep(time.Minute)
		w.prints("transfer billing", "c has handed over billing (TOKEN)\nb leads with TOKEN\n")
	})
}

// transfer needs no roster for an ID.
func TestTransfer_ByID(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.fails("transfer billing", exitFailed, "nobody leads billing")
		w.campaigns("billing", leader.Config{ID: "a"})
		w.campaigns("billing", leader.Config{ID: "b"})
		w.fails("transfer billing", exitFailed,
			"a reads no roster, so it does not know the next candidate: name one (natsleader transfer billing ID), or start the candidates with --roster (natsleader run) or Config.Roster")
		w.prints("transfer billing b", "a has handed over billing (TOKEN)\nb leads with TOKEN\n")
		// No candidate of that ID stands, which no candidate can know.
		w.fails("transfer billing ghost", exitFailed, "the named successor has not taken over: ")
		w.fails("transfer billing --bucket other", exitBucket, "natsleader bucket add other")
		w.fails("transfer b*", exitUsage, `"b*"`)
		w.fails("transfer", exitUsage, "election")
		w.fails("transfer billing "+strings.Repeat("x", 10_000), exitUsage, "10000 bytes")
	})
}

// transfer reports a leader that refuses, is silent or is slow.
func TestTransfer_RefusedOrSlow(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.campaigns("refused", leader.Config{ID: "a", RefuseRequests: true})
		w.fails("transfer refused b", exitFailed, `refuses the request: "a" leads with TOKEN: it is set to refuse requests`)
		put(w.T, w.js, "silent", record(w.T, w.js, "refused", "b", time.Hour))
		w.fails("transfer silent c", exitUnreachable, "b has not handed over, and does not answer: it may be draining")
		c := w.campaigns("slow", leader.Config{ID: "c", DrainTimeout: time.Hour})
		term, _ := c.Term()
		defer term.Release()
		w.fails("transfer slow d --wait 1s", exitWaited, "c has not handed over within 1s")
	})
}

// tokenOf returns the token of a leader as it is printed.
func tokenOf(t *testing.T, c *leader.Candidate) string {
	t.Helper()
	term, ok := c.Term()
	if !ok {
		t.Fatalf("%s does not lead", c.ID())
	}
	return fmt.Sprintf("token %d", term.Token())
}
