// Command demo elects leaders and takes them down again.
//
// Without arguments it starts a NATS server of its own and lets ten candidates
// campaign for one key. Every few seconds the leader meets a real fault: it resigns,
// it crashes, its link swallows everything, an operator deletes the key, the server
// restarts or stays away. A timeline shows the outcome. All the while the demo checks
// that two leadership contexts are never alive at once and that fencing tokens rise.
// It exits with 1 if a check failed.
//
// Environment: KEY is the election (demo), WORKERS the number of candidates
// (10), NOSPLAY=1 starts them all at once, and CONTEXT names a context of the
// nats command line to connect with instead; that server is left running.
// NO_COLOR switches the colours off.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/natsleader/natsleader/examples/internal/timeline"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program: it returns its exit code.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	opts, err := parseOptions(args, getenv, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	sound := false
	if err == nil {
		sound, err = perform(ctx, opts, timeline.New(stdout, timeline.Coloured(stdout, getenv)))
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "demo:", err)
	}
	var setting settingError
	switch {
	case errors.As(err, &setting):
		return 2
	case err != nil || !sound:
		return 1
	default:
		return 0
	}
}

// perform sets the stage, runs the demo, clears up and reports. It returns whether
// all checks held.
func perform(ctx context.Context, opts options, tl *timeline.Timeline) (sound bool, err error) {
	st, err := newStage(ctx, opts)
	switch {
	case err != nil && ctx.Err() != nil:
		return true, nil // interrupted before it began
	case err != nil:
		return false, err
	}
	defer func() { err = errors.Join(err, st.close()) }()

	check := newChecker(tl)
	watching := check.sample()
	tl.Line(timeline.Bold, "election %q on %s", opts.key, st.where)
	tl.Line(timeline.Bold, "%d candidates, lease %v, for %v; Ctrl-C ends it", opts.workers, opts.lease, opts.duration)
	if st.note != "" {
		tl.Line(timeline.Bold, "%s", st.note)
	}

	cr := newCrew(st, opts, check, tl)
	check.begin()
	err = cr.start(ctx)
	var t tally
	if err == nil {
		t, err = torment(ctx, st, cr, opts)
	}
	tl.Line(timeline.Plain, "")
	if ctx.Err() != nil {
		tl.Say(actorOperator, "stop", "interrupted; the candidates are asked to stop")
	} else {
		tl.Say(actorOperator, "stop", "time is up; the candidates are asked to stop")
	}
	cr.stop()
	watching()
	sound = check.held()
	t.report(tl, check)
	if opts.svg != "" && err == nil {
		err = os.WriteFile(opts.svg, []byte(t.svg(opts.lease)), 0o666)
	}
	return sound, err
}
