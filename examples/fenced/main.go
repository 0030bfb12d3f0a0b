// Command fenced lets the NATS server refuse the writes of a leader that has been
// followed by another. Each leader writes its name to one key of a bucket, as fast
// as it can. Its worker never looks at the context that ends with the term.
//
// It runs two processes, as goroutines, against a NATS server of its own. The first
// part uses a guarded bucket, where only the leader can write. The second part uses
// plain Put, to show the loss of data. The command ends by itself.
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

	"github.com/natsleader/natsleader/examples/internal/embedded"
	"github.com/natsleader/natsleader/examples/internal/timeline"
)

// atMost is how long two terms may take.
const atMost = 30 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fenced:", err)
		os.Exit(1)
	}
}

// run shows the bucket with its guard, and without.
func run(ctx context.Context, getenv func(string) string, stdout io.Writer) (err error) {
	server, err := embedded.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	tl := timeline.New(stdout, timeline.Coloured(stdout, getenv))

	tl.Line(timeline.Bold, "a guarded bucket, and each leader writes with the writer of its term")
	if err := perform(ctx, tl, server.URL(), "orders", true); err != nil || ctx.Err() != nil {
		return err
	}
	tl.Line(timeline.Plain, "")
	tl.Line(timeline.Bold, "the same with plain Put")
	return perform(ctx, tl, server.URL(), "unguarded", false)
}

// perform lets two processes write until two terms have been seen.
func perform(interrupted context.Context, tl *timeline.Timeline, url, bucket string, guarded bool) error {
	ctx, end := context.WithTimeout(interrupted, atMost)
	defer end()
	s := &stage{tl: tl, end: end}
	s.refused, s.refuse = context.WithCancel(ctx)

	tl.Begin()
	g, ctx := errgroup.WithContext(ctx)
	for i := range 2 {
		p := &process{name: fmt.Sprintf("process-%d", i+1), bucket: bucket, guarded: guarded, stage: s}
		g.Go(func() error { return p.run(ctx, url) })
	}
	err := g.Wait()
	switch {
	case interrupted.Err() != nil:
		return nil
	case err != nil:
		return err
	case errors.Is(s.refused.Err(), context.DeadlineExceeded):
		return fmt.Errorf("two terms took longer than %v", atMost)
	case s.read == s.wrote:
		tl.Line(timeline.Good, "what the leader wrote stands")
	default:
		tl.Line(timeline.Bad, "what the leader wrote is lost: %s wrote over it, and leads no more", s.read)
	}
	return nil
}
