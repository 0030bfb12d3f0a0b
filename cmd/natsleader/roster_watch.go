package main

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/natsleader/natsleader/leader"
)

// together is how long changes are collected before they are reported. A handover
// changes the leader and the candidates, one after the other.
const together = 100 * time.Millisecond

// rosterWatcher follows the roster of an election.
type rosterWatcher struct {
	s        *inspector
	election string
	out      renderer

	rosters  chan roster // each when nothing has changed for a while
	end      context.CancelFunc
	reported roster
}

func newRosterWatcher(s *inspector, election string, out renderer) *rosterWatcher {
	return &rosterWatcher{s: s, election: election, out: out, rosters: make(chan roster), end: func() {}}
}

// open reports the roster as it is. It fails if a permission is missing.
func (w *rosterWatcher) open(ctx context.Context) error {
	ctx, w.end = context.WithCancel(ctx)
	now, err := w.s.readRoster(ctx, w.election)
	if err != nil {
		return err
	}
	holders, err := leader.Observe(ctx, w.s.bucket, w.election)
	if err != nil {
		return err
	}
	candidates, err := leader.ObserveRoster(ctx, w.s.bucket, w.election)
	if err != nil {
		return err
	}
	go w.collect(ctx, now, holders, candidates)
	return w.report(now)
}

func (w *rosterWatcher) close() { w.end() }

// collect puts the holder and the candidates together, until ctx ends or the connection
// is closed.
func (w *rosterWatcher) collect(ctx context.Context, now roster, holders <-chan leader.Holder, candidates <-chan []leader.RosterEntry) {
	defer close(w.rosters)
	settled := time.NewTimer(together)
	for {
		open := true
		select {
		case now.holder, open = <-holders:
			settled.Reset(together)
		case now.candidates, open = <-candidates:
			settled.Reset(together)
		case <-settled.C:
			select {
			case w.rosters <- now:
			case <-ctx.Done():
				return
			}
		}
		if !open {
			return
		}
	}
}

func (w *rosterWatcher) updates() <-chan roster { return w.rosters }

func (w *rosterWatcher) update(now roster, more bool) error {
	switch {
	case !more:
		return leader.ErrConnectionClosed
	case now.same(w.reported):
		return nil
	}
	return w.report(now)
}

func (w *rosterWatcher) report(now roster) error {
	w.reported = now
	return w.out.changed(rosterChange{now, w.s.clock.now()})
}

func (w *rosterWatcher) connection(err error) { w.out.trouble(err) }

func (w *rosterWatcher) ticked(context.Context) error { return nil }

func (w *rosterWatcher) view(now time.Time, trouble error, filter string) view {
	rows := w.reported.table(now)
	v := view{title: fmt.Sprintf("Roster of %s, %d stand", w.election, len(w.reported.candidates)), at: now, head: rows[0]}
	for _, cells := range rows[1:] {
		if matches(filter, cells) {
			v.rows = append(v.rows, tableRow{cells: cells})
		}
	}
	v.total = len(rows) - 1
	v.narrow = []narrowing{{4, 0}, {6, 12}, {3, 0}, {6, 0}, {1, 12}, {5, 0}}
	if trouble != nil {
		v.trouble = "NOT UP TO DATE"
		v.why = errorText(trouble)
	}
	return v
}

// same reports whether there is no change to report. A renewal is none.
func (r roster) same(o roster) bool {
	return r.holder.Foreign == o.holder.Foreign && reflect.DeepEqual(r.summary(), o.summary())
}

// rosterChange is a roster that has changed.
type rosterChange struct {
	roster
	at time.Time // the server's
}

func (c rosterChange) time() time.Time { return c.at }

func (c rosterChange) text() string { return c.line() }

func (c rosterChange) object() any {
	s := c.summary()
	s.Time = c.at.UTC()
	return s
}
