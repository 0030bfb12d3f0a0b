package leader_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// ledger is a store in the time of a bubble that keeps account: of the requests, their contexts, and
// what they have opened.
type ledger struct {
	seats int // of the election of its candidate
	*plainStore
	window *backend.Window // may be nil

	mu       sync.Mutex
	answers  map[string]answers // by call; how it answers is "at once" if the call is not in it
	blocked  map[string]chan struct{}
	held     []func()       // replies that never come in time
	flying   map[string]int // requests that are not answered, by call
	contexts []ledgerContext
	open     map[string]int // feeds, listeners and views
	twice    []string       // what was closed twice
	deliver  func([]byte, func([]byte))
	asked    map[string]int
	stands   func(backend.Announcement)
	standing []backend.Announcement // with which a view begins
	stood    [][]byte               // announcements; nil is a withdrawal
}

// answers is how a ledger answers a call.
type answers int

const (
	atOnce      answers = iota
	whenGivenUp         // when the context has ended, as the contract of a Store has it at the latest
	tooLate             // by release, and the context does not matter
	denied
)

type ledgerContext struct {
	call     string
	ctx      context.Context
	answered bool
}

func newLedger(how map[string]answers) *ledger { return newLedgerOn(newPlainStore(), how) }

// newLedgerOn returns a ledger with the keys of a store, as of another connection.
func newLedgerOn(on *plainStore, how map[string]answers) *ledger {
	if how == nil {
		how = make(map[string]answers)
	}
	return &ledger{
		plainStore: on, answers: how, blocked: make(map[string]chan struct{}),
		flying: make(map[string]int), open: make(map[string]int), asked: make(map[string]int),
	}
}

// Backend returns l.
func (l *ledger) Backend() backend.Store { return l }

// Window returns the window of l.
func (l *ledger) Window() *backend.Window { return l.window }

// answer makes the ledger answer a call in another way from now on.
func (l *ledger) answer(call string, how answers) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[call] = how
}

// mute makes the ledger answer nothing from now on.
func (l *ledger) mute() {
	for _, call := range []string{"Settings", "Get", "Update", "Watch"} {
		l.answer(call, tooLate)
	}
}

// block makes a call not return until the function that it returns is called.
func (l *ledger) block(call string) (unblock func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	blocked := make(chan struct{})
	l.blocked[call] = blocked
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.blocked, call)
		close(blocked)
	}
}

// pass returns when the call is not blocked.
func (l *ledger) pass(call string) {
	l.mu.Lock()
	blocked := l.blocked[call]
	l.mu.Unlock()
	if blocked != nil {
		<-blocked
	}
}

// ask records a request. It calls one of the two functions once.
func (l *ledger) ask(ctx context.Context, call string, serve func(), fail func(error)) {
	l.pass(call)
	l.mu.Lock()
	l.asked[call]++
	how, n := l.answers[call], len(l.contexts)
	l.contexts = append(l.contexts, ledgerContext{call: call, ctx: ctx})
	l.flying[call]++
	l.mu.Unlock()
	answered := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.contexts[n].answered = true
		l.flying[call]--
	}
	switch how {
	case atOnce:
		answered()
		serve()
	case whenGivenUp:
		context.AfterFunc(ctx, func() { answered(); fail(leader.ErrUnreachable) })
	case tooLate:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.held = append(l.held, func() { answered(); serve() })
	case denied:
		answered()
		fail(leader.ErrPermission)
	}
}

// release sends the replies that are too late.
func (l *ledger) release() {
	l.mu.Lock()
	held := l.held
	l.held = nil
	l.mu.Unlock()
	for _, reply := range held {
		reply()
	}
	synctest.Wait()
}

// tell delivers an event to the feed that was opened first, even if it has ended.
func (l *ledger) tell(e backend.FeedEvent) {
	l.plainStore.mu.Lock()
	deliver := l.delivers[0]
	l.plainStore.mu.Unlock()
	deliver(e)
	synctest.Wait()
}

// opened counts something that stays open until the function that it returns is called.
func (l *ledger) opened(what string) (shut func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[what]++
	shutBefore := false
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if shutBefore {
			l.twice = append(l.twice, what)
			return
		}
		shutBefore = true
		if l.open[what]--; l.open[what] == 0 {
			delete(l.open, what)
		}
	}
}

type ledgerFeed struct{ stop func() }

func (f *ledgerFeed) Stop() { f.stop() }

