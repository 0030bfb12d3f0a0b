package leader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// Sessions of candidates.
const (
	rosterA = "AAAAAAAAAAAAAAAAAAAAAAAAAA"
	rosterB = "BBBBBBBBBBBBBBBBBBBBBBBBBB"
	rosterC = "C234567CCCCCCCCCCCCCCCCCCC"
)

// rostered makes the bucket E with a roster. It is in memory, like that of expiring.
func (w *world) rostered() {
	w.Helper()
	w.create(leader.BucketConfig{MaxLease: lease, Storage: jetstream.MemoryStorage, Roster: true})
}

// announce returns when the announcement is answered, which may take a second.
func announce(tb testing.TB, r leader.Store, election, session, entry string, life time.Duration) (revision uint64, err error) {
	tb.Helper()
	return announceWithin(tb, time.Second, r, election, session, entry, life)
}

func announceWithin(tb testing.TB, limit time.Duration, r leader.Store, election, session, entry string, life time.Duration) (revision uint64, err error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	defer cancel()
	var data []byte
	if entry != "" {
		data = []byte(entry)
	}
	done := make(chan struct{})
	r.Backend().Announce(ctx, election, session, data, life, func(rev uint64, e error) {
		revision, err = rev, e
		close(done)
	})
	<-done
	return revision, err
}

// rosterView records the announcements of a view.
type rosterView struct {
	backend.Feed
	mu   sync.Mutex
	told []string
	err  error
	all  int // entries
	done bool
}

func stands(tb testing.TB, r leader.Store, election string) (*rosterView, error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Second)
	defer cancel()
	v := new(rosterView)
	opened := make(chan error)
	r.Backend().View(ctx, election, v.hear, func(f backend.Feed, err error) {
		v.Feed = f
		opened <- err
	})
	if err := <-opened; err != nil {
		return nil, err
	}
	tb.Cleanup(v.Stop)
	return v, nil
}

func (v *rosterView) hear(a backend.Announcement) {
	v.mu.Lock()
	defer v.mu.Unlock()
	line := fmt.Sprintf("%.1s=%s", a.Session, a.Entry)
	switch {
	case a.Err != nil:
		line, v.err = "over", a.Err
	case a.Complete:
		line, v.done = "complete", true
	case a.Entry == nil:
		line = fmt.Sprintf("%.1s stands no more", a.Session)
	default:
		v.all++
	}
	v.told = append(v.told, line)
}

// take returns the records since the last call.
func (v *rosterView) take() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	told := v.told
	v.told = nil
	return told
}

func (v *rosterView) hears(w *world, want ...string) {
	w.Helper()
	synctest.Wait()
	told := v.take()
	check.That(w, slices.Equal(told, want), "at %v: told %q, want %q", w.now(), told, want)
}

func (w *world) announces(r leader.Store, election, session, entry string) uint64 {
	w.Helper()
	revision := check.Got(announce(w, r, election, session, entry, 3*lease))(w)
	return revision
}

func (w *world) view(r leader.Store, election string) *rosterView {
	w.Helper()
	v := check.Got(stands(w, r, election))(w)
	return v
}

