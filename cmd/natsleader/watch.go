package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats.go"
	"golang.org/x/term"
)

const watchHelp = `On a terminal it shows a view that is kept up to date. Otherwise, and with
--timeline, it prints a line whenever the leader of an election or what it
publishes has changed, beginning with what is found. Times are the server's.

It ends with exit code 0 at SIGINT or SIGTERM.

  natsleader watch billing
  natsleader watch --json | jq -r 'select(.state == "leading") | .election + " " + .id'`

func registerWatch(app *fisk.Application, g *globals) {
	var election string
	var asJSON, timeline bool
	cmd := app.Command("watch", "Show who leads as it changes").HelpLong(watchHelp)
	cmd.Arg("election", "Election to watch; all of the bucket by default").HintAction(g.electionNames).StringVar(&election)
	cmd.Flag("json", "Print one line of JSON for every change").Short('j').UnNegatableBoolVar(&asJSON)
	cmd.Flag("timeline", "Print a line for every change on a terminal, too").UnNegatableBoolVar(&timeline)
	cmd.Action(func(*fisk.ParseContext) error {
		var o renderer
		switch {
		case asJSON:
			o = jsonLines{}
		case timeline || !term.IsTerminal(int(os.Stdout.Fd())):
			o = timelineLines{}
		default:
			o = &liveView{bucket: g.bucket}
		}
		return g.watch(election, o)
	})
}

func (g *globals) watch(election string, o renderer) error {
	if election != "" {
		if err := checkElection(election); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cut := make(chan struct{}, 1)
	tell := func() {
		select {
		case cut <- struct{}{}:
		default:
		}
	}
	s, err := g.inspectorUntil(ctx,
		nats.DisconnectErrHandler(func(*nats.Conn, error) { tell() }),
		nats.ReconnectHandler(func(*nats.Conn) { tell() }))
	if err == nil {
		defer s.close()
		err = newFollower(s, g.timeout, election, cut, o).run(ctx)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// inspectorUntil is newInspector, but ends with ctx: the connect itself takes no context.
func (g *globals) inspectorUntil(ctx context.Context, opts ...nats.Option) (*inspector, error) {
	type opening struct {
		s   *inspector
		err error
	}
	opened := make(chan opening, 1)
	go func() {
		s, err := g.newInspector(ctx, opts...)
		opened <- opening{s, err}
	}()
	select {
	case its := <-opened:
		return its.s, its.err
	case <-ctx.Done():
		return nil, ctx.Err() // the process ends, and with it the connect
	}
}

// renderer receives the changes that a watcher finds.
type renderer interface {
	// told gets changes in order of time.
	told(changes []change) error
	// shown gets the whole state, now and then.
	shown(f *watcher) error
	// trouble gets the error of the connection, or nil when it works again.
	trouble(err error)
}

// timelineLines prints a line for every change.
type timelineLines struct{}

func (timelineLines) told(changes []change) error {
	rows := make([]string, len(changes))
	for i, c := range changes {
		rows[i] = fmt.Sprintf("%s  %s  %s", c.at.Local().Format("2006-01-02 15:04:05.000"), printable(c.now.election), c.text())
	}
	return printLines(os.Stdout, rows)
}

func (timelineLines) shown(*watcher) error { return nil }

func (timelineLines) trouble(err error) { printTrouble(err) }

// jsonLines prints a line of JSON for every change.
type jsonLines struct{}

func (jsonLines) told(changes []change) error {
	for _, c := range changes {
		if err := printJSON(os.Stdout, c.summary(), ""); err != nil {
			return err
		}
	}
	return nil
}

func (jsonLines) shown(*watcher) error { return nil }

func (jsonLines) trouble(err error) { printTrouble(err) }

func printTrouble(err error) {
	if err == nil {
		fmt.Fprintln(os.Stderr, "natsleader: connected again")
		return
	}
	fmt.Fprintf(os.Stderr, "natsleader: %s; trying again\n", errorText(err))
}