func (l *ledger) Settings(ctx context.Context, reply func(backend.Settings, error)) {
	l.ask(ctx, "Settings", func() { l.plainStore.Settings(ctx, reply) }, func(err error) { reply(backend.Settings{}, err) })
}

func (l *ledger) Get(ctx context.Context, key string, reply func(backend.Entry, error)) {
	l.ask(ctx, "Get", func() { l.plainStore.Get(ctx, key, reply) }, func(err error) { reply(backend.Entry{}, err) })
}

func (l *ledger) Update(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error)) {
	l.ask(ctx, "Update", func() { l.plainStore.Update(ctx, key, value, revision, reply) }, func(err error) { reply(0, err) })
}

func (l *ledger) Watch(ctx context.Context, key string, instead backend.Feed, deliver func(backend.FeedEvent), reply func(backend.Feed, error)) {
	if instead != nil {
		instead.Stop()
	}
	l.ask(ctx, "Watch", func() {
		l.plainStore.Watch(ctx, key, nil, deliver, func(f backend.Feed, err error) {
			shut := l.opened("feed")
			reply(&ledgerFeed{func() { shut(); f.Stop() }}, err)
		})
	}, func(err error) { reply(nil, err) })
}

func (l *ledger) FollowCordon(deliver func([]string)) (look, stop func()) {
	deliver(nil)
	return func() {}, l.opened("cordon")
}

func (l *ledger) Listen(ctx context.Context, _ string, deliver func([]byte, func([]byte)), reply func(func(func()), error)) {
	l.ask(ctx, "Listen", func() {
		shut := l.opened("listener")
		l.mu.Lock()
		l.deliver = deliver
		l.mu.Unlock()
		reply(func(closed func()) { shut(); closed() }, nil)
	}, func(err error) { reply(nil, err) })
}

func (l *ledger) Announce(ctx context.Context, _, session string, entry []byte, _ time.Duration, reply func(uint64, error)) {
	l.mu.Lock()
	l.stood = append(l.stood, entry)
	revision := uint64(len(l.stood))
	l.mu.Unlock()
	l.ask(ctx, "Announce", func() { reply(revision, nil) }, func(err error) { reply(0, err) })
}

func (l *ledger) View(ctx context.Context, _ string, deliver func(backend.Announcement), reply func(backend.Feed, error)) {
	l.ask(ctx, "Stands", func() {
		shut := l.opened("view")
		l.mu.Lock()
		l.stands = deliver
		begin := append(slices.Clone(l.standing), backend.Announcement{Complete: true})
		l.mu.Unlock()
		reply(&ledgerFeed{shut}, nil)
		for _, a := range begin {
			deliver(a)
		}
	}, func(err error) { reply(nil, err) })
}

// ledgerGuard is a guard that protects nothing, with the account of a ledger.
type ledgerGuard struct {
	l    *ledger
	last backend.Entry
}

func (*ledgerGuard) String() string { return "guard" }

// Backend returns g.
func (g *ledgerGuard) Backend() backend.Guard { return g }

func (g *ledgerGuard) Check(ctx context.Context, reply func(error)) {
	g.l.ask(ctx, "Check", func() { reply(nil) }, reply)
}

func (g *ledgerGuard) Get(_ context.Context, reply func(backend.Entry, error)) { reply(g.last, nil) }

func (g *ledgerGuard) Update(_ context.Context, value []byte, _ uint64, reply func(uint64, error)) {
	g.last = backend.Entry{Revision: g.last.Revision + 1, Value: value}
	reply(g.last.Revision, nil)
}

// ledgerClock is the system's clock with an account of the timers that are armed. A ledger may block a Reset.
type ledgerClock struct {
	leader.Clock
	l      *ledger
	mu     sync.Mutex
	timers []*ledgerTimer
	sets   int // how often a watchdog was armed
}

func newLedgerClock(l *ledger) *ledgerClock { return &ledgerClock{Clock: leader.SystemClock(), l: l} }

type ledgerTimer struct {
	leader.Timer
	c        *ledgerClock
	watchdog bool
	until    time.Time // armed until then; zero: it is not
}

func (t *ledgerTimer) arm(d time.Duration) {
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	if t.until = (time.Time{}); d >= 0 {
		t.until = time.Now().Add(d)
	}
	if d >= 0 && t.watchdog {
		t.c.sets++
	}
}

