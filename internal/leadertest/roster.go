package leadertest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

// stand is the key of a roster entry: a session that stands in an election.
type stand struct{ election, session string }

// announced is the roster entry of a session.
type announced struct {
	entry    []byte
	revision uint64
}

var (
	errRosterGone  = errors.New("the roster was deleted")
	errReconnected = errors.New("the connection was lost")
)

// validSession matches the results of crypto/rand.Text. A [leader.Bucket] takes no other
// sessions.
var validSession = regexp.MustCompile("^[A-Z2-7]{26}$")

func checkSession(session string) error {
	if !validSession.MatchString(session) {
		return fmt.Errorf("%w: session %q is not 26 of A-Z and 2-7", leader.ErrInvalidConfig, session)
	}
	return nil
}

// Announce keeps entry for life, rounded up to whole seconds.
func (l linkBackend) Announce(ctx context.Context, election, session string, entry []byte, life time.Duration, reply func(revision uint64, err error)) {
	s := l.link.store
	fail := func(err error) { reply(0, err) }
	if err := checkSession(session); err != nil {
		fail(err)
		return
	}
	entry = bytes.Clone(entry)
	l.link.ask(ctx, announcements, fail, func(fault) func() {
		switch {
		case s.rosterGone:
			return func() { fail(leader.ErrNoRoster) }
		case s.settings.MaxValue > 0 && len(entry) > s.settings.MaxValue:
			return func() { fail(leader.ErrValueTooLarge) }
		}
		seconds := (life + time.Second - 1).Truncate(time.Second)
		revision := s.announce(stand{election, session}, entry, max(seconds, time.Second))
		return func() { reply(revision, nil) }
	})
}

// View opens a view of the roster. The view ends when the link has a new connection.
func (l linkBackend) View(ctx context.Context, election string, deliver func(backend.Announcement), reply func(backend.Feed, error)) {
	s := l.link.store
	v := &view{link: l.link, election: election, deliver: deliver}
	fail := func(err error) {
		v.Stop() // the store may have opened it
		reply(nil, err)
	}
	l.link.ask(ctx, views, fail, func(fault) func() {
		if s.rosterGone {
			return func() { fail(leader.ErrNoRoster) }
		}
		s.views = append(s.views, v)
		v.last = s.time.Now().Add(l.link.oneWay()) // no change overtakes the reply
		s.time.after(0, v.tellAll)                 // when the reply is on its way
		return func() {
			err := v.opened()
			reply(v, nil)
			if err != nil {
				s.time.after(0, func() { deliver(backend.Announcement{Err: err}) })
			}
		}
	})
}

// view is an open view of the roster.
type view struct {
	link     *Link
	election string
	deliver  func(backend.Announcement)
	open     bool  // the reply to Stands has been given
	err      error // the view has ended before that
	last     time.Time
}

// Stop ends the view. A delivery that has begun may still be going on.
func (v *view) Stop() {
	s := v.link.store
	s.mu.Lock()
	defer s.mu.Unlock()
	v.drop()
}

// opened opens the view, or returns the reason if the view has already ended.
func (v *view) opened() error {
	s := v.link.store
	s.mu.Lock()
	defer s.mu.Unlock()
	v.open = v.err == nil
	return v.err
}

// tellAll delivers all entries. It is an event of its own. If the entries came in the
// event of the reply, a candidate would find the view complete either at its first look or
// at its second.
func (v *view) tellAll() {
	s := v.link.store
	s.mu.Lock()
	defer s.mu.Unlock()
	standing := s.standing(v.election)
	v.link.inOrder(&v.last, &v.open, func() {
		for _, a := range standing {
			v.deliver(a)
		}
		v.deliver(backend.Announcement{Complete: true})
	})
}

// The lock is held below.

func (v *view) drop() {
	v.open = false
	s := v.link.store
	if i := slices.Index(s.views, v); i >= 0 {
		s.views = slices.Delete(slices.Clone(s.views), i, i+1) // it may be being ranged over
	}
}

// end ends the view and delivers err, at once and without the link.
func (v *view) end(err error) {
	open, deliver := v.open, v.deliver
	v.err = err
	v.drop()
	if open {
		v.link.store.time.after(0, func() { deliver(backend.Announcement{Err: err}) })
	}
}

func (s *Store) announce(who stand, entry []byte, life time.Duration) (revision uint64) {
	s.rosterSeq++
	revision = s.rosterSeq
	if entry == nil {
		delete(s.roster, who)
		s.tellViews(who, announced{revision: revision})
		return revision
	}
	a := announced{entry, revision}
	s.roster[who] = a
	s.tellViews(who, a)
	s.time.after(life, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.roster[who].revision == revision {
			s.announce(who, nil, 0)
		}
	})
	return revision
}

func (s *Store) tellViews(who stand, a announced) {
	for _, v := range s.views {
		if v.election == who.election && v.link.reached() {
			v.link.inOrder(&v.last, &v.open, func() { v.deliver(a.of(who.session)) })
		}
	}
}

// of returns the announcement for a view. The entry is a copy that its reader owns.
func (a announced) of(session string) backend.Announcement {
	return backend.Announcement{Session: session, Revision: a.revision, Entry: bytes.Clone(a.entry)}
}

// standing returns the entries of an election, in the order of their last announcements.
func (s *Store) standing(election string) []backend.Announcement {
	var all []backend.Announcement
	for who, a := range s.roster {
		if who.election == election {
			all = append(all, a.of(who.session))
		}
	}
	slices.SortFunc(all, func(a, b backend.Announcement) int { return cmp.Compare(a.Revision, b.Revision) })
	return all
}

// DropRoster deletes the roster, which ends its views. Until [Store.RecreateRoster],
// announcements and new views fail with [leader.ErrNoRoster].
func (s *Store) DropRoster() {
	defer s.lock("Store.DropRoster")()
	s.rosterGone, s.rosterSeq = true, 0
	clear(s.roster)
	for _, v := range s.views {
		v.end(unreachable(errRosterGone))
	}
}

// RecreateRoster makes the roster anew, empty, after [Store.DropRoster].
func (s *Store) RecreateRoster() {
	defer s.lock("Store.RecreateRoster")()
	s.rosterGone = false
}

// LoseAnnouncements loses the next n announcements on their way to the store. They fail
// with [leader.ErrUnreachable] when their context ends.
func (l *Link) LoseAnnouncements(n int) {
	l.script("LoseAnnouncements", announcements, fault{what: loseRequest, n: n})
}

// AnnounceLate makes the next n announcements reach the store only when d has passed,
// as [Link.ApplyLate] does with writes.
func (l *Link) AnnounceLate(n int, d time.Duration) {
	l.script("AnnounceLate", announcements, fault{what: applyLate, n: n, after: d})
}

// FailAnnouncements answers the next n announcements with err and does not keep them.
func (l *Link) FailAnnouncements(n int, err error) {
	l.script("FailAnnouncements", announcements, fault{what: fails, n: n, err: err})
}

// FailViews answers the next n tries to open a view of the roster with err.
func (l *Link) FailViews(n int, err error) {
	l.script("FailViews", views, fault{what: fails, n: n, err: err})
}

// EndViews ends the link's open views of the roster with err.
func (l *Link) EndViews(err error) {
	defer l.store.lock("Link.EndViews")()
	l.endViews(err)
}

func (l *Link) endViews(err error) {
	for _, v := range l.store.views {
		if v.link == l {
			v.end(err)
		}
	}
}
