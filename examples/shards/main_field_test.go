//go:build field

package main

import (
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/examples/internal/exampletest"
	"github.com/natsleader/natsleader/examples/internal/scaffold"
	"github.com/natsleader/natsleader/internal/check"
)

func TestMain(m *testing.M) {
	if os.Getenv(memberVariable) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// After each command the members that are left share the shards, and no two work on one.
func TestScript_SharesAgain(t *testing.T) {
	out := exampletest.Run(t, scaffold.Example{Name: "shards", Run: script}, "", 0, 0)
	check.That(t, strings.Count(out, " spread ") == 6 && strings.Contains(out, " 0 of them beside a later owner"), "%s", out)
	check.That(t, strings.Contains(out, "b was killed: each shard rested") && strings.Contains(out, "c was frozen: each"), "%s", out)
	if t.Failed() {
		t.Log(out)
	}
}

func TestCtrlC_EndsItCleanly(t *testing.T) {
	exampletest.Run(t, scaffold.Example{Name: "shards", Run: script}, "FREEZE", 1, 0)
}
