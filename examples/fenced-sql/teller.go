package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/leader"
)

const deposit = 10

// teller is one process of a service: a candidate, and a worker that pays into
// the account while it leads.
type teller struct {
	name    string
	account *account
	*play
}

// run stands in the election until ctx ends.
func (t *teller) run(ctx context.Context, js jetstream.JetStream) error {
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
