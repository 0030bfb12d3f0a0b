package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
)

// explainUsage returns the error of a command line that fisk rejects. It names the flag and
// what may have been meant.
func explainUsage(app *fisk.Application, args []string, err error) error {
	pc, _ := app.ParseContext(args) // the error is the one that is explained
	model := app.Model()
	commands, flags, selected := model.Commands, model.Flags, ""
	if pc != nil && pc.SelectedCommand != nil {
		selected = pc.SelectedCommand.FullCommand()
		for _, name := range strings.Fields(selected) {
			i := slices.IndexFunc(commands, func(c *fisk.CmdModel) bool { return c.Name == name })
			if i < 0 {
				break
			}
			flags = slices.Concat(flags, commands[i].Flags)
			commands = commands[i].Commands
		}
	}
	wrong := ""
	if pc != nil {
		wrong = pc.Peek().String()
	}
	switch {
	case errors.Is(err, fisk.ErrExpectedKnownCommand) && renamed[wrong] != "":
		if i := slices.Index(args, wrong); i+1 < len(args) && renamed[wrong+" "+args[i+1]] != "" {
			wrong += " " + args[i+1]
		}
		return front.Usagef("natsleader has no command %q: use %s", wrong, renamed[wrong])
	case errors.Is(err, fisk.ErrExpectedKnownCommand):
		var names []string
		for _, c := range commands {
			if !c.Hidden {
				names = append(names, c.Name)
			}
		}
		what := strings.TrimSpace("natsleader " + selected)
		return front.Usagef("%s has no command %q%s", what, wrong, didYouMean("", wrong, names))
	case errors.Is(err, fisk.ErrUnknownLongFlag), errors.Is(err, fisk.ErrUnknownShortFlag):
		name := quotedIn(err)
		if selected == "run" && hasCommandWord(pc) {
			return front.Usagef("natsleader run has no flag %s: if it is a flag of the command, put -- before the command: natsleader run [flags] ELECTION -- COMMAND", name)
		}
		var names []string
		for _, f := range flags {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		}
		meant := tryHelp
		if long, ok := strings.CutPrefix(name, "--"); ok {
			meant = didYouMean("--", long, names)
		}
		return front.Usagef("%s has no flag %s%s", strings.TrimSpace("natsleader "+selected), name, meant)
	case errors.Is(err, fisk.ErrExpectedFlagArgument):
		name := quotedIn(err)
		if i := slices.Index(args, name); i >= 0 && i+1 < len(args) && args[i+1] != "--" {
			return front.Usagef("%s has no value, because %s may be a flag: write %s=%s if it is the value", name, args[i+1], name, args[i+1])
		}
		return front.Usagef("%s has no value%s", name, tryHelp)
	case errors.Is(err, fisk.ErrRequiredArgument):
		return front.Usagef("the argument <%s> is missing%s", quotedIn(err), tryHelp)
	case errors.Is(err, fisk.ErrSubCommandRequired):
		return front.Usagef("natsleader %s needs a command after it%s", selected, tryHelp)
	}
	if pc != nil {
		if rejected := rejectedValue(pc, flags, err); rejected != "" {
			return front.Usagef("%s %s", rejected, whyRejected(err))
		}
	}
	return front.Usagef("%w%s", err, tryHelp)
}

// renamed are names that commands had, each with what does the same.
var renamed = map[string]string{
	"cordon":         "natsleader drain NAME --keep, and without a name natsleader status",
	"exporter":       "natsleader serve --metrics ADDRESS",
	"hold":           "natsleader run ELECTION --no-command",
	"roster":         "natsleader status ELECTION --roster, and with --watch natsleader watch ELECTION --roster",
	"shards drain":   "natsleader drain NAME --only GROUP",
	"shards move":    "natsleader step-down GROUP --shard NUMBER --to ID",
	"shards undrain": "natsleader undrain NAME --only GROUP",
	"shards":         "natsleader status GROUP, and with --watch natsleader watch GROUP",
	"transfer":       "natsleader step-down ELECTION --to ID, or --to next",
	"ui":             "natsleader serve, or natsleader serve --page ADDRESS",
	"uncordon":       "natsleader undrain NAME",
	"version":        "natsleader --version",
}

