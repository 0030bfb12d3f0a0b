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
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite" // the driver "sqlite", in Go

	"github.com/natsleader/natsleader/examples/internal/embedded"
	"github.com/natsleader/natsleader/examples/internal/timeline"
)

const (
	opening = 100 // balance
	atMost  = 30 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fenced-sql:", err)
		os.Exit(1)
	}
}

// run shows the account with the check, and without.
func run(ctx context.Context, getenv func(string) string, stdout io.Writer) (err error) {
	server, err := embedded.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	dir, err := os.MkdirTemp("", "natsleader-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	tl := timeline.New(stdout, timeline.Coloured(stdout, getenv))

	tl.Line(timeline.Bold, "the database compares tokens")
	if err := perform(ctx, tl, server.URL(), dir, true); err != nil || ctx.Err() != nil {
		return err
	}
	tl.Line(timeline.Plain, "")
	tl.Line(timeline.Bold, "the same, and the database takes what comes")
	return perform(ctx, tl, server.URL(), dir, false)
}

// perform lets two tellers pay into an account until two terms have been seen.
func perform(interrupted context.Context, tl *timeline.Timeline, url, dir string, checked bool) (err error) {
	ctx, end := context.WithTimeout(interrupted, atMost)
	defer end()
	s := &stage{tl: tl, end: end}
	s.overtaken, s.overtake = context.WithCancel(ctx)
	s.tried, s.try = context.WithCancel(ctx)

	a, err := openAccount(dir, checked)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.db.Close()) }()
	if err = a.create(ctx, opening); err != nil {
		return err
	}
	tl.Begin()
	if checked {
		if err = outliveTheBucket(ctx, tl, a); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for i := range 2 {
		g.Go(func() error { return payIn(ctx, fmt.Sprintf("teller-%d", i+1), s, url, dir, checked) })
	}
	err = g.Wait()
	switch {
	case interrupted.Err() != nil:
		return nil
	case err != nil:
		return err
	case errors.Is(s.tried.Err(), context.DeadlineExceeded):
		return fmt.Errorf("two terms took longer than %v", atMost)
	}
	return report(s, a)
}

// payIn is one process.
func payIn(ctx context.Context, name string, s *stage, url, dir string, checked bool) error {
	a, err := openAccount(dir, checked)
	if err != nil {
		return err
	}
	t := &teller{name: name, account: a, stage: s}
	return errors.Join(t.run(ctx, url), a.db.Close())
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
func report(s *stage, a *account) error {
	balance, err := a.balance(context.Background())
	if err != nil {
		return err
	}
	paid := int(s.paid.Load())
	lost := opening + paid*deposit - balance
	if lost == 0 {
		s.tl.Line(timeline.Good, "%d and %d deposits of %d make %d: nothing is lost", opening, paid, deposit, balance)
		return nil
	}
	s.tl.Line(timeline.Bad, "%d and %d deposits of %d, but the balance is %d: %d lost", opening, paid, deposit, balance, lost)
	return nil
}
