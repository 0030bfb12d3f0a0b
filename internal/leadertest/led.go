package leadertest

import (
	"cmp"
	"context"
	"sync"

	"github.com/natsleader/natsleader/leader"
)

// Led returns the term that a candidate leads, or nil, whose methods return [leader.ErrNotLeader].
func Led(c interface{ Term() (*leader.Term, bool) }) *leader.Term {
	t, _ := c.Term()
	return t
}

// Work begins work in a term that leads. It lasts until end is called, which may be called more than once.
func Work(t *leader.Term) (end func(), begun bool) {
	ended := make(chan struct{})
	begun = t.Go(func(context.Context) { <-ended })
	return sync.OnceFunc(func() { close(ended) }), begun
}

// resigner is a candidate, or a type that embeds one.
type resigner interface {
	Term() (*leader.Term, bool)
	Events(ctx context.Context, kinds ...leader.Event) <-chan leader.Event
}

// Resign ends the term that a candidate leads, and returns when its key is given up or held by another,
// as its events show.
func Resign(ctx context.Context, c resigner) error {
	t := Led(c)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, over := c.Events(ctx, leader.Deposed{}, leader.Observed{}), false
	if err := t.Resign(ctx); err != nil {
		return err
	}
	for e := range events {
		switch e := e.(type) {
		case leader.Deposed:
			over = over || e.Term == t
		case leader.Observed:
			if over && e.Holder.Seat == t.Seat() {
				return nil
			}
		case leader.Pending, leader.Elected, leader.Fenced, leader.Faulted:
		}
	}
	return cmp.Or(ctx.Err(), leader.ErrStopped)
}
