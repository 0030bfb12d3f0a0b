// Command playground shows an election in a browser, to break it.
//
// It starts a NATS server of its own and five candidates in processes of their own, and
// serves a page on this host. For each candidate the page has buttons: resign, kill, freeze
// and thaw, and what its link does. Others stop the server, delete the key and change the
// lease. The page explains what happens and why it is safe. All the while the playground
// checks what the library promises, and the page shows a red banner if a promise is broken.
//
//	go run ./examples/playground
//
// Ctrl-C ends it. Where a system cannot freeze processes, there are no buttons for it.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"

	"github.com/nats-io/nats.go/jetstream"
)

//go:embed page
var pageFiles embed.FS

// roleVariable is set for the processes of candidates.
const roleVariable = "NATSLEADER_PLAYGROUND_CANDIDATE"

func main() {
	if isCandidate() {
		os.Exit(candidate())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// isCandidate reports whether this is the process of a candidate: see start.
func isCandidate() bool {
	return len(os.Args) == 5 && os.Args[1] == "candidate" && os.Getenv(roleVariable) != ""
}

// candidate is the program of a candidate's process: it returns its exit code.
func candidate() int {
	lease, err := time.ParseDuration(os.Args[4])
	if err == nil {
		err = stand(os.Args[2], os.Args[3], lease, os.Stdin, os.Stdout)
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// run is the program: it returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("playground", flag.ContinueOnError)
	flags.SetOutput(stderr)
	address := flags.String("http", "127.0.0.1:9849", "`address` to serve the page on; port 0 takes any that is free")
	lease := flags.Duration("lease", defaultLease, "lease of the candidates to begin with")
	quiet := flags.Bool("quiet", false, "do not open the page in the browser")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() > 0:
		_, _ = fmt.Fprintf(stderr, "playground: unexpected argument %q\n", flags.Arg(0))
		return 2
	case *lease < leastLease || *lease > longestLease:
		_, _ = fmt.Fprintf(stderr, "playground: -lease %v is not from %v to %v\n", *lease, leastLease, longestLease)
		return 2
	}
	sound, err := play(ctx, *address, *lease, !*quiet, stdout)
	switch {
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "playground:", err)
		return 1
	case !sound:
		return 1
	}
	return 0
}

// play serves the page until ctx ends. It returns whether all promises were kept.
func play(ctx context.Context, address string, lease time.Duration, browse bool, stdout io.Writer) (sound bool, err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false, fmt.Errorf("-http %s: %w", address, err)
	}
	defer func() { _ = l.Close() }()
	if !webpage.IsLoopback(l.Addr()) {
		return false, fmt.Errorf("-http %s: whoever opens the page can kill processes of this host, so the playground listens on a loopback address only", address)
	}
	p, err := open(ctx, lease)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	handler, err := p.page(ctx, l.Addr())
	if err != nil {
		return false, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	go p.watchKey(ctx)
	url := "http://" + l.Addr().String()
	_, _ = fmt.Fprintf(stdout, "The playground is at %s; Ctrl-C ends it.\n", url)
	if browse {
		openBrowser(url)
	}
	<-ctx.Done()
	_ = server.Close()
	err = p.close() // candidates check some promises when they end
	p.mu.Lock()
	checks, broken := p.judge.checks, p.judge.broken
	p.mu.Unlock()
	for _, b := range broken {
		_, _ = fmt.Fprintln(stdout, "BROKEN:", b)
	}
	_, _ = fmt.Fprintf(stdout, "%d checks, %d promises broken\n", checks, len(broken))
	return len(broken) == 0, err
}

// page returns the page of natsleader serve with a panel.
func (p *playground) page(ctx context.Context, address net.Addr) (http.Handler, error) {
	panel, err := fs.Sub(pageFiles, "page")
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(p.nc)
	if err != nil {
		return nil, err
	}
	bucket, err := leader.OpenBucket(js, bucketName)
	if err != nil {
		return nil, err
	}
	return webpage.New(ctx, p.state, webpage.Options{
		Title: "Playground of natsleader: bucket", Bucket: bucketName, Program: "the playground", Version: "from source",
		Address: address, AllowHost: "the playground is for this host alone",
		Roster: func(ctx context.Context, election string) (<-chan []roster.Entry, error) {
			return roster.Observe(ctx, bucket, election)
		},
		Actions: map[string]webpage.Action{"do": p.act},
		Open:    electionName, Panel: panel, Feed: p.feed,
	})
}
