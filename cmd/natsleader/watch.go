package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

const watchHelp = `On a terminal it shows a view that is kept up to date: elections in trouble first, then
those that have a leader, and last those that were given up in order. Below are recent
changes. Keys: q ends it, / filters, the arrows scroll, ? lists them. NO_COLOR=1 turns
colours off. Otherwise, and with --timeline, it prints a line whenever the leader of
an election or what it publishes has changed, beginning with what is found. Times
are by the server's clock, in the zone of this host.

With --exec it prints nothing, and has sh run a command for each change instead, also for
what is found at first. The command finds the change in NATSLEADER_BUCKET, _ELECTION,
_STATE, _WAS (the state that it saw before; empty at first), _ID, _TOKEN and _VALUE, and
as a line of --json on its standard input. One command runs at a time, for a minute at
most, and what it has started ends with it. If an election changes more than once meanwhile, only its newest state counts.
The command does not find the credentials in its environment. If it fails, watch says so
and goes on.

With --roster, and for a group, it shows that as a table on a terminal, otherwise as a line
for each change: see status. The group has to exist, unless --shard or --key is given.

In a pattern * stands for any text. It ends with exit code 0 at SIGINT or SIGTERM.

  natsleader watch billing
  natsleader watch billing --roster
  natsleader watch 'tenant-*' --exec './alert "$NATSLEADER_ELECTION is $NATSLEADER_STATE"'
  natsleader watch --json | jq -r 'select(.state == "leading") | .election + " " + .id'`

func registerWatch(app *fisk.Application, g *globals) {
	var of sharing
	var pattern, hook string
	var asJSON, timeline, withRoster bool
	cmd := app.Command("watch", "Show who leads as it changes").HelpLong(watchHelp)
	cmd.Arg("name", "Election or group to watch, or a pattern with *; all elections of the bucket by default").HintAction(g.namesToShow).StringVar(&of.group)
	cmd.Flag("roster", "Show the roster of the election as it changes").UnNegatableBoolVar(&withRoster)
	of.register(cmd)
	cmd.Flag("exec", "Run this command for every change").PlaceHolder("COMMAND").StringVar(&hook)
	cmd.Flag("timeline", "Print a line for every change on a terminal, too").UnNegatableBoolVar(&timeline)
	cmd.Flag("json", "Print one line of JSON for every change").Short('j').UnNegatableBoolVar(&asJSON)
	g.registerLog(cmd)
	cmd.Action(func(*fisk.ParseContext) error {
		election := of.group
		if strings.Contains(election, "*") {
			election, pattern = "", election
		} else if election != "" {
			if err := checkElection(election); err != nil {
				return err
			}
		}
		switch {
		case hook != "" && (asJSON || timeline):
			return usagef("--exec prints nothing itself: it takes neither --json nor --timeline")
		case hook != "" && (withRoster || of.asked()):
			return usagef("--exec is for elections: it takes no --roster, --shard and --key")
		case withRoster && (of.asked() || election == ""):
			return usagef("--roster needs the name of an election, and takes no --shard and --key")
		}
		names, err := patternOf(pattern)
		if err = cmp.Or(err, of.check()); err != nil {
			return err
		}
		var out renderer
		if hook != "" {
			out = g.newHooks(hook)
		} else {
			out = g.newRenderer(asJSON, timeline)
		}
		return g.follow(func(ctx context.Context, s *inspector, links <-chan error) error {
			switch {
			case withRoster:
				return followUntil(ctx, s, out, source[lineup](newRosterWatcher(s, election, out)), links)
			case of.asked() || election != "" && s.isGroup(ctx, election):
				if hook != "" {
					return isNoElection(election)
				}
				return followUntil(ctx, s, out, source[shard.View](&shardsWatcher{s: s, newest: of, out: out, end: func() {}}), links)
			}
			w := newWatcher(s, election, out)
			w.names, w.pattern = names, pattern
			_, w.counts = out.(*liveView)
			w.counts = w.counts && election == "" // see --roster
			return followUntil(ctx, s, out, source[jetstream.KeyValueEntry](w), links)
		})
	})
}

