package leader

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/internal/plain"
)

// logEvent writes the record of an event. Elections, seats and IDs are attributes of the
// logger. The first record after the settings of the bucket are known names its JetStream domain, if it has one.
func (c *Candidate) logEvent(values context.Context, e Event) {
	level, msg, attrs := slog.LevelInfo, "", make([]slog.Attr, 0, 4)
	switch e := e.(type) {
	case Pending:
		msg, attrs = "pending", append(attrs, slog.Uint64("token", e.Token), slog.Time("until", e.Until))
		if e.Reason != "" {
			attrs = append(attrs, slog.String("reason", e.Reason))
		}
	case Elected:
		msg, attrs = "elected", append(attrs, slog.Uint64("token", e.Term.Token()))
	case Fenced:
		msg, attrs = e.kind(), append(attrs, slog.Uint64("token", e.Term.Token()), slog.String("cause", e.Cause.Error()))
		if !e.Until.IsZero() {
			attrs = append(attrs, slog.Time("until", e.Until))
		}
	case Deposed:
		msg, attrs = "deposed", append(attrs, slog.Uint64("token", e.Term.Token()), slog.String("cause", e.Cause.Error()))
	case Observed:
		msg, attrs = "observed", append(attrs, slog.String("holder", plain.Text(e.Holder.ID)), slog.Uint64("token", e.Holder.Token))
		if e.Holder.held() && e.Holder.State != HolderLeading {
			attrs = append(attrs, slog.String("state", e.Holder.State.String()))
		}
	case Faulted:
		level, msg, attrs = slog.LevelWarn, "faulted", append(attrs, slog.String("err", e.Err.Error()))
		if e.Remaining > 0 {
			attrs = append(attrs, slog.Duration("remaining", e.Remaining))
		}
	}
	if domain := c.domain(); domain != "" && c.located.CompareAndSwap(false, true) {
		attrs = append(attrs, slog.String("domain", domain))
	}
	c.log.LogAttrs(values, level, msg, attrs...)
}

// domain returns the JetStream domain of the bucket, or an empty string if there is none or it is not known yet.
func (c *Candidate) domain() (domain string) {
	if b, ok := c.store.(*natskv.Bucket); ok {
		domain = b.Domain()
	}
	return domain
}

// detail writes a detail of a failure, for debugging. While all is well there is none.
func (c *Candidate) detail(values context.Context, msg string, attrs ...slog.Attr) {
	c.log.LogAttrs(values, slog.LevelDebug, msg, attrs...)
}

// reconnectForever is the advice on a connection that gives up reconnecting.
var reconnectForever = slog.String("instead", "nats.MaxReconnects(-1)")

// logReconnecting warns, when the first candidate of a Bucket begins, of a connection that is closed for good
// when it does not come back in time.
func (c *Candidate) logReconnecting(values context.Context) {
	b, ok := c.store.(*natskv.Bucket)
	if !ok {
		return
	}
	if tries, once := b.GivesUp(); once {
		c.log.LogAttrs(values, slog.LevelWarn, "the connection gives up reconnecting, which ends its candidates", slog.Int("tries", tries), reconnectForever)
	}
}

// noticeLease warns, once, of a leader with another lease in a bucket that bounds no lease. If its key is deleted, a
// candidate that has not read its record waits for too short a time.
func (a *actor) noticeLease(h Holder) {
	own := a.status.Times.OrDefault().Lease
	s, known, _ := a.c.store.Known()
	if a.otherLease || h.State != HolderLeading || h.Lease == own || !known || s.MaxLease > 0 || s.TTL > 0 {
		return
	}
	a.otherLease = true
	a.c.log.LogAttrs(a.values, slog.LevelWarn, "the leader has another lease, and the bucket has no MaxLease", slog.String("holder", plain.Text(h.ID)),
		slog.Duration("its", h.Lease), slog.Duration("own", own), slog.String("instead",
			"give all candidates of the election the same LeaseDuration"))
}

// logClosed warns of a connection that was closed under a candidate.
func (c *Candidate) logClosed(values context.Context, cut bool) {
	if !cut {
		return
	}
	msg := "the connection was closed before the candidate was stopped"
	attrs := []slog.Attr{slog.String("instead", "stop the candidate, and wait for Done, before closing or draining the connection")}
	if b, ok := c.store.(*natskv.Bucket); ok {
		last := b.LastError()
		switch {
		case last == nil:
		case errors.Is(last, nats.ErrNoServers):
			msg, attrs = "the connection gave up reconnecting, which ended the candidate", []slog.Attr{reconnectForever}
		case jsapi.ConnErrorOf(last).Kind == "auth":
			msg, attrs = "the servers refuse the credentials, so the connection gave up, which ended the candidate", []slog.Attr{slog.String("instead", "nats.IgnoreAuthErrorAbort()")}
		}
		if last != nil {
			attrs = append(attrs, slog.String("err", last.Error()))
		}
	}
	c.log.LogAttrs(values, slog.LevelWarn, msg, attrs...)
}

// requestNames are the names of the requests, by the inputs that answer them.
var requestNames = map[machine.InputKind]string{machine.InRead: "read", machine.InWritten: "write", machine.InSettings: "settings", machine.InFeed: "feed"}

// maxLogLines is how many log records of a candidate wait for the handler.
const maxLogLines = 64

// followLog makes a fake clock wait until all is logged. Such a clock waits for its timers, so there is one for the
// log, which is never armed.
func (c *Candidate) followLog() {
	if c.logs == nil {
		return
	}
	t := c.clock.NewTimer(time.Hour)
	t.Stop()
	if w, ok := t.(backend.Waker); ok {
		c.logs.Follow(w.Wake, func() { t.Stop() })
	}
}
