package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
)

// watcher keeps up with the elections of a bucket.
type watcher struct {
	s        *inspector
	limit    time.Duration   // for one answer
	election string          // empty: all
	cut      <-chan struct{} // the connection was lost, or is back
	out      renderer

	elections map[string]*watched
	feed      jetstream.KeyWatcher // nil while there is none
	end       context.CancelFunc   // of the feed
	tried     time.Time            // when it was last tried to open one
	opened    time.Time            // the server's time when the feed was opened
	complete  bool                 // the current entries of all keys have come through the feed
	troubled  bool
}

// watched is an election and its last reported state.
type watched struct {
	now  standing
	last *standing // reported; nil: nothing yet
	as   state     // the state that was reported
	feed jetstream.KeyWatcher
}

// change is a change of an election that is to be reported.
type change struct {
	at       time.Time // the server's
	now      standing
	state    state
	previous *standing // nil: it is the first
}

func newFollower(s *inspector, limit time.Duration, election string, cut <-chan struct{}, o renderer) *watcher {
	f := &watcher{s: s, limit: limit, election: election, cut: cut, out: o, elections: map[string]*watched{}}
	if election != "" {
		f.elections[election] = &watched{now: standing{election: election}}
	}
	return f
}

const (
	tick   = 100 * time.Millisecond // greatest delay of the report that a lease has run out
	reopen = time.Second            // the least time from one feed to the next
)

func (f *watcher) run(ctx context.Context) error {
	if err := f.open(ctx); err != nil {
		return err // from here on it tries again
	}
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		var updates <-chan jetstream.KeyValueEntry
		if f.feed != nil {
			updates = f.feed.Updates()
		}
		var err error
		select {
		case e, ok := <-updates:
			switch {
			case !ok:
				f.drop()
			case e == nil:
				err = f.completed()
			default:
				err = f.heard(e)
			}
		case <-f.cut:
			f.drop()
		case <-ticker.C:
			err = f.ticked(ctx)
		case <-ctx.Done():
			f.drop()
			return nil
		}
		if err != nil {
			f.drop()
			return err
		}
	}
}

// open opens a feed that begins with the current entries of all keys.
func (f *watcher) open(ctx context.Context) error {
	f.drop()
	f.complete, f.tried = false, time.Now()
	if err := f.s.within(ctx, f.limit, f.s.ask); err != nil {
		return err
	}
	opened := f.s.clock.now()
	feed, end, err := f.s.open(ctx, f.limit, f.election)
	if err != nil {
		return err
	}
	f.feed, f.end, f.opened = feed, end, opened
	return nil
}

// drop gives up the feed.
func (f *watcher) drop() {
	if f.feed != nil {
		_ = f.feed.Stop() // it may have gone with the connection
		f.end()
		f.feed = nil
	}
}

// heard handles a revision of a key.
func (f *watcher) heard(e jetstream.KeyValueEntry) error {
	x := f.elections[e.Key()]
	if x == nil {
		x = &watched{}
		f.elections[e.Key()] = x
	}
	x.feed = f.feed
	if e.Revision() <= x.now.entry.Revision && f.complete {
		return nil
	}
	x.now = newStanding(e.Key(), backend.EntryOf(e))
	if !f.complete {
		return nil
	}
	return f.tell(x)
}

// completed handles the end of the current entries.
func (f *watcher) completed() error {
	f.complete = true
	for name, x := range f.elections {
		if x.feed != f.feed {
			x.now = standing{election: name} // gone with its bucket, or its marker has expired
		}
	}
	if f.troubled {
		f.troubled = false
		f.out.trouble(nil)
	}
	return f.tell(f.all()...)
}

// ticked reports changes by the passage of time. A feed may be deaf, so the end of a
// lease is reported only after a second look, through a feed that was opened when the
// lease was over.
func (f *watcher) ticked(ctx context.Context) error {
	now := f.s.clock.now()
	again := f.feed == nil
	for _, x := range f.elections {
		if st := x.as; st == stateLeading || st == statePending {
			over := x.now.holder.Renewed.Add(x.now.holder.Lease)
			again = again || f.complete && over.Before(now) && over.After(f.opened)
		}
	}
	if again && time.Since(f.tried) > reopen {
		if err := f.open(ctx); err != nil && ctx.Err() == nil && !f.troubled {
			f.troubled = true
			f.out.trouble(err)
		}
	}
	if err := f.tell(f.all()...); err != nil {
		return err
	}
	return f.out.shown(f)
}

func (f *watcher) all() []*watched { return slices.Collect(maps.Values(f.elections)) }

// tell reports the changes of elections.
func (f *watcher) tell(elections ...*watched) error {
	if !f.complete {
		return nil
	}
	now := f.s.clock.now()
	var changes []change
	for _, x := range elections {
		st := x.now.at(now)
		if st == stateExpired && x.now.holder.Renewed.Add(x.now.holder.Lease).After(f.opened) {
			st = x.now.at(x.now.holder.Renewed) // not believed yet
		}
		if x.last != nil && st == x.as && same(*x.last, x.now, st) {
			continue
		}
		at := x.now.since(st)
		if at.IsZero() {
			at = now
		}
		changes = append(changes, change{at: at, now: x.now, state: st, previous: x.last})
		last := x.now
		x.last, x.as = &last, st
	}
	if len(changes) == 0 {
		return nil
	}
	slices.SortFunc(changes, func(a, b change) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.now.election, b.now.election))
	})
	return f.out.told(changes)
}

// same reports whether a revision changes nothing that is reported.
func same(a, b standing, st state) bool {
	switch st {
	case stateLeading:
		return a.holder.ID == b.holder.ID && a.holder.Token == b.holder.Token && string(a.holder.Value) == string(b.holder.Value)
	case statePending:
		return a.holder.ID == b.holder.ID
	case stateReleased, stateDeleted, stateExpired, stateForeign, stateNever:
	}
	return true
}

// since returns when the election came into this state, by the server's time. It is
// zero if that is not known.
func (s standing) since(st state) time.Time {
	h := s.holder
	switch {
	case st == stateExpired:
		return h.Renewed.Add(h.Lease)
	case st == stateLeading && !h.Since.IsZero():
		return h.Since
	}
	return s.entry.Created
}

// text describes a change for people.
func (c change) text() string {
	h := c.now.holder
	id := printable(h.ID)
	switch c.state {
	case stateLeading:
		s := fmt.Sprintf("%s leads with token %d", id, h.Token)
		if len(h.Value) > 0 {
			s += ": " + shorten(printable(string(h.Value)), longValue)
		}
		return s
	case statePending:
		return id + " holds the key, and waits until no other lease can be good"
	case stateReleased:
		if c.previous != nil && c.previous.holder.ID != "" {
			return printable(c.previous.holder.ID) + " has handed over, nobody leads"
		}
		return "given up in order, nobody leads"
	case stateExpired:
		return id + " has not renewed its lease, nobody leads"
	case stateDeleted:
		return "the key was deleted, nobody leads"
	case stateForeign:
		return "the key holds something that natsleader did not write"
	case stateNever:
	}
	if c.previous == nil {
		return "no candidate has ever led it"
	}
	return "the key is gone, nobody leads"
}

// summary describes a change for programs.
func (c change) summary() any {
	s := c.now.summary(c.at)
	s.State = c.state
	s.Remaining = nil // of a moment that has passed
	return struct {
		Time time.Time `json:"time"`
		summary
	}{c.at.UTC(), s}
}