// watcher follows the elections of a bucket.
type watcher struct {
	s        *inspector
	election string // empty: all
	names    *regexp.Regexp
	pattern  string // of names; empty: none
	out      renderer
	look     func(ctx context.Context, limit time.Duration, opening bool) look // changes nothing in the watcher

	elections  map[string]*watched
	notes      map[string]electionNote
	cordoned   []string             // not known where one election is watched
	feed       jetstream.KeyWatcher // nil while there is none
	end        context.CancelFunc   // of the feed
	cordonFeed jetstream.KeyWatcher // that has delivered the cordon; nil: none has
	opened     time.Time            // the server's time when the feed was opened
	complete   bool                 // the current entries of all keys have come through the feed
	seamless   bool                 // the feed before was alive until this one replaced it

	looking    *looking              // in flight; nil: none
	looked     time.Time             // when the last look began, by this host
	seen       uint64                // the last revision of the bucket that the feed has delivered or began after
	behind     uint64                // the bucket's last revision at the look before, if it was not delivered; 0: it was
	seenBefore uint64                // seen at that look
	streamAt   string                // the server that led the stream when the feed was opened
	created    time.Time             // when the stream was, as the feed was opened
	info       *jetstream.StreamInfo // of the last look

	counts  bool       // the candidates that stand, for a view
	counted time.Time  // when the last count began, by this host
	who     *announced // nil: not known

	asks    bool                   // for the streams beside the bucket
	asked   time.Time              // when the last such question began, by this host
	streams map[string]streamState // by what they keep; nil: not known

	fresh    time.Time // the server's time at which the state was last known to be the newest
	troubled bool
	lost     bool // the connection is
	lostSaid bool // the trouble that was reported is the lost connection
	bucket   seenBucket
	said     error            // the trouble that was reported last
	recent   []electionChange // the newest last
}

// watched is an election and its last reported state.
type watched struct {
	now     electionStatus
	last    *electionStatus // reported; nil: nothing yet
	as      state           // the state that was reported
	was     string          // the ID of the last leader that was reported
	mayLead time.Time       // the key is missing, and its holder may lead until then; zero: it is not
	feed    jetstream.KeyWatcher
}

func newWatcher(s *inspector, election string, out renderer) *watcher {
	w := &watcher{s: s, election: election, names: everyName, out: out, elections: map[string]*watched{}, notes: map[string]electionNote{}, bucket: seenBucket{name: s.name}}
	w.look = w.request
	if election != "" {
		w.elections[election] = &watched{now: electionStatus{election: election}}
	}
	return w
}

// close gives up the feed, and the look in flight.
func (w *watcher) close() {
	w.abandon()
	waitBriefly(w.closeFeed())
}

func (w *watcher) abandon() {
	if w.looking != nil {
		w.looking.abandon()
		w.looking = nil
	}
}

// closeFeed gives up the feed, and returns a channel that is closed when that is done. It
// requests the deletion of the consumer, and a server that hangs lets it wait.
func (w *watcher) closeFeed() <-chan struct{} {
	done := make(chan struct{})
	if w.feed == nil {
		close(done)
		return done
	}
	go func(feed jetstream.KeyWatcher, end context.CancelFunc) {
		defer close(done)
		_ = feed.Stop() // it may have gone with the connection
		end()
	}(w.feed, w.end)
	w.feed = nil
	return done
}

