// Command cron runs a job every two seconds on exactly one of any number of
// processes: on the one that leads.
//
// Without arguments it runs three processes, as goroutines with a connection
// each, against a NATS server of its own. Halfway the leader hands over, and a
// run of its term that comes late is refused. It ends after ten seconds. With
// NATS_URL it is one process that uses that server and runs until Ctrl-C: start
// as many as you like.
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

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/examples/internal/embedded"
	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/leader"
)

const (
	bucketName = "natsleader-examples"
	every      = 2 * time.Second
	duration   = 10 * time.Second // of the example, if it has a server of its own
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cron:", err)
		os.Exit(1)
	}
}

// run is one process at NATS_URL, or three on a server of their own.
func run(ctx context.Context, getenv func(string) string, stdout io.Writer) (err error) {
	tl := timeline.New(stdout, timeline.Coloured(stdout, getenv))
	if url := getenv("NATS_URL"); url != "" {
		tl.Line(timeline.Bold, "a job every %v on one of the processes at %s; Ctrl-C ends this one", every, url)
		tl.Begin()
		p := &process{name: fmt.Sprintf("pid-%d", os.Getpid()), tl: tl}
		return p.run(ctx, url)
	}

	server, err := embedded.Start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	tl.Line(timeline.Bold, "a job every %v on one of three processes, for %v", every, duration)
	tl.Begin()
	g, ctx := errgroup.WithContext(ctx)
	for i := range 3 {
		p := &process{name: fmt.Sprintf("cron-%d", i+1), tl: tl, tenure: duration / 2}
		g.Go(func() error { return p.run(ctx, server.URL()) })
	}
	return g.Wait()
}

// process is one of the processes that may run the job.
type process struct {
	name   string
	tl     *timeline.Timeline
	tenure time.Duration // after which it hands over, for the show; 0: never
	ledger *ledger
}

// run connects and stands in the election until ctx ends.
func (p *process) run(ctx context.Context, url string) error {
	nc, err := nats.Connect(url, nats.Name(p.name), nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	bucket, err := leader.CreateBucket(ctx, js, leader.BucketConfig{Name: bucketName})
	if err != nil {
		return err
	}
	if p.ledger, err = openLedger(ctx, js); err != nil {
		return err
	}
	return p.serve(ctx, bucket)
}
