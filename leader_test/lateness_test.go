package leader_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// lateness records when goroutines of this process ran late. A busy machine delays a ticker as
// it delays the candidates and the servers, which run in the same process and store in memory.
type lateness struct {
	mu     sync.Mutex
	last   time.Time // of the last tick
	delays []delay   // in order, each of lateFrom or more
}

// delay is a tick that was late.
type delay struct {
	at time.Time
	by time.Duration
}

const (
	lateTick = 5 * time.Millisecond
	// lateFrom is what a tick has to be late by for an excuse. An answer to a request passes six
	// goroutines, and a candidate waits for it for at least 166 ms.
	lateFrom = 25 * time.Millisecond
)

// machine is the lateness of this process. TestMain starts it.
var machine lateness

// run records until the channel is closed.
func (l *lateness) run(begun chan<- struct{}, end <-chan struct{}) {
	tick := time.NewTicker(lateTick)
	defer tick.Stop()
	l.tick(time.Now())
	close(begun)
	for {
		l.tick(time.Now())
		select {
		case <-tick.C:
		case <-end:
			return
		}
	}
}

func (l *lateness) tick(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if by := now.Sub(l.last) - lateTick; !l.last.IsZero() && by >= lateFrom {
		l.delays = append(l.delays, delay{now, by})
	}
	l.last = now
}

// since returns the longest delay that ended at that time or later, or 0. The delay that goes
// on counts.
func (l *lateness) since(from, now time.Time) time.Duration {
	l.tick(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	longest := time.Duration(0)
	for _, d := range l.delays {
		if !d.at.Before(from) {
			longest = max(longest, d.by)
		}
	}
	return longest
}

// unexcused returns the faults for which a late machine is no excuse. It is one for one answer
// that did not come in time, and only if the machine was late.
func unexcused(events []leader.Event, late time.Duration) []error {
	var all []error
	excuses := 0
	if late > 0 {
		excuses = 1
	}
	for _, e := range events {
		f, ok := e.(leader.Faulted)
		switch {
		case !ok:
		case errors.Is(f.Err, leader.ErrUnreachable) && excuses > 0:
			excuses--
		default:
			all = append(all, f.Err)
		}
	}
	return all
}

// A late machine excuses one late answer, and nothing else.
func TestLateness_ExcusesOneFault(t *testing.T) {
	unreachable := leader.Faulted{Err: fmt.Errorf("read: %w", leader.ErrUnreachable)}
	denied := leader.Faulted{Err: leader.ErrPermission}
	for _, tt := range []struct {
		name   string
		late   time.Duration
		events []leader.Event
		want   int
	}{
		{"no fault", 0, []leader.Event{leader.Elected{}}, 0},
		{"a late machine, a late answer", lateFrom, []leader.Event{leader.Elected{}, unreachable}, 0},
		{"a late machine, two late answers", time.Minute, []leader.Event{unreachable, leader.Elected{}, unreachable}, 1},
		{"a late machine, another fault", time.Minute, []leader.Event{denied}, 1},
		{"a late machine, both", time.Minute, []leader.Event{denied, unreachable}, 1},
		{"a machine that was not late", 0, []leader.Event{unreachable}, 1},
	} {
		got := unexcused(tt.events, tt.late)
		check.That(t, len(got) == tt.want, "%s: %v are not excused, want %d", tt.name, got, tt.want)
	}
}

// The ticker shows the delays since a candidate began, one that goes on included, and no others.
func TestLateness_SinceTheCandidate(t *testing.T) {
	zero := time.Now()
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	var l lateness
	for _, ms := range []int{1000, 1005, 1300, 1305, 1335, 1365, 1394, 1400} {
		l.tick(at(ms))
	}
	for _, tt := range []struct{ from, now, want int }{
		{0, 1400, 290},
		{1300, 1400, 290},
		{1301, 1400, 25},
		{1365, 1400, 25},
		{1366, 1400, 0}, // 24 ms are not late
		{1366, 1429, 0},
		{1366, 1501, 67},
	} {
		got, want := l.since(at(tt.from), at(tt.now)), time.Duration(tt.want)*time.Millisecond
		check.That(t, got == want, "since %d ms at %d ms: %v, want %v", tt.from, tt.now, got, want)
	}
	machine.mu.Lock()
	defer machine.mu.Unlock()
	check.That(t, !machine.last.IsZero(), "TestMain has not started the ticker")
}
