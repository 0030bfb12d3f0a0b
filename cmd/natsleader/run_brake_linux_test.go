package main

import (
	"slices"
	"testing"
	"time"
)

// The pauses between the starts of a command that fails grow, and their number is bounded. A
// command that has run for a minute begins again with the shortest.
func TestBrake_PausesGrow(t *testing.T) {
	var b brake
	var pauses []time.Duration
	for range 100 {
		pause, again := b.next(7, time.Second)
		if !again {
			break
		}
		pauses = append(pauses, pause)
	}
	want := []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 30e9, 30e9}
	if !slices.Equal(pauses, want) {
		t.Errorf("%v", pauses)
	}
	if pause, again := b.next(7, time.Minute); pause != time.Second || !again {
		t.Errorf("after a minute: %v, %v", pause, again)
	}
	if _, again := new(brake).next(0, time.Hour); again {
		t.Error("without --restart it is started again")
	}
}