// Views report an announcement. It lapses three leases after the last one, to the
// instant, and one that is withdrawn is gone at once. An election that is named like
// another one, with a dot and more, has a roster of its own. A message that is no
// announcement is not reported.
func TestRosterView_Announcements(t *testing.T) {
	inRostered(t, func(w *world) {
		b := w.dial("a").bucket(t)
		first := w.announces(b, "e", rosterA, "1")
		w.announces(b, "e.x", rosterC, "1")
		v := w.view(w.dial("l").bucket(t), "e")
		empty := w.view(b, "e.y")
		v.hears(w, "A=1", "complete")
		empty.hears(w, "complete")
		w.at(lease)
		w.announces(b, "e", rosterB, "1")
		again := w.announces(b, "e", rosterA, "2")
		check.That(w, again > first, "revision %d after %d", again, first)
		v.hears(w, "B=1", "A=2")
		kv := check.Got(w.ops.js.KeyValue(w.Context(), "E_roster"))(w)
		check.Got(kv.Put(w.Context(), "e.x", []byte("junk")))(w)
		check.Got(kv.Put(w.Context(), "e."+strings.ToLower(rosterC), []byte("junk")))(w)
		v.hears(w)
		late := w.view(b, "e")
		late.hears(w, "B=1", "A=2", "complete")
		w.announces(b, "e", rosterB, "")
		v.hears(w, "B stands no more")
		w.at(4*lease - 1)
		v.hears(w)
		w.at(4*lease + 250*time.Millisecond)
		v.hears(w, "A stands no more")
		w.at(4*lease + 5*time.Second) // the markers are gone, which is not reported
		v.hears(w)
		late.hears(w, "B stands no more", "A stands no more")
		empty.hears(w)
		w.view(b, "e").hears(w, "complete")
	})
}

// A life is rounded up to whole seconds, and is one at least.
func TestAnnouncement_WholeSeconds(t *testing.T) {
	inRostered(t, func(w *world) {
		b := w.dial("a").bucket(t)
		v := w.view(b, "e")
		for session, life := range map[string]time.Duration{rosterA: time.Millisecond, rosterB: 1001 * time.Millisecond} {
			check.Got(announce(w, b, "e", session, "1", life))(w)
		}
		synctest.Wait()
		v.take()
		w.at(999 * time.Millisecond)
		v.hears(w)
		w.at(1250 * time.Millisecond)
		v.hears(w, "A stands no more")
		w.at(1999 * time.Millisecond)
		v.hears(w)
		w.at(2250 * time.Millisecond)
		v.hears(w, "B stands no more")
	})
}

// A view ends when the connection is back, its consumer is silent, or the connection is
// closed. Another view then reports everything.
func TestRosterView_EndsIfIncomplete(t *testing.T) {
	inRostered(t, func(w *world) {
		cl := w.dial("l")
		b := cl.bucket(t)
		w.announces(b, "e", rosterA, "1")
		v := w.view(b, "e")
		v.hears(w, "A=1", "complete")
		w.at(time.Second)
		cl.cut()
		w.at(2 * time.Second)
		v.hears(w)
		cl.open()
		w.at(2*time.Second + 2*redial)
		v.hears(w, "over")
		check.Is(w, v.err, leader.ErrUnreachable)
		v = w.view(b, "e")
		v.hears(w, "A=1", "complete")

		w.ok(w.ops.js.DeleteStream(w.Context(), "KV_E_roster"))
		v.hears(w)
		w.at(15 * time.Second)
		v.hears(w, "over")
		check.Is(w, check.Err(stands(w, b, "e")), leader.ErrNoRoster)
		w.rostered()
		v = w.view(b, "e")
		v.hears(w, "complete")
		cl.nc.Close()
		v.hears(w, "over")
		check.Is(w, v.err, leader.ErrConnectionClosed)
		check.Is(w, check.Err(stands(w, b, "e")), leader.ErrConnectionClosed)
		check.Is(w, check.Err(announce(w, b, "e", rosterA, "1", lease)), leader.ErrConnectionClosed)
	})
}

// The loss of a message on its way is noticed at the next message, or at the next sign
// of life, within seconds.
func TestRosterView_NoticesLoss(t *testing.T) {
	for name, next := range map[string]bool{"at the next message": true, "at the next heartbeat": false} {
		inRostered.run(t, name, func(t *testing.T, w *world) {
			cl, b := w.dial("l"), w.dial("a").bucket(t)
			v := w.view(cl.bucket(t), "e")
			v.hears(w, "complete")
			lost := 0
			cl.filter(func(f frame) treatment {
				if f.dir == down && strings.HasPrefix(f.reply, "$JS.ACK.KV_E_roster.") {
					if lost++; lost == 1 {
						return drop
					}
				}
				return pass
			})
			w.announces(b, "e", rosterA, "1")
			v.hears(w)
			if next {
				w.announces(b, "e", rosterB, "1")
				v.hears(w, "over")
			} else {
				w.at(5 * time.Second)
				v.hears(w, "over")
			}
			check.Is(w, v.err, leader.ErrUnreachable)
			w.announces(b, "e", rosterC, "1")
			v.hears(w)
		})
	}
}

