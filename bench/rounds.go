package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"
)

// bench runs measures on systems, in turns.
type bench struct {
	opts     options
	systems  []system
	measures []measure
	stderr   io.Writer

	names int
}

// measure is one measure with its settings.
type measure struct {
	name string
	// settings of a system for this measure.
	settings func(system) settings
	rounds   int
	// turn measures one system once and adds to what the turns before it have measured.
	turn func(ctx context.Context, p place, c *cell) error
	full bool // runs with --full only
}

// cell collects the results of one measure of one system.
type cell struct {
	Figures figures
	Note    string `json:",omitempty"` // why there are no figures
	Error   string `json:",omitempty"`

	times    samples
	overlaps []overlap
}

func short(s system) settings { return s.short }
func usual(s system) settings { return s.usual }

// equal are settings with one lease for all systems, so that the costs of their leases can be
// compared.
func equal(lease time.Duration) func(system) settings {
	return func(s system) settings { return s.usual.scaled(lease) }
}

// scaled returns the settings at another lease.
func (s settings) scaled(lease time.Duration) settings {
	by := func(d time.Duration) time.Duration {
		return time.Duration(float64(d) * float64(lease) / float64(s.Lease))
	}
	t := settings{Lease: lease, Renew: by(s.Renew), Poll: s.Poll, Late: s.Late}
	if s.Poll >= s.Renew {
		t.Poll = by(s.Poll) // follows from the lease
	}
	return t
}

// measures returns the measures of a run.
func (o options) measures() []measure {
	many := o.many
	all := []measure{
		{name: measureHandover, settings: usual, rounds: 5, turn: func(ctx context.Context, p place, c *cell) error {
			n := 20
			if p.s.Poll >= time.Second {
				n = 2
			}
			s, err := handover(ctx, p, n)
			c.times = append(c.times, s...)
			return err
		}},
		{name: measureCrash, settings: short, rounds: 5, turn: crashTurn},
		{name: measureCut, settings: short, rounds: 3, turn: overlapTurn(cutOff)},
		{name: measurePause, settings: short, rounds: 3, turn: overlapTurn(stopped)},
		{name: measureWaiting, settings: equal(loadLease), rounds: 1, turn: func(ctx context.Context, p place, c *cell) (err error) {
			c.Figures, err = waiting(ctx, p, many)
			return err
		}},
		{name: measureLeading, settings: equal(loadLease), rounds: 1, turn: func(ctx context.Context, p place, c *cell) (err error) {
			c.Figures, err = leading(ctx, p, many)
			return err
		}},
		{name: measureRenewal, settings: short, rounds: 1, turn: func(ctx context.Context, p place, c *cell) (err error) {
			c.Figures, err = renewal(ctx, p, 5)
			return err
		}},
	}
	if o.full {
		all = append(all,
			measure{name: measureCrash + ", usual settings", settings: usual, rounds: 5, turn: crashTurn},
			measure{name: measureCut + ", usual settings", settings: usual, rounds: 3, turn: overlapTurn(cutOff)},
			measure{name: measurePause + ", usual settings", settings: usual, rounds: 3, turn: overlapTurn(stopped)},
		)
	}
	return all
}

// loadLease is the lease of the measures with many candidates.
const loadLease = 6 * time.Second

func crashTurn(ctx context.Context, p place, c *cell) error {
	d, err := crash(ctx, p)
	if err == nil {
		c.times = append(c.times, d)
	}
	return err
}

func overlapTurn(fault func(context.Context, place) (overlap, error)) func(context.Context, place, *cell) error {
	return func(ctx context.Context, p place, c *cell) error {
		o, err := fault(ctx, p)
		if err == nil {
			c.times = append(c.times, o.failover)
			c.overlaps = append(c.overlaps, o)
		}
		return err
	}
}

func measureNames() []string {
	var names []string
	for _, m := range (options{}).measures() {
		names = append(names, m.name)
	}
	return names
}

func newBench(o options, stderr io.Writer) (*bench, error) {
	b := &bench{opts: o, stderr: stderr}
	b.systems = systems()
	b.measures = o.measures()
	if o.many < 1 {
		return nil, errors.New("--many must be at least 1")
	}
	if o.systems != "" {
		b.systems = nil
		for _, name := range strings.Split(o.systems, ",") {
			s, ok := systemNamed(strings.TrimSpace(name))
			if !ok {
				return nil, fmt.Errorf("no system %q", name)
			}
			b.systems = append(b.systems, s)
		}
	}
	if o.only != "" {
		wanted := strings.Split(o.only, ",")
		for i, name := range wanted {
			wanted[i] = strings.TrimSpace(name)
			if !slices.Contains(measureNames(), wanted[i]) {
				return nil, fmt.Errorf("no measure %q", name)
			}
		}
		b.measures = slices.DeleteFunc(b.measures, func(m measure) bool {
			base, _, _ := strings.Cut(m.name, ",")
			return !slices.Contains(wanted, base)
		})
	}
	return b, nil
}

// name makes a name that no election and no candidate of this run has.
func (b *bench) name(prefix string) string {
	b.names++
	return fmt.Sprintf("%s-%d", prefix, b.names)
}

// run measures everything and stops the servers.
func (b *bench) run(ctx context.Context) (*report, error) {
	r := newReport(b.opts)
	for _, m := range b.measures {
		row := &row{Measure: m.name, Cells: make(map[string]*cell)}
		r.Rows = append(r.Rows, row)
		for _, s := range b.systems {
			row.Cells[s.name] = &cell{Note: s.notes[m.name]}
		}
		for round := range m.rounds {
			for i := range b.systems {
				sys := b.systems[(i+round)%len(b.systems)]
				c := row.Cells[sys.name]
				if c.Note != "" || c.Error != "" {
					continue
				}
				_, _ = fmt.Fprintf(b.stderr, "%s, round %d of %d: %s\n", m.name, round+1, m.rounds, sys.name)
				if err := b.turn(ctx, m, sys, c); err != nil {
					if ctx.Err() != nil {
						return nil, ctx.Err()
					}
					c.Error = err.Error()
					_, _ = fmt.Fprintf(b.stderr, "%s: %s: %v\n", sys.name, m.name, err)
				}
			}
		}
		for _, s := range b.systems {
			c := row.Cells[s.name]
			if c.Note == "" && c.Error == "" {
				c.sum(m.settings(s))
			}
		}
	}
	for _, s := range b.systems {
		r.addSystem(s)
	}
	return r, nil
}

// turn measures one system once, on a server that was started for this turn: a server that
// serves no candidate does not take time from the others.
func (b *bench) turn(ctx context.Context, m measure, sys system, c *cell) (err error) {
	srv, err := startServer(sys)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.end()) }()
	runtime.GC()
	return m.turn(ctx, place{sys: sys, srv: srv, s: m.settings(sys), name: b.name}, c)
}

// sum makes figures of the samples.
func (c *cell) sum(s settings) {
	if len(c.times) > 0 {
		c.Figures = c.times.figures()
	}
	c.Figures.Lease = s.Lease
	var both samples
	for _, o := range c.overlaps {
		both = append(both, max(0, o.both))
		if o.both > 0 {
			c.Figures.OverlapRounds++
		}
		if o.wrong {
			c.Figures.WrongFirstAnswers++
		}
	}
	if len(both) > 0 {
		c.Figures.OverlapMedianMS, c.Figures.OverlapMaxMS = millis(both.at(0.5)), millis(both.at(1))
	}
}
