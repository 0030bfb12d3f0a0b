package front

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

// LineLog prints lines with a time and a level, as text or JSON, for a command that goes on.
type LineLog struct {
	to       io.Writer
	election string                 // of which each line is; empty: none
	json     *slog.Logger           // nil: lines are text
	Id       atomic.Pointer[string] // of the candidate, once it is known
	Least    slog.Level             // of the lines that are printed
	troubled string                 // the trouble that lasts; empty: none
}

// The values of --log-format.
const (
	LogText = "text"
	LogJSON = "json"
)

// RegisterLog adds --log-format to a command.
func (g *Globals) RegisterLog(cmd *fisk.CmdClause) {
	cmd.Flag("log-format", "Of the lines on standard error: text or json").Default(LogText).EnumVar(&g.LogFormat, LogText, LogJSON)
}

// NewLog returns the log of a command, which prints its error, too.
func (g *Globals) NewLog() *LineLog {
	g.Log = NewLineLog(g.Errs(), "", g.LogFormat)
	return g.Log
}

// NewLineLog returns a log of lines about an election, or about none.
func NewLineLog(to io.Writer, election, format string) *LineLog {
	l := &LineLog{to: to, election: election}
	if format == LogJSON {
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

// Fields are the key-value pairs of a line of JSON. A line of text has them in its sentence.
type Fields []any

// Log prints a line.
func (l *LineLog) Log(level slog.Level, f Fields, format string, args ...any) {
	if level < l.Least {
		return
	}
	text := fmt.Sprintf(format, args...)
	if l.json == nil {
		of := "natsleader: "
		if l.election != "" {
			of += Printable(l.election) + ": "
		}
		_, _ = fmt.Fprintf(l.to, "%s %-5s %s%s\n", time.Now().Format(lineTime), level, of, Printable(text))
		return
	}
	if id := l.Id.Load(); id != nil {
		f = append(Fields{"id", *id}, f...)
	}
	l.json.Log(context.Background(), level, text, f...)
}

// Say prints a line about the ordinary course of events.
func (l *LineLog) Say(format string, args ...any) { l.Log(slog.LevelInfo, nil, format, args...) }

// Warn prints a line about something that an operator may have to look at.
func (l *LineLog) Warn(format string, args ...any) { l.Log(slog.LevelWarn, nil, format, args...) }

// Failed prints the error of a command, if there is anything to print.
func (l *LineLog) Failed(err error) {
	if exit, ok := errors.AsType[ExitError](err); err != nil && (!ok || exit.Err != nil) {
		l.Log(slog.LevelError, Fields{"exit_code", CodeOf(err)}, "%s", ErrorText(err))
	}
}

// NoteTrouble prints once why what a command shows is not up to date, or with nil that it is again.
func (l *LineLog) NoteTrouble(err error) {
	switch was := l.troubled; {
	case err != nil:
		if l.troubled = ErrorText(err); l.troubled != was {
			l.Log(slog.LevelWarn, Fields{"error", l.troubled}, "%s; trying again", l.troubled)
		}
	case was != "":
		l.troubled = ""
		l.Say("up to date again")
	}
}
