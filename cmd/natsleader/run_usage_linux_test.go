package main

import (
	"testing"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	"github.com/natsleader/natsleader/leader"
)

// Mistakes in the command line of run, and flags that contradict each other, end it with 64. The messages name
// flags, and no fields of a configuration.
func TestRun_UsageErrors(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("run", "run jobs", "run jobs --", "run jobs extra -- true")
		for _, flags := range []string{
			"--nonsense", "--lease soon", "--lease -1s", "--lease 49ms", "--lease 1001h", "--drain 500us", "--drain 9000h",
			"--delay 1us", "--stall 999ms", "--wait 2s --delay 2s", "--stop-signal NONE", "--notify USR1", "--notify USR1,0",
			"--http 8080", "--http 127.0.0.1:99999", "--http 127.0.0.1:nosuch",
			"--priority 5", "--priority high", "--succession queue --priority=-3", "--succession queue --preempt",
			"--succession random", "--lease 3s --turn-timeout 3s", "--turn-timeout=-1s", "--turn-timeout 1us", "--seats 0", "--drain -1s", "--hold 5",
		} {
			w.Prompt("run " + flags + " jobs -- true")
		}
		w.Prompt("run jobs.* -- true")
		w.Fails("run --id a\xff jobs -- true", front.ExitUsage, `--id "a\xff" is not UTF-8`)
	})
}
