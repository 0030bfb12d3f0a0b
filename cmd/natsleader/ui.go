package main

import (
	"context"
	"errors"
	"fmt"
	"net"
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

const uiHelp = `It serves a page that shows the elections of a bucket as they change: open it in a
browser. It needs the permissions of watch. The page is read-only without
--allow-actions.

It listens on this host alone by default. Whoever can reach another address sees
the elections and what their leaders publish, and with --allow-actions can ask
leaders to hand over: put a proxy with a login before it, and name its host with
--allow-host.

It goes on while NATS or the bucket is away, and the page says so. It ends with exit
code 0 at SIGINT or SIGTERM.

  natsleader ui
  natsleader ui --allow-actions --http 127.0.0.1:9900`

// ui serves the page.
type ui struct {
	*globals
	address string
	hosts   []string
	actions bool
}

func registerUI(app *fisk.Application, g *globals) {
	u := &ui{globals: g}
	cmd := app.Command("ui", "Serve a page that shows elections as they change").HelpLong(uiHelp)
	cmd.Flag("http", "Address to serve the page on").Default("127.0.0.1:9848").PlaceHolder("ADDRESS").StringVar(&u.address)
	cmd.Flag("allow-actions", "Let the page ask leaders to hand over").UnNegatableBoolVar(&u.actions)
	cmd.Flag("allow-host", "Host name by which a proxy asks for the page; may be repeated").PlaceHolder("NAME").StringsVar(&u.hosts)
	cmd.Action(func(*fisk.ParseContext) error {
		if _, _, err := net.SplitHostPort(u.address); err != nil {
			return usagef("--http %s: an address with a port, like 127.0.0.1:9848: %w", u.address, err)
		}
		return u.serve()
	})
}

// serve serves the page until SIGINT or SIGTERM.
func (u *ui) serve() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := jsapi.CheckBucketName(u.bucket); err != nil {
		return err
	}
	if _, err := u.load(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", u.address)
	if err != nil {
		return fmt.Errorf("--http %s: %w", u.address, err)
	}
	defer func() { _ = listener.Close() }()
	state := newUIState(u.bucket)
	page, err := newUIPage(ctx, state, listener.Addr(), u.hosts, u.actions)
	if err != nil {
		return err
	}
	serveHTTP(listener, page)
	if !isLoopback(listener.Addr()) {
		who := "sees these elections and what their leaders publish"
		if u.actions {
			who += ", and can ask the leaders to hand over"
		}
		fmt.Fprintf(os.Stderr, "natsleader: %s is not on this host alone: whoever can reach it %s\n", listener.Addr(), who)
	}
	fmt.Fprintf(os.Stderr, "natsleader: serves http://%s\n", shownAddress(listener.Addr()))
	for ctx.Err() == nil {
		err := u.followUntil(ctx, state)
		if codeOf(err) == exitUsage {
			return err
		}
		if ctx.Err() == nil {
			state.trouble(u.explain(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(reopen):
		}
	}
	return nil
}

// followUntil connects, and keeps the state up to date until ctx ends. The watcher opens
// its feed again by itself. An error means that it could not begin.
func (u *ui) followUntil(ctx context.Context, state *uiState) error {
	links := make(chan error, 2)
	changed := func(err error) {
		select {
		case links <- err:
		default: // the connection comes and goes
		}
	}
	s, err := u.inspectorUntil(ctx,
		nats.DisconnectErrHandler(func(nc *nats.Conn, _ error) {
			if !nc.IsClosed() {
				changed(errors.New("the connection was lost"))
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) { changed(nil) }))
	if err != nil {
		return err
	}
	defer s.close()
	state.connected(s)
	defer state.connected(nil)
	return followUntil(ctx, s, state, source[jetstream.KeyValueEntry](newWatcher(s, "", state)), links)
}

// isLoopback reports whether only this host can connect to an address.
func isLoopback(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// shownAddress returns an address that a browser on this host can open.
func shownAddress(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", fmt.Sprint(tcp.Port))
	}
	return strings.TrimSpace(a.String())
}
