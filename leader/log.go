package leader

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/natskv"
)

// logEvent writes the record of an event. Elections, seats and IDs are attributes of the
// logger.
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
		msg, attrs = "observed", append(attrs, slog.String("holder", e.Holder.ID), slog.Uint64("token", e.Holder.Token))
		if e.Holder.held() && e.Holder.State != HolderLeading {
			attrs = append(attrs, slog.String("state", e.Holder.State.String()))
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

// reconnectForever is the advice on a connection that gives up reconnecting.
var reconnectForever = slog.String("instead", "nats.MaxReconnects(-1)")

// logReconnecting warns, when a candidate begins, of a connection that is closed for good
// when it does not come back in time.
func (c *Candidate) logReconnecting(values context.Context) {
	b, ok := c.store.(*natskv.Bucket)
	if !ok {
		return
	}
	if tries, forever := b.Reconnects(); !forever {
		c.log.LogAttrs(values, slog.LevelWarn, "the connection gives up reconnecting, which ends the candidate", slog.Int("tries", tries), reconnectForever)
	}
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
		if errors.Is(last, nats.ErrNoServers) {
			msg, attrs = "the connection gave up reconnecting, which ended the candidate", []slog.Attr{reconnectForever}
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

// logQueue takes log records off the candidate's goroutine, because the application's
// handler may block, for ever or until the candidate has ended. Its goroutine exists only
// while there is something to write.
type logQueue struct {
	mu      sync.Mutex // held for moments only
	lines   []logLine
	writes  bool          // the goroutine runs
	hasty   bool          // flush does not wait for the handler any more
	empty   chan struct{} // closed when all is written; nil: no caller waits
	dropped uint64
	untold  uint64 // the part of dropped that no line has reported

	// A fake clock must see that there is something to write.
	wake func() // called for each line, before the handler gets it; may be nil
	rest func() // called when all is written; may be nil
}

type logLine struct {
	ctx    context.Context //nolint:containedctx // what the handler is called with
	to     slog.Handler
	record slog.Record
}

// newLogQueue returns a queue, and the logger that writes to l through it.
func newLogQueue(l *slog.Logger) (*logQueue, *slog.Logger) {
	q := &logQueue{}
	return q, slog.New(queuedHandler{q, l.Handler()})
}

// follow makes a fake clock wait until all is written. Such a clock waits for its timers,
// so the queue has one, which is never armed.
func (q *logQueue) follow(clock Clock) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.wake != nil {
		return // the seats of a candidate share a queue
	}
	t := clock.NewTimer(time.Hour)
	t.Stop()
	if w, ok := t.(interface{ Wake() }); ok {
		q.wake, q.rest = w.Wake, func() { t.Stop() }
	}
}

// add queues a line, or drops it. The first lines of a trouble are the useful ones. Lines
// for debugging leave room for the others, because it is not known here whether the
// handler wants them.
func (q *logQueue) add(l logLine) {
	q.mu.Lock()
	defer q.mu.Unlock()
	room := maxLogLines
	if l.record.Level < slog.LevelInfo {
		room /= 2
	}
	if len(q.lines) >= room {
		q.dropped++
		q.untold++
		return
	}
	q.lines = append(q.lines, l)
	if q.wake != nil {
		q.wake()
	}
	if !q.writes {
		q.writes = true
		go q.run()
	}
}

// run writes until nothing is left.
func (q *logQueue) run() {
	for {
		l, ok := q.next()
		if !ok {
			return
		}
		if !l.to.Enabled(l.ctx, l.record.Level) {
			continue
		}
		if n := q.tell(); n > 0 {
			l.record.AddAttrs(slog.Uint64("dropped", n))
		}
		_ = l.to.Handle(l.ctx, l.record) // as log/slog itself does
	}
}

// next takes the oldest line.
func (q *logQueue) next() (l logLine, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		q.lines, q.writes = nil, false
		q.release()
		if q.rest != nil {
			q.rest()
		}
		return logLine{}, false
	}
	l = q.lines[0]
	q.lines[0] = logLine{}
	q.lines = q.lines[1:]
	return l, true
}

// tell returns how many lines were dropped since its last call.
func (q *logQueue) tell() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.untold
	q.untold = 0
	return n
}

// release lets the callers of flush go on. The lock is held.
func (q *logQueue) release() {
	if q.empty != nil {
		close(q.empty)
		q.empty = nil
	}
}

// flush waits until all is written, but not for long.
func (q *logQueue) flush() {
	if q == nil {
		return
	}
	q.mu.Lock()
	if !q.writes || q.hasty {
		q.mu.Unlock()
		return
	}
	if q.empty == nil {
		q.empty = make(chan struct{})
	}
	empty := q.empty
	q.mu.Unlock()
	limited, cancel := deadline.Within(context.Background(), lastMoment)
	defer cancel()
	select {
	case <-empty:
	case <-limited.Done():
	}
}

// abandon ends flush, now and later.
func (q *logQueue) abandon() {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hasty = true
	q.release()
}

// lost returns how many lines were dropped in all.
func (q *logQueue) lost() uint64 {
	if q == nil {
		return 0
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// queuedHandler puts records into the queue, in front of the application's handler. The
// queue's goroutine also calls the Enabled of that handler.
type queuedHandler struct {
	q  *logQueue
	to slog.Handler
}

func (h queuedHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h queuedHandler) Handle(ctx context.Context, r slog.Record) error {
	h.q.add(logLine{ctx, h.to, r.Clone()})
	return nil
}

func (h queuedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return queuedHandler{h.q, h.to.WithAttrs(attrs)}
}

func (h queuedHandler) WithGroup(name string) slog.Handler {
	return queuedHandler{h.q, h.to.WithGroup(name)}
}
