// Package leaks finds what a test has left behind beside goroutines: subscriptions, slots of a
// window, turns, requests, limits of calls, and timers. It is for tests.
package leaks

import (
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/jsapi"
)

// TB is the part of testing.TB that is needed.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
}

// Keeper holds streams of package jsapi, as a bucket of package leader does.
type Keeper interface {
	// Left returns what its streams, and their connection, hold.
	Left() []jsapi.Left
}

// Ledger is what was held before a test.
type Ledger struct{ limits int }

// Open begins to count.
func Open() Ledger { return Ledger{deadline.Held()} }

// Check fails the test if more is held than when the ledger was opened. timers is the number of
// timers that are armed on the test's own clock. Everything must have ended.
func (l Ledger) Check(t TB, timers int, all ...Keeper) {
	t.Helper()
	for _, k := range all {
		for _, left := range k.Left() {
			if left != (jsapi.Left{}) {
				t.Errorf("left behind: %+v", left)
			}
		}
	}
	if n := deadline.Held() - l.limits; n != 0 {
		t.Errorf("left behind: %d limits of calls", n)
	}
	if timers != 0 {
		t.Errorf("left behind: %d timers", timers)
	}
}
