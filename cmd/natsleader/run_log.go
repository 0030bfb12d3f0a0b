//go:build unix

package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"time"
)

// logbook prints lines for people. It never waits for whoever reads them: a pipe
// that is full must not cost the leadership.
type logbook struct {
	prefix string
	lines  chan string
	last   chan struct{} // closed: no more follow
	done   chan struct{}
}

// newLogbook prints to w, or nothing if it is nil.
func newLogbook(w io.Writer, election string) *logbook {
	l := &logbook{
		prefix: "natsleader: " + printable(election) + ": ",
		lines:  make(chan string, 64), last: make(chan struct{}), done: make(chan struct{}),
	}
	if w == nil {
		w = io.Discard
	}
	go l.print(w)
	return l
}

func (l *logbook) print(w io.Writer) {
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

func (l *logbook) say(format string, args ...any) {
	select {
	case l.lines <- l.prefix + printable(fmt.Sprintf(format, args...)) + "\n":
	default:
	}
}

// close prints what is left, if somebody reads it.
func (l *logbook) close() {
	close(l.last)
	select {
	case <-l.done:
	case <-time.After(time.Second):
	}
}

// logger takes what a candidate logs and does not tell as an event: who has asked
// it to hand over, and whether it can be asked.
func (l *logbook) logger() *slog.Logger { return slog.New(requests{l}) }

type requests struct{ *logbook }

func (requests) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (h requests) WithAttrs([]slog.Attr) slog.Handler             { return h }
func (h requests) WithGroup(string) slog.Handler                  { return h }

func (h requests) Handle(_ context.Context, r slog.Record) error {
	switch r.Message {
	case "asked to hand over":
		told := attributes(r)
		h.say("asked to hand over by %s: %s", told["by"], told["answer"])
	case "cannot be asked to hand over":
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
