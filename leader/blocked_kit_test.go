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
	"github.com/natsleader/natsleader/seats"
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

// FollowCordon delivers no names.
func (s *plainStore) FollowCordon(deliver func([]string)) (look, stop func()) {
	deliver(nil)
	return func() {}, func() {}
}

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

// bench is a candidate in a bubble, with the events that it reported.
type bench struct {
	*testing.T
	*leader.Candidate
	store *ledger
	zero  time.Time
	mu    sync.Mutex
	lines []string
}

// inBubble runs a test with a candidate that leads at once.
func inBubble(t *testing.T, cfg leader.Config, test func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(lead(t, newLedger(nil), cfg)) })
}

func lead(t *testing.T, store *ledger, cfg leader.Config) *bench {
	t.Helper()
	b := &bench{T: t, store: store, zero: time.Now()}
	cfg.ID = "a"
	c := check.Got(leader.Campaign(t.Context(), seats.Of(store, store.seats), "e", cfg))(t)
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
