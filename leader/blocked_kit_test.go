package leader_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The durations of a candidate on a plainStore.
const (
	plainLease    = 6 * time.Second
	plainDeadline = 4800 * time.Millisecond
	plainInterval = time.Second
)

// plainStore is a store in memory that lives in the time of a bubble and answers at once.
type plainStore struct {
	backend.Store // keeps no roster

	mu       sync.Mutex
	last     backend.Entry
	feeds    map[*plainFeed]func(backend.FeedEvent)
	updates  int
	delivers []func(backend.FeedEvent) // of all feeds, the ended ones too
}

func newPlainStore() *plainStore {
	return &plainStore{feeds: make(map[*plainFeed]func(backend.FeedEvent))}
}

type plainFeed struct{ s *plainStore }

func (f *plainFeed) Stop() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	delete(f.s.feeds, f)
}

// Backend returns s.
func (s *plainStore) Backend() backend.Store { return s }

// Known returns nothing.
func (s *plainStore) Known() (backend.Settings, bool, error) { return backend.Settings{}, false, nil }

// Listen hears no requests.
func (s *plainStore) Listen(_ context.Context, _ string, _ func([]byte, func([]byte)), reply func(func(func()), error)) {
	reply(func(closed func()) { closed() }, nil)
}

func (s *plainStore) Settings(_ context.Context, reply func(backend.Settings, error)) {
	s.mu.Lock()
	settings := backend.Settings{PurgeProtected: true, MaxLease: plainLease, LastRevision: s.last.Revision}
	s.mu.Unlock()
	reply(settings, nil)
}

func (s *plainStore) Get(_ context.Context, _ string, reply func(backend.Entry, error)) {
	s.mu.Lock()
	e := s.last
	s.mu.Unlock()
	reply(e, nil)
}

func (s *plainStore) Update(_ context.Context, _ string, value []byte, revision uint64, reply func(uint64, error)) {
	s.mu.Lock()
	s.updates++
	if revision != s.last.Revision {
		last := s.last.Revision
		s.mu.Unlock()
		reply(0, &backend.RefusedError{Actual: last, Named: true})
		return
	}
	s.mu.Unlock()
	reply(s.put(value), nil)
}

// put stores a value.
func (s *plainStore) put(value []byte) uint64 {
	s.mu.Lock()
	s.last = backend.Entry{Revision: s.last.Revision + 1, Value: value, Created: time.Now()}
	e := s.last
	var all []func(backend.FeedEvent)
	for _, deliver := range s.feeds {
		all = append(all, deliver)
	}
	s.mu.Unlock()
	for _, deliver := range all {
		deliver(backend.FeedEvent{Entry: e})
	}
	return e.Revision
}

func (s *plainStore) Watch(_ context.Context, _ string, instead backend.Feed, deliver func(backend.FeedEvent), reply func(backend.Feed, error)) {
	if instead != nil {
		instead.Stop()
	}
	f := &plainFeed{s}
	s.mu.Lock()
	s.feeds[f] = deliver
	s.delivers = append(s.delivers, deliver)
	s.mu.Unlock()
	reply(f, nil)
}

// gated is a store with a gate before each call. The gate may block the call.
type gated struct {
	*plainStore
	mu      sync.Mutex
	blocked map[string]chan struct{} // by call
	silent  bool                     // it answers nothing
}

func (g *gated) pass(call string) {
	g.mu.Lock()
	blocked := g.blocked[call]
	g.mu.Unlock()
	if blocked != nil {
		<-blocked
	}
}

// block makes a call not return until the function that it returns is called.
func (g *gated) block(call string) (unblock func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	blocked := make(chan struct{})
	if g.blocked == nil {
		g.blocked = make(map[string]chan struct{})
	}
	g.blocked[call] = blocked
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.blocked, call)
		close(blocked)
	}
}

// mute makes the store answer nothing from now on.
func (g *gated) mute() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.silent = true
}

func (g *gated) muted() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.silent
}

// Backend returns g.
func (g *gated) Backend() backend.Store { return g }

func (g *gated) Settings(ctx context.Context, reply func(backend.Settings, error)) {
	if g.pass("Settings"); !g.muted() {
		g.plainStore.Settings(ctx, reply)
	}
}

func (g *gated) Get(ctx context.Context, key string, reply func(backend.Entry, error)) {
	if g.pass("Get"); !g.muted() {
		g.plainStore.Get(ctx, key, reply)
	}
}

func (g *gated) Update(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error)) {
	if g.pass("Update"); !g.muted() {
		g.plainStore.Update(ctx, key, value, revision, reply)
	}
}

func (g *gated) Watch(ctx context.Context, key string, instead backend.Feed, deliver func(backend.FeedEvent), reply func(backend.Feed, error)) {
	if g.pass("Watch"); !g.muted() {
		g.plainStore.Watch(ctx, key, instead, deliver, reply)
	}
}

