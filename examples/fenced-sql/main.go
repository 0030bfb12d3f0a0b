// Command fenced-sql protects a table of an SQL database from leaders that have
// been followed by others. The database refuses a write with a token that is less
// than one it has seen. See fence.go for the pattern.
//
// It runs two processes, as goroutines, against a NATS server and a database of
// its own. The worker of the first leader is held up between its check and its
// write, and goes on when the other leads. Then the same runs once more without the
// check by the database, to show the loss. The command ends after a few seconds.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	_ "modernc.org/sqlite" // the driver "sqlite", in Go

	"github.com/natsleader/natsleader/examples/internal/scaffold"
	"github.com/natsleader/natsleader/examples/internal/timeline"
)

const (
	opening = 100 // balance
	atMost  = 30 * time.Second
)

var example = scaffold.Example{Name: "fenced-sql", Run: run}

func main() { example.Main() }

// run shows the account with the check, and without.
func run(ctx context.Context, s *scaffold.Scaffold) (err error) {
	dir, err := os.MkdirTemp("", "natsleader-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s.Line(timeline.Bold, "the database compares tokens")
	if err := perform(ctx, s, dir, true); err != nil || ctx.Err() != nil {
		return err
	}
	s.Line(timeline.Plain, "")
	s.Line(timeline.Bold, "the same, and the database takes what comes")
	return perform(ctx, s, dir, false)
}

// perform lets two tellers pay into an account until two terms have been seen.
func perform(interrupted context.Context, s *scaffold.Scaffold, dir string, checked bool) (err error) {
	ctx, end := context.WithTimeout(interrupted, atMost)
	defer end()
	play := newPlay(ctx, s.Timeline, end)
	a, err := openAccount(dir, checked)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.db.Close()) }()
	if err = a.create(ctx, opening); err != nil {
		return err
	}
	s.Begin()
	if checked {
		if err = outliveTheBucket(ctx, s.Timeline, a); err != nil {
			return err
		}
	}
	err = s.ConnectSeveral(ctx, 2, "teller", func(ctx context.Context, name string, js jetstream.JetStream) error {
		return payIn(ctx, &teller{name: name, play: play}, js, dir, checked)
	})
	switch {
	case interrupted.Err() != nil:
		return nil
	case err != nil:
		return err
	case errors.Is(play.tried.Err(), context.DeadlineExceeded):
		return fmt.Errorf("two terms took longer than %v", atMost)
	}
	return report(play, a)
}

// payIn is one process.
func payIn(ctx context.Context, t *teller, js jetstream.JetStream, dir string, checked bool) (err error) {
	if t.account, err = openAccount(dir, checked); err != nil {
		return err
	}
	return errors.Join(t.run(ctx, js), t.account.db.Close())
}

// outliveTheBucket writes to the database as a leader of an earlier bucket. The tokens
// of the new bucket must begin above that token: see MinToken.
func outliveTheBucket(ctx context.Context, tl *timeline.Timeline, a *account) error {
	const token = 5_000_000_000_000_000
	if _, err := openFence(ctx, a.db, a.election); err != nil {
		return err
	}
	if err := a.setBalance(ctx, token, opening); err != nil {
		return err
	}
	tl.Say("database", "is older", "than the bucket: it has seen token %d", token)
	return nil
}

// report compares the balance of the account with the deposits.
func report(p *play, a *account) error {
	balance, err := a.balance(context.Background())
	if err != nil {
		return err
	}
	paid := int(p.paid.Load())
	lost := opening + paid*deposit - balance
	if lost == 0 {
		p.tl.Line(timeline.Good, "%d and %d deposits of %d make %d: nothing is lost", opening, paid, deposit, balance)
		return nil
	}
	p.tl.Line(timeline.Bad, "%d and %d deposits of %d, but the balance is %d: %d lost", opening, paid, deposit, balance, lost)
	return nil
}
