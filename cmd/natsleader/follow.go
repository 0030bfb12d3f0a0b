package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/term"
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
	// view returns the current state. trouble is the error of the connection, if there is one.
	view(now time.Time, trouble error) view
}

// tick is the time from one call of ticked to the next.
const tick = 100 * time.Millisecond

// follow connects, and follows a source until SIGINT or SIGTERM.
func follow[E any](g *globals, out renderer, newSource func(*inspector) source[E]) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	links := make(chan error, 2)
	changed := func(err error) {
		select {
		case links <- err:
		default: // the connection comes and goes
		}
	}
	s, err := g.inspectorUntil(ctx,
		nats.DisconnectErrHandler(func(*nats.Conn, error) { changed(fmt.Errorf("%w: the connection was lost", errUnreachable)) }),
		nats.ReconnectHandler(func(*nats.Conn) { changed(nil) }))
	if err == nil {
		defer s.close()
		err = followUntil(ctx, s, out, newSource(s), links)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// followUntil follows a source until ctx ends.
func followUntil[E any](ctx context.Context, s *inspector, out renderer, from source[E], links <-chan error) error {
	defer from.close()
	if err := from.open(ctx); err != nil {
		return err
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		var err error
		select {
		case e, more := <-from.updates():
			err = from.update(e, more)
		case link := <-links:
			from.connection(link)
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

// change is a change to report.
type change interface {
	time() time.Time // the server's
	text() string    // for people
	object() any     // for programs
}

// renderer prints what a source reports.
type renderer interface {
	// changed gets changes in order of time.
	changed(changes ...change) error
	// shown gets the whole state at every tick.
	shown(now time.Time, of viewer) error
	// trouble gets the error of the connection, or nil when it works again.
	trouble(err error)
}

// newRenderer returns a view on a terminal, and otherwise lines.
func newRenderer(asJSON, asLines bool) renderer {
	switch {
	case asJSON:
		return jsonLines{}
	case asLines || !term.IsTerminal(int(os.Stdout.Fd())):
		return textLines{}
	}
	return &liveView{}
}

// textLines prints a line for every change.
type textLines struct{}

func (textLines) changed(changes ...change) error {
	lines := make([]string, len(changes))
	for i, c := range changes {
		lines[i] = c.time().Local().Format("2006-01-02 15:04:05.000") + "  " + c.text()
	}
	return printLines(os.Stdout, lines)
}

func (textLines) shown(time.Time, viewer) error { return nil }

func (textLines) trouble(err error) {
	if err == nil {
		fmt.Fprintln(os.Stderr, "natsleader: connected again")
		return
	}
	fmt.Fprintf(os.Stderr, "natsleader: %s; trying again\n", errorText(err))
}

// jsonLines prints a line of JSON for every change.
type jsonLines struct{ textLines }

func (jsonLines) changed(changes ...change) error {
	for _, c := range changes {
		if err := printJSON(os.Stdout, c.object(), ""); err != nil {
			return err
		}
	}
	return nil
}

// liveView draws a view on a terminal again every second, and after every change.
type liveView struct {
	err     error // of the connection
	drawn   time.Time
	fresh   bool // nothing has changed since
	cleared bool // the terminal, before the first view
}

func (l *liveView) changed(...change) error {
	l.fresh = false
	return nil
}

func (l *liveView) trouble(err error) { l.err, l.fresh = err, false }

func (l *liveView) shown(now time.Time, of viewer) error {
	if l.fresh && l.drawn.Truncate(time.Second).Equal(now.Truncate(time.Second)) {
		return nil
	}
	l.drawn, l.fresh = now, true
	width, height, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	var b strings.Builder
	if !l.cleared {
		l.cleared = true
		b.WriteString("\x1b[2J")
	}
	b.WriteString("\x1b[H")
	for _, line := range of.view(now, l.err).lines(width, height-1) { // the last line is for the cursor
		b.WriteString(line)
		b.WriteString("\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	_, err = os.Stdout.WriteString(b.String())
	return err
}

// view is a head and a table, for a terminal.
type view struct {
	head  string
	table [][]string
	spare int // the column to leave out if the table is too wide; 0: none
}

// lines returns at most height lines.
func (v view) lines(width, height int) []string {
	const head, rest = 2, 1 // the head and a line below it, and the line about the rest
	rows := v.table
	if len(rows)+head > height {
		rows = rows[:max(1, height-head-rest)]
	}
	table := columns(rows)
	if v.spare > 0 && slices.ContainsFunc(table, func(s string) bool { return cells(s) > width }) {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], v.spare, v.spare+1)
		}
		table = columns(rows)
	}
	lines := append([]string{v.head, ""}, table...)
	for i := range lines {
		lines[i] = shorten(lines[i], width)
	}
	if more := len(v.table) - len(rows); more > 0 {
		lines = append(lines, fmt.Sprintf("… and %d more", more))
	}
	return lines
}