// connection gives up a feed that may have missed something.
func (w *watcher) connection(err error) {
	w.abandon()
	w.closeFeed()
	w.looked = time.Time{}
	if w.lost = err != nil; w.lost {
		w.failing(err)
	}
}

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
		w.closeFeed()
		return nil
	case e == nil:
		return w.completed()
	}
	_, election, ofGroup := group.NameOf(e.Key())
	w.seen = max(w.seen, e.Revision())
	if election, ok := strings.CutPrefix(e.Key(), notePrefix); ok {
		w.notes[election] = decodeNote(e.Value())
		if x := w.elections[election]; x != nil {
			x.now.note = w.notes[election]
		}
		return nil
	}
	if e.Key() == wire.CordonKey {
		w.cordoned, _ = cordonOf(electionStatus{entry: natskv.EntryOf(e)}) // candidates take a junk value for none
		w.cordonFeed = w.feed
		return nil
	}
	if !w.names.MatchString(e.Key()) {
		return nil
	}
	if ofGroup && !election { // the map of a group
		return nil
	}
	x := w.elections[e.Key()]
	if x == nil {
		x = &watched{}
		w.elections[e.Key()] = x
	}
	continuous := w.complete && x.feed == w.feed || !w.complete && w.seamless
	old := w.complete && x.feed == w.feed && e.Revision() <= x.now.entry.Revision // revisions of another feed may be of a bucket that was deleted
	x.feed, x.mayLead = w.feed, time.Time{}
	if old {
		return nil
	}
	now := newElectionStatus(e.Key(), natskv.EntryOf(e))
	now.note = w.notes[e.Key()]
	now.released = x.released()
	h := &now.holder
	if ofGroup { // its processes publish for each other, with every move
		h.Value = nil
		if h.Last != nil {
			h.Last.Value = nil
		}
	}
	if h.State == leader.HolderLeading && h.Since.IsZero() && x.as == stateLeading && h.Token == x.now.holder.Token {
		h.Since = x.now.since(stateLeading) // a leader may not know it
	}
	if w.complete {
		w.fresh = now.entry.Created
	}
	if continuous && x.replacedAfterExpiry(now) {
		if err := w.publish(x.becomes(x.now, stateExpired, time.Time{})); err != nil {
			return err
		}
	}
	x.now = now
	return w.report(x)
}

// replacedAfterExpiry reports whether the lease of the holder that was reported had run
// out when the next one took the key. A candidate that waits takes the key at once, so
// the key was expired between two of its revisions only.
func (x *watched) replacedAfterExpiry(next electionStatus) bool {
	if x.last == nil || !x.as.held() || next.holder.ID == "" {
		return false
	}
	h, n := x.now.holder, next.holder
	another := n.ID != h.ID || n.State == leader.HolderLeading && h.State == leader.HolderLeading && n.Token != h.Token
	return another && !x.now.expires().After(next.entry.Created)
}

// completed handles the end of the current entries.
func (w *watcher) completed() error {
	w.complete = true
	w.fresh = w.opened
	if w.cordonFeed != w.feed { // the cordon has gone with its bucket
		w.cordoned = nil
	}
	for _, x := range w.elections {
		if x.feed != w.feed {
			w.miss(x) // gone with its bucket, or its marker has expired
		}
	}
	w.recovered()
	return w.report(w.all()...)
}

// miss handles a key that is missing in a bucket that exists. The bucket may have been deleted and
// made again, and then the lease of the holder goes on.
func (w *watcher) miss(x *watched) {
	switch now := w.s.clock.now(); {
	case !x.mayLead.IsZero():
	case x.as.held():
		x.mayLead = now.Add(max(x.now.holder.Lease, w.bucket.longestLease()))
	default:
		x.lose(now)
	}
}

// gone handles a bucket that is missing, and returns its error. Any key may have been taken since
// its last record came.
func (w *watcher) gone() error {
	var leaders []string
	var longest time.Duration
	for _, x := range w.elections {
		if x.as.held() {
			leaders = append(leaders, fmt.Sprintf("%s (%s)", shorten(printable(x.now.holder.ID), longID), printable(x.now.election)))
			longest = max(longest, x.now.holder.Lease)
		}
	}
	slices.Sort(leaders)
	err := w.bucket.gone(w.s.clock.now(), leaders, longest)
	for _, x := range w.elections {
		if x.mayLead.IsZero() {
			x.mayLead = w.bucket.until
		}
	}
	return err
}

