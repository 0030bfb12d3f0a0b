// Command natsleader runs commands under a lease, shows the leaders of elections, and
// manages buckets for elections, on NATS JetStream. docs/cli.md is its page.
package main

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/act"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/bucket"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/doctor"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/history"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/note"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/page"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/permissions"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/run"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
)

const help = `Leader election on NATS JetStream, from the shell

One of several processes leads an election: it holds a key of a NATS key-value
bucket for as long as it renews its lease.

  natsleader bucket add
  natsleader run billing -- ./worker
  natsleader status`

func main() {
	run.SuperviseIfAsked()
	fisk.EnableFileExpansion = false // an election or an argument may begin with @
	os.Exit(execute(os.Args[1:], front.Stdio{}))
}

// execute is the command, and returns its exit code.
func execute(args []string, process front.Stdio) int {
	if printCompletionScript(process.Out(), args) {
		return 0
	}
	asked := func(flag string) bool { // and not by the arguments of a command to run
		i, end := slices.Index(args, flag), slices.Index(args, "--")
		return i >= 0 && (end < 0 || i < end)
	}
	g := &front.Globals{Stdio: process, Version: version().Version}
	if asked("--completion-bash") {
		g.Words = make(map[string][]string)
	}
	app, parsed := newApp(g, asked("--fisk-introspect"))
	if g.Words != nil {
		app.Terminate(nil) // fisk has printed all by then
	}
	if asked("--version") && g.Words == nil {
		v := version()
		return g.Report(front.PrintResult(g.Out(), asked("--json") || asked("-j"), v, front.Columns(v.rows())))
	}
	if done, err := printManual(g.Out(), app, args); done {
		return g.Report(err)
	}
	args = withoutValues(app, withoutCommand(g, app, args))
	_, err := app.Parse(args)
	if _, explained := errors.AsType[front.ExitError](err); err != nil && !*parsed && !explained {
		err = explainUsage(app, args, err)
	}
	return g.Report(g.Explain(err))
}

// newApp returns the application, and a flag that reports whether a command line was
// valid and its command has begun.
func newApp(g *front.Globals, introspected bool) (*fisk.Application, *bool) {
	app := fisk.New("natsleader", help)
	app.Version(version().Version)
	app.VersionFlag.Help("Show the versions of natsleader, Go and nats.go, with --json as JSON")
	app.UsageWriter(g.Out())
	app.HelpFlag.Short('h')
	parsed := false
	app.Action(func(pc *fisk.ParseContext) error {
		if name := emptyArgument(pc); name != "" {
			return front.Usagef("the argument <%s> is empty", name)
		}
		parsed = true
		return nil
	})
	g.Register(app)
	run.RegisterRun(app, g)
	view.RegisterStatus(app, g)
	view.RegisterWait(app, g)
	view.RegisterWatch(app, g)
	page.RegisterServe(app, g)
	act.RegisterStepDown(app, g)
	act.RegisterDrain(app, g)
	act.RegisterUndrain(app, g)
	note.Register(app, g)
	history.Register(app, g)
	bucket.Register(app, g)
	doctor.Register(app, g)
	permissions.Register(app, g)
	run.RegisterRemaining(app, g)
	if introspected {
		// In a plugin of `nats`, fisk passes on the flags of a command and those that
		// `nats` has itself, and forgets all other global flags.
		for _, cmd := range leaves(app.Model().CmdGroupModel, app.GetCommand) {
			g.RegisterBucketFlag(cmd.Flag, func() []string { return inspect.BucketNames(g) })
		}
	} else {
		g.RegisterBucketFlag(app.Flag, func() []string { return inspect.BucketNames(g) })
	}
	return app, &parsed
}

// leaves returns the commands that have no commands below them.
func leaves(group *fisk.CmdGroupModel, get func(string) *fisk.CmdClause) []*fisk.CmdClause {
	var found []*fisk.CmdClause
	for _, m := range group.Commands {
		cmd := get(m.Name)
		if len(m.Commands) == 0 {
			found = append(found, cmd)
		} else {
			found = append(found, leaves(m.CmdGroupModel, cmd.GetCommand)...)
		}
	}
	return found
}

// withoutCommand removes the arguments after the first "--" of `run`, and keeps them in
// g: fisk would drop every further "--".
func withoutCommand(g *front.Globals, app *fisk.Application, args []string) []string {
	i := slices.Index(args, "--")
	if i < 0 {
		return args
	}
	pc, _ := app.ParseContext(args[:i]) // Parse returns its error
	if pc == nil || pc.SelectedCommand == nil || pc.SelectedCommand.FullCommand() != "run" {
		return args
	}
	g.Command = args[i+1:]
	return args[:i]
}

// withoutValues turns --flag=true into --flag, for flags that are on or off. A plugin
// of `nats` gets such flags in that form, and fisk would take "true" for the first
// argument.
func withoutValues(app *fisk.Application, args []string) []string {
	set := func(arg string) (flag, name string, on, ok bool) {
		flag, value, _ := strings.Cut(arg, "=")
		name, long := strings.CutPrefix(flag, "--")
		on, err := strconv.ParseBool(value)
		return flag, name, on, long && err == nil
	}
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	if !slices.ContainsFunc(args[:end], func(arg string) bool { _, _, _, ok := set(arg); return ok }) {
		return args
	}
	switches := map[string]bool{}
	note := func(flags *fisk.FlagGroupModel) {
		for _, f := range flags.Flags {
			switches[f.Name] = f.Boolean
		}
	}
	model := app.Model()
	note(model.FlagGroupModel)
	for _, cmd := range model.FlattenedCommands() {
		note(cmd.FlagGroupModel)
	}
	var plain []string
	for _, arg := range args[:end] {
		flag, name, on, ok := set(arg)
		switch {
		case !ok || !switches[name]:
			plain = append(plain, arg)
		case on:
			plain = append(plain, flag)
		}
	}
	return append(plain, args[end:]...)
}
