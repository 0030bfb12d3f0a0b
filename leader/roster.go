package leader

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/record"
)

// Roster reads once which candidates wait in an election, in the order in which they
// would follow. The holder of the key is not among them, nor is a candidate without
// a [Succession]. A candidate that died stays in the roster until its announcement
// lapses, three leases after the last one.
//
// Errors are those of [Lookup], and [ErrNoRoster].
func Roster(ctx context.Context, store Store, election string) ([]RosterEntry, error) {
	b, err := backendFor(store, election)
	if err != nil {
		return nil, err
	}
	s, err := look(ctx, b, election)
	if err != nil {
		return nil, err
	}
	ctx, cancel := deadline.Limit(ctx)
	defer cancel()
	holder := ""
	if s.Held() {
		holder = s.Rec.Session
	}
	r := reader{election: election}
	if err := r.open(ctx, b); err != nil {
		return nil, err
	}
	defer r.feed.Stop()
	for {
		select {
		case <-r.bell:
			if all, complete, err := r.read(holder); complete || err != nil {
				return all, err
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", ErrUnreachable, ctx.Err())
		}
	}
}

// ObserveRoster reports on a channel which candidates wait in an election, in the order
// in which they would follow: at once, and whenever that changes, until ctx ends and the
// channel is closed. A slow reader gets the newest list. ObserveRoster fails as [Roster]
// does; when the roster cannot be reached later, it tries again.
func ObserveRoster(ctx context.Context, store Store, election string) (<-chan []RosterEntry, error) {
	b, err := backendFor(store, election)
	if err != nil {
		return nil, err
	}
	first, cancel := deadline.Limit(ctx)
	defer cancel()
	r := reader{election: election}
	if err = r.open(first, b); err != nil {
		return nil, err
	}
	holders := startCandidate(ctx, b, election, Config{Clock: clockOf(store)}, machine.Params{Observe: true})
	lists := make(chan []RosterEntry)
	go r.observe(ctx, b, holders, holders.reader(), lists)
	return lists, nil
}

// reader reads a roster for an observer.
type reader struct {
	election string
	view     *view
	feed     backend.Feed
	bell     chan struct{}
}

// open opens a view, and waits until it is open.
func (r *reader) open(ctx context.Context, store backend.Roster) error {
	bell := make(chan struct{}, 1)
	r.bell, r.view = bell, newView(math.MaxInt, func() {
		select {
		case bell <- struct{}{}:
		default: // the pending ring leads to another read
		}
	})
	type answer struct {
		feed backend.Feed
		err  error
	}
	answers := make(chan answer, 1)
	store.View(ctx, r.election, r.view.take, func(f backend.Feed, err error) { answers <- answer{f, err} })
	got := <-answers // soon after ctx has ended, at the latest
	r.feed = got.feed
	return got.err
}

// read returns the waiting candidates, without the holder.
func (r *reader) read(holder string) (all []RosterEntry, complete bool, err error) {
	stands, complete, err := r.view.order(func(session string) bool { return session == holder })
	for _, s := range stands {
		all = append(all, entryOf(s))
	}
	return all, complete, err
}

// reopening is the pause before a view that has ended is opened again.
const reopening = time.Second

func (r *reader) observe(ctx context.Context, store backend.Roster, holders *Candidate, events *eventReader, lists chan<- []RosterEntry) {
	defer close(lists)
	defer func() { <-holders.Done() }()
	defer func() {
		if r.feed != nil {
			r.feed.Stop()
		}
	}()
	var newest []RosterEntry
	var out chan<- []RosterEntry // nil while there is nothing to send
	first := true
	for {
		select {
		case _, open := <-events.bell:
			if !open {
				return
			}
			for _, unread := events.next(); unread; _, unread = events.next() {
			}
		case <-r.bell:
		case out <- newest:
			out = nil
			continue
		}
		all, known, err := r.read(holders.shownSession())
		switch {
		case err != nil:
			if !r.reopen(ctx, store) {
				return
			}
		case known && (first || !reflect.DeepEqual(all, newest)):
			newest, out, first = all, lists, false
		}
	}
}

// reopen opens the view again, and returns false if that can never succeed.
func (r *reader) reopen(ctx context.Context, store backend.Roster) bool {
	r.feed.Stop()
	for {
		limited, cancel := deadline.Within(ctx, deadline.Default)
		err := r.open(limited, store)
		cancel()
		switch {
		case err == nil:
			return true
		case ctx.Err() != nil || errors.Is(err, ErrConnectionClosed):
			return false
		}
		_ = deadline.Sleep(ctx, reopening) // the end of ctx is seen above
	}
}

// shownSession returns the session of the key's holder, as far as is known.
func (c *Candidate) shownSession() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// RosterEntry is a candidate that waits in an election without holding its key.
type RosterEntry struct {
	ID       string
	Value    []byte // the value that it publishes with the lease when it leads; not to be changed
	Priority int
	Preempt  bool      // asks a leader of lower priority to hand over
	Since    time.Time // when it began to wait, by its own clock
	// Denied reports that the server denied the candidate's last write of the key, eight leases ago at most, and
	// that the candidate has not reconnected since. The candidate follows after all others, and tries for a free key
	// when they have not taken it.
	Denied bool
}

// entryOf returns the announcement as an application sees it.
func entryOf(s record.Announcement) RosterEntry {
	shown := RosterEntry{ID: s.ID, Priority: s.Priority, Preempt: s.Preempt, Since: s.Since, Denied: s.Denied}
	switch {
	case s.Binary != "":
		shown.Value, _ = base64.StdEncoding.DecodeString(s.Binary) // a value that cannot be decoded is left out
	case s.Value != "":
		shown.Value = []byte(s.Value)
	}
	return shown
}

// view collects the announcements of a roster for its reader.
type view struct {
	priority int    // of the reader: candidates above it may preempt it, and their announcements prove that they live
	changed  func() // called once after a change, until the view is read; never blocks

	mu       sync.Mutex
	stands   map[string]record.Announcement // by session
	complete bool
	rung     bool
	err      error // why it has ended
}

func newView(priority int, changed func()) *view {
	return &view{priority: priority, changed: changed, stands: make(map[string]record.Announcement)}
}

// take handles an announcement.
func (v *view) take(a backend.Announcement) {
	v.mu.Lock()
	defer v.mu.Unlock()
	was, stood := v.stands[a.Session]
	news := false
	switch s, stands := record.DecodeAnnouncement(a); {
	case a.Err != nil:
		v.err, news = a.Err, true
	case a.Complete:
		v.complete, news = true, true
	case !stands:
		delete(v.stands, a.Session)
		news = stood
	case !stood || was.Revision < s.Revision:
		v.stands[a.Session] = s
		was.Revision = s.Revision
		news = was != s || s.Preempt && s.Priority > v.priority
	}
	if news && (v.complete || v.err != nil) && !v.rung {
		v.rung = true
		v.changed()
	}
}

// order returns the waiting candidates in order, without those that hold a key, and
// whether the view is complete; or the reason why the view has ended.
func (v *view) order(holds func(session string) bool) (all []record.Announcement, complete bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.rung = false
	if !v.complete || v.err != nil {
		return nil, false, v.err
	}
	for _, s := range v.stands {
		if !holds(s.Session) {
			all = append(all, s)
		}
	}
	slices.SortFunc(all, func(a, b record.Announcement) int { return a.Before(&b) })
	return all, true, nil
}
