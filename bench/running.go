package main

import (
	"context"
	"sync"
)

// running is what the candidates of most libraries have in common: a goroutine that ends with its
// context, and a channel that is closed when the candidate leads.
type running struct {
	once   sync.Once
	won    chan struct{}
	done   chan struct{} // closed when the goroutine has ended
	cancel context.CancelFunc
}

// start starts the goroutine.
func (r *running) start(run func(ctx context.Context)) {
	var ctx context.Context
	ctx, r.cancel = context.WithCancel(context.Background())
	r.won, r.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(r.done)
		run(ctx)
	}()
}

// set says that the candidate leads.
func (r *running) set() { r.once.Do(func() { close(r.won) }) }

func (r *running) elected() <-chan struct{} { return r.won }

func (r *running) drop() { r.cancel() }

// resign ends the goroutine, and waits for its end.
func (r *running) resign(ctx context.Context) error {
	r.cancel()
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