// tryHelp is the end of a message that names no alternative.
const tryHelp = "; try --help"

// whyRejected says what is wrong with the value of a flag. fisk (v0.9.1) has no types for these errors.
func whyRejected(err error) string {
	text := err.Error()
	options, isEnum := strings.CutPrefix(text, "enum value must be one of ")
	_, isNumber := errors.AsType[*strconv.NumError](err)
	switch {
	case isEnum:
		options, _, _ = strings.Cut(options, ", got ")
		all := strings.Split(options, ",")
		return "must be " + strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
	case isNumber:
		return "is not a whole number"
	case text == "invalid duration":
		return "is not a duration: give a number with a unit, for example 90s, 5m or 7d"
	case strings.HasPrefix(text, "units: "):
		return "is not a size: give a number with a unit, for example 512MB or 2GB"
	}
	return "cannot be used: " + text
}

// quotedIn returns the flag or the argument that an error of fisk quotes.
func quotedIn(err error) string {
	_, quoted, _ := strings.Cut(err.Error(), "'")
	name, _, _ := strings.Cut(quoted, "'")
	return name
}

// hasCommandWord reports whether a word of the command to run comes before the place where
// the parser has stopped.
func hasCommandWord(pc *fisk.ParseContext) bool {
	return slices.ContainsFunc(pc.Elements, func(e *fisk.ParseElement) bool {
		arg, ok := e.Clause.(*fisk.ArgClause)
		return ok && arg.Model().Name == "command"
	})
}

// rejectedValue returns the flag or the variable with the value that causes the error.
func rejectedValue(pc *fisk.ParseContext, flags []*fisk.FlagModel, err error) string {
	rejects := func(f *fisk.FlagModel, value string) bool {
		failed := f.Value.Set(value)
		return failed != nil && failed.Error() == err.Error()
	}
	for _, e := range pc.Elements {
		if f, ok := e.Clause.(*fisk.FlagClause); ok && e.Value != nil && rejects(f.Model(), *e.Value) {
			return fmt.Sprintf("--%s %q", f.Model().Name, *e.Value)
		}
	}
	for _, f := range flags {
		if f.Envar == "" {
			continue
		}
		if value := os.Getenv(f.Envar); value != "" && rejects(f, value) {
			return fmt.Sprintf("%s=%q", f.Envar, value)
		}
	}
	return ""
}

// emptyArgument returns the name of an argument that is the empty string, which a shell makes
// of a variable that is not set. The command to run may have such arguments.
func emptyArgument(pc *fisk.ParseContext) string {
	for _, e := range pc.Elements {
		if arg, ok := e.Clause.(*fisk.ArgClause); ok && e.Value != nil && *e.Value == "" && arg.Model().Name != "command" {
			return arg.Model().Name
		}
	}
	return ""
}

// didYouMean returns the end of a message: the names nearest to a mistyped one, if any is near.
func didYouMean(prefix, typed string, names []string) string {
	type near struct {
		name     string
		distance int
	}
	var all []near
	for _, name := range names {
		d := distance(typed, name)
		if len(typed) > 1 && strings.HasPrefix(name, typed) {
			d = min(d, 1)
		}
		if d <= 1+len(name)/4 && d < len(name) {
			all = append(all, near{name, d})
		}
	}
	slices.SortFunc(all, func(a, b near) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.name, b.name))
	})
	all = all[:min(len(all), 2)]
	if len(all) == 0 {
		return tryHelp
	}
	if len(all) == 2 && all[1].distance > all[0].distance {
		all = all[:1]
	}
	meant := make([]string, len(all))
	for i, n := range all {
		meant[i] = prefix + n.name
	}
	return ": did you mean " + strings.Join(meant, " or ") + "?"
}

// distance is how many letters have to be inserted, removed, replaced or exchanged with their
// neighbour to make one text of the other.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(last[j]+1, row[j-1]+1, replaced)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
