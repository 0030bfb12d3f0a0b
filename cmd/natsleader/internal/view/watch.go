// Package view shows elections, groups and rosters, once or as they change.
package view

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/internal/backend"
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

// RegisterWatch adds the command watch.
func RegisterWatch(app *fisk.Application, g *front.Globals) {
	var of Sharing
	var pattern, hook string
	var asJSON, timeline, withRoster bool
	cmd := app.Command("watch", "Show who leads as it changes").HelpLong(watchHelp)
	cmd.Arg("name", "Election or group to watch, or a pattern with *; all elections of the bucket by default").HintAction(func() []string { return inspect.NamesToShow(g) }).StringVar(&of.Group)
	cmd.Flag("roster", "Show the roster of the election as it changes").UnNegatableBoolVar(&withRoster)
	of.register(cmd)
	cmd.Flag("exec", "Run this command for every change").PlaceHolder("COMMAND").StringVar(&hook)
	cmd.Flag("timeline", "Print a line for every change on a terminal, too").UnNegatableBoolVar(&timeline)
	cmd.Flag("json", "Print one line of JSON for every change").Short('j').UnNegatableBoolVar(&asJSON)
	g.RegisterLog(cmd)
	cmd.Action(func(*fisk.ParseContext) error {
		election := of.Group
		if strings.Contains(election, "*") {
			election, pattern = "", election
		} else if election != "" {
			if err := inspect.CheckElection(election); err != nil {
				return err
			}
		}
		switch {
		case hook != "" && (asJSON || timeline):
			return front.Usagef("--exec prints nothing itself: it takes neither --json nor --timeline")
		case hook != "" && (withRoster || of.asked()):
			return front.Usagef("--exec is for elections: it takes no --roster, --shard and --key")
		case withRoster && (of.asked() || election == ""):
			return front.Usagef("--roster needs the name of an election, and takes no --shard and --key")
		}
		names, err := PatternOf(pattern)
		if err = cmp.Or(err, of.check()); err != nil {
			return err
		}
		var out Renderer
		if hook != "" {
			out = newHooks(g, hook)
		} else {
			out = newRenderer(g, asJSON, timeline)
		}
		return follow(g, func(ctx context.Context, s *inspect.Inspector, links <-chan error) error {
			switch {
			case withRoster:
				return followUntil(ctx, s, out, source[Lineup](newRosterWatcher(s, election, out)), links)
			case of.asked() || election != "" && s.IsGroup(ctx, election):
				if hook != "" {
					return inspect.IsNoElection(election)
				}
				return followUntil(ctx, s, out, source[shard.View](&shardsWatcher{pulse: newPulse(s, out), newest: of, end: func() {}}), links)
			}
			w := newWatcher(s, election, out)
			w.names, w.pattern = names, pattern
			_, w.counts = out.(*liveView)
			w.counts = w.counts && election == "" // see --roster
			return followUntil(ctx, s, out, source[jetstream.KeyValueEntry](w), links)
		})
	})
}

// Watcher follows the elections of a bucket.
type Watcher struct {
	S        *inspect.Inspector
	election string // empty: all
	names    *regexp.Regexp
	pattern  string                                                            // of names; empty: none
	look     func(ctx context.Context, limit time.Duration, opening bool) look // changes nothing in the watcher

	Elections  map[string]*Watched
	notes      map[string]noted     // by election
	maps       map[string]mapEntry  // the other keys of groups; nil: they are not kept
	Groups     map[string]int       // how often each group has changed, as far as the feed has shown; nil: it is not counted
	Cordoned   []string             // not known where one election is watched
	Feed       jetstream.KeyWatcher // nil while there is none
	end        context.CancelFunc   // of the feed
	cordonFeed jetstream.KeyWatcher // that has delivered the cordon; nil: none has
	opened     time.Time            // the server's time when the feed was opened
	Complete   bool                 // the current entries of all keys have come through the feed
	seamless   bool                 // the feed before was alive until this one replaced it

	looking    *looking              // in flight; nil: none
	looked     time.Time             // when the last look began, by this host
	seen       uint64                // the last revision of the bucket that the feed has delivered or began after
	behind     uint64                // the bucket's last revision at the look before, if it was not delivered; 0: it was
	seenBefore uint64                // seen at that look
	streamAt   string                // the server that led the stream when the feed was opened
	created    time.Time             // when the stream was, as the feed was opened
	Info       *jetstream.StreamInfo // of the last look; nil: it failed, or went through another connection

	counts  bool       // the candidates that stand, for a view
	counted time.Time  // when the last count began, by this host
	who     *announced // nil: not known

	asks    bool                   // for the streams beside the bucket
	asked   time.Time              // when the last such question began, by this host
	Streams map[string]StreamState // by what they keep; nil: not known

	Fresh time.Time // the server's time at which the state was last known to be the newest
	health
	vanished bool // keys have gone without a message, so the feed is to be replaced
	bucket   inspect.SeenBucket
	recent   []ElectionChange // the newest last
}

