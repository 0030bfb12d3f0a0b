package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// bench runs measures on systems, in turns.
type bench struct {
	opts     options
	systems  []system
	measures []measure
	stderr   io.Writer

	names atomic.Int64
	mu    sync.Mutex // of all cells and of stderr
}

// measure is one measure with its settings.
type measure struct {
	name string
	// settings of a system for this measure.
	settings func(system) settings
	rounds   int
	// turn measures one system once and adds to what the turns before it have measured.
	turn func(ctx context.Context, p place, c *cell) error
	// together reports whether turns of this system run beside others: they wait for leases
	// most of the time, and what they measure is a part of a lease.
	together func(settings) bool
	// full is set for measures with the usual settings, whose leases are long.
	full bool
}

// cell collects the results of one measure of one system.
type cell struct {
	Figures figures
	Note    string `json:",omitempty"` // why there are no figures
	Error   string `json:",omitempty"`

	times    samples
	overlaps []overlap
	steps    map[string][]taken
}

func short(s system) settings { return s.short }
func usual(s system) settings { return s.usual }

func always(settings) bool  { return true }
func polls(s settings) bool { return s.Poll >= time.Second }

// quick are the usual settings, or the short ones of a system that is slow.
func quick(s system) settings {
	if s.slow {
		return s.short
	}
	return s.usual
}

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
	t := settings{Lease: lease, Renew: by(s.Renew), Grain: s.Grain, Poll: s.Poll, Wait: s.Wait, Late: s.Late}
	if s.Poll >= s.Renew {
		t.Poll = by(s.Poll) // follows from the lease
	}
	return t.grained()
}

// grained returns the settings with the interval that renewals have by their grain: it is longer than what the client
// waits for.
func (s settings) grained() settings {
	if s.Grain > 0 {
		s.Renew = s.Renew.Truncate(s.Grain) + s.Grain
	}
	return s
}

// measures returns the measures of a run.
func (o options) measures() []measure {
	handovers, renewals, waiters := 12, 3, 50
	if o.once {
		handovers, renewals, waiters = 1, 2, 5
	}
	all := []measure{
		{name: measureHandover, together: polls, settings: quick, rounds: 4, turn: handoverTurn(handovers)},
		{name: measureCrash, together: always, settings: short, rounds: 4, turn: crashTurn},
		{name: measureCut, together: always, settings: short, rounds: 3, turn: overlapTurn(cutOff)},
		{name: measurePause, together: always, settings: short, rounds: 3, turn: overlapTurn(stopped)},
		{name: measureWaiting, settings: equal(loadLease), rounds: 1, turn: figuresTurn(waiting, o.many)},
		{name: measureLeading, settings: equal(loadLease), rounds: 1, turn: figuresTurn(leading, o.many)},
		{name: measureRenewal, together: always, settings: short, rounds: 1, turn: figuresTurn(renewal, renewals)},
		{name: measureLock, together: always, settings: quick, rounds: 3, turn: lockTurn(waiters)},
		{name: measureStart, together: always, settings: quick, rounds: 3, turn: start},
	}
	if o.full {
		for _, m := range all[:4] {
			m.name, m.full, m.settings, m.rounds = m.name+", usual settings", true, usual, 3
			all = append(all, m)
		}
		all[len(all)-4].turn = handoverTurn(1)
	}
	return all
}

// loadLease is the lease of the measures with many candidates.
const loadLease = 4 * time.Second

// handoverTurn measures n handovers in a row, or one in a system that polls.
func handoverTurn(n int) func(context.Context, place, *cell) error {
	return func(ctx context.Context, p place, c *cell) error {
		times := n
		if polls(p.s) {
			times = 1
		}
		s, err := handover(ctx, p, times)
		c.times = append(c.times, s...)
		return err
	}
}

