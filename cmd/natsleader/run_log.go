//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/wire"
)

// runLog prints lines with a time and a level, as text or JSON. It never waits for their
// reader: a pipe that is full must not cost the leadership.
type runLog struct {
	election string
	json     *slog.Logger           // nil: lines are text
	id       atomic.Pointer[string] // of the candidate, once it is known
	least    slog.Level             // of the lines that are printed
	lines    chan []byte
	last     chan struct{} // closed: no more follow
	done     chan struct{}
}

// The values of --log-format.
const (
	logText = "text"
	logJSON = "json"
)

// newRunLog returns a log that prints to w, or errors only if it is quiet.
func newRunLog(w io.Writer, election, format string, quiet bool) *runLog {
	l := &runLog{
		election: election, lines: make(chan []byte, 64), last: make(chan struct{}), done: make(chan struct{}),
	}
	if quiet {
		l.least = slog.LevelError
	}
	if format == logJSON {
		l.json = slog.New(slog.NewJSONHandler(lineQueue{l}, nil)).With("election", election)
	}
	go l.print(w)
	return l
}

func (l *runLog) print(w io.Writer) {
	defer close(l.done)
	for {
		select {
		case line := <-l.lines:
			_, _ = w.Write(line)
			continue
		case <-l.last:
		}
		for len(l.lines) > 0 {
			_, _ = w.Write(<-l.lines)
		}
		return
	}
}

// lineQueue is the writer of complete lines, which it copies.
type lineQueue struct{ *runLog }

func (q lineQueue) Write(line []byte) (int, error) {
	select {
	case q.lines <- bytes.Clone(line):
	default:
	}
	return len(line), nil
}

// lineTime is the time of a line of text.
const lineTime = "2006-01-02T15:04:05.000Z07:00"

// fields are the key-value pairs of a line of JSON. A line of text has them in its sentence.
type fields []any

// log prints a line.
func (l *runLog) log(level slog.Level, f fields, format string, args ...any) {
	if level < l.least {
		return
	}
	text := fmt.Sprintf(format, args...)
	if l.json == nil {
		line := fmt.Sprintf("%s %-5s natsleader: %s: %s\n", time.Now().Format(lineTime), level, printable(l.election), printable(text))
		_, _ = lineQueue{l}.Write([]byte(line))
		return
	}
	if id := l.id.Load(); id != nil {
		f = append(fields{"id", *id}, f...)
	}
	l.json.Log(context.Background(), level, text, f...)
}

// say prints a line about the ordinary course of events.
func (l *runLog) say(format string, args ...any) { l.log(slog.LevelInfo, nil, format, args...) }

// warn prints a line about something that an operator may have to look at.
func (l *runLog) warn(format string, args ...any) { l.log(slog.LevelWarn, nil, format, args...) }

// outcome prints the error of a run, if there is anything to print, and returns what is left
// of it, the exit code.
func (l *runLog) outcome(err error) error {
	if err == nil {
		return nil
	}
	code := codeOf(err)
	if exit, ok := errors.AsType[exitError](err); !ok || exit.err != nil {
		l.log(slog.LevelError, fields{"exit_code", code}, "%s", errorText(err))
	}
	return exitError{code: code}
}

// close prints the remaining lines, if their reader takes them in time.
func (l *runLog) close() {
	close(l.last)
	waitBriefly(l.done)
}

// followConnection returns options that log why there is no connection, each reason
// once, and when there is one again.
func (l *runLog) followConnection() []nats.Option {
	const most = 8 // reasons that are logged
	logged := make(map[string]bool)
	say := func(_ *nats.Conn, err error) { // one at a time
		if err == nil {
			return // the connection was closed
		}
		if reason := connectionReason(err); !logged[reason] && len(logged) < most {
			logged[reason] = true
			l.warn("no connection to NATS: %s", reason)
		}
	}
	return []nats.Option{
		nats.DisconnectErrHandler(say), nats.ReconnectErrHandler(say),
		nats.ErrorHandler(func(nc *nats.Conn, _ *nats.Subscription, err error) { // refused credentials are seen here only
			if !nc.IsConnected() && !errors.Is(err, nats.ErrPermissionViolation) {
				say(nc, err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			if len(logged) > 0 {
				l.say("connected to NATS again")
			}
			clear(logged)
		}),
	}
}

// connectionReason leaves out the local port, which would make the reason of every try
// a different one.
func connectionReason(err error) string {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		if op.Addr != nil {
			return fmt.Sprintf("%s: %v", op.Addr, op.Err)
		}
		return op.Err.Error()
	}
	return strings.TrimPrefix(err.Error(), "nats: ")
}

// logger prints those messages of a candidate's log that no event reports: each request
// to hand over with its sender, and that the candidate cannot be asked to.
func (l *runLog) logger() *slog.Logger { return slog.New(requests{l}) }

type requests struct{ *runLog }

func (requests) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (h requests) WithAttrs([]slog.Attr) slog.Handler             { return h }
func (h requests) WithGroup(string) slog.Handler                  { return h }

func (h requests) Handle(_ context.Context, r slog.Record) error {
	switch r.Message {
	case wire.LogRequested:
		of := attributes(r)
		h.log(slog.LevelInfo, fields{"by", of["by"], "answer", of["answer"]}, "asked to hand over by %s: %s", of["by"], of["answer"])
	case wire.LogAnswered:
		h.say("%s", r.Message)
	case wire.LogNotListening:
		h.warn("cannot be asked to hand over: %s", attributes(r)["err"])
	}
	return nil
}

func attributes(r slog.Record) map[string]string {
	all := make(map[string]string)
	r.Attrs(func(a slog.Attr) bool {
		all[a.Key] = a.Value.String()
		return true
	})
	return all
}
