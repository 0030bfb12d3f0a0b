package shard

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// followed follows a key that has one entry, and is read after 30 s of silence. after returns the revision that is known after
// some time, less that of the first entry, and whether the bell has rung.
func followed(t *testing.T, erasable bool) (store *leadertest.Store, link *leadertest.Link, f *follower, after func(time.Duration) (int, bool)) {
	store, rings := leadertest.NewStore(nil, leadertest.WithoutPurgeProtection()), make(bell, 1)
	link = store.Link("a")
	first := store.Put("k", []byte("0"))
	ctx, cancel := context.WithCancel(t.Context())
	start := follow
	if erasable {
		start = followMap
	}
	f = start(ctx, link.Backend(), "k", rollAgain, rings)
	t.Cleanup(func() {
		cancel()
		synctest.Wait()
	})
	after = func(d time.Duration) (int, bool) {
		time.Sleep(d)
		synctest.Wait()
		return int(f.entry().Revision) - int(first), check.Now(rings)
	}
	n, rang := after(0)
	check.Must(t, n == 0 && rang && f.known(), "%d, %v at first", n, rang)
	return store, link, f, after
}

// What a feed does not deliver is read when the key was silent for long, and soon when another says that there is more, when the
// feed has ended, and when the connection is new. A read that fails, or that a replica answers which lags, is repeated each second.
func TestFollower_MissesNothing(t *testing.T) {
	const moment = time.Millisecond
	for name, c := range map[string]struct {
		lose   func(*leadertest.Link)
		says   bool // another
		within time.Duration
	}{
		"delivered":        {func(*leadertest.Link) {}, false, moment},
		"feed deaf":        {(*leadertest.Link).DeafFeeds, false, rollAgain},
		"another says":     {(*leadertest.Link).DeafFeeds, true, openAgain},
		"feed ends":        {func(l *leadertest.Link) { l.EndFeeds(leader.ErrUnreachable) }, false, openAgain},
		"feed ends, again": {func(l *leadertest.Link) { l.EndFeeds(leader.ErrUnreachable); l.FailWatches(2, leader.ErrUnreachable) }, false, 3 * openAgain},
		"message lost":     {func(l *leadertest.Link) { l.LoseFeed(1) }, false, rollAgain},
		"read fails":       {func(l *leadertest.Link) { l.DeafFeeds(); l.FailReads(2, leader.ErrUnreachable) }, false, rollAgain + 2*openAgain},
		"read stale":       {func(l *leadertest.Link) { l.DeafFeeds(); l.StaleReads(3) }, true, 4 * openAgain},
		"cut": {func(l *leadertest.Link) {
			l.Cut()
			time.AfterFunc(7*time.Second, l.Restore)
		}, false, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, link, f, after := followed(t, false)
				c.lose(link)
				revision := store.Put("k", []byte("1"))
				if c.says {
					f.expect(revision)
				}
				if c.within > moment {
					n, rang := after(c.within - moment)
					check.That(t, n == 0 && !rang, "%d, %v before %v", n, rang, c.within)
				}
				n, rang := after(moment)
				check.That(t, n == 1 && rang, "%d, %v after %v", n, rang, c.within)
				time.Sleep(openAgain) // it may have to open another feed
				store.Put("k", []byte("2"))
				n, rang = after(moment)
				check.That(t, n == 2 && rang, "%d, %v of the next", n, rang)
				reads := link.Requests().Reads
				_, rang = after(10 * time.Minute)
				check.That(t, !rang, "it rings at rest")
				check.That(t, link.Requests().Reads-reads == 20, "%d reads in 10 minutes", link.Requests().Reads-reads)
			})
		})
	}
}

// A key of the map that a read does not find was erased. The record of a member is kept then. Both are known anew after a term
// that may have missed that the store went back.
func TestFollower_OfErasedKey(t *testing.T) {
	for _, erasable := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store, _, f, after := followed(t, erasable)
			check.OK(t, store.Erase("k"))
			n, rang := after(rollAgain)
			check.That(t, (n < 0) == erasable && rang == erasable, "%d, %v for a key that is erasable: %v", n, rang, erasable)
			_, rang = after(rollAgain)
			check.That(t, !rang, "it rings twice")
			f.forget()
			check.That(t, !f.known() && f.entry().Revision == 0, "known after forget")
			_, rang = after(0)
			check.That(t, f.known() && f.entry().Revision == 0 && rang, "%+v, %v after forget", f.entry(), rang)
			store.Put("k", []byte("1"))
			n, rang = after(0)
			check.That(t, n > 0 && rang, "%d, %v in the end", n, rang)
		})
	}
}

// A term forgets what was known, and reads the key at once, whatever the follower does then: a read from before is in flight, and
// shows nothing; it has found more than a silent feed has delivered; or the feed has ended. A message from before does not come again.
func TestFollower_Forget(t *testing.T) {
	const moment, oneWay = time.Millisecond, 10 * time.Millisecond
	for name, c := range map[string]struct {
		lose func(*leadertest.Link)
		put  time.Duration // when the entry is stored whose message is lost, after the silence
		at   time.Duration // when the follower forgets
		read time.Duration // when it knows the newest entry
	}{
		"read in flight, entry later": {(*leadertest.Link).DeafFeeds, oneWay + moment, oneWay + 2*moment, 4 * oneWay},
		"read in flight":              {(*leadertest.Link).DeafFeeds, oneWay - moment, oneWay + moment, 4 * oneWay},
		"deaf":                        {(*leadertest.Link).DeafFeeds, oneWay - moment, 2*oneWay + moment, 6 * oneWay},
		"feed ended":                  {func(l *leadertest.Link) { l.EndFeeds(leader.ErrUnreachable) }, 2 * oneWay, 3 * oneWay, 7 * oneWay},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, link, f, after := followed(t, false)
				link.Delay(oneWay)
				after(rollAgain)
				c.lose(link)
				after(c.put)
				store.Put("k", []byte("1"))
				after(c.at - c.put)
				f.forget()
				n, rang := after(c.read - c.at - moment)
				check.That(t, n < 0 && !rang && !f.known(), "%d, %v, %v before the read", n, rang, f.known())
				n, rang = after(moment)
				check.That(t, n == 1 && rang && f.known(), "%d, %v, %v after the read", n, rang, f.known())
			})
		})
	}
}
