//go:build unix

package run

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/wire"
)

// runLog is the log of a run. It never waits for its reader: a pipe that is full must not cost the leadership.
type runLog struct {
	*front.LineLog
	lineQueue
}

// newRunLog returns a log that prints to w, or errors only if it is quiet.
func newRunLog(w io.Writer, election, format string, quiet bool) *runLog {
	q := lineQueue{lines: make(chan []byte, 64), last: make(chan struct{}), done: make(chan struct{})}
	l := &runLog{front.NewLineLog(q, election, format), q}
	if quiet {
		l.Least = slog.LevelError
	}
	go q.print(w)
	return l
}

// lineQueue is the writer of complete lines, which it copies.
type lineQueue struct {
	lines chan []byte
	last  chan struct{} // closed: no more follow
	done  chan struct{}
}

func (q lineQueue) print(w io.Writer) {
	defer close(q.done)
	for {
		select {
		case line := <-q.lines:
			_, _ = w.Write(line)
			continue
		case <-q.last:
		}
		for len(q.lines) > 0 {
			_, _ = w.Write(<-q.lines)
		}
		return
	}
}

func (q lineQueue) Write(line []byte) (int, error) {
	select {
	case q.lines <- bytes.Clone(line):
	default:
	}
	return len(line), nil
}

// outcome prints the error of a run, and returns what is left of it, the exit code.
func (l *runLog) outcome(err error) error {
	l.Failed(err)
	return front.ExitIf(err != nil, front.CodeOf(err), nil)
}

// close prints the remaining lines, if their reader takes them in time.
func (q lineQueue) close() {
	close(q.last)
	front.WaitBriefly(q.done)
}

// followConnection returns options that log why there is no connection, each reason
// once in an outage, and when there is one again. A connection that moves to another server finds no new outage.
func (l *runLog) followConnection() []nats.Option {
	const most = 8 // reasons that are logged
	logged, outage := make(map[string]bool), false
	say := func(err error) { // one at a time
		reason := jsapi.ConnErrorOf(err).Error()
		if key := strings.ToLower(reason); !logged[key] && len(logged) < most {
			logged[key], outage = true, true
			l.Warn("no connection to NATS: %s", reason)
		}
	}
	return []nats.Option{
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil { // nil: it was closed, or moves
				clear(logged)
				say(err)
			}
		}),
		nats.ReconnectErrHandler(func(nc *nats.Conn, err error) {
			front.NoteDial(nc, err)
			say(err)
		}),
		nats.ErrorHandler(func(nc *nats.Conn, _ *nats.Subscription, err error) { // refused credentials are seen here only
			if !nc.IsConnected() && !errors.Is(err, nats.ErrPermissionViolation) {
				say(err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			if outage {
				l.Say("connected to NATS again")
			}
			outage = false
		}),
	}
}

// logger prints those messages of a candidate's log that no event reports: each request
// to hand over with its sender, and that the candidate cannot be asked to.
func (l *runLog) logger() *slog.Logger { return slog.New(requests{l}) }

type requests struct{ *runLog }

func (requests) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (h requests) WithAttrs([]slog.Attr) slog.Handler { return h }

func (h requests) WithGroup(string) slog.Handler { return h }

func (h requests) Handle(_ context.Context, r slog.Record) error {
	switch r.Message {
	case wire.LogRequested:
		of := attributes(r)
		h.Log(slog.LevelInfo, front.Fields{"by", of["by"], "answer", of["answer"]}, "asked to hand over by %s: %s", of["by"], of["answer"])
	case wire.LogAnswered:
		h.Say("%s", r.Message)
	case wire.LogNotListening:
		h.Warn("cannot be asked to hand over: %s", attributes(r)["err"])
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
