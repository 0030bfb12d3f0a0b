//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/wire"
)

// runLog prints lines for people. It never waits for their reader: a pipe that is full
// must not cost the leadership.
type runLog struct {
	prefix string
	lines  chan string
	last   chan struct{} // closed: no more follow
	done   chan struct{}
}

// newRunLog returns a log that prints to w, or nothing if w is nil.
func newRunLog(w io.Writer, election string) *runLog {
	l := &runLog{
		prefix: "natsleader: " + printable(election) + ": ",
		lines:  make(chan string, 64), last: make(chan struct{}), done: make(chan struct{}),
	}
	if w == nil {
		w = io.Discard
	}
	go l.print(w)
	return l
}

func (l *runLog) print(w io.Writer) {
	defer close(l.done)
	for {
		select {
		case line := <-l.lines:
			_, _ = io.WriteString(w, line)
			continue
		case <-l.last:
		}
		for len(l.lines) > 0 {
			_, _ = io.WriteString(w, <-l.lines)
		}
		return
	}
}

func (l *runLog) say(format string, args ...any) {
	select {
	case l.lines <- l.prefix + printable(fmt.Sprintf(format, args...)) + "\n":
	default:
	}
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
			l.say("no connection to NATS: %s", reason)
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
		h.say("asked to hand over by %s: %s", of["by"], of["answer"])
	case wire.LogNotListening:
		h.say("cannot be asked to hand over: %s", attributes(r)["err"])
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
