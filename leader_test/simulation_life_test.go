package leader_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/checker"
	"github.com/natsleader/natsleader/internal/contract"
	"github.com/natsleader/natsleader/leader"
)

// life is one candidate from its Campaign to its end, with everything that is known of
// it from outside. A candidate that is started again is another life.
type life struct {
	*leader.Candidate
	sim   *simulation
	name  string // b.2: the second life of all, with the ID b
	cfg   leader.Config
	clock *skew
	link  simulatedLink
	place
	cancel context.CancelFunc // of the context given to Campaign

	// The driver's actions on it.
	away    bool          // its process is stopped, maybe for good
	killed  bool          // for good
	closed  bool          // its connection was closed by the application
	leaving time.Duration // when it was asked to stop; 0: not yet
	deaf    time.Duration // its events are not read before

	// Its application's work in the terms.
	duty    *shift // without a loop, and with a GracePeriod; guarded by sim.mu
	loops   int    // over the terms, from the start
	loopers []*looper

	// Actions of the user's code on it.
	scribe  scribe
	stall   storeStall
	rivals  rivals
	unaware bool // it was asked to stop while it was held up; guarded by sim.mu
	mute    bool // its log has been held up, and is not checked any more; guarded by sim.mu

	// Its actions, known at the very moment; guarded by sim.mu.
	told     []string           // every event, as it was offered
	contract contract.Candidate // by these
	names    contract.Candidate // by the leaders that it has named when it was asked
	term     *leader.Term
	robbed   bool // something else was stored since it was elected
	open     bool // Elected was offered, and Deposed not yet
	ended    bool
	written  map[string]written // by the number that the record gives it
	good     time.Time          // until then its newest stored write keeps others out, by its clock
	released bool               // since it was asked to stop
	resigns  bool               // it was asked to resign, once at least
	tokens   []uint64           // of its terms

	// Its events.
	unread  func() (event any, ok bool)
	bell    <-chan struct{}
	checker checker.Candidate
	heard   int // how many of told have been read
}

// written is one write that a life has sent.
type written struct {
	at   time.Time     // by its clock
	good time.Duration // how long a leader may rely on it; 0: not at all
}

// simulatedLink is a connection to the store.
type simulatedLink interface {
	store() leader.Store
	close()
}

// field returns a field of a record.
func field(record []byte, name string) string {
	_, rest, _ := bytes.Cut(record, []byte(`"`+name+`":`))
	end := bytes.IndexAny(rest, ",}")
	if end < 0 {
		return ""
	}
	return string(bytes.Trim(rest[:end], `"`))
}

// tap observes the requests of a link. It uses the clock of its process.
type tap struct {
	backend.Store
	clock  *skew
	life   *life // nil: an observer's
	window *backend.Window
}

func tapped(l simulatedLink, clock *skew, by *life) tap {
	t := tap{l.store().Backend(), clock, by, backend.NewWindow(1, 1)}
	if by != nil {
		by.rivals.window = t.window
	}
	return t
}

// Backend returns t.
func (t tap) Backend() backend.Store { return t }

// Clock returns the clock of the process.
func (t tap) Clock() leader.Clock { return t.clock }

// Window returns a window with one slot.
func (t tap) Window() *backend.Window { return t.window }

// Update records the write.
func (t tap) Update(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error)) {
	t.life.scribe.await()
	t.life.writes(value, revision)
	t.life.holdUp(func() { t.Store.Update(ctx, key, value, revision, reply) })
}

// Mark is noted likewise.
func (t tap) Mark(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error)) {
	t.life.scribe.await()
	t.life.writes(value, revision)
	t.life.holdUp(func() { t.Store.Mark(ctx, key, value, revision, reply) })
}

// Settings, Get and Watch may be held up.
func (t tap) Settings(ctx context.Context, reply func(backend.Settings, error)) {
	t.life.holdUp(func() { t.Store.Settings(ctx, reply) })
}

func (t tap) Get(ctx context.Context, key string, reply func(backend.Entry, error)) {
	t.life.holdUp(func() { t.Store.Get(ctx, key, reply) })
}

func (t tap) Watch(ctx context.Context, key string, instead backend.Feed, deliver func(backend.FeedEvent), reply func(backend.Feed, error)) {
	t.life.holdUp(func() { t.Store.Watch(ctx, key, instead, deliver, reply) })
}

