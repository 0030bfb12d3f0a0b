package snippets_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

func eachTerm(c *leader.Candidate, work func(lead context.Context, token uint64)) error {
	for term := range c.Terms() {
		work(term.Context(), term.Token())
	}
	return c.Err()
}

func queue(lead context.Context, jobs <-chan job) {
	for {
		select {
		case <-lead.Done():
			return
		case j := <-jobs:
			if lead.Err() != nil { // both cases were ready, and select picks at random
				return // put j back, if nothing else does
			}
			j.do(lead)
		}
	}
}

func quiet(lead context.Context, jobs <-chan job, stallTimeout time.Duration) {
	sign := time.NewTicker(stallTimeout / 3)
	defer sign.Stop()
	for lead.Err() == nil { // shows that the work goes on
		select {
		case <-lead.Done():
		case <-sign.C:
		case j := <-jobs:
			if lead.Err() != nil {
				return
			}
			j.do(lead)
		}
	}
}

func poll(lead context.Context, pause time.Duration, item func(context.Context)) {
	for lead.Err() == nil { // asks the clock
		item(lead)
		select {
		case <-lead.Done(): // or the next leader would wait for the pause
		case <-time.After(pause):
		}
	}
}

func steps(lead context.Context, all []func(context.Context) error) error {
	for _, step := range all {
		if lead.Err() != nil {
			return context.Cause(lead) // such as leader.ErrLeaseExpired
		}
		if err := step(lead); err != nil {
			return err
		}
	}
	return nil
}

func crew(lead context.Context, workers int, work func(context.Context)) {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() { work(lead) }) // lead itself, not a context derived from it
	}
	all.Wait() // the body is over when the last one has ended, and not before
}

func crewWithLimit(lead context.Context, workers int, limit time.Duration, item func(context.Context)) {
	ctx, stop := context.WithCancel(lead)
	defer stop()
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for leader.Err(ctx) == nil {
				late := time.AfterFunc(limit, stop)
				item(ctx)
				late.Stop()
			}
		})
	}
	all.Wait() // an item that hangs keeps it here: no worker asks, and StallTimeout ends the term
}

func withTimeout(lead context.Context, url string) error {
	ctx, cancel := context.WithTimeout(lead, 5*time.Second)
	defer cancel()
	if err := leader.Err(ctx); err != nil { // ctx.Err would not ask the clock
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func consume(lead context.Context, consumer jetstream.Consumer, do func(context.Context, jetstream.Msg) error) {
	for lead.Err() == nil {
		batch, err := consumer.Fetch(1, jetstream.FetchMaxWait(time.Second))
		if err != nil { // an outage: the lease says when to give up
			time.Sleep(time.Second)
			continue
		}
		for msg := range batch.Messages() {
			if lead.Err() != nil {
				return // the next leader gets it after AckWait
			}
			if err := do(lead, msg); err == nil {
				_ = msg.Ack()
			} else if lead.Err() == nil {
				_ = msg.Nak()
			}
		}
	}
}

func transfer(lead context.Context, db *sql.DB, token uint64) error {
	ctx := leader.Grace(lead)
	tx, err := db.BeginTx(ctx, nil) // an orderly end of the term does not roll it back
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // after Commit it does nothing
	r, err := tx.ExecContext(ctx, `UPDATE fence SET token = $1 WHERE election = 'billing' AND token <= $1`, token)
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, leader.ErrFenced) // a later term has been here
	}
	if _, err := tx.ExecContext(ctx, `UPDATE account SET balance = balance + 10`); err != nil {
		return err
	}
	return tx.Commit()
}

func serve(c *leader.Candidate, work func(lead context.Context)) error {
	for e := range c.Events(context.Background(), leader.Elected{}) { // closed when the candidate has ended
		e.(leader.Elected).Term.Go(work) // the key is kept until it has returned
	}
	return c.Err()
}

type job struct{ do func(context.Context) }

var _ = []any{eachTerm, queue, quiet, poll, steps, crew, crewWithLimit, withTimeout, consume, transfer, serve}
