//go:build unix

package main

import "testing"

// The pauses before the starts of a command that fails again and again double, up to the longest. They
// stay that long, however often it fails.
func TestBrake_PausesDouble(t *testing.T) {
	var b brake
	want := firstRestart
	for n := range 200 {
		pause, again := b.next(200, 0)
		if pause != want || !again {
			t.Fatalf("after failure %d: a pause of %v, started again: %v; want %v", n+1, pause, again, want)
		}
		want = min(2*want, longestRestart)
	}
	if _, again := b.next(200, 0); again {
		t.Error("it is started again after the last failure that is allowed")
	}
	if pause, again := b.next(200, steadyRun); pause != firstRestart || !again {
		t.Errorf("after a steady run: a pause of %v, started again: %v", pause, again)
	}
}