func (c *ledgerClock) add(t *ledgerTimer, d time.Duration) *ledgerTimer {
	t.arm(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timers = append(c.timers, t)
	return t
}

func (c *ledgerClock) NewTimer(d time.Duration) leader.Timer {
	return c.add(&ledgerTimer{Timer: c.Clock.NewTimer(d), c: c}, d)
}

func (c *ledgerClock) AfterFunc(d time.Duration, f func()) leader.Timer {
	return c.add(&ledgerTimer{Timer: backend.AfterFunc(c.Clock, d, f), c: c, watchdog: true}, d)
}

func (t *ledgerTimer) Reset(d time.Duration) bool {
	if !t.watchdog {
		t.c.l.pass("Reset")
	}
	t.arm(d)
	return t.Timer.Reset(d)
}

func (t *ledgerTimer) Stop() bool { t.arm(-1); return t.Timer.Stop() }

// armed returns how many timers will fire, how many of them are watchdogs, and how often one was armed.
func (c *ledgerClock) armed() (all, watchdogs, sets int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.timers {
		if t.until.After(time.Now()) {
			all++
			if t.watchdog {
				watchdogs++
			}
		}
	}
	return all, watchdogs, c.sets
}

// hookedContext counts the functions that wait for its end.
type hookedContext struct {
	context.Context
	hooks atomic.Int64
}

// Value hides that the context is one of package context, so that AfterFunc is called.
func (*hookedContext) Value(any) any { return nil }

// AfterFunc is called by context.AfterFunc, and for each context that derives from this one.
func (h *hookedContext) AfterFunc(f func()) (stop func() bool) {
	h.hooks.Add(1)
	unhook := context.AfterFunc(h.Context, f)
	return sync.OnceValue(func() bool { h.hooks.Add(-1); return unhook() })
}

// stand starts a candidate that must end before the test does.
func (l *ledger) stand(ctx context.Context, t *testing.T, cfg leader.Config) *leader.Candidate {
	t.Helper()
	cfg.ID = "a"
	c := check.Got(leader.Campaign(ctx, seats.Of(l, l.seats), "e", cfg))(t)
	t.Cleanup(func() {
		backend.Crash(c)
		select {
		case <-c.Done():
		case <-time.After(time.Minute): // mustEnd has reported it
		}
	})
	synctest.Wait()
	return c
}

// count reads one of the accounts of l.
func (l *ledger) count(of map[string]int, what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return of[what]
}

// awaits lets time pass until a call is in flight, for ten seconds at most, and returns how many are.
func (l *ledger) awaits(call string) int {
	for range 100 {
		if synctest.Wait(); l.count(l.flying, call) > 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return l.count(l.flying, call)
}

// tellAll delivers an event to each feed that was opened, even if it has ended.
func (l *ledger) tellAll(e backend.FeedEvent) {
	l.plainStore.mu.Lock()
	delivers := slices.Clone(l.delivers)
	l.plainStore.mu.Unlock()
	for _, deliver := range delivers {
		deliver(e)
	}
}

// mustEnd expects that a candidate has ended after exactly d.
func mustEnd(t *testing.T, c *leader.Candidate, d time.Duration) {
	t.Helper()
	from := time.Now()
	select {
	case <-c.Done():
		check.Equal(t, time.Since(from), d, "Done after %v")
	case <-time.After(24 * time.Hour):
		t.Fatal("the candidate does not end")
	}
	synctest.Wait()
}

// atRest expects that no request is in flight or has a slot, and that of the contexts of the requests only
// those of the writes go on, one for each seat.
func (l *ledger) atRest(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range l.contexts {
		if !c.answered || c.call != "Update" && c.ctx.Err() == nil {
			t.Errorf("request %d, %s: answered: %v, context: %v", i, c.call, c.answered, c.ctx.Err())
		}
	}
	if p := new(backend.Place); l.window != nil {
		check.That(t, l.window.Take(p, backend.RankRead, nil, time.Now()), "a slot is kept")
		l.window.Return(p, backend.Reply{})
	}
}

// settled expects that nothing is left open, nothing was closed twice, and the context of each request
// that was answered has ended.
func (l *ledger) settled(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	check.That(t, len(l.open) <= 0 && len(l.feeds) <= 0 && len(l.twice) <= 0,
		"open: %v and %d feeds; closed twice: %v", l.open, len(l.feeds), l.twice)
	for i, c := range l.contexts {
		check.That(t, c.ctx.Err() != nil,
			"the context of request %d, %s, goes on; the request was answered: %v", i, c.call, c.answered)
	}
	if w := l.window; w != nil {
		check.That(t, w.Take(new(backend.Place), backend.RankRead, nil, time.Now()), "a slot is kept")
		check.Equal(t, w.Join(), 0, "%d candidates too many are counted")
	}
}