// lose takes note that the key has no revision.
func (x *watched) lose(now time.Time) {
	x.mayLead = time.Time{}
	if x.now.entry.Revision > 0 {
		if last := x.now.last(); last != nil {
			x.was = last.ID
		}
		x.now = electionStatus{election: x.now.election, gone: now, note: x.now.note, released: x.released()}
	}
}

// released reports whether the key was given up in order, even if its record has gone since, as by the TTL of the bucket.
func (x *watched) released() bool {
	return x.as == stateReleased || x.as == stateDeleted && x.now.released
}

// failing reports the first error, and another one when the connection was lost or has come
// back meanwhile, when the advice about a bucket that is gone is another, or when a server that did not answer has
// shown that there is no majority.
func (w *watcher) failing(err error) {
	advice := errors.Is(err, leader.ErrNoBucket) && (w.said == nil || w.said.Error() != err.Error())
	shown := errors.Is(err, errNoMajority) && !errors.Is(w.said, errNoMajority)
	if !w.troubled || w.lostSaid != w.lost || advice || shown {
		w.troubled, w.lostSaid, w.said = true, w.lost, err
		w.out.trouble(err)
	}
}

func (w *watcher) recovered() {
	if w.troubled {
		w.troubled = false
		w.out.trouble(nil)
	}
}

// ticked looks at the bucket from time to time, and reports changes by the passage of time.
func (w *watcher) ticked(ctx context.Context) error {
	if err := w.lookAgain(ctx); err != nil {
		return err
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
		switch {
		case x.mayLead.IsZero():
		case now.Before(x.mayLead):
			continue // its state is not known
		default:
			x.lose(now)
		}
		st := x.now.at(now)
		if st == stateExpired && x.now.expires().After(w.opened) {
			st = x.now.at(x.now.holder.Renewed) // not believed yet
		}
		if x.last != nil && st == x.as && same(*x.last, x.now, st) {
			continue
		}
		found = append(found, x.becomes(x.now, st, now))
	}
	slices.SortFunc(found, func(a, b electionChange) int {
		return cmp.Or(a.at.Compare(b.at), strings.Compare(a.now.election, b.now.election))
	})
	return w.publish(found...)
}

// becomes records a state as reported, and returns the change to it. The change is dated
// now if the record does not date it. What a leader publishes is as old as the record.
func (x *watched) becomes(s electionStatus, st state, now time.Time) electionChange {
	at := s.since(st)
	switch {
	case at.IsZero():
		at = now
	case st == stateLeading && x.as == st && x.last.holder.Token == s.holder.Token:
		at = s.entry.Created
	}
	c := electionChange{at: at, now: s, state: st, previous: x.last}
	x.last, x.as = &s, st
	if st == stateLeading {
		x.was = s.holder.ID
	}
	return c
}

// mostRecent is how many changes a view remembers.
const mostRecent = 100

func (w *watcher) publish(found ...electionChange) error {
	if len(found) == 0 {
		return nil
	}
	changes := make([]change, len(found))
	for i, c := range found {
		changes[i] = c
		if c.previous != nil {
			w.recent = append(w.recent, c)
		}
	}
	if old := len(w.recent) - mostRecent; old > 0 {
		w.recent = slices.Delete(w.recent, 0, old)
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
	case !s.gone.IsZero():
		return s.gone
	case st == stateExpired:
		return s.expires()
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
		return id + " holds the key, and waits until no other lease can be valid"
	case stateReleased:
		if l := c.now.last(); l != nil && l.Reason == reasonTaken {
			return printable(l.ID) + " has taken the key, because the lease of the member was over, nobody leads"
		}
		if c.previous != nil && c.previous.holder.ID != "" {
			return printable(c.previous.holder.ID) + " has handed over, nobody leads"
		}
		return "given up in order, nobody leads"
	case stateExpired:
		return id + " has not renewed its lease, nobody leads"
	case stateDeleted:
		if !c.now.gone.IsZero() {
			return "the key is gone, nobody leads"
		}
		return "the key was deleted, nobody leads"
	case stateForeign:
		return "the key holds something that natsleader did not write"
	case stateNever:
	}
	return "no candidate has ever led it"
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