func figuresTurn(measure func(context.Context, place, int) (figures, error), n int) func(context.Context, place, *cell) error {
	return func(ctx context.Context, p place, c *cell) (err error) {
		c.Figures, err = measure(ctx, p, n)
		return err
	}
}

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
		wanted, err := selected(o.systems, "system", func(name string) bool {
			_, ok := systemNamed(name)
			return ok
		})
		if err != nil {
			return nil, err
		}
		b.systems = slices.DeleteFunc(b.systems, func(s system) bool { return !slices.Contains(wanted, baseName(s.name)) })
	}
	if o.only != "" {
		wanted, err := selected(o.only, "measure", func(name string) bool { return slices.Contains(measureNames(), name) })
		if err != nil {
			return nil, err
		}
		b.measures = slices.DeleteFunc(b.measures, func(m measure) bool { return !slices.Contains(wanted, baseName(m.name)) })
	}
	return b, nil
}

// selected returns the base names in a list, all of which must be known.
func selected(list, what string, known func(name string) bool) ([]string, error) {
	names := strings.Split(list, ",")
	for i, name := range names {
		if names[i] = strings.TrimSpace(name); !known(names[i]) {
			return nil, fmt.Errorf("no %s %q", what, name)
		}
	}
	return names, nil
}

// name makes a name that no election and no candidate of this run has.
func (b *bench) name(prefix string) string {
	return fmt.Sprintf("%s-%d", prefix, b.names.Add(1))
}

// run measures everything and stops the servers.
func (b *bench) run(ctx context.Context) (*report, error) {
	r := newReport(b.opts)
	for _, m := range b.measures {
		row := &row{Measure: m.name, Cells: make(map[string]*cell)}
		r.Rows = append(r.Rows, row)
		for _, s := range b.systems {
			row.Cells[s.name] = &cell{Note: s.notes[baseName(m.name)]}
		}
		if err := b.rounds(ctx, m, row); err != nil {
			return nil, err
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

// rounds lets all systems take their turns: each once, then each again. The turns that can run
// together begin in the same order.
func (b *bench) rounds(ctx context.Context, m measure, row *row) error {
	atOnce := 8
	if m.full {
		atOnce = 15
	}
	free := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, together := range []bool{false, true} {
		for round := range m.rounds {
			for i := range b.systems {
				sys := b.systems[(i+round)%len(b.systems)]
				c := row.Cells[sys.name]
				if c.Note != "" || together != (m.together != nil && m.together(m.settings(sys))) {
					continue
				}
				select {
				case free <- struct{}{}:
				case <-ctx.Done():
					return ctx.Err()
				}
				turn := func() {
					defer func() { <-free }()
					b.attempt(ctx, m, sys, c, fmt.Sprintf("%s, round %d of %d: %s", m.name, round+1, m.rounds, sys.name))
				}
				if together {
					wg.Go(turn)
				} else {
					turn()
				}
			}
		}
	}
	wg.Wait()
	return ctx.Err()
}

// attempt takes a turn, and takes it again if it was disturbed.
func (b *bench) attempt(ctx context.Context, m measure, sys system, c *cell, title string) {
	const attempts = 3
	for n := 1; ctx.Err() == nil; n++ {
		began := time.Now()
		var got cell
		err := b.turn(ctx, m, sys, &got)
		b.mu.Lock()
		_, _ = fmt.Fprintf(b.stderr, "%s took %.1f s\n", title, time.Since(began).Seconds())
		if err != nil {
			_, _ = fmt.Fprintf(b.stderr, "%s: %v\n", title, err)
		}
		switch {
		case err == nil:
			c.add(got)
		case !errors.Is(err, errDisturbed) || n == attempts:
			c.Error = err.Error()
		}
		again := err != nil && c.Error == ""
		b.mu.Unlock()
		if !again {
			return
		}
	}
}

// add adds the results of a turn.
func (c *cell) add(turn cell) {
	c.times = append(c.times, turn.times...)
	c.overlaps = append(c.overlaps, turn.overlaps...)
	for name, took := range turn.steps {
		if c.steps == nil {
			c.steps = make(map[string][]taken)
		}
		c.steps[name] = append(c.steps[name], took...)
	}
	c.Figures = turn.Figures
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
	for name, all := range c.steps {
		if c.Figures.Steps == nil {
			c.Figures.Steps = make(map[string]stepFigures)
		}
		var times samples
		trips := all[0].trips
		for _, each := range all {
			times, trips = append(times, each.time), min(trips, each.trips)
		}
		c.Figures.Steps[name], c.Figures.Samples = stepFigures{Trips: trips, MS: millis(times.at(0.5))}, len(all)
	}
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
