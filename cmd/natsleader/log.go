package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/internal/plain"
)

// lineLog prints lines with a time and a level, as text or JSON, for a command that goes on.
type lineLog struct {
	to       io.Writer
	election string                 // of which each line is; empty: none
	json     *slog.Logger           // nil: lines are text
	id       atomic.Pointer[string] // of the candidate, once it is known
	least    slog.Level             // of the lines that are printed
	troubled string                 // the trouble that lasts; empty: none
}

// The values of --log-format.
const (
	logText = "text"
	logJSON = "json"
)

// registerLog adds --log-format to a command.
func (g *globals) registerLog(cmd *fisk.CmdClause) {
	cmd.Flag("log-format", "Of the lines on standard error: text or json").Default(logText).EnumVar(&g.logFormat, logText, logJSON)
}

// newLog returns the log of a command, which prints its error, too.
func (g *globals) newLog() *lineLog {
	g.log = newLineLog(g.errs(), "", g.logFormat)
	return g.log
}

func newLineLog(to io.Writer, election, format string) *lineLog {
	l := &lineLog{to: to, election: election}
	if format == logJSON {
		l.json = slog.New(slog.NewJSONHandler(plainJSON{to}, nil))
		if election != "" {
			l.json = l.json.With("election", election)
		}
	}
	return l
}

// plainJSON writes JSON that may also reach a terminal.
type plainJSON struct{ to io.Writer }

func (w plainJSON) Write(line []byte) (int, error) {
	_, err := w.to.Write(plain.JSON(line))
	return len(line), err
}

// lineTime is the time of a line of text.
const lineTime = "2006-01-02T15:04:05.000Z07:00"

// fields are the key-value pairs of a line of JSON. A line of text has them in its sentence.
type fields []any

// log prints a line.
func (l *lineLog) log(level slog.Level, f fields, format string, args ...any) {
	if level < l.least {
		return
	}
	text := fmt.Sprintf(format, args...)
	if l.json == nil {
		of := "natsleader: "
		if l.election != "" {
			of += printable(l.election) + ": "
		}
		_, _ = fmt.Fprintf(l.to, "%s %-5s %s%s\n", time.Now().Format(lineTime), level, of, printable(text))
		return
	}
	if id := l.id.Load(); id != nil {
		f = append(fields{"id", *id}, f...)
	}
	l.json.Log(context.Background(), level, text, f...)
}

// say prints a line about the ordinary course of events.
func (l *lineLog) say(format string, args ...any) { l.log(slog.LevelInfo, nil, format, args...) }

// warn prints a line about something that an operator may have to look at.
func (l *lineLog) warn(format string, args ...any) { l.log(slog.LevelWarn, nil, format, args...) }

// failed prints the error of a command, if there is anything to print.
func (l *lineLog) failed(err error) {
	if exit, ok := errors.AsType[exitError](err); err != nil && (!ok || exit.err != nil) {
		l.log(slog.LevelError, fields{"exit_code", codeOf(err)}, "%s", errorText(err))
	}
}

// trouble prints once why what a command shows is not up to date, or with nil that it is again.
func (l *lineLog) trouble(err error) {
	switch was := l.troubled; {
	case err != nil:
		if l.troubled = errorText(err); l.troubled != was {
			l.log(slog.LevelWarn, fields{"error", l.troubled}, "%s; trying again", l.troubled)
		}
	case was != "":
		l.troubled = ""
		l.say("up to date again")
	}
}
