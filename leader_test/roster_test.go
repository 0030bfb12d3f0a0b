package leader_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
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

func (w *world) consumers(stream string) int {
	w.Helper()
	synctest.Wait()
	s := check.Got(w.ops.js.Stream(w.Context(), stream))(w)
	return s.CachedInfo().State.Consumers
}

// An entry has the time at which its stand began, also after it was repeated. A candidate that has given
// the key up, and waits for it again, is an entry, although the key holds its record.
func TestRoster_TellsWhoWaits(t *testing.T) {
	k := newKit(t)
	cs := k.queue(2, leader.Config{LeaseDuration: 10 * time.Second})
	k.clock.Advance(time.Minute)
	wants := func(id string, since time.Duration) {
		t.Helper()
		all, err := roster.Lookup(t.Context(), k.store, "e")
		if check.OK(k, err); len(all) != 1 || all[0].ID != id || all[0].Since.Sub(clockStart) != since {
			t.Errorf("at %v the roster is %+v, want %s since %v", k.clock.Elapsed(), all, id, since)
		}
	}
	wants("c1", time.Second)
	check.OK(k, cs[1].Stop())
	check.OK(k, leadertest.Resign(t.Context(), cs[0]))
	k.store.Link("c0").FailWrites(-1, leader.ErrPermission)
	k.clock.Advance(time.Minute)
	wants("c0", 73250*time.Millisecond) // when its cooldown was over
}

// A leader publishes its priority, so that a rival of several leaders asks the right one.
func TestRoster_LeadersPriority(t *testing.T) {
	k := newKit(t)
	k.mark = seated(2)
	k.lead(leader.Config{Queue: &leader.Queue{Priority: 5}})
	k.clock.Advance(10 * time.Second)
	value := k.store.Entry("e").Value
	check.That(t, field(value, "state") == "leading" && bytes.Contains(value, []byte(`"priority":5`)), "%s", value)
}
