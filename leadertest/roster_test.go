package leadertest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

const life = 45 * time.Second

// session returns the session of a candidate with that name of one letter.
func session(name string) string { return strings.Repeat(strings.ToUpper(name), 26) }

// rosterKit is a store, and the announcements that a view of it has delivered.
type rosterKit struct {
	*testing.T
	clock *leadertest.Clock
	store *leadertest.Store
	told  []string
}

func newRosterKit(t *testing.T, opts ...leadertest.Option) *rosterKit {
	t.Helper()
	clock := leadertest.NewClock()
	return &rosterKit{T: t, clock: clock, store: leadertest.NewStore(clock, opts...)}
}

// announce returns the revision, or the error, as soon as it is known.
func (k *rosterKit) announce(r leader.Store, election, who, entry string) (answer *string) {
	k.Helper()
	answer = new(string)
	var data []byte
	if entry != "" {
		data = []byte(entry)
	}
	r.Backend().Announce(k.Context(), election, session(who), data, life, func(revision uint64, err error) {
		*answer = fmt.Sprint(revision, err)
	})
	k.clock.Settle()
	return answer
}

// view opens a view of the election e that writes down each announcement with its time.
func (k *rosterKit) view(r leader.Store) (view backend.Feed, err error) {
	k.Helper()
	r.Backend().View(k.Context(), "e", func(a backend.Announcement) {
		who := strings.ToLower(a.Session[:min(len(a.Session), 1)])
		line := fmt.Sprintf("%s=%s", who, a.Entry)
		switch {
		case a.Err != nil:
			line = "over"
			if !errors.Is(a.Err, leader.ErrUnreachable) {
				line = a.Err.Error()
			}
		case a.Complete:
			line = "complete"
		case a.Entry == nil:
			line = who + " stands no more"
		}
		k.told = append(k.told, fmt.Sprintf("%v %s", k.clock.Elapsed(), line))
	}, func(f backend.Feed, e error) { view, err = f, e })
	k.clock.Settle()
	return view, err
}

// hears fails the test unless the view has delivered these lines since the last call.
func (k *rosterKit) hears(want ...string) {
	k.Helper()
	k.clock.Settle()
	check.Deep(k, k.told, want)
	k.told = nil
}

// An announcement lapses exactly at the end of its life, unless it is made again.
func TestAnnouncement_Lapses(t *testing.T) {
	k := newRosterKit(t)
	k.announce(k.store, "e", "a", "1")
	k.announce(k.store, "e", "b", "1")
	check.Got(k.view(k.store))(t)
	k.hears("0s a=1", "0s b=1", "0s complete")
	k.clock.Advance(30 * time.Second)
	check.Equal(t, *k.announce(k.store, "e", "a", "2"), "3 <nil>", "a announced again: %s")
	k.hears("30s a=2")
	k.clock.Advance(15*time.Second - 1)
	k.hears()
	k.clock.Advance(1)
	k.hears("45s b stands no more")
	k.clock.Advance(30*time.Second - 1)
	k.hears()
	k.clock.Advance(1)
	k.hears("1m15s a stands no more")
	k.clock.Advance(time.Hour)
	k.hears()
}

// A view delivers the announcements that are there, and their changes. A candidate that
// withdraws is gone from the roster at once. A view delivers no announcement twice, and
// none of another election.
func TestView_EntriesAndChanges(t *testing.T) {
	k := newRosterKit(t, leadertest.WithLatency(time.Millisecond))
	view, err := k.view(k.store)
	check.Must(t, view == nil && err == nil, "opened in no time: %v", err)
	k.clock.Advance(2 * time.Millisecond)
	k.hears("2ms complete")
	k.announce(k.store.Link("a"), "e", "a", "1")
	k.announce(k.store.Link("a"), "e.x", "a", "1")
	k.clock.Advance(2 * time.Millisecond)
	k.hears("4ms a=1")
	k.announce(k.store.Link("a"), "e", "a", "")
	k.announce(k.store.Link("a"), "e", "b", "") // never stood
	k.clock.Advance(2 * time.Millisecond)
	k.hears("6ms a stands no more", "6ms b stands no more")
	k.clock.Advance(time.Hour)
	k.hears()
	got := k.store.Requests()
	check.That(t, got.Announcements == 4 && got.Views == 1 && got.Writes == 0 && got.Total() == 5, "asked %+v", got)
}

