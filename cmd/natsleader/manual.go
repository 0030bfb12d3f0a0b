package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/choria-io/fisk"
)

// exitMeanings are the exit codes for the manual page. docs/cli.md has the conditions of each command.
var exitMeanings = []struct{ Code, Text string }{
	{"0", "The command succeeded."},
	{"1", "There is no leader, the leader refuses, a shard has no owner, doctor has a warning, or another failure."},
	{"2", "doctor found something critical."},
	{"64", "A flag, an argument, a context or a file cannot be used."},
	{"66", "The history does not know the election, or who led it (history --at)."},
	{"69", "NATS, JetStream, the leader or a majority of the servers does not answer, or the address of --http is in use."},
	{"75", "Another candidate leads (run --try)."},
	{"77", "A permission is missing."},
	{"78", "The bucket does not exist, or cannot be used for elections."},
	{"79", "The leadership was lost (run --once, run --no-command)."},
	{"124", "The time of --wait is over."},
	{"126, 127", "The command of run cannot be run, or was not found."},
	{"128+n", "Signal n ended natsleader, or the command of run."},
}

// manualPage is the manual page in troff format. The template of fisk (v0.9.1) leaves out the long help of
// the commands and the environment variables, and does not escape what troff would take for a request.
//
//go:embed manual.tmpl
var manualPage string

// writeManual writes the manual page, in one piece: `natsleader --help-man | grep -q` closes the pipe early.
func writeManual(w io.Writer, model *fisk.ApplicationModel) error {
	cut := func(n int) func(string) string {
		return func(s string) string { return strings.TrimSpace(append(strings.SplitN(s, "\n", 2), "")[n]) }
	}
	page := template.New("manual").Funcs(template.FuncMap{
		"escape": escaped, "summary": cut(0), "rest": cut(1), "exits": func() any { return exitMeanings },
	})
	var text bytes.Buffer
	if err := template.Must(page.Parse(manualPage)).Execute(&text, model); err != nil {
		return err
	}
	_, err := w.Write(text.Bytes())
	return err
}

// escaped returns the text so that troff prints it as it is.
func escaped(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, `"`, `\(dq`, "^", `\(ha`, "~", `\(ti`).Replace(s)
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// printManual prints the manual page if that is what the only argument asks for, and reports whether it is.
func printManual(w io.Writer, app *fisk.Application, args []string) (bool, error) {
	if len(args) != 1 || args[0] != "--help-man" {
		return false, nil
	}
	if err := writeManual(w, app.Model()); err != nil {
		return true, fmt.Errorf("cannot write the manual page: %w", err)
	}
	return true, nil
}

//go:embed completion.zsh
var zshScript string

//go:embed completion.fish
var fishScript string

// completionScripts are the scripts for zsh and fish. fisk (v0.9.1) has none for fish, and its script for zsh
// completes no names of elections, buckets and candidates. These scripts ask the command itself.
var completionScripts = map[string]string{
	"--completion-script-zsh":  zshScript,
	"--completion-script-fish": fishScript,
}

// printCompletionScript prints the script that the only argument asks for, and reports
// whether there is one.
func printCompletionScript(w io.Writer, args []string) bool {
	if len(args) != 1 || completionScripts[args[0]] == "" {
		return false
	}
	_, _ = fmt.Fprint(w, completionScripts[args[0]])
	return true
}
