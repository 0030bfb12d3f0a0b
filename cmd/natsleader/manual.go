package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/choria-io/fisk"
)

// exitMeanings are the exit codes for the manual page. docs/cli.md has the conditions of each command.
var exitMeanings = []struct{ code, text string }{
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

// writeManual writes the manual page in troff format. The template of fisk (v0.9.1) leaves out the long help of
// the commands and the environment variables, and does not escape what troff would take for a request.
func writeManual(w io.Writer, model *fisk.ApplicationModel) error {
	m := &manual{}
	summary, rest, _ := strings.Cut(model.Help, "\n")
	m.request(".TH NATSLEADER 1", `"" "natsleader `+model.Version+`" "User Commands"`)
	m.request(".SH", "NAME")
	m.line(`natsleader \- ` + escaped(summary))
	m.request(".SH", "SYNOPSIS")
	m.line(`\fBnatsleader\fR [\fIflags\fR] \fIcommand\fR [\fIarguments\fR]`)
	m.request(".SH", "DESCRIPTION")
	m.verbatim(strings.TrimSpace(rest))
	m.request(".SH", "OPTIONS")
	m.flags(model.Flags)
	m.request(".SH", "COMMANDS")
	for _, cmd := range model.FlattenedCommands() {
		m.command(cmd)
	}
	m.request(".SH", "EXIT STATUS")
	for _, exit := range exitMeanings {
		m.item(escaped(exit.code), exit.text)
	}
	m.request(".SH", "FILES")
	m.item(`\fI/usr/lib/systemd/system/natsleader\-run@.service\fR`, "A systemd unit that runs the command of /etc/natsleader/NAME.env while this host leads election NAME.")
	m.request(".SH", "SEE ALSO")
	m.line(escaped("https://github.com/natsleader/natsleader/blob/main/docs/cli.md"))
	_, err := io.WriteString(w, m.text.String())
	return err
}

// manual is a manual page that is being written.
type manual struct{ text strings.Builder }

func (m *manual) line(s string)          { m.text.WriteString(s + "\n") }
func (m *manual) request(name, s string) { m.line(name + " " + s) }

// paragraph writes text that troff may fill.
func (m *manual) paragraph(s string) {
	for line := range strings.Lines(s) {
		m.line(escaped(strings.TrimSpace(line)))
	}
}

// verbatim writes text whose lines are broken already.
func (m *manual) verbatim(s string) {
	m.line(".nf")
	for line := range strings.Lines(s) {
		m.line(escaped(strings.TrimRight(line, "\n")))
	}
	m.line(".fi")
}

// item writes a term, which is troff, and its explanation.
func (m *manual) item(term, s string) {
	m.line(".TP")
	m.line(term)
	m.paragraph(s)
}

func (m *manual) command(cmd *fisk.CmdModel) {
	if cmd.Hidden || cmd.Name == "help" {
		return
	}
	usage := cmd.FullCommand
	if flags := cmd.FlagSummary(); flags != "" {
		usage += " " + flags
	}
	if len(cmd.Args) > 0 {
		usage += " " + cmd.ArgSummary()
	}
	m.request(".SS", `"`+escaped(usage)+`"`)
	summary, rest, _ := strings.Cut(cmd.Help, "\n")
	m.paragraph(summary)
	for _, long := range []string{rest, cmd.HelpLong} {
		if long = strings.TrimSpace(long); long != "" {
			m.line(".PP")
			m.verbatim(long)
		}
	}
	for _, arg := range cmd.Args {
		if !arg.Hidden && arg.Help != "" {
			m.item(`\fI`+escaped(arg.Name)+`\fR`, arg.Help)
		}
	}
	m.flags(cmd.Flags)
}

func (m *manual) flags(flags []*fisk.FlagModel) {
	for _, f := range flags {
		if f.Hidden {
			continue
		}
		name := "--" + f.Name
		if f.Short != 0 {
			name = "-" + string(f.Short) + ", " + name
		}
		term := `\fB` + escaped(name) + `\fR`
		if !f.IsBoolFlag() {
			term += `=\fI` + escaped(f.FormatPlaceHolder()) + `\fR`
		}
		help := f.Help
		if f.Envar != "" {
			help += " ($" + f.Envar + ")"
		}
		m.item(term, help)
	}
}

// escaped returns the text so that troff prints it as it is.
func escaped(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, `"`, `\(dq`, "^", `\(ha`, "~", `\(ti`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		return `\&` + s
	}
	return s
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
