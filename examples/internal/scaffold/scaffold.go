// Package scaffold has what the examples need around their subject: a NATS server, several
// processes as goroutines, output, and an end at Ctrl-C. A service has nothing like it.
package scaffold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/examples/internal/embedded"
	"github.com/natsleader/natsleader/examples/internal/timeline"
)

// Example is an example.
type Example struct {
	Name string
	// Visits has the example use the server at NATS_URL, if that is set, in place of a
	// server of its own.
	Visits bool
	// Run is what the example shows. It ends with ctx.
	Run func(ctx context.Context, s *Scaffold) error
}

// Scaffold is what an example stands on.
type Scaffold struct {
	*timeline.Timeline
	URL     string // of the server
	Visitor bool   // the server is that of NATS_URL
}

// Main is the main function of an example. SIGINT and SIGTERM end the context of Run.
func (e Example) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := e.Start(ctx, os.Getenv, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", e.Name, err)
		os.Exit(1)
	}
}

// Start runs the example, with a server of its own unless it visits another.
func (e Example) Start(ctx context.Context, getenv func(string) string, stdout io.Writer) (err error) {
	s := &Scaffold{Timeline: timeline.New(stdout, timeline.Coloured(stdout, getenv))}
	if e.Visits {
		s.URL = getenv("NATS_URL")
	}
	if s.Visitor = s.URL != ""; !s.Visitor {
		var server *embedded.Server
		if server, err = embedded.Start(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, server.Close()) }()
		s.URL = server.URL()
	}
	return e.Run(ctx, s)
}

// Process is one process of a service, with a connection of its own.
type Process func(ctx context.Context, name string, js jetstream.JetStream) error

// Connect runs a process.
func (s *Scaffold) Connect(ctx context.Context, name string, run Process) error {
	nc, err := nats.Connect(s.URL, nats.Name(name), nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("%s: %w", s.URL, err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return run(ctx, name, js)
}

// ConnectSeveral runs n processes of the names base-1 to base-n, until all have ended. The
// first error ends the context of the others.
func (s *Scaffold) ConnectSeveral(ctx context.Context, n int, base string, run Process) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range n {
		g.Go(func() error { return s.Connect(ctx, fmt.Sprintf("%s-%d", base, i+1), run) })
	}
	return g.Wait()
}
