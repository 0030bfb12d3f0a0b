package view

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/internal/jsapi"
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
	Viewer
}

// Viewer is what a terminal shows.
type Viewer interface {
	// view returns the current state, with the rows that contain the filter. trouble is the
	// error of the connection, if there is one.
	view(now time.Time, trouble error, filter string) view
}

// Tick is the time from one call of ticked to the next.
const Tick = 100 * time.Millisecond

// follow connects, and follows what begin chooses until SIGINT or SIGTERM, or q on a terminal.
func follow(g *front.Globals, begin func(context.Context, *inspect.Inspector, <-chan error) error) error {
	ctx, stop := g.UntilInterrupted()
	defer stop()
	s, links, err := inspectorUntil(ctx, g, func(error) {})
	if err == nil {
		defer s.Close()
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

// FollowAlways follows all elections of the bucket until ctx ends, also while NATS or the bucket is
// away. With asks it asks for the streams beside the bucket. connected gets each connection, and
// nil before the next one. An error means that the settings of the connection are wrong.
func FollowAlways(ctx context.Context, g *front.Globals, out Renderer, asks bool, connected func(*inspect.Inspector)) error {
	for ctx.Err() == nil {
		err := followConnected(ctx, g, out, asks, connected)
		if front.CodeOf(err) == front.ExitUsage {
			return err
		}
		if ctx.Err() == nil {
			out.NoteTrouble(g.Explain(err))
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
func followConnected(ctx context.Context, g *front.Globals, out Renderer, asks bool, connected func(*inspect.Inspector)) error {
	connected(nil)                                           // to connect may take a while
	s, links, err := inspectorUntil(ctx, g, out.NoteTrouble) // at once: the watcher first waits for the connection to come back
	if err != nil {
		return err
	}
	defer s.Close()
	connected(s)
	defer connected(nil)
	w := newWatcher(s, "", out)
	w.asks, w.maps, w.Groups = asks, make(map[string]mapEntry), make(map[string]int)
	return followUntil(ctx, s, out, source[jetstream.KeyValueEntry](w), links)
}

// followUntil follows a source until ctx ends.
func followUntil[E any](ctx context.Context, s *inspect.Inspector, out Renderer, from source[E], links <-chan error) error {
	defer from.close()
	if err := from.open(ctx); err != nil {
		return err
	}
	if err := out.begin(); err != nil {
		return err
	}
	defer out.end()
	ticker := time.NewTicker(Tick)
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
				err = out.Shown(s.Clock.Now(), from)
			}
		case <-ticker.C:
			if err = from.ticked(ctx); err == nil {
				err = out.Shown(s.Clock.Now(), from)
			}
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// inspectorUntil is New, but ends with ctx: the connect itself takes no context. The channel gets an error when the
// connection is lost, another one when it is not made again for another reason, and nil when it is. lost is called with
// the errors.
func inspectorUntil(ctx context.Context, g *front.Globals, lost func(error)) (*inspect.Inspector, <-chan error, error) {
	links := make(chan error, 1)
	changed := func(err error) { // only one goroutine of nats.go calls this
		if err != nil {
			lost(err)
		}
		select {
		case <-links: //nolint:errcheck // only the newest counts, and it is not left out
		default:
		}
		links <- err
	}
	because := ""
	down := func(_ *nats.Conn, err error) {
		if kind := jsapi.ConnErrorOf(err).Kind; kind != because {
			because = kind
			changed(fmt.Errorf("%w: the connection was lost%s", front.ErrUnreachable, lostBecause[kind]))
		}
	}
	type opening struct {
		s   *inspect.Inspector
		err error
	}
	opened := make(chan opening, 1)
	go func() {
		s, err := inspect.New(ctx, g,
			nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
				if err == nil { // it was closed, or moves to another server, because this one shows no majority
					changed(nil)
					return
				}
				down(nc, err)
			}),
			beside(down),
			nats.ReconnectHandler(func(*nats.Conn) {
				because = ""
				changed(nil)
			}))
		opened <- opening{s, err}
	}()
	select {
	case its := <-opened:
		return its.s, links, its.err
	case <-ctx.Done():
		go func() {
			if its := <-opened; its.err == nil {
				its.s.Close()
			}
		}()
		return nil, nil, ctx.Err()
	}
}

// Change is a change to report.
type Change interface {
	time() time.Time // the server's
	text() string    // for people
	object() any     // for programs
}

// errQuit ends the command in order.
var errQuit = errors.New("the user quits")

// Renderer prints what a source reports.
type Renderer interface {
	// begin is called before the first change is printed, and end after the last.
	begin() error
	end()
	// keys returns a channel of what the user types, or nil.
	keys() <-chan string
	// typed handles that. It returns errQuit when the user quits.
	typed(keys string) error
	// Changed gets changes in order of time.
	Changed(changes ...Change) error
	// Shown gets the whole state at every tick.
	Shown(now time.Time, of Viewer) error
	// NoteTrouble gets the error of the connection, or nil when it works again.
	NoteTrouble(err error)
}

// newRenderer returns a view on a terminal, and otherwise lines.
func newRenderer(g *front.Globals, asJSON, asLines bool) Renderer {
	switch {
	case asJSON:
		return jsonLines{newTextLines(g)}
	case asLines || !front.IsTerminal(g.Out()):
		return newTextLines(g)
	}
	return newLiveView()
}

// OffScreen is what a renderer without a terminal has in common with others.
type OffScreen struct{}

func (OffScreen) begin() error { return nil }

func (OffScreen) end() {}

func (OffScreen) keys() <-chan string { return nil }

func (OffScreen) typed(string) error { return nil }

// textLines prints a line for every change.
type textLines struct {
	OffScreen
	*front.LineLog
	out io.Writer
}

func newTextLines(g *front.Globals) textLines { return textLines{LineLog: g.NewLog(), out: g.Out()} }

func (l textLines) Changed(changes ...Change) error {
	lines := make([]string, len(changes))
	for i, c := range changes {
		lines[i] = c.time().Local().Format("2006-01-02 15:04:05.000") + "  " + c.text()
	}
	return front.PrintLines(l.out, lines)
}

func (textLines) Shown(time.Time, Viewer) error { return nil }

// jsonLines prints a line of JSON for every change.
type jsonLines struct{ textLines }

func (l jsonLines) Changed(changes ...Change) error {
	for _, c := range changes {
		if err := front.PrintJSON(l.out, c.object(), ""); err != nil {
			return err
		}
	}
	return nil
}

// beside lets down have the errors for which a connection is not made again, too.
func beside(down func(*nats.Conn, error)) nats.Option {
	return func(o *nats.Options) error {
		dial, other := o.ReconnectErrCB, o.AsyncErrorCB
		o.ReconnectErrCB = func(nc *nats.Conn, err error) {
			dial(nc, err)
			down(nc, err)
		}
		o.AsyncErrorCB = func(nc *nats.Conn, sub *nats.Subscription, err error) { // refused credentials come here only
			other(nc, sub, err)
			if !nc.IsConnected() && !errors.Is(err, nats.ErrPermissionViolation) {
				down(nc, err)
			}
		}
		return nil
	}
}

// lostBecause says for each kind of an error why there is no connection.
var lostBecause = map[string]string{
	"timeout": ": no server answers in time",
	"auth":    ": the servers refuse the credentials",
	"tls":     ": the handshake of TLS fails",
	"refused": ": no server takes it",
}
