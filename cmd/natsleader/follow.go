package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// source is something to follow: the elections of a bucket, or the roster of one. It
// reports its changes to a renderer. E is the type of its updates.
type source[E any] interface {
	// open returns an error that ends the command. Later the source tries again.
	open(ctx context.Context) error
	close()
	// updates returns a channel of updates, or nil while there is none.
	updates() <-chan E
	// update handles an update. The channel was closed unless more is true.
	update(e E, more bool) error
	// connection handles the loss of the connection, or with nil its return.
	connection(err error)
	// ticked handles the passage of time.
	ticked(ctx context.Context) error
	viewer
}

// viewer is what a terminal shows.
type viewer interface {
	// view returns the current state, with the rows that contain the filter. trouble is the
	// error of the connection, if there is one.
	view(now time.Time, trouble error, filter string) view
}

// tick is the time from one call of ticked to the next.
const tick = 100 * time.Millisecond

// follow connects, and follows what begin chooses until SIGINT or SIGTERM, or q on a terminal.
func (g *globals) follow(begin func(context.Context, *inspector, <-chan error) error) error {
	ctx, stop := g.untilInterrupted()
	defer stop()
	s, links, err := g.inspectorUntil(ctx, func() error { return fmt.Errorf("%w: the connection was lost", errUnreachable) })
	if err == nil {
		defer s.close()
		err = begin(ctx, s, links)
		if errors.Is(err, errQuit) {
			return nil
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// followAlways follows all elections of the bucket until ctx ends, also while NATS or the bucket is
// away. With beside it asks for the streams beside the bucket. connected gets each connection, and
// nil before the next one. An error means that the settings of the connection are wrong.
func (g *globals) followAlways(ctx context.Context, out renderer, beside bool, connected func(*inspector)) error {
	for ctx.Err() == nil {
		err := g.followConnected(ctx, out, beside, connected)
		if codeOf(err) == exitUsage {
			return err
		}
		if ctx.Err() == nil {
			out.trouble(g.explain(err))
		}
		select {
		case <-ctx.Done():
		case <-time.After(reopen):
		}
	}
	return nil
}

// followConnected connects, and follows all elections until ctx ends. The watcher opens its feed
// again by itself. An error means that it could not begin.
func (g *globals) followConnected(ctx context.Context, out renderer, beside bool, connected func(*inspector)) error {
	connected(nil) // to connect may take a while
	s, links, err := g.inspectorUntil(ctx, func() error {
		lost := errors.New("the connection was lost")
		out.trouble(lost) // at once: the watcher first waits for the connection to come back
		return lost
	})
	if err != nil {
		return err
	}
	defer s.close()
	connected(s)
	defer connected(nil)
	w := newWatcher(s, "", out)
	w.asks = beside
	return followUntil(ctx, s, out, source[jetstream.KeyValueEntry](w), links)
}

// followUntil follows a source until ctx ends.
func followUntil[E any](ctx context.Context, s *inspector, out renderer, from source[E], links <-chan error) error {
	defer from.close()
	if err := from.open(ctx); err != nil {
		return err
	}
	if err := out.begin(); err != nil {
		return err
	}
	defer out.end()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		var err error
		select {
		case e, more := <-from.updates():
			err = from.update(e, more)
		case link := <-links:
			from.connection(link)
		case typed := <-out.keys():
			if err = out.typed(typed); err == nil {
				err = out.shown(s.clock.now(), from)
			}
		case <-ticker.C:
			if err = from.ticked(ctx); err == nil {
				err = out.shown(s.clock.now(), from)
			}
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// inspectorUntil is newInspector, but ends with ctx: the connect itself takes no context. The channel
// gets what lost returns when the connection is lost, and nil when it returns.
func (g *globals) inspectorUntil(ctx context.Context, lost func() error) (*inspector, <-chan error, error) {
	links := make(chan error, 2)
	changed := func(err error) {
		select {
		case links <- err:
		default: // the connection comes and goes
		}
	}
	type opening struct {
		s   *inspector
		err error
	}
	opened := make(chan opening, 1)
	go func() {
		s, err := g.newInspector(ctx,
			nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
				if err != nil { // nil: it was closed, or moves to another server, because this one shows no majority
					err = lost()
				}
				changed(err)
			}),
			nats.ReconnectHandler(func(*nats.Conn) { changed(nil) }))
		opened <- opening{s, err}
	}()
	select {
	case its := <-opened:
		return its.s, links, its.err
	case <-ctx.Done():
		go func() {
			if its := <-opened; its.err == nil {
				its.s.close()
			}
		}()
		return nil, nil, ctx.Err()
	}
}

// change is a change to report.
type change interface {
	time() time.Time // the server's
	text() string    // for people
	object() any     // for programs
}

// errQuit ends the command in order.
var errQuit = errors.New("the user quits")

// renderer prints what a source reports.
type renderer interface {
	// begin is called before the first change is printed, and end after the last.
	begin() error
	end()
	// keys returns a channel of what the user types, or nil.
	keys() <-chan string
	// typed handles that. It returns errQuit when the user quits.
	typed(keys string) error
	// changed gets changes in order of time.
	changed(changes ...change) error
	// shown gets the whole state at every tick.
	shown(now time.Time, of viewer) error
	// trouble gets the error of the connection, or nil when it works again.
	trouble(err error)
}

// newRenderer returns a view on a terminal, and otherwise lines.
func (g *globals) newRenderer(asJSON, asLines bool) renderer {
	switch {
	case asJSON:
		return jsonLines{g.newTextLines()}
	case asLines || !isTerminal(g.out()):
		return g.newTextLines()
	}
	return newLiveView()
}

// offScreen is what a renderer without a terminal has in common with others.
type offScreen struct{}

func (offScreen) begin() error        { return nil }
func (offScreen) end()                {}
func (offScreen) keys() <-chan string { return nil }
func (offScreen) typed(string) error  { return nil }

// textLines prints a line for every change.
type textLines struct {
	offScreen
	*lineLog
	out io.Writer
}

func (g *globals) newTextLines() textLines { return textLines{lineLog: g.newLog(), out: g.out()} }

func (l textLines) changed(changes ...change) error {
	lines := make([]string, len(changes))
	for i, c := range changes {
		lines[i] = c.time().Local().Format("2006-01-02 15:04:05.000") + "  " + c.text()
	}
	return printLines(l.out, lines)
}

func (textLines) shown(time.Time, viewer) error { return nil }

// jsonLines prints a line of JSON for every change.
type jsonLines struct{ textLines }

func (l jsonLines) changed(changes ...change) error {
	for _, c := range changes {
		if err := printJSON(l.out, c.object(), ""); err != nil {
			return err
		}
	}
	return nil
}
