// Command worker runs a crew of workers on the replica that leads, and only
// there. A replica that steps down keeps the lease until its last worker has
// finished what it had begun; then the next replica takes over.
//
// It runs three replicas against a NATS server of its own, or the one at
// NATS_URL, lets each leader resign after four seconds, and ends after ten. In a
// service every replica is a process, and serve is what it runs.
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
	duration = 10 * time.Second // of the example
	tenure   = 4 * time.Second  // after which a leader resigns, to show a handover
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// run runs three replicas until the time is up or ctx ends.
func run(ctx context.Context, getenv func(string) string, stdout io.Writer) (err error) {
	url := getenv("NATS_URL")
	if url == "" {
		var server *embedded.Server
		if server, err = embedded.Start(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		url = server.URL()
	}
	ctx, cancel := context.WithTimeout(ctx, duration)
	defer cancel()

	tl := timeline.New(stdout, timeline.Coloured(stdout, getenv))
	tl.Line(timeline.Bold, "three replicas on %s, for %v", url, duration)
	tl.Begin()
	g, ctx := errgroup.WithContext(ctx)
	for i := range 3 {
		r := &replica{name: fmt.Sprintf("replica-%d", i+1), tl: tl}
		g.Go(func() error { return r.run(ctx, url) })
	}
	return g.Wait()
}

// replica is one process of a service.
type replica struct {
	name string
	tl   *timeline.Timeline
}

// run connects and serves until ctx ends.
func (r *replica) run(ctx context.Context, url string) error {
	nc, err := nats.Connect(url, nats.Name(r.name), nats.MaxReconnects(-1))
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
	return r.serve(ctx, bucket)
}
