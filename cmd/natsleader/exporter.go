package main

import (
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/choria-io/fisk"
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
	ctx, stop := g.untilInterrupted()
	defer stop()
	listener, err := g.listen(address)
	if err != nil {
		return err
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
		_, _ = fmt.Fprintf(g.errs(), "natsleader: serves http://%s\n", listener.Addr())
	}
	return g.followAlways(ctx, e, func(s *inspector) {
		if s == nil {
			e.ticked()
		}
	})
}