// gatedGuard is a guard that protects nothing.
type gatedGuard struct {
	*gated // of its calls
	last   *backend.Entry
}

func (gatedGuard) String() string { return "guard" }

// Backend returns g.
func (g gatedGuard) Backend() backend.Guard { return g }

func (g gatedGuard) Check(_ context.Context, reply func(error)) {
	g.pass("Check")
	reply(nil)
}

func (g gatedGuard) Get(_ context.Context, reply func(backend.Entry, error)) { reply(*g.last, nil) }

func (g gatedGuard) Update(_ context.Context, value []byte, _ uint64, reply func(uint64, error)) {
	*g.last = backend.Entry{Revision: g.last.Revision + 1, Value: value}
	reply(g.last.Revision, nil)
}

// gatedClock is the system's clock with timers that may block, and counts watchdogs.
type gatedClock struct {
	leader.Clock
	*gated
	mu    sync.Mutex
	armed map[*alarm]bool
	sets  int
}

func newGatedClock(g *gated) *gatedClock {
	return &gatedClock{Clock: leader.SystemClock(), gated: g, armed: make(map[*alarm]bool)}
}

type gatedTimer struct {
	leader.Timer
	*gatedClock
}

func (c *gatedClock) NewTimer(d time.Duration) leader.Timer {
	return gatedTimer{c.Clock.NewTimer(d), c}
}

func (t gatedTimer) Reset(d time.Duration) bool {
	t.pass("Reset")
	return t.Timer.Reset(d)
}

type alarm struct {
	leader.Timer
	c *gatedClock
}

func (c *gatedClock) set(a *alarm, armed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed[a] = armed; armed {
		c.sets++
	}
}

// watchdogs returns how many run, and how often one was set.
func (c *gatedClock) watchdogs() (n, sets int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, armed := range c.armed {
		if armed {
			n++
		}
	}
	return n, c.sets
}

func (c *gatedClock) AfterFunc(d time.Duration, f func()) leader.Timer {
	a := &alarm{c: c}
	c.set(a, true)
	a.Timer = c.Clock.(interface {
		AfterFunc(d time.Duration, f func()) leader.Timer
	}).AfterFunc(d, func() { c.set(a, false); f() })
	return a
}

func (a *alarm) Reset(d time.Duration) bool {
	a.c.set(a, true)
	return a.Timer.Reset(d)
}

func (a *alarm) Stop() bool {
	a.c.set(a, false)
	return a.Timer.Stop()
}

// bench is a candidate in a bubble, with the events that it reported.
type bench struct {
	*testing.T
	*leader.Candidate
	store *gated
	zero  time.Time
	mu    sync.Mutex
	lines []string
}

// inBubble runs a test with a candidate that leads at once.
func inBubble(t *testing.T, cfg leader.Config, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(lead(t, &gated{plainStore: newPlainStore()}, cfg)) })
}

func lead(t *testing.T, store *gated, cfg leader.Config) *bench {
	t.Helper()
	b := &bench{T: t, store: store, zero: time.Now()}
	cfg.ID = "a"
	c, err := leader.Campaign(t.Context(), store, "e", cfg)
	check.OK(t, err)
	b.Candidate = c
	go func() {
		for e := range c.Events(t.Context()) {
			b.note(e.String())
		}
	}()
	synctest.Wait()
	check.Must(t, c.IsLeader(), "does not lead")
	return b
}

func (b *bench) note(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, fmt.Sprintf("%v %s", time.Since(b.zero), line))
}

// at lets time pass until then.
func (b *bench) at(d time.Duration) {
	b.Helper()
	time.Sleep(d - time.Since(b.zero))
	synctest.Wait()
}

// told expects these events, of those that concern a term.
func (b *bench) told(want ...string) {
	b.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	got := slices.DeleteFunc(slices.Clone(b.lines), func(line string) bool {
		return strings.Contains(line, "observed") || strings.Contains(line, "faulted") || strings.Contains(line, "pending")
	})
	check.That(b, slices.Equal(got, want),
		"told:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
}

// scribbler is a handler that may block, and keeps the lines that it has written.
type scribbler struct {
	blocked func(message string) // called first
	mu      *sync.Mutex
	lines   *[]string
}

func newScribbler(blocked func(message string)) scribbler {
	return scribbler{blocked, new(sync.Mutex), new([]string)}
}

func (scribbler) Enabled(context.Context, slog.Level) bool { return true }

func (s scribbler) Handle(_ context.Context, r slog.Record) error {
	s.blocked(r.Message)
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	*s.lines = append(*s.lines, line)
	return nil
}

func (s scribbler) WithAttrs([]slog.Attr) slog.Handler { return s }
func (s scribbler) WithGroup(string) slog.Handler      { return s }

func (s scribbler) written() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(*s.lines)
}