// A view that is stopped is silent.
func TestView_StoppedIsSilent(t *testing.T) {
	k := newRosterKit(t)
	view := check.Got(k.view(k.store))(t)
	k.hears("0s complete")
	k.announce(k.store, "e", "a", "1")
	k.hears("0s a=1")
	view.Stop()
	k.announce(k.store, "e", "a", "2")
	k.hears()
}

// A cut link delivers no announcement, and its views end when the link is restored.
func TestRoster_BehindCutLink(t *testing.T) {
	k := newRosterKit(t)
	link := k.store.Link("a")
	check.Got(k.view(link))(t)
	k.hears("0s complete")
	link.Cut()
	var cut error
	link.Backend().Announce(t.Context(), "e", session("a"), []byte("1"), life, func(_ uint64, err error) { cut = err })
	k.clock.Settle()
	check.Is(t, cut, leader.ErrUnreachable)
	k.announce(k.store, "e", "b", "1")
	k.hears()
	link.Restore()
	k.hears("0s over")
	k.announce(k.store, "e", "b", "2")
	k.hears()
	check.Got(k.view(link))(t)
	k.hears("0s b=2", "0s complete")
	link.Close()
	k.hears("0s " + leader.ErrConnectionClosed.Error())
}

// Faults of announcements do not affect writes, and faults of writes do not affect
// announcements.
func TestRoster_Faults(t *testing.T) {
	k := newRosterKit(t)
	link := k.store.Link("a")
	link.FailWrites(-1, leader.ErrPermission)
	link.FailWatches(-1, leader.ErrPermission)
	link.FailAnnouncements(1, leader.ErrPermission)
	link.LoseAnnouncements(1)
	link.AnnounceLate(1, time.Minute)
	link.FailViews(1, leader.ErrNoRoster)
	check.Is(t, check.Err(k.view(link)), leader.ErrNoRoster)
	check.Is(t, check.Err(k.view(link)), nil)
	k.hears("0s complete")
	errs := make([]error, 4)
	for i := range errs {
		ctx, cancel := context.WithCancel(t.Context())
		link.Backend().Announce(ctx, "e", session("a"), []byte{'0' + byte(i)}, life, func(_ uint64, err error) { errs[i] = err })
		k.clock.Settle()
		cancel()
		k.clock.Settle()
	}
	for i, want := range []error{leader.ErrPermission, leader.ErrUnreachable, leader.ErrUnreachable, nil} {
		check.That(t, errors.Is(errs[i], want), "announcement %d: %v, want %v", i, errs[i], want)
	}
	k.hears("0s a=3")
	k.clock.Advance(time.Minute)
	k.hears("45s a stands no more", "1m0s a=2")
	link.EndViews(leader.ErrPermission)
	k.hears("1m0s " + leader.ErrPermission.Error())
}

// A roster that is deleted and made anew is empty. The bucket is not affected.
func TestRoster_MadeAnewIsEmpty(t *testing.T) {
	k := newRosterKit(t)
	check.Got(k.view(k.store))(t)
	k.announce(k.store, "e", "a", "1")
	k.hears("0s complete", "0s a=1")
	k.store.Put("e", []byte("x"))
	k.store.DropRoster()
	k.hears("0s over")
	var gone error
	k.store.Backend().Announce(t.Context(), "e", session("a"), []byte("1"), life, func(_ uint64, err error) { gone = err })
	_, err := k.view(k.store)
	check.That(t, errors.Is(err, leader.ErrNoRoster) && errors.Is(gone, leader.ErrNoRoster),
		"without a roster: %v, %v", err, gone)
	k.store.RecreateRoster()
	check.Got(k.view(k.store))(t)
	k.clock.Advance(life)
	k.hears("0s complete")
	check.That(t, k.store.Entry("e").Revision == 1, "the bucket was touched")
}

// A view whose roster goes away while it is being opened ends, too.
func TestView_EndsWhileOpening(t *testing.T) {
	k := newRosterKit(t, leadertest.WithLatency(time.Millisecond))
	view, _ := k.view(k.store)
	k.clock.Advance(time.Millisecond)
	k.store.DropRoster()
	k.clock.Advance(time.Millisecond)
	check.That(t, view == nil, "opened at once")
	k.hears("2ms over")
}
