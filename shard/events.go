package shard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

// Event is emitted by a member on the channels of [Member.Events]: a [Granted], [Started], [Revoked], [Released],
// [Rebalanced] or [Faulted]. Its String is a line for a log.
//
//sumtype:decl
type Event interface {
	fmt.Stringer
	record() (slog.Level, string, []slog.Attr)
}

// Granted reports that the map grants a shard to the member, which may have to wait for the end of earlier work on it.
type Granted struct {
	Shard int
	Token uint64
}

// Started reports that [Member.Serve] begins the work on a shard.
type Started struct{ Shard *Shard }

// Revoked reports that the context of a shard has ended while its work goes on. Cause is that of the context.
type Revoked struct {
	Shard *Shard
	Cause error
}

// Released reports, once for every Started, that the work on a shard has ended, or was given up.
type Released struct {
	Shard *Shard
	Late  bool // the work goes on, and others can work on the shard
}

// Rebalanced reports how many shards this member, as the assigner, has granted anew, and why.
type Rebalanced struct{ Moves map[Reason]int }

// Faulted reports an error from which the member goes on. Those of its elections are among them. The rest is reported
// once for each damaged revision of a key, and once for each failure of a kind of request that lasts, and so are
// [ErrNotBegun] and [ErrProgramsDiffer], the latter again with each further program.
type Faulted struct{ Err error }

// Reason says why a shard was granted anew.
type Reason uint8

// The reasons.
const (
	ReasonUnowned  Reason = iota // it had no owner: the group is new, its map was lost, or no member had room
	ReasonUneven                 // to spread the shards evenly, as when a member has joined
	ReasonLeft                   // its owner leaves, or has left
	ReasonDied                   // the lease of its owner has expired
	ReasonReturned               // to the next term of its owner
	ReasonAsked                  // by [Move] or [Drain]
)

var reasons = [...]string{"unowned", "uneven", "left", "died", "returned", "asked"}

// String returns the name of the reason in lower case.
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

func (e Granted) record() (slog.Level, string, []slog.Attr) {
	return slog.LevelDebug, "granted", []slog.Attr{slog.Int("shard", e.Shard), slog.Uint64("token", e.Token)}
}

func (e Started) record() (slog.Level, string, []slog.Attr) {
	return slog.LevelInfo, "started", e.Shard.attrs()
}

func (e Revoked) record() (slog.Level, string, []slog.Attr) {
	return slog.LevelInfo, "revoked", append(e.Shard.attrs(), slog.String("cause", e.Cause.Error()))
}

func (e Released) record() (slog.Level, string, []slog.Attr) {
	if e.Late {
		return slog.LevelWarn, "work on a shard goes on, and others can work on it: return from the function of Serve when the context of the shard has ended", e.Shard.attrs()
	}
	return slog.LevelInfo, "released", e.Shard.attrs()
}

func (e Rebalanced) record() (slog.Level, string, []slog.Attr) {
	var attrs []slog.Attr
	for _, r := range slices.Sorted(maps.Keys(e.Moves)) {
		attrs = append(attrs, slog.Int(r.String(), e.Moves[r]))
	}
	return slog.LevelInfo, "rebalanced", attrs
}

func (e Faulted) record() (slog.Level, string, []slog.Attr) {
	return slog.LevelWarn, "faulted", []slog.Attr{slog.String("err", e.Err.Error())}
}

func (e Granted) String() string    { return text(e) }
func (e Started) String() string    { return text(e) }
func (e Revoked) String() string    { return text(e) }
func (e Released) String() string   { return text(e) }
func (e Rebalanced) String() string { return text(e) }
func (e Faulted) String() string    { return text(e) }

func text(e Event) string {
	_, line, attrs := e.record()
	for _, a := range attrs {
		line += " " + a.String()
	}
	return line
}

func (s *Shard) attrs() []slog.Attr {
	return []slog.Attr{slog.Int("shard", s.number), slog.Uint64("token", s.token)}
}

// Events returns a channel of the member's events, in order, beginning with the oldest of the newest 1,024. Each call
// returns a channel of its own. It is closed when ctx ends, and after the last event of a member that has left. What
// is in it then can still be read. Nothing waits for a reader: of more than 1,024 unread events the oldest are lost.
func (m *Member) Events(ctx context.Context) <-chan Event { return m.events.enter(ctx) }

