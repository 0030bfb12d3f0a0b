package main

import (
	"testing"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	"github.com/natsleader/natsleader/leader"
)

// The flags that --exec takes.
func TestWatch_ExecFlags(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		w.Prompt("watch --exec true --json", "watch --exec true --timeline", "watch *a..b")
	})
}
