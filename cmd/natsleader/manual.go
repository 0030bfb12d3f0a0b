package main

import (
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/choria-io/fisk"
)

// exitMeanings are the exit codes for the manual page. docs/cli.md has the conditions of each command.
var exitMeanings = []struct{ Code, Text string }{
	{"0", "The command succeeded."},
	{"1", "There is no leader, the leader refuses, doctor has a warning, or another failure."},
	{"2", "doctor found something critical."},
	{"64", "A flag, an argument, a context or a file cannot be used."},
	{"69", "NATS, JetStream or the leader does not answer."},
	{"75", "The leadership was lost (run --once, hold), or another candidate leads (--try)."},
	{"77", "A permission is missing."},
	{"78", "The bucket does not exist, or cannot be used for elections."},
	{"124", "The time of --wait is over."},
	{"126, 127", "The command of run cannot be run, or was not found."},
	{"128+n", "Signal n ended natsleader, or the command of run."},
}

// manualPage is the manual page in troff format. The template of fisk (v0.9.1) leaves out the long help of
// the commands and the environment variables, and does not escape what troff would take for a request.
const manualPage = `{{define "verbatim"}}.nf
{{escape .}}
.fi
{{end -}}
{{define "flags"}}{{range .}}{{if not .Hidden}}.TP
\fB{{with .Short}}\-{{printf "%c" .}}, {{end}}\-\-{{escape .Name}}\fR{{if not .IsBoolFlag}}=\fI{{escape .FormatPlaceHolder}}\fR{{end}}
{{escape .Help}}{{with .Envar}} (${{escape .}}){{end}}
{{end}}{{end}}{{end -}}
.TH NATSLEADER 1 "" "natsleader {{.Version}}" "User Commands"
.SH NAME
natsleader \- {{escape (summary .Help)}}
.SH SYNOPSIS
\fBnatsleader\fR [\fIflags\fR] \fIcommand\fR [\fIarguments\fR]
.SH DESCRIPTION
{{template "verbatim" rest .Help}}.SH OPTIONS
{{template "flags" .Flags}}.SH COMMANDS
{{range .FlattenedCommands}}{{if not (or .Hidden (eq .Name "help")) -}}
.SS "{{escape .FullCommand}}{{with .FlagSummary}} {{escape .}}{{end}}{{if .Args}} {{escape .ArgSummary}}{{end}}"
{{escape (summary .Help)}}
{{with rest .Help}}.PP
{{template "verbatim" .}}{{end}}{{with .HelpLong}}.PP
{{template "verbatim" .}}{{end}}{{range .Args}}{{if and .Help (not .Hidden)}}.TP
\fI{{escape .Name}}\fR
{{escape .Help}}
{{end}}{{end}}{{template "flags" .Flags}}{{end}}{{end -}}
.SH EXIT STATUS
{{range exits}}.TP
{{escape .Code}}
{{escape .Text}}
{{end}}.SH FILES
.TP
\fI/usr/lib/systemd/system/natsleader\-run@.service\fR
A systemd unit that runs the command of /etc/natsleader/NAME.env while this host leads election NAME.
.SH SEE ALSO
https://github.com/natsleader/natsleader/blob/main/docs/cli.md
`

// writeManual writes the manual page.
func writeManual(w io.Writer, model *fisk.ApplicationModel) error {
	cut := func(n int) func(string) string {
		return func(s string) string { return strings.TrimSpace(append(strings.SplitN(s, "\n", 2), "")[n]) }
	}
	page := template.New("manual").Funcs(template.FuncMap{
		"escape": escaped, "summary": cut(0), "rest": cut(1), "exits": func() any { return exitMeanings },
	})
	return template.Must(page.Parse(manualPage)).Execute(w, model)
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
