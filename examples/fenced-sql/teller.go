package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/leader"
)

const (
	deposit = 10
	pace    = 200 * time.Millisecond // from one deposit to the next, so that it can be read
)

// teller is one process of a service: a candidate, and a worker that pays into
// the account while it leads.
type teller struct {
	name    string
	account *account
	*stage
}

// run stands in the election until ctx ends.
func (t *teller) run(ctx context.Context, url string) error {
	nc, err := nats.Connect(url, nats.Name(t.name), nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	bucket, err := leader.CreateBucket(ctx, js, leader.BucketConfig{Name: "natsleader-examples"})
	if err != nil {
		return err
	}
	minToken, err := openFence(ctx, t.account.db, t.account.election)
	if err != nil {
		return err
	}
	c, err := leader.Campaign(context.Background(), bucket, t.account.election, leader.Config{
		ID: t.name, MinToken: minToken,
	})
	if err != nil {
		return err
	}
	return t.serve(ctx, c)
}

// serve starts a worker in each term until ctx ends.
func (t *teller) serve(ctx context.Context, c *leader.Candidate) error {
	defer context.AfterFunc(ctx, func() {
		stopping, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := c.Stop(stopping); err != nil {
			t.tl.Say(t.name, "faulted", "stopped without releasing the key: %v", err)
		}
	})()

	var workers errgroup.Group
	for ev := range c.Events() {
		switch ev := ev.(type) {
		case leader.Elected:
			t.tl.Say(t.name, "elected", "token %d", ev.Term.Token())
			workers.Go(func() error {
				err := t.work(ctx, c, ev.Term)
				t.left(ev.Term, err)
				return err
			})
		case leader.Deposed:
			// A careful program waits here for its worker. Here the wait would be long.
			t.tl.Say(t.name, "deposed", "token %d, %s", ev.Term.Token(), timeline.Reason(ev.Cause))
		case leader.Faulted:
			t.tl.Say(t.name, "faulted", "%s", timeline.Reason(ev.Err))
		case leader.Fenced, leader.Pending, leader.Observed:
		}
	}
	return errors.Join(c.Err(), workers.Wait())
}

// work makes three deposits. It asks the term before each one, as it should; but
// it never looks at the term's context.
func (t *teller) work(ctx context.Context, c *leader.Candidate, term *leader.Term) error {
	balance, err := t.account.takeOver(ctx, term.Token())
	if err != nil {
		return err
	}
	t.tl.Say(t.name, "took over", "the balance is %d", balance)
	for n := 1; n <= 3 && term.Err() == nil; n++ {
		t.wait(ctx, n, term)
		if balance, err = t.account.balance(ctx); err != nil {
			return err
		}
		// Some time passes from the check to the write. It may be long, if the
		// process is stopped, swapped out, or waits for something else.
		if err := t.meanwhile(ctx, n, balance, c, term); err != nil {
			return err
		}
		balance += deposit
		switch err := t.account.setBalance(ctx, term.Token(), balance); {
		case errors.Is(err, errFenced):
			t.tl.Say(t.name, "refused", "%v", err)
			return nil
		case err != nil:
			return err
		}
		t.paid.Add(1)
		t.tl.Say(t.name, "wrote", "token %d, balance %d", term.Token(), balance)
	}
	return nil
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
func (t *teller) meanwhile(ctx context.Context, n, balance int, c *leader.Candidate, term *leader.Term) error {
	if n < 3 || !t.zombie.CompareAndSwap(nil, term) {
		return nil
	}
	t.tl.Say(t.name, "HELD UP", "has read %d, and knows that it leads", balance)
	if err := c.Resign(ctx); err != nil {
		return err
	}
	<-t.overtaken.Done()
	t.tl.Say(t.name, "GOES ON", "to write %d", balance+deposit)
	return nil
}

// stage is the state that the tellers of a run share for the demonstration. A
// service has nothing like it.
type stage struct {
	tl   *timeline.Timeline
	paid atomic.Int64 // deposits that were acknowledged
	end  func()       // of the run

	zombie    atomic.Pointer[leader.Term] // the term with the worker that is held up
	overtaken context.Context             // ends when its successor has paid in twice
	overtake  func()
	tried     context.Context // ends when it has tried to write
	try       func()
}

// left takes note of a worker that has ended. The worker of the zombie's successor
// ends the run.
func (s *stage) left(term *leader.Term, err error) {
	s.try()
	if term != s.zombie.Load() || err != nil {
		s.end()
	}
}
