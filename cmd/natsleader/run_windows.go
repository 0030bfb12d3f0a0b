package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/choria-io/fisk"
)

func superviseIfAsked() {}

func registerRun(app *fisk.Application, _ *globals) {
	unavailable(app, "run", "Run a command while leading (not available on Windows)")
}

func registerRemaining(app *fisk.Application, _ *globals) {
	unavailable(app, "remaining", "Show for how long the lease of 'run' is good (not available on Windows)")
}

// unavailable registers a command that reports that it is not available. Without
// process groups and signals, nothing could be promised of the processes that it runs.
func unavailable(app *fisk.Application, name, help string) {
	cmd := app.Command(name, help)
	_ = cmd.Arg("arguments", "").Strings()
	cmd.Action(func(*fisk.ParseContext) error { return errors.New(name + " is not available on Windows") })
}

// runShell runs a command line. What it has started may live on.
func (h *hooks) runShell(ctx context.Context, line string, env []string, input []byte) error {
	cmd := exec.CommandContext(ctx, "cmd", "/C", line) //nolint:gosec // it is the user's
	cmd.WaitDelay = hookPatience
	cmd.Env = append(environWithout(credentialVariables...), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), os.Stdout, os.Stderr
	return cmd.Run()
}