// Watched is an election and its last reported state.
type Watched struct {
	Now  facts.ElectionStatus
	Last *facts.ElectionStatus // reported; nil: nothing yet
	As   facts.State           // the state that was reported
	Was  string                // the ID of the last leader that was reported
	feed jetstream.KeyWatcher

	published string // in a group: of the member or the assigner
}

// noted is a note, as the feed has shown it.
type noted struct {
	facts.Note
	feed jetstream.KeyWatcher // that has delivered it
}

// mapEntry is the newest revision of a key of a group that is not the key of an election.
type mapEntry struct {
	backend.Entry
	feed jetstream.KeyWatcher // that has delivered it
}

// Group returns a group as the feed has shown it. A lease that is over counts as soon as that is reported.
func (w *Watcher) Group(name string) shard.View {
	return backend.ShardsIn(name, func(key string) backend.Entry { return w.maps[key].Entry }, func(election string) any { //nolint:forcetypeassert // package shard has made it
		x := w.Elections[election]
		if x == nil {
			return leader.Holder{Seat: 1}
		}
		h := facts.NewElectionStatus(election, x.Now.Entry).Holder // with the value
		if x.As == facts.Expired {
			h.State = leader.HolderExpired
			return leader.Holder{Seat: h.Seat, Revision: h.Revision, Last: &h}
		}
		return h
	}).(shard.View)
}

// Expires reports whether the keys of the bucket do.
func (w *Watcher) Expires() bool { return w.bucket.Conf.MaxAge > 0 }

// regroup counts a change of a group.
func (w *Watcher) regroup(name string) {
	if w.Groups != nil {
		w.Groups[name]++
	}
}

func newWatcher(s *inspect.Inspector, election string, out Renderer) *Watcher {
	w := &Watcher{S: s, election: election, names: everyName, health: health{out: out}, Elections: map[string]*Watched{}, notes: map[string]noted{}, bucket: inspect.SeenBucket{Name: s.Name}}
	w.look = w.request
	if election != "" {
		w.Elections[election] = &Watched{Now: facts.ElectionStatus{Election: election}}
	}
	return w
}

// close gives up the feed, and the look in flight.
func (w *Watcher) close() {
	w.abandon()
	front.WaitBriefly(w.closeFeed())
}

func (w *Watcher) abandon() {
	if w.looking != nil {
		w.looking.abandon()
		w.looking = nil
	}
}

// closeFeed gives up the feed, and returns a channel that is closed when that is done. It
// requests the deletion of the consumer, and a server that hangs lets it wait.
func (w *Watcher) closeFeed() <-chan struct{} {
	done := make(chan struct{})
	if w.Feed == nil {
		close(done)
		return done
	}
	go func(feed jetstream.KeyWatcher, end context.CancelFunc) {
		defer close(done)
		_ = feed.Stop() // it may have gone with the connection
		end()
	}(w.Feed, w.end)
	w.Feed = nil
	return done
}

// connection gives up a feed that may have missed something.
func (w *Watcher) connection(err error) {
	w.abandon()
	w.closeFeed()
	w.looked, w.Info = time.Time{}, nil
	w.linked(err)
}

