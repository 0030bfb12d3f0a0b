package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/examples/internal/scaffold"
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
	bucket, err := leader.CreateOrUpdateBucket(ctx, js, leader.BucketConfig{Name: "natsleader-examples"})
	if err != nil {
		return err
	}
	minToken, err := openFence(ctx, t.account.db, t.account.election)
	if err != nil {
		return err
	}
	c, err := leader.Campaign(ctx, bucket, t.account.election, leader.Config{
		ID: t.name, MinToken: minToken, GracePeriod: patience, Logger: slog.New(slog.DiscardHandler), // the table shows the faults
	})
	if err != nil {
		return err
	}
	return t.serve(ctx, c)
}

// patience is how long others wait for the work of a leader that steps down. The zombie takes
// longer.
const patience = 100 * time.Millisecond

// serve works in each term until ctx ends.
func (t *teller) serve(ctx context.Context, c *leader.Candidate) (err error) {
	var reports sync.WaitGroup
	defer reports.Wait()
	reports.Go(func() { scaffold.Report(t.tl, t.name, c) })

	for term := range c.Terms() {
		failed := t.work(ctx, term)
		t.left(term, failed)
		err = errors.Join(err, failed)
	}
	return errors.Join(c.Err(), err)
}

// work makes three deposits. It asks the term before each one, as it should; but
// it never looks at the term's context.
func (t *teller) work(ctx context.Context, term *leader.Term) error {
	balance, err := t.account.takeOver(ctx, term.Token())
	if err != nil {
		return err
	}
	t.tl.Say(t.name, "took over", "the balance is %d", balance)
	for n := 1; n <= 3 && leader.Err(term.Context()) == nil; n++ {
		t.wait(ctx, n, term)
		if balance, err = t.account.balance(ctx); err != nil {
			return err
		}
		// Some time passes from the check to the write. It may be long, if the
		// process is stopped, swapped out, or waits for something else.
		if err := t.meanwhile(ctx, n, balance, term); err != nil {
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
