package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
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
		if election != "" {
			if err := checkElection(election); err != nil {
				return err
			}
		}
		out := newRenderer(asJSON, timeline)
		return follow(g, out, func(s *inspector) source[jetstream.KeyValueEntry] { return newWatcher(s, election, out) })
	})
}

// watcher follows the elections of a bucket.
type watcher struct {
	s        *inspector
	election string // empty: all
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
	now  electionStatus
	last *electionStatus // reported; nil: nothing yet
	as   state           // the state that was reported
	feed jetstream.KeyWatcher
}

func newWatcher(s *inspector, election string, out renderer) *watcher {
	w := &watcher{s: s, election: election, out: out, elections: map[string]*watched{}}
	if election != "" {
		w.elections[election] = &watched{now: electionStatus{election: election}}
	}
	return w
}

// open opens a feed that begins with the current entries of all keys.
func (w *watcher) open(ctx context.Context) error {
	w.close()
	w.complete, w.tried = false, time.Now()
	if err := w.s.within(ctx, w.s.ask); err != nil {
		return err
	}
	opened := w.s.clock.now()
	feed, end, err := w.s.watch(ctx, w.election)
	if err != nil {
		return err
	}
	w.feed, w.end, w.opened = feed, end, opened
	return nil
}

// close gives up the feed.
func (w *watcher) close() {
	if w.feed != nil {
		_ = w.feed.Stop() // it may have gone with the connection
		w.end()
		w.feed = nil
	}
}

// connection gives up a feed that may have missed something.
func (w *watcher) connection(error) { w.close() }

func (w *watcher) updates() <-chan jetstream.KeyValueEntry {
	if w.feed == nil {
		return nil
	}
	return w.feed.Updates()
}

// update handles a revision of a key, or with nil the end of the current entries.
func (w *watcher) update(e jetstream.KeyValueEntry, more bool) error {
	switch {
	case !more:
		w.close()
		return nil
	case e == nil:
		return w.completed()
	}
	x := w.elections[e.Key()]
	if x == nil {
		x = &watched{}
		w.elections[e.Key()] = x
	}
	x.feed = w.feed
	if e.Revision() <= x.now.entry.Revision && w.complete {
		return nil
	}
	x.now = newElectionStatus(e.Key(), backend.EntryOf(e))
	return w.report(x)
}

// completed handles the end of the current entries.
func (w *watcher) completed() error {
	w.complete = true
	for name, x := range w.elections {
		if x.feed != w.feed {
			x.now = electionStatus{election: name} // gone with its bucket, or its marker has expired
		}
	}
	if w.troubled {
		w.troubled = false
		w.out.trouble(nil)
	}
	return w.report(w.all()...)
}

// reopen is the least time from one feed to the next.
const reopen = time.Second

// ticked reports changes by the passage of time. A feed may be deaf, so the end of a
// lease is reported only after a second look, through a feed that was opened when the
// lease was over.
func (w *watcher) ticked(ctx context.Context) error {
	now := w.s.clock.now()
	again := w.feed == nil
	for _, x := range w.elections {
		if st := x.as; st == stateLeading || st == statePending {
			over := x.now.holder.Renewed.Add(x.now.holder.Lease)
			again = again || w.complete && over.Before(now) && over.After(w.opened)
		}
	}
	if again && time.Since(w.tried) > reopen {
		if err := w.open(ctx); err != nil && ctx.Err() == nil && !w.troubled {
			w.troubled = true
			w.out.trouble(err)
		}
	}
	return w.report(w.all()...)
}

func (w *watcher) all() []*watched { return slices.Collect(maps.Values(w.elections)) }

// report reports the changes of elections.
func (w *watcher) report(elections ...*watched) error {
	if !w.complete {
		return nil
	}
	now := w.s.clock.now()
	var found []electionChange
	for _, x := range elections {
		st := x.now.at(now)
		if st == stateExpired && x.now.holder.Renewed.Add(x.now.holder.Lease).After(w.opened) {
			st = x.now.at(x.now.holder.Renewed) // not believed yet
		}
		if x.last != nil && st == x.as && same(*x.last, x.now, st) {
			continue
		}
		at := x.now.since(st)
		if at.IsZero() {
			at = now
		}
		found = append(found, electionChange{at: at, now: x.now, state: st, previous: x.last})
		last := x.now
		x.last, x.as = &last, st
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortFunc(found, func(a, b electionChange) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.now.election, b.now.election))
	})
	changes := make([]change, len(found))
	for i, c := range found {
		changes[i] = c
	}
	return w.out.changed(changes...)
}

// same reports whether a revision changes nothing that is reported.
func same(a, b electionStatus, st state) bool {
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
func (s electionStatus) since(st state) time.Time {
	h := s.holder
	switch {
	case st == stateExpired:
		return h.Renewed.Add(h.Lease)
	case st == stateLeading && !h.Since.IsZero():
		return h.Since
	}
	return s.entry.Created
}

// electionChange is a change of an election.
type electionChange struct {
	at       time.Time // the server's
	now      electionStatus
	state    state
	previous *electionStatus // nil: it is the first
}

func (c electionChange) time() time.Time { return c.at }

func (c electionChange) text() string {
	return printable(c.now.election) + "  " + c.event()
}

// event describes the change in words.
func (c electionChange) event() string {
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

func (c electionChange) object() any {
	s := c.now.summary(c.at)
	s.State = c.state
	s.Remaining = nil // of a moment that has passed
	return struct {
		Time time.Time `json:"time"`
		summary
	}{c.at.UTC(), s}
}

func (w *watcher) view(now time.Time, trouble error) view {
	v := view{head: fmt.Sprintf("Elections in bucket %s at %s", w.s.name, formatTime(now)), table: [][]string{overviewHead()}, spare: 3} // SINCE: FOR says it, too
	if trouble != nil {
		v.head = fmt.Sprintf("NOT UP TO DATE since %s: %s", formatTime(w.opened), errorText(trouble))
	}
	all := slices.DeleteFunc(w.all(), func(x *watched) bool { return x.last == nil })
	slices.SortFunc(all, func(a, b *watched) int { return strings.Compare(a.now.election, b.now.election) })
	for _, x := range all {
		v.table = append(v.table, x.now.overview(x.as, now))
	}
	return v
}
