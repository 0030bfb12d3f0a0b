package leadertest_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// This file tests a whole service as an application would. It is for copying.

// biller is the service under test. It calls leader.Campaign itself.
type biller struct {
	id   string
	bill func(ctx context.Context, token uint64) // takes some time
}

// Run bills once a minute while it leads, until ctx ends. In production elections is a
// leader.Bucket.
func (b *biller) Run(ctx context.Context, elections leader.Store) error {
	c, err := leader.Campaign(ctx, elections, "billing", leader.Config{ID: b.id})
	if err != nil {
		return err
	}
	for term := range c.Terms() {
		b.lead(term)
	}
	return c.Err()
}

// lead bills during one term. It does not cut off a bill.
func (b *biller) lead(term *leader.Term) {
	ctx := term.Context()
	for leader.Err(term.Context()) == nil {
		b.bill(context.WithoutCancel(ctx), term.Token())
		select {
		case <-ctx.Done():
		case <-time.After(time.Minute):
		}
	}
}

// agency is a bubble with billers, which share a store.
type agency struct {
	*testing.T
	store *leadertest.Store
	began time.Time

	mu   sync.Mutex
	book []string
}

func newAgency(t *testing.T) *agency {
	return &agency{T: t, store: leadertest.NewStore(nil), began: time.Now()}
}

// start starts a biller on a link of its own. At the end of the test the context of the test
// ends, and the clean-up waits until the biller has ended.
func (o *agency) start(id string) (stop context.CancelFunc) {
	o.Helper()
	ctx, stop := context.WithCancel(o.Context())
	b := &biller{id: id, bill: func(context.Context, uint64) {
		o.note(id, "begins")
		time.Sleep(5 * time.Second)
		o.note(id, "ends")
	}}
	var running sync.WaitGroup
	running.Go(func() {
		if err := b.Run(ctx, o.store.Link(id)); err != nil {
			o.Errorf("%s: %v", id, err)
		}
	})
	o.Cleanup(running.Wait)
	synctest.Wait() // it stands in the election, or leads
	return stop
}

// note writes down what a biller does, and when.
func (o *agency) note(id, does string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.book = append(o.book, fmt.Sprintf("%v %s %s", time.Since(o.began), id, does))
}

// noted expects these lines since it was last called.
func (o *agency) noted(want ...string) {
	o.Helper()
	synctest.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Equal(o.book, want) {
		o.Errorf("noted\n%q, want\n%q", o.book, want)
	}
	o.book = nil
}

// A leader that is cut off stops billing, and the next goes on when its lease is over.
func TestBiller_CutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newAgency(t)
		o.start("a")
		o.start("b")
		time.Sleep(30 * time.Second)
		o.noted("0s a begins", "5s a ends")
		if id := o.store.Leader("billing").ID; id != "a" {
			t.Errorf("%s leads", id)
		}

		o.store.Link("a").Cut()
		time.Sleep(time.Minute)
		o.noted("45s b begins", "50s b ends")
		if id := o.store.Leader("billing").ID; id != "b" {
			t.Errorf("%s leads", id)
		}
	})
}

// A biller that is stopped ends its bill. Then the next begins at once.
func TestBiller_Stop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newAgency(t)
		stop := o.start("a")
		o.start("b")
		time.Sleep(2 * time.Second)
		stop()
		time.Sleep(30 * time.Second)
		o.noted("0s a begins", "5s a ends", "5s b begins", "10s b ends")
	})
}

// A part of the service that takes a term is tested with a term of its own.
func TestBiller_Lead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tokens []uint64
		b := &biller{bill: func(_ context.Context, token uint64) { tokens = append(tokens, token) }}
		term := leadertest.NewTerm(t, leader.Config{MinToken: 6})
		ended := make(chan struct{})
		go func() {
			b.lead(term.Term)
			close(ended)
		}()
		time.Sleep(150 * time.Second)
		term.End(leader.ErrPreempted)
		<-ended
		if !slices.Equal(tokens, []uint64{7, 7, 7}) {
			t.Errorf("billed %d", tokens)
		}
	})
}