func (w *Watcher) updates() <-chan jetstream.KeyValueEntry {
	if w.Feed == nil {
		return nil
	}
	return w.Feed.Updates()
}

// update handles a revision of a key, or with nil the end of the current entries.
func (w *Watcher) update(e jetstream.KeyValueEntry, more bool) error {
	switch {
	case !more:
		w.closeFeed()
		return nil
	case e == nil:
		return w.completed()
	}
	name, election, ofGroup := group.NameOf(e.Key())
	w.seen = max(w.seen, e.Revision())
	if election, ok := strings.CutPrefix(e.Key(), facts.NotePrefix); ok {
		w.notes[election] = noted{facts.DecodeNote(e.Value()), w.Feed}
		if x := w.Elections[election]; x != nil {
			x.Now.Note = w.notes[election].Note
		}
		return nil
	}
	if e.Key() == wire.CordonKey {
		w.Cordoned, _ = inspect.CordonOf(facts.ElectionStatus{Entry: natskv.EntryOf(e)}) // candidates take a junk value for none
		w.cordonFeed = w.Feed
		return nil
	}
	if !w.names.MatchString(e.Key()) {
		return nil
	}
	if ofGroup && !election { // the map of a group
		if w.maps != nil {
			w.maps[e.Key()] = mapEntry{natskv.EntryOf(e), w.Feed}
			w.regroup(name)
		}
		return nil
	}
	x := w.Elections[e.Key()]
	if x == nil {
		x = &Watched{}
		w.Elections[e.Key()] = x
	}
	continuous := w.Complete && x.feed == w.Feed || !w.Complete && w.seamless
	old := w.Complete && x.feed == w.Feed && e.Revision() <= x.Now.Entry.Revision // revisions of another feed may be of a bucket that was deleted
	x.feed, x.Now.MayLead = w.Feed, time.Time{}
	if old {
		return nil
	}
	now := facts.NewElectionStatus(e.Key(), natskv.EntryOf(e))
	now.Note = w.notes[e.Key()].Note
	h := &now.Holder
	if ofGroup { // its processes publish for each other, with every move
		published := string(h.Value)
		h.Value = nil
		if h.Last != nil {
			published, h.Last.Value = string(h.Last.Value), nil
		}
		if published != x.published {
			x.published = published
			w.regroup(name)
		}
	}
	if h.State == leader.HolderLeading && h.Since.IsZero() && x.As == facts.Leading && h.Token == x.Now.Holder.Token {
		h.Since = x.Now.Since(facts.Leading) // a leader may not know it
	}
	if w.Complete {
		w.Fresh = now.Entry.Created
	}
	if continuous && x.replacedAfterExpiry(now) {
		if err := w.publish(x.becomes(x.Now, facts.Expired, time.Time{})); err != nil {
			return err
		}
	}
	x.Now = now
	return w.report(x)
}

// replacedAfterExpiry reports whether the lease of the holder that was reported had run
// out when the next one took the key. A candidate that waits takes the key at once, so
// the key was expired between two of its revisions only.
func (x *Watched) replacedAfterExpiry(next facts.ElectionStatus) bool {
	if x.Last == nil || !x.As.Held() || next.Holder.ID == "" {
		return false
	}
	h, n := x.Now.Holder, next.Holder
	another := n.ID != h.ID || n.State == leader.HolderLeading && h.State == leader.HolderLeading && n.Token != h.Token
	return another && !x.Now.Expires().After(next.Entry.Created)
}

// completed handles the end of the current entries.
func (w *Watcher) completed() error {
	w.Complete = true
	w.Fresh = w.opened
	if w.cordonFeed != w.Feed { // the cordon has gone with its bucket
		w.Cordoned = nil
	}
	maps.DeleteFunc(w.maps, func(_ string, m mapEntry) bool { return m.feed != w.Feed })
	if w.election == "" {
		maps.DeleteFunc(w.notes, func(_ string, n noted) bool { return n.feed != w.Feed })
		for name, x := range w.Elections {
			x.Now.Note = w.notes[name].Note
		}
	}
	for name := range w.Groups { // keys may be missing
		w.regroup(name)
	}
	for _, x := range w.Elections {
		if x.feed != w.Feed {
			w.miss(x) // gone with its bucket, or its marker has expired
		}
	}
	w.recovered()
	return w.report(w.all()...)
}