// ear is a slog.Handler. A candidate logs each event when it is about to offer it. The
// handler runs on another goroutine, but the candidate does not get far without the
// handler: see scribe.
type ear struct{ *life }

// events are the messages of the log that report an event, with the kind of the event.
var events = map[string]string{
	"pending": "pending", "elected": "elected", "deposed": "deposed", "observed": "observed", "faulted": "faulted",
	"fenced": "fenced", "draining": "fenced", "fenced by a later term": "fenced",
}

// Enabled is called once for each line, before Handle.
func (e ear) Enabled(_ context.Context, level slog.Level) bool {
	e.scribe.begin()
	return level >= slog.LevelInfo
}

func (e ear) Handle(_ context.Context, r slog.Record) error {
	kind, ok := events[r.Message]
	if !ok {
		return nil
	}
	var values []slog.Value
	r.Attrs(func(a slog.Attr) bool {
		values = append(values, a.Value)
		return true
	})
	e.offers(kind, values)
	return nil
}

// logLine returns a line of the log without the keys.
func logLine(message string, values ...slog.Value) string {
	return fmt.Sprint(message, ": ", values)
}

// logged returns the line that a candidate logs for an event.
func logged(e leader.Event) string {
	switch e := e.(type) {
	case leader.Pending:
		line := []slog.Value{slog.Uint64Value(e.Token), slog.TimeValue(e.Until)}
		if e.Reason != "" {
			line = append(line, slog.StringValue(e.Reason))
		}
		return logLine("pending", line...)
	case leader.Elected:
		return logLine("elected", slog.Uint64Value(e.Term.Token()))
	case leader.Fenced:
		line := []slog.Value{slog.Uint64Value(e.Term.Token()), slog.StringValue(e.Cause.Error())}
		if !e.Until.IsZero() {
			line = append(line, slog.TimeValue(e.Until))
		}
		return logLine("fenced", line...)
	case leader.Deposed:
		return logLine("deposed", slog.Uint64Value(e.Term.Token()), slog.StringValue(e.Cause.Error()))
	case leader.Observed:
		line := []slog.Value{slog.StringValue(e.Holder.ID), slog.Uint64Value(e.Holder.Token)}
		if s := e.Holder.State; s == leader.HolderPending || s == leader.HolderForeign {
			line = append(line, slog.StringValue(s.String()))
		}
		return logLine("observed", line...)
	case leader.Faulted:
		line := []slog.Value{slog.StringValue(e.Err.Error())}
		if e.Remaining > 0 {
			line = append(line, slog.DurationValue(e.Remaining))
		}
		return logLine("faulted", line...)
	}
	return ""
}

func (e ear) WithAttrs([]slog.Attr) slog.Handler { return e }

func (e ear) WithGroup(string) slog.Handler { return e }

// gone reports whether the candidate has ended.
func (l *life) gone() bool {
	select {
	case <-l.Done():
		return true
	default:
		return false
	}
}

// read reads the unread events.
func (l *life) read() {
	for e, ok := l.unread(); ok; e, ok = l.unread() {
		l.receives(e.(leader.Event))
	}
	for {
		select {
		case _, open := <-l.bell:
			if !open {
				l.ends()
				return
			}
		default:
			return
		}
	}
}

// receives checks an event that was read. It is the next of the offered ones.
func (l *life) receives(e leader.Event) {
	s := l.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logf("%s reads %v", l.name, e)
	s.broken(l.checker.Next(e, l.clock.Now()))
	if l.mute {
		return
	}
	if text := logged(e); l.heard == len(l.told) || l.told[l.heard] != text {
		s.failf("%s: %s was read, and was not offered next: %q", l.name, text, l.told[l.heard:])
		return
	}
	l.heard++
}

// ends checks the end of the events.
func (l *life) ends() {
	s := l.sim
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.ended {
		return
	}
	l.ended = true
	if !l.mute && l.heard < len(l.told) {
		s.failf("%s: %q were dropped", l.name, l.told[l.heard:])
	}
	if s.broken(l.checker.End()); !l.mute {
		s.broken(l.contract.Next(contract.Event{Kind: contract.Ended, Who: l.name}))
	}
	if err := l.Err(); err != nil && !l.closed {
		s.failf("%s ended by itself: %v", l.name, err)
	}
}
