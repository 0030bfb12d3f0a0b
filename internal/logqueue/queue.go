// Package logqueue keeps the handler of the application's log off goroutines that must not wait for it.
package logqueue

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/deadline"
)

// Queue takes log records off the goroutine that logs, because the application's handler may block, for ever or
// until that goroutine has ended. Its own goroutine exists only while there is something to write. A nil Queue has
// no records.
type Queue struct {
	mu      sync.Mutex // held for moments only
	most    int        // how many records wait for the handler
	least   slog.Level // of a record
	lines   []line
	writes  bool          // the goroutine runs
	empty   chan struct{} // closed when all is written; nil: no caller waits
	dropped uint64
	untold  uint64 // the part of dropped that no line has reported

	// A fake clock must see that there is something to write.
	wake func() // called for each line, before the handler gets it; may be nil
	rest func() // called when all is written; may be nil
}

type line struct {
	ctx    context.Context //nolint:containedctx // what the handler is called with
	to     slog.Handler
	record slog.Record
}

// New returns a queue in which up to so many records wait, and the logger that writes to l through it. Without an l it
// writes warnings and errors to slog.Default. If l discards all, the queue is nil.
func New(l *slog.Logger, most int) (*Queue, *slog.Logger) {
	q := &Queue{most: most, least: math.MinInt}
	switch {
	case l == nil:
		l, q.least = slog.Default(), slog.LevelWarn
	case l.Handler() == slog.DiscardHandler:
		return nil, l
	}
	return q, slog.New(queuedHandler{q, l.Handler()})
}

// Follow makes a fake clock wait until all is written: it calls wake for each record, and rest when no record waits.
// Calls after the first one do nothing.
func (q *Queue) Follow(wake, rest func()) {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.wake == nil {
		q.wake, q.rest = wake, rest
	}
}

// add queues a line, or drops it. The first lines of a trouble are the useful ones. Lines
// for debugging leave room for the others, because it is not known here whether the
// handler wants them.
func (q *Queue) add(l line) {
	q.mu.Lock()
	defer q.mu.Unlock()
	room := q.most
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
func (q *Queue) run() {
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
func (q *Queue) next() (l line, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.lines) == 0 {
		q.lines, q.writes = nil, false
		q.release()
		if q.rest != nil {
			q.rest()
		}
		return line{}, false
	}
	l = q.lines[0]
	q.lines[0] = line{}
	q.lines = q.lines[1:]
	return l, true
}

// tell returns how many lines were dropped since its last call.
func (q *Queue) tell() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := q.untold
	q.untold = 0
	return n
}

// release lets the callers of Flush go on. The lock is held.
func (q *Queue) release() {
	if q.empty != nil {
		close(q.empty)
		q.empty = nil
	}
}

// Flush waits until all is written, for a second at most.
func (q *Queue) Flush() {
	if q == nil {
		return
	}
	q.mu.Lock()
	if !q.writes {
		q.mu.Unlock()
		return
	}
	if q.empty == nil {
		q.empty = make(chan struct{})
	}
	empty := q.empty
	q.mu.Unlock()
	limited, cancel := deadline.Within(context.Background(), time.Second)
	defer cancel()
	select {
	case <-empty:
	case <-limited.Done():
	}
}

// Lost returns how many lines were dropped in all.
func (q *Queue) Lost() uint64 {
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
	q  *Queue
	to slog.Handler
}

func (h queuedHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.q.least }

func (h queuedHandler) Handle(ctx context.Context, r slog.Record) error {
	h.q.add(line{ctx, h.to, r.Clone()})
	return nil
}

func (h queuedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return queuedHandler{h.q, h.to.WithAttrs(attrs)}
}

func (h queuedHandler) WithGroup(name string) slog.Handler {
	return queuedHandler{h.q, h.to.WithGroup(name)}
}