// miss handles a key that is missing in a bucket that exists. The bucket may have been deleted and
// made again, and then the lease of the holder goes on.
func (w *Watcher) miss(x *Watched) {
	switch now := w.S.Clock.Now(); {
	case !x.Now.MayLead.IsZero():
	case x.As.Held():
		x.Now.MayLead = now.Add(max(x.Now.Holder.Lease, w.bucket.LongestLease()))
	default:
		x.lose(now)
	}
}

// gone handles a bucket that is missing, and returns its error. Any key may have been taken since
// its last record came.
func (w *Watcher) gone() error {
	var leaders []string
	var longest time.Duration
	for _, x := range w.Elections {
		if x.As.Held() {
			leaders = append(leaders, fmt.Sprintf("%s (%s)", front.Shorten(front.Printable(x.Now.Holder.ID), front.LongID), front.Printable(x.Now.Election)))
			longest = max(longest, x.Now.Holder.Lease)
		}
	}
	slices.Sort(leaders)
	err := w.bucket.Gone(w.S.Clock.Now(), leaders, longest)
	for _, x := range w.Elections {
		if x.Now.MayLead.IsZero() {
			x.Now.MayLead = w.bucket.Until
		}
	}
	return err
}

// lose takes note that the key has no revision.
func (x *Watched) lose(now time.Time) {
	x.Now.MayLead = time.Time{}
	if x.Now.Entry.Revision > 0 {
		if last := x.Now.Last(); last != nil {
			x.Was = last.ID
		}
		x.Now = facts.ElectionStatus{Election: x.Now.Election, Gone: now, Note: x.Now.Note}
	}
}

// ticked looks at the bucket from time to time, and reports changes by the passage of time.
func (w *Watcher) ticked(ctx context.Context) error {
	if err := w.lookAgain(ctx); err != nil {
		return err
	}
	return w.report(w.all()...)
}

func (w *Watcher) all() []*Watched { return slices.Collect(maps.Values(w.Elections)) }

// report reports the changes of elections.
func (w *Watcher) report(elections ...*Watched) error {
	if !w.Complete {
		return nil
	}
	now := w.S.Clock.Now()
	var found []ElectionChange
	for _, x := range elections {
		switch {
		case x.Now.MayLead.IsZero():
		case now.Before(x.Now.MayLead):
			continue // its state is not known
		default:
			x.lose(now)
		}
		st := x.Now.At(now)
		if st == facts.Expired && x.Now.Expires().After(w.opened) {
			st = x.Now.At(x.Now.Holder.Renewed) // not believed yet
		}
		if x.Last != nil && st == x.As && same(*x.Last, x.Now, st) {
			continue
		}
		found = append(found, x.becomes(x.Now, st, now))
	}
	slices.SortFunc(found, func(a, b ElectionChange) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Now.Election, b.Now.Election))
	})
	err := w.publish(found...)
	w.forget(elections)
	return err
}

// forget forgets keys that are gone from a bucket that is there: a watcher that begins now would not know them. Those of a
// bucket that is gone are kept until it is there again.
func (w *Watcher) forget(elections []*Watched) {
	if w.election != "" || w.Feed == nil {
		return
	}
	for _, x := range elections {
		if !x.Now.Gone.IsZero() {
			delete(w.Elections, x.Now.Election)
		}
	}
}

// keys is how many keys the feed has shown, of a watcher that keeps all.
func (w *Watcher) keys() int {
	n := len(w.notes) + len(w.maps)
	for _, x := range w.Elections {
		if x.feed == w.Feed {
			n++
		}
	}
	if w.cordonFeed == w.Feed {
		n++
	}
	return n
}