// A view ends when its consumer falls silent, although the connection stays.
func TestRosterView_DeafEnds(t *testing.T) {
	inRostered(t, func(w *world) {
		cl := w.dial("l")
		v := w.view(cl.bucket(t), "e")
		v.hears(w, "complete")
		cl.blackhole(down)
		w.at(13 * time.Second)
		v.hears(w, "over")
		cl.open()
	})
}

// A view without events lives on.
func TestRosterView_IdleStays(t *testing.T) {
	inRostered(t, func(w *world) {
		b := w.dial("a").bucket(t)
		v := w.view(b, "e")
		v.hears(w, "complete")
		w.at(time.Hour)
		w.announces(b, "e", rosterA, "1")
		v.hears(w, "A=1")
		check.Equal(w, w.consumers("KV_E_roster"), 1, "%d consumers")
		v.Stop()
		v.Stop()
		w.announces(b, "e", rosterA, "2")
		v.hears(w)
		check.Equal(w, w.consumers("KV_E_roster"), 0, "%d consumers after Stop")
	})
}

func (w *world) consumers(stream string) int {
	w.Helper()
	synctest.Wait()
	s := check.Got(w.ops.js.Stream(w.Context(), stream))(w)
	return s.CachedInfo().State.Consumers
}

// If there is no roster, or one in which announcements do not lapse, the error says so,
// and not that there is no answer.
func TestRoster_MissingIsReported(t *testing.T) {
	inSealed(t, func(w *world) {
		b := w.dial("a").bucket(t)
		announced := func() {
			w.Helper()
			before := w.now()
			if _, err := announce(w, b, "e", rosterA, "1", lease); !errors.Is(err, leader.ErrNoRoster) || errors.Is(err, leader.ErrUnreachable) || errors.Is(err, leader.ErrNoBucket) {
				w.Errorf("announced: %v", err)
			}
			w.isAt(before, "answered")
		}
		announced()
		check.Is(w, check.Err(stands(w, b, "e")), leader.ErrNoRoster)
		check.Got(w.ops.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "E_roster"}))(w)
		announced()
	})
}

// An invalid session is refused before anything is sent.
func TestRoster_RefusesInvalidSession(t *testing.T) {
	inRostered(t, func(w *world) {
		b := w.dial("a").bucket(t)
		for _, k := range []string{"x", "*", rosterA + "A", strings.ToLower(rosterA)} {
			_, err := announce(w, b, "e", k, "1", lease)
			check.That(w, errors.Is(err, leader.ErrInvalidConfig), "%q: %v", k, err)
		}
	})
}

// An entry has the time at which its stand began, also after it was repeated. A candidate that has given
// the key up, and waits for it again, is an entry, although the key holds its record.
func TestRoster_TellsWhoWaits(t *testing.T) {
	k := newKit(t)
	cs := k.queue(2, leader.Config{LeaseDuration: 10 * time.Second})
	k.clock.Advance(time.Minute)
	wants := func(id string, since time.Duration) {
		t.Helper()
		all, err := leader.Roster(t.Context(), k.store, "e")
		if k.ok(err); len(all) != 1 || all[0].ID != id || all[0].Since.Sub(clockStart) != since {
			t.Errorf("at %v the roster is %+v, want %s since %v", k.clock.Elapsed(), all, id, since)
		}
	}
	wants("c1", time.Second)
	k.ok(cs[1].Stop(t.Context()))
	k.ok(cs[0].Resign(t.Context()))
	k.store.Link("c0").FailWrites(-1, leader.ErrPermission)
	k.clock.Advance(time.Minute)
	wants("c0", 73250*time.Millisecond) // when its cooldown was over
}
