package run

import (
	"testing"
	"time"

	expect "github.com/natsleader/natsleader/internal/check"
)

// The pauses before the starts of a command that fails again and again double, up to the longest, and their
// number is bounded. A command that has run for a minute begins again with the shortest.
func TestBrake_PausesGrow(t *testing.T) {
	var b brake
	want := firstRestart
	for n := range 200 {
		pause, again := b.next(200, time.Second)
		expect.Must(t, pause == want && again, "after failure %d: a pause of %v, started again: %v; want %v", n+1, pause, again, want)
		want = min(2*want, longestRestart)
	}
	_, again := b.next(200, time.Second)
	expect.That(t, !again, "it is started again after the last failure that is allowed")
	pause, again := b.next(200, time.Minute)
	expect.That(t, pause == firstRestart && again, "after a minute: a pause of %v, started again: %v", pause, again)
	_, again = new(brake).next(0, time.Hour)
	expect.That(t, !again, "without --restart it is started again")
}
