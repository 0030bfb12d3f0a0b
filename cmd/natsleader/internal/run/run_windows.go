package run

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
)

func SuperviseIfAsked() {}

// RegisterRun adds the command run.
func RegisterRun(app *fisk.Application, _ *front.Globals) {
	unavailable(app, "run", "Run a command while leading (not available on Windows)")
}

// RegisterRemaining adds the command remaining.
func RegisterRemaining(app *fisk.Application, _ *front.Globals) {
	unavailable(app, "remaining", "Show for how long the lease of 'run' is good (not available on Windows)")
}

// unavailable registers a command that reports that it is not available. Without
// process groups and signals, nothing could be promised of the processes that it runs.
func unavailable(app *fisk.Application, name, help string) {
	cmd := app.Command(name, help)
	_ = cmd.Arg("arguments", "").Strings()
	cmd.Action(func(*fisk.ParseContext) error { return errors.New(name + " is not available on Windows") })
}

// Shell runs command lines, one after the other, for a program that goes on.
type Shell struct {
	Patience time.Duration // from SIGTERM to SIGKILL
	Warn     func(format string, args ...any)
}

// Run runs a command line. What it has started may live on.
func (s *Shell) Run(ctx context.Context, line string, env []string, input []byte) error {
	cmd := exec.CommandContext(ctx, "cmd", "/C", line) //nolint:gosec // it is the user's
	cmd.WaitDelay = s.Patience
	cmd.Env = append(front.EnvironWithout(front.CredentialVariables...), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), os.Stdout, os.Stderr
	return cmd.Run()
}
