package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/jsapi"
)

const exporterHelp = `It serves metrics for Prometheus of all elections of a bucket, also of those
whose candidates are all dead: /metrics, and /live and /connected for health
checks. It needs the permissions of watch. One exporter for each bucket is
enough, and a second one does no harm.

It goes on while NATS or the bucket is away, and then serves
natsleader_bucket_up 0 without elections. It ends with exit code 0 at SIGINT or
SIGTERM.

  natsleader exporter --http :9847`

func registerExporter(app *fisk.Application, g *globals) {
	var address string
	var most int
	cmd := app.Command("exporter", "Serve metrics of all elections of a bucket").HelpLong(exporterHelp)
	cmd.Flag("http", "Address to serve /metrics, /live and /connected on").Default(":9847").PlaceHolder("ADDRESS").StringVar(&address)
	cmd.Flag("max-elections", "Elections that get metrics at most; the others are counted").Default("10000").IntVar(&most)
	cmd.Action(func(*fisk.ParseContext) error {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return usagef("--http %s: an address with a port, like :9847: %w", address, err)
		}
		if most < 1 {
			return usagef("--max-elections %d is less than 1", most)
		}
		return g.export(address, most)
	})
}

// export serves metrics until SIGINT or SIGTERM.
func (g *globals) export(address string, most int) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := jsapi.CheckBucketName(g.bucket); err != nil {
		return err
	}
	if _, err := g.load(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("--http %s: %w", address, err)
	}
	defer func() { _ = listener.Close() }()
	e := newElectionMetrics(g.bucket, most)
	page, err := metricsPage(e)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", page)
	mux.HandleFunc("/live", e.live)
	mux.HandleFunc("/connected", e.connected)
	serveHTTP(listener, mux)
	if strings.HasSuffix(address, ":0") {
		fmt.Fprintf(os.Stderr, "natsleader: serves http://%s\n", listener.Addr())
	}
	for ctx.Err() == nil {
		err := g.exportUntil(ctx, e)
		if codeOf(err) == exitUsage {
			return err
		}
		if ctx.Err() == nil {
			e.trouble(g.explain(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(reopen):
		}
	}
	return nil
}

// exportUntil connects, and keeps the metrics up to date until ctx ends. The watcher opens
// its feed again by itself. An error means that it could not begin.
func (g *globals) exportUntil(ctx context.Context, e *electionMetrics) error {
	links := make(chan error, 2)
	changed := func(err error) {
		select {
		case links <- err:
		default: // the connection comes and goes
		}
	}
	e.ticked() // to connect may take a while
	s, err := g.inspectorUntil(ctx,
		nats.DisconnectErrHandler(func(nc *nats.Conn, _ error) {
			if nc.IsClosed() {
				return // by the exporter, for another reason
			}
			lost := errors.New("the connection was lost")
			e.trouble(lost) // at once: the watcher first waits for the connection to come back
			changed(lost)
		}),
		nats.ReconnectHandler(func(*nats.Conn) { changed(nil) }))
	if err != nil {
		return err
	}
	defer s.close()
	return followUntil(ctx, s, e, source[jetstream.KeyValueEntry](newWatcher(s, "", e)), links)
}
