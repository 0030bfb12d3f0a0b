package main

import (
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
		w.prompt("transfer billing a", "transfer billing x", "transfer billing c")
		time.Sleep(time.Minute)
		w.prompt("transfer billing")
	})
}

// transfer needs no roster for an ID. No candidate can know that no candidate "ghost" campaigns.
func TestTransfer_ByID(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("transfer billing")
		w.campaigns("billing", leader.Config{ID: "a"})
		w.campaigns("billing", leader.Config{ID: "b"})
		w.prompt("transfer billing", "transfer billing b", "transfer billing ghost", "transfer billing --bucket other", "transfer b*", "transfer")
		w.fails("transfer billing "+strings.Repeat("x", 10_000), exitUsage, "10000 bytes")
	})
}
