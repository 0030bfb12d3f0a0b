package leader

import (
	"context"
	"log/slog"
)

// logEvent writes the record of an event. Elections, seats and IDs are attributes of the
// logger.
func (c *Candidate) logEvent(values context.Context, e Event) {
	level, msg, attrs := slog.LevelInfo, "", make([]slog.Attr, 0, 4)
	switch e := e.(type) {
	case Pending:
		msg, attrs = "pending", append(attrs, slog.Uint64("token", e.Token), slog.Time("until", e.Until))
	case Elected:
		msg, attrs = "elected", append(attrs, slog.Uint64("token", e.Term.Token()))
	case Fenced:
		msg, attrs = "fenced", append(attrs, slog.Uint64("token", e.Term.Token()), slog.String("cause", e.Cause.Error()))
	case Deposed:
		msg, attrs = "deposed", append(attrs, slog.Uint64("token", e.Term.Token()), slog.String("cause", e.Cause.Error()))
	case Observed:
		msg, attrs = "observed", append(attrs, slog.String("holder", e.Holder.ID), slog.Uint64("token", e.Holder.Token))
		if e.Holder.Pending || e.Holder.Foreign {
			attrs = append(attrs, slog.Bool("pending", e.Holder.Pending), slog.Bool("foreign", e.Holder.Foreign))
		}
	case Faulted:
		level, msg, attrs = slog.LevelWarn, "faulted", append(attrs, slog.String("err", e.Err.Error()))
		if e.Remaining > 0 {
			attrs = append(attrs, slog.Duration("remaining", e.Remaining))
		}
	}
	c.log.LogAttrs(values, level, msg, attrs...)
}

// detail writes a detail of a failure, for debugging. While all is well there is none.
func (c *Candidate) detail(values context.Context, msg string, attrs ...slog.Attr) {
	c.log.LogAttrs(values, slog.LevelDebug, msg, attrs...)
}

// requestNames are the names of the requests, by the inputs that answer them.
var requestNames = map[inputKind]string{inRead: "read", inWritten: "write", inSettings: "settings", inFeed: "feed"}
