package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"reflect"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/term"

	"github.com/natsleader/natsleader/leader"
)

// together is how long changes are collected before they are reported. A handover
// changes the leader and the candidates, one after the other.
const together = 100 * time.Millisecond

// watchRoster shows a roster until SIGINT or SIGTERM.
func (g *globals) watchRoster(election string, asJSON bool) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	links := make(chan error, 2)
	tell := func(err error) {
		select {
		case links <- err:
		default: // the connection comes and goes
		}
	}
	s, err := g.inspectorUntil(ctx,
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { tell(fmt.Errorf("%w: the connection was lost", errUnreachable)) }),
		nats.ReconnectHandler(func(*nats.Conn) { tell(nil) }))
	if err == nil {
		defer s.close()
		err = s.followRoster(ctx, g.timeout, election, rosterShow(asJSON), links)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// rosterRenderer receives the changes of a roster.
type rosterRenderer interface {
	changed(r roster, at time.Time) error
	// passed is called every second.
	passed(at time.Time) error
	// trouble gets the error of the connection, or nil when it works again.
	trouble(err error)
}

func rosterShow(asJSON bool) rosterRenderer {
	switch {
	case asJSON:
		return rosterJSON{}
	case term.IsTerminal(int(os.Stdout.Fd())):
		return &rosterView{}
	}
	return rosterLines{}
}

// followRoster reports the roster as it is, and then each change.
func (s *inspector) followRoster(ctx context.Context, limit time.Duration, election string, o rosterRenderer, links <-chan error) error {
	now, err := s.readRoster(ctx, limit, election) // fails if a permission is missing
	if err != nil {
		return err
	}
	holders, err := leader.Observe(ctx, s.bucket, election)
	if err != nil {
		return err
	}
	rosters, err := leader.ObserveRoster(ctx, s.bucket, election)
	if err != nil {
		return err
	}
	if err = o.changed(now, s.clock.now()); err != nil {
		return err
	}
	told := now
	seconds := time.NewTicker(time.Second)
	defer seconds.Stop()
	settled := time.NewTimer(together)
	for {
		open := true
		select {
		case now.holder, open = <-holders:
			settled.Reset(together)
		case now.candidates, open = <-rosters:
			settled.Reset(together)
		case <-settled.C:
			if !now.same(told) {
				told, err = now, o.changed(now, s.clock.now())
			}
		case <-seconds.C:
			err = o.passed(s.clock.now())
		case link := <-links:
			o.trouble(link)
		}
		if !open || err != nil {
			return err
		}
	}
}

// same reports whether there is no change to report. A renewal is none.
func (r roster) same(o roster) bool {
	return r.holder.Foreign == o.holder.Foreign && reflect.DeepEqual(r.summary(), o.summary())
}

// rosterLines prints a line for every change.
type rosterLines struct{}

func (rosterLines) changed(r roster, at time.Time) error {
	return printLines(os.Stdout, []string{at.Local().Format("2006-01-02 15:04:05.000") + "  " + r.line()})
}

func (rosterLines) passed(time.Time) error { return nil }

func (rosterLines) trouble(err error) { printTrouble(err) }

// rosterJSON prints a line of JSON for every change.
type rosterJSON struct{ rosterLines }

func (rosterJSON) changed(r roster, at time.Time) error {
	s := r.summary()
	utc := at.UTC()
	s.Time = &utc
	return printJSON(os.Stdout, s, "")
}

// rosterView is a table that is drawn again every second, and at every change.
type rosterView struct {
	roster roster
	screen screen
	err    error // of the connection
}

func (v *rosterView) changed(r roster, at time.Time) error {
	v.roster = r
	return v.passed(at)
}

func (v *rosterView) trouble(err error) { v.err = err }

func (v *rosterView) passed(at time.Time) error {
	return v.screen.draw(func(width, height int) []string {
		head := fmt.Sprintf("Roster of %s at %s, %d stand", v.roster.election, formatTime(at), len(v.roster.candidates))
		if v.err != nil {
			head = "NOT UP TO DATE: " + errorText(v.err)
		}
		lines := append([]string{shorten(head, width), ""}, columns(v.roster.table(at), width)...)
		if more := len(lines) - height; more > 0 {
			lines = append(lines[:max(0, height-1)], fmt.Sprintf("… and %d more", more+1))
		}
		return lines
	})
}
