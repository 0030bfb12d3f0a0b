package main

import (
	"crypto/rand"
	"fmt"
	"net"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/internal/webpage"
)

const uiHelp = `It serves a page that shows the elections of a bucket as they change: open it in a
browser. It needs the permissions of watch. The page is read-only without
--allow-actions.

With --allow-actions it prints a link with a secret, which is new at each start. A
user who opens the page by that link can ask leaders to hand over. For all other users
the page is read-only.

It listens on this host alone by default. At another address every client that can
connect sees the elections and what their leaders publish: put a proxy with a login
before it, and name its host with --allow-host. The link works with the address of
the proxy as well.

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
	ctx, stop := u.untilInterrupted()
	defer stop()
	listener, err := u.listen(u.address)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }()
	state := &uiState{State: webpage.NewState()}
	o := webpage.Options{
		Title: "Elections in bucket", Bucket: u.bucket, Program: "natsleader ui", Version: version().Version,
		Address: listener.Addr(), Hosts: u.hosts, AllowHost: "natsleader ui --allow-host NAME allows one", Roster: state.roster,
	}
	if u.actions {
		o.Actions, o.Secret = state.actions(), rand.Text()
	}
	handler, err := webpage.New(ctx, state.State, o)
	if err != nil {
		return err
	}
	serveHTTP(listener, handler)
	if !webpage.IsLoopback(listener.Addr()) {
		_, _ = fmt.Fprintf(u.errs(), "natsleader: %s is not on this host alone: every client that can connect sees these elections and what their leaders publish\n", listener.Addr())
	}
	address := "http://" + shownAddress(listener.Addr())
	_, _ = fmt.Fprintf(u.errs(), "natsleader: serves %s\n", address)
	if u.actions {
		_, _ = fmt.Fprintf(u.errs(), "natsleader: %s is the link for users who may ask leaders to hand over\n", webpage.Link(address, o.Secret))
	}
	return u.followAlways(ctx, state, state.connected)
}

// shownAddress returns an address that a browser on this host can open.
func shownAddress(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", fmt.Sprint(tcp.Port))
	}
	return a.String()
}
