package main

import (
	"testing"

	"github.com/natsleader/natsleader/leader"
)

// A mistake in the command line is named, with what may have been meant. None of them is
// taken for an outage.
func TestUsageErrors_NameTheMistake(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		w.prompt("staus", "step-dwon", "bucket ad", "xyzzy", "--nonsense", "status --jsn", "--sever x status", "run --dran 5s a -- true")
		w.prompt("run a ./report --fast", "run a sh -c true", "run a grep -q x", "run a")
		w.prompt("run --wait 0s a -- true", "run --try --wait 1s a -- true", "run --try --retry-connect a -- true", "run --hold=-1s a -- true")
		w.prompt("run --restart 1001 a -- true", "run --log-format xml a -- true", "status --timeout abc", "status --timeout 0s")
		w.prompt("status ''", "bucket add ''", "bucket info ''")
		w.prompt("exporter --http 80", "exporter --max-elections 0", "ui --http 80", "watch a.>")
		w.notef("# NATS_TIMEOUT is soon\n")
		w.Setenv("NATS_TIMEOUT", "soon")
		w.prompt("status")
	})
}