// becomes records a state as reported, and returns the change to it. The change is dated
// now if the record does not date it. What a leader publishes is as old as the record.
func (x *Watched) becomes(s facts.ElectionStatus, st facts.State, now time.Time) ElectionChange {
	at := s.Since(st)
	switch {
	case at.IsZero():
		at = now
	case st == facts.Leading && x.As == st && x.Last.Holder.Token == s.Holder.Token:
		at = s.Entry.Created
	}
	c := ElectionChange{At: at, Now: s, State: st, Previous: x.Last}
	x.Last, x.As = &s, st
	if st == facts.Leading {
		x.Was = s.Holder.ID
	}
	return c
}

// mostRecent is how many changes a view remembers.
const mostRecent = 100

func (w *Watcher) publish(found ...ElectionChange) error {
	if len(found) == 0 {
		return nil
	}
	changes := make([]Change, len(found))
	for i, c := range found {
		c.Expires = w.Expires()
		changes[i] = c
		if name, _, ofGroup := group.NameOf(c.Now.Election); ofGroup {
			w.regroup(name)
		}
		if c.Previous != nil {
			w.recent = append(w.recent, c)
		}
	}
	if old := len(w.recent) - mostRecent; old > 0 {
		w.recent = slices.Delete(w.recent, 0, old)
	}
	return w.out.Changed(changes...)
}

// same reports whether a revision changes nothing that is reported.
func same(a, b facts.ElectionStatus, st facts.State) bool {
	switch st {
	case facts.Leading:
		return a.Holder.ID == b.Holder.ID && a.Holder.Token == b.Holder.Token && string(a.Holder.Value) == string(b.Holder.Value)
	case facts.Pending:
		return a.Holder.ID == b.Holder.ID
	case facts.Released, facts.Deleted, facts.Expired, facts.Foreign, facts.Never:
	}
	return true
}

// ElectionChange is a change of an election.
type ElectionChange struct {
	At       time.Time // the server's
	Now      facts.ElectionStatus
	State    facts.State
	Previous *facts.ElectionStatus // nil: it is the first
	Expires  bool                  // the keys of the bucket do
}

func (c ElectionChange) time() time.Time { return c.At }

func (c ElectionChange) text() string {
	return front.Printable(c.Now.Election) + "  " + c.Event()
}

// Event describes the change in words.
func (c ElectionChange) Event() string {
	h := c.Now.Holder
	id := front.Printable(h.ID)
	switch c.State {
	case facts.Leading:
		if facts.Takes(c.Now.Election, h.ID) {
			return id + " takes the key to end the term of the member"
		}
		s := fmt.Sprintf("%s leads with token %d", id, h.Token)
		if len(h.Value) > 0 {
			s += ": " + front.Shorten(front.Printable(string(h.Value)), front.LongValue)
		}
		return s
	case facts.Pending:
		return id + " holds the key, and waits until no other lease can be valid"
	case facts.Released:
		if l := c.Now.Last(); l != nil && l.Reason == facts.ReasonTaken {
			return front.Printable(l.ID) + " has taken the key to end the term of the member, nobody leads"
		}
		if c.Previous != nil && c.Previous.Holder.ID != "" {
			return front.Printable(c.Previous.Holder.ID) + " has handed over, nobody leads"
		}
		return "given up in order, nobody leads"
	case facts.Expired:
		return id + " has not renewed its lease, nobody leads"
	case facts.Deleted:
		if !c.Now.Gone.IsZero() {
			return "the key is gone, nobody leads"
		}
		return "the key was deleted, nobody leads"
	case facts.Foreign:
		return "the key holds something that natsleader did not write"
	case facts.Never:
	}
	return "no candidate has ever led it"
}

func (c ElectionChange) object() any {
	s := electionSummary(c.Now, judge.Around{Now: c.At, Expires: c.Expires})
	s.State = c.State
	s.Remaining = nil // of a moment that has passed
	return struct {
		Time time.Time `json:"time"`
		summary
	}{c.At.UTC(), s}
}