// maxEvents is how many events a member keeps, and each reader.
const maxEvents = 1024

// feed hands each event to all readers. Only the holder of its lock sends on their channels.
type feed struct {
	mu      sync.Mutex
	past    chan Event
	readers map[chan Event]func() bool // each with a function that ends the watch over its context
	closed  bool
}

func newFeed() *feed {
	return &feed{past: make(chan Event, maxEvents), readers: make(map[chan Event]func() bool)}
}

// add hands an event to all readers.
func (f *feed) add(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	push(f.past, e)
	for ch := range f.readers {
		push(ch, e)
	}
}

// push sends an event, in place of the oldest ones if there is no room.
func push(ch chan Event, e Event) {
	for {
		select {
		case ch <- e:
			return
		default:
		}
		select {
		case <-ch:
		default: // the reader was quicker
		}
	}
}

// enter adds a reader, until ctx ends.
func (f *feed) enter(ctx context.Context) <-chan Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := make(chan Event, maxEvents)
	for range len(f.past) {
		e := <-f.past
		f.past <- e
		ch <- e
	}
	if f.closed {
		close(ch)
		return ch
	}
	f.readers[ch] = context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.readers[ch] != nil {
			delete(f.readers, ch)
			close(ch)
		}
	})
	return ch
}

// close closes the channels of all readers.
func (f *feed) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ch, stop := range f.readers {
		stop()
		close(ch)
	}
	f.readers, f.closed = nil, true
}

// emit hands an event to the readers, and logs it.
func (m *Member) emit(e Event) {
	m.record(e)
	m.events.add(e)
}

// record logs an event.
func (m *Member) record(e Event) {
	level, msg, attrs := e.record()
	m.log.LogAttrs(m.values, level, msg, attrs...)
}

// fault reports a fault of the member itself.
func (m *Member) fault(err error) {
	m.mu.Lock()
	m.faults++
	m.mu.Unlock()
	m.emit(Faulted{err})
}

// damaged reports, once for each revision of a key, that its value cannot be used.
func (m *Member) damaged(key string, revision uint64, what string, err error) {
	if m.isNews(key, revision) {
		m.fault(fmt.Errorf("%s at revision %d: %s: %w", key, revision, what, err))
	}
}

// outcome reports that something has failed, once until it succeeds.
func (m *Member) outcome(what string, err error) {
	m.mu.Lock()
	_, known := m.reported[what]
	if err == nil {
		delete(m.reported, what)
	} else {
		m.reported[what] = ""
	}
	m.mu.Unlock()
	if err != nil && !known {
		m.fault(fmt.Errorf("%s: %w", what, err))
	}
}

// isNews reports whether a number is not the one that was last reported of a thing.
func (m *Member) isNews(what string, n uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.reported[what] == fmt.Sprint(n)
	m.reported[what] = fmt.Sprint(n)
	return !known
}

// requests is a store that reports requests which fail for other reasons than a silence or an earlier write.
type requests struct {
	backend.Store
	m *Member
}

func (r requests) Get(ctx context.Context, key string, reply func(backend.Entry, error)) {
	r.Store.Get(ctx, key, func(e backend.Entry, err error) {
		r.answered(ctx, "read of "+key, err)
		reply(e, err)
	})
}

func (r requests) Update(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error)) {
	r.Store.Update(ctx, key, value, revision, func(n uint64, err error) {
		r.answered(ctx, "write of "+key, err)
		reply(n, err)
	})
}

func (r requests) Watch(ctx context.Context, key string, instead backend.Feed, deliver func(backend.FeedEvent), reply func(backend.Feed, error)) {
	r.Store.Watch(ctx, key, instead, deliver, func(f backend.Feed, err error) {
		r.answered(ctx, "feed of "+key, err)
		reply(f, err)
	})
}

// answered reports a request that has failed.
func (r requests) answered(ctx context.Context, what string, err error) {
	// Of a silence the elections know.
	if ctx.Err() != nil || errors.Is(err, leader.ErrUnreachable) || errors.Is(err, leader.ErrConnectionClosed) || errors.Is(err, backend.ErrRefused) {
		return
	}
	r.m.outcome(what, err)
}
