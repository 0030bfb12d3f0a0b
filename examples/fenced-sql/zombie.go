package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/leader"
)

// pace is the time from one deposit to the next, so that the output can be read.
const pace = 200 * time.Millisecond

// play is the state that the tellers share for the demonstration. A service has nothing
// like it.
type play struct {
	tl   *timeline.Timeline
	paid atomic.Int64 // deposits that were acknowledged
	end  func()       // of the run

	zombie    atomic.Pointer[leader.Term] // the term with the worker that is held up
	overtaken context.Context             // ends when its successor has paid in twice
	overtake  func()
	tried     context.Context // ends when it has tried to write
	try       func()
}

func newPlay(ctx context.Context, tl *timeline.Timeline, end func()) *play {
	p := &play{tl: tl, end: end}
	p.overtaken, p.overtake = context.WithCancel(ctx)
	p.tried, p.try = context.WithCancel(ctx)
	return p
}

// left takes note of a worker that has ended. The worker of the zombie's successor
// ends the run.
func (p *play) left(term *leader.Term, err error) {
	p.try()
	if term != p.zombie.Load() || err != nil {
		p.end()
	}
}

// wait lets some time pass before a deposit. The zombie's successor makes its
// third one after the zombie has tried.
func (t *teller) wait(ctx context.Context, n int, term *leader.Term) {
	select {
	case <-time.After(pace):
	case <-ctx.Done():
	}
	if zombie := t.zombie.Load(); n == 3 && zombie != nil && zombie != term {
		t.overtake()
		<-t.tried.Done()
	}
}

// meanwhile simulates the time between a check and a write. At the third deposit of
// the first term the leader changes, and the other teller makes two deposits.
func (t *teller) meanwhile(ctx context.Context, n, balance int, term *leader.Term) error {
	if n < 3 || !t.zombie.CompareAndSwap(nil, term) {
		return nil
	}
	t.tl.Say(t.name, "HELD UP", "has read %d, and knows that it leads", balance)
	if err := term.Resign(ctx); err != nil {
		return err
	}
	<-t.overtaken.Done()
	t.tl.Say(t.name, "GOES ON", "to write %d", balance+deposit)
	return nil
}
