package leadertest_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// actor is a candidate in miniature: one goroutine, one mailbox and one timer,
// with the contract that candidates have with the clock.
type actor struct {
	clock leader.Clock
	timer leader.Timer
	done  chan struct{}

	mu   sync.Mutex
	mail []func()
	poke chan struct{}

	// For the actor's goroutine only.
	next   time.Duration // Reset before it waits; 0: Stop
	ended  bool
	onTick func(*actor)
}

func newActor(clock leader.Clock, onTick func(*actor), first time.Duration) *actor {
	a := &actor{clock: clock, timer: backend.Unarmed(clock), done: make(chan struct{}), poke: make(chan struct{}, 1), onTick: onTick, next: first}
	go a.run()
	return a
}

func (a *actor) send(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mail = append(a.mail, f)
	if w, ok := a.timer.(interface{ Wake() }); ok && !a.ended {
		w.Wake()
	}
	select {
	case a.poke <- struct{}{}:
	default:
	}
}

func (a *actor) run() {
	defer close(a.done)
	for {
		a.mu.Lock()
		mail := a.mail
		a.mail = nil
		select {
		case <-a.poke: // a stale one would let it reset its timer while it counts as at rest
		default:
		}
		switch {
		case a.ended:
			a.timer.Stop()
			a.mu.Unlock()
			return
		case len(mail) == 0 && a.next > 0:
			a.timer.Reset(a.next)
		case len(mail) == 0:
			a.timer.Stop()
		}
		a.mu.Unlock()
		if len(mail) == 0 {
			select {
			case <-a.poke:
			case <-a.timer.C():
				a.next = 0
				a.onTick(a)
			}
			continue
		}
		for _, f := range mail {
			f()
		}
	}
}

func (a *actor) stop() {
	a.send(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ended = true
	})
	<-a.done
}

// journal records events with their times. Several goroutines write to it.
type journal struct {
	mu    sync.Mutex
	clock *leadertest.Clock
	lines []string
}

func (j *journal) add(format string, args ...any) {
	at := j.clock.Elapsed()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf("%v ", at)+fmt.Sprintf(format, args...))
}

// take waits until everything has come to rest, and takes the lines.
func (j *journal) take() []string {
	j.clock.Settle()
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

func (j *journal) want(t *testing.T, want ...string) {
	t.Helper()
	check.Deep(t, j.take(), want)
}

// slowHandler is a log handler that takes its time, on a goroutine of its own.
type slowHandler struct {
	slog.Handler
	written *atomic.Int64
}

// Enabled implements slog.Handler: all records are written.
func (h slowHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h slowHandler) Handle(context.Context, slog.Record) error {
	for range 100 {
		runtime.Gosched()
	}
	h.written.Add(1)
	return nil
}

func (h slowHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// Settle and Advance wait until all log records are written.
func TestSettle_WaitsForTheLog(t *testing.T) {
	clock := leadertest.NewClock()
	store := leadertest.NewStore(clock)
	var written atomic.Int64
	c, err := leader.Campaign(t.Context(), store, "e", leader.Config{Logger: slog.New(slowHandler{slog.DiscardHandler, &written})})
	check.OK(t, err)
	clock.Settle()
	for i := range 100 {
		before := written.Load()
		store.Put("e", []byte(fmt.Sprint("junk ", i)))
		clock.Settle()
		check.Must(t, written.Load() != before, "Settle returned before the line was written")
	}
	_ = c.Stop()
}
