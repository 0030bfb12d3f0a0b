package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/run"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
)

// binary is the command. It is built once, when a test first runs it: see natsleader.
var binary string

type withBinary struct{ m *testing.M }

func (w withBinary) Run() int {
	dir, err := os.MkdirTemp("", "natsleader-test-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
	binary = filepath.Join(dir, "natsleader")
	return w.m.Run()
}

func TestMain(m *testing.M) {
	run.SuperviseIfAsked() // if a test starts a supervisor itself, from its own binary
	testworld.Execute = execute
	testworld.Main(withBinary{m})
}
