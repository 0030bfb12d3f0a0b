package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// revision is a revision of a key.
type revision struct {
	jetstream.KeyValueEntry
	key, value string
	revision   uint64
	created    time.Time
}

func (r revision) Key() string                     { return r.key }
func (r revision) Value() []byte                   { return []byte(r.value) }
func (r revision) Revision() uint64                { return r.revision }
func (r revision) Created() time.Time              { return r.created }
func (r revision) Operation() jetstream.KeyValueOp { return jetstream.KeyValuePut }

// aFeed is a feed from which a test passes on the updates itself.
type aFeed struct{ stopped chan struct{} }

func (f *aFeed) Updates() <-chan jetstream.KeyValueEntry { return nil }
func (f *aFeed) Stop() error                             { close(f.stopped); return nil }

// looks is a bucket that a watcher looks at.
type looks struct {
	t       *testing.T
	w       *watcher
	out     *recorder
	began   time.Time // the server's
	created time.Time // when the stream was
	last    uint64    // revision
	at      string    // the leader of the stream
	conf    jetstream.StreamConfig
	err     error
	feeds   []*aFeed
	written uint64
}

func newLooks(t *testing.T) *looks {
	t.Helper()
	now := time.Now()
	l := &looks{t: t, out: &recorder{}, began: now}
	l.w = newWatcher(&inspector{name: "elections", clock: serverClock{server: now, local: now}}, "", l.out)
	l.w.look = func(_ context.Context, _ time.Duration, opening bool) look { return l.look(opening) }
	expect.OK(t, l.w.open(t.Context()))
	l.update(nil)
	return l
}

func (l *looks) look(opening bool) look {
	if l.err != nil {
		return look{err: l.err}
	}
	info := &jetstream.StreamInfo{Config: l.conf, Created: l.created, TimeStamp: l.began, State: jetstream.StreamState{LastSeq: l.last}, Cluster: &jetstream.ClusterInfo{Leader: l.at}}
	r := look{info: info, at: time.Now(), end: func() {}}
	if opening {
		f := &aFeed{make(chan struct{})}
		l.feeds = append(l.feeds, f)
		r.feed = f
	}
	return r
}

// looksAgain lets the watcher handle one look.
func (l *looks) looksAgain() {
	l.t.Helper()
	opening := l.w.feed == nil
	expect.OK(l.t, l.w.lookedAt(l.look(opening), opening))
}

func (l *looks) update(e jetstream.KeyValueEntry) {
	l.t.Helper()
	expect.OK(l.t, l.w.update(e, true))
}

// writes delivers a record with a lease of one second.
func (l *looks) writes(state, id string, token int, after time.Duration) {
	l.t.Helper()
	l.written++
	value := fmt.Sprintf(`{"v":1,"state":%q,"id":%q,"session":"s-%s","n":1,"lease":"1s","token":%d}`, state, id, id, token)
	l.update(revision{key: "billing", value: value, revision: l.written, created: l.began.Add(after)})
}

// reported checks the changes since the call before.
func (l *looks) reported(want ...string) {
	l.t.Helper()
	var got []string
	for _, c := range l.out.changes {
		got = append(got, fmt.Sprint(c.at.Sub(l.began), " ", c.event()))
	}
	l.out.changes = nil
	expect.That(l.t, slices.Equal(got, want), "%q\nnot %q", got, want)
}

// A lease that ended is reported also if another candidate has taken the key at once, and the feed was
// replaced just before.
func TestWatch_ExpiryBeforeTakeover(t *testing.T) {
	l := newLooks(t)
	l.writes("leading", "a", 1, 0)
	l.writes("leading", "a", 1, 500*time.Millisecond) // renewed
	l.reported("0s a leads with token 1")
	expect.OK(t, l.w.lookedAt(l.look(true), true))
	l.writes("pending", "b", 0, 1500*time.Millisecond)
	l.update(nil)
	l.reported("1.5s a has not renewed its lease, nobody leads", "1.5s b holds the key, and waits until no other lease can be valid")
	l.writes("pending", "b", 0, 1550*time.Millisecond) // renewed
	l.reported()
	l.writes("leading", "b", 2, 1600*time.Millisecond)
	l.reported("1.6s b leads with token 2")
	l.writes("leading", "c", 3, 1700*time.Millisecond) // the lease of b was valid: it was lost by force
	l.reported("1.7s c leads with token 3")
	l.writes("released", "c", 3, 3*time.Second) // a holder that hands over late has not fallen silent
	l.reported("3s c has handed over, nobody leads")
}

// What a feed did not deliver is not reported as an expiry.
func TestWatch_NoExpiryInGap(t *testing.T) {
	l := newLooks(t)
	l.writes("leading", "a", 1, 0)
	l.reported("0s a leads with token 1")
	l.w.connection(errUnreachable)
	<-l.feeds[0].stopped
	l.looksAgain()
	l.writes("leading", "b", 2, 10*time.Second)
	l.update(nil)
	l.reported("10s b leads with token 2")
}

// A feed that is deaf, or that was opened before the stream changed its leader, is
// replaced.
func TestWatch_ReplacesDeafFeed(t *testing.T) {
	l := newLooks(t)
	l.last = 5
	l.looksAgain()
	if l.w.feed == nil || l.w.behind != 5 {
		t.Errorf("behind %d", l.w.behind)
	}
	l.w.seen = 4 // it goes on
	l.looksAgain()
	expect.That(t, l.w.feed != nil, "a slow feed was given up")
	l.looksAgain()
	expect.That(t, l.w.feed == nil, "a deaf feed was not given up")
	l.looksAgain()
	l.update(nil)
	l.at = "n2"
	l.looksAgain()
	if len(l.feeds) != 2 || l.w.feed != nil {
		t.Errorf("%d feeds", len(l.feeds))
	}
}

// says checks the troubles since the call before.
func (l *looks) says(want ...string) {
	l.t.Helper()
	var got []string
	for _, err := range l.out.troubles {
		got = append(got, fmt.Sprint(err))
	}
	l.out.troubles = nil
	expect.That(l.t, slices.Equal(got, want), "%q\nnot %q", got, want)
}

// rows returns the states that a view shows, with the leaders.
func (l *looks) rows(trouble error) (rows []string) {
	for _, r := range l.w.view(l.w.s.clock.now(), trouble, "").rows {
		rows = append(rows, r.cells[columnState]+" "+r.cells[columnLeader])
	}
	return rows
}

// The leaders of a bucket that is gone have the same order at each look, so the reason stays the same.
func TestWatch_GoneSortsLeaders(t *testing.T) {
	l := newLooks(t)
	for c := 'z'; c >= 'a'; c-- {
		value := fmt.Sprintf(`{"v":1,"state":"leading","id":"%c","session":"s","n":1,"lease":"1h","token":1}`, c)
		l.update(revision{key: "of-" + string(c), value: value, revision: uint64(c), created: l.began})
	}
	want := "bucket elections is gone; a (of-a), b (of-b), c (of-c), d (of-d), e (of-e) and 21 more may lead until "
	err := l.w.gone()
	expect.That(t, strings.HasPrefix(err.Error(), want), "%v, want %s", err, want)
}

// A leader of a bucket that is gone may lead until the longest lease of that bucket is over, counted
// from the look that did not find it. Before that watch does not report that nobody leads, and does
// not advise to make a bucket.
func TestWatch_BucketGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooks(t)
		l.conf = jetstream.StreamConfig{Replicas: 3, Metadata: map[string]string{wire.MaxLeaseKey: "20s", wire.RosterKey: "elections_roster"}}
		l.looksAgain()
		l.writes("leading", "a", 1, 0)
		time.Sleep(500 * time.Millisecond)
		l.out.changes = nil
		l.err = fmt.Errorf("%w: not found", leader.ErrNoBucket)
		l.looksAgain()
		until := l.began.Add(21 * time.Second)
		wait := "bucket elections is gone; a (billing) may lead until " + formatZoned(until) + ": wait for that"
		l.says(wait)
		rows := l.rows(leader.ErrNoBucket)
		expect.That(t, slices.Equal(rows, []string{"UNKNOWN a"}), "%q", rows)
		time.Sleep(time.Until(until) - 1)
		l.looksAgain()
		l.says() // once
		l.reported()

		time.Sleep(time.Nanosecond)
		l.looksAgain()
		l.says("bucket elections is gone, and every lease in it is over: `natsleader bucket add elections --replicas 3 --storage file --max-lease 20s --roster` makes it again")
		l.reported("21s the key is gone, nobody leads")
		l.looksAgain()
		l.says() // once
		l.reported()
		if rows := l.rows(leader.ErrNoBucket); !slices.Equal(rows, []string{"DELETED NOBODY (was a)"}) {
			t.Errorf("%q", rows)
		}

		// The bucket is made again, and deleted again: the bound is another.
		l.err, l.began = nil, time.Now()
		l.looksAgain()
		l.update(nil)
		l.says("<nil>")
		l.err = leader.ErrNoBucket
		l.looksAgain()
		l.says("bucket elections is gone; a leader may lead until " + formatZoned(l.began.Add(21*time.Second)) + ": wait for that")
	})
}

// A bucket that is made again between two looks does not end the lease of a leader of the old one.
func TestWatch_BucketMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooks(t)
		l.writes("leading", "a", 1, 0)
		again := func() {
			l.w.closeFeed()
			l.began = time.Now()
			l.looksAgain()
			l.update(nil)
		}
		tick := func() {
			expect.OK(t, l.w.report(l.w.all()...))
		}
		l.out.changes = nil
		again()
		time.Sleep(wire.DefaultLease - 1)
		again()
		l.reported()
		rows := l.rows(nil)
		expect.That(t, slices.Equal(rows, []string{"UNKNOWN a"}), "%q", rows)
		time.Sleep(time.Nanosecond)
		tick()
		l.reported("1ns the key is gone, nobody leads")
		l.writes("leading", "b", 9, 0)
		again()
		l.writes("leading", "c", 10, 0)
		l.out.changes = nil
		time.Sleep(wire.DefaultLease)
		tick()
		l.reported() // a record is there
	})
}

// A bucket that was deleted and made again between two looks has ended the feed, whatever the
// revisions of the new bucket. A record there is not older than one of the old bucket because its
// revision is lower, and between the two no lease has run out.
func TestWatch_BucketMadeAgainAtOnce(t *testing.T) {
	for _, open := range []bool{false, true} { // there was a record when the next feed was opened
		synctest.Test(t, func(t *testing.T) {
			l := newLooks(t)
			l.last, l.written = 100, 99
			l.writes("leading", "a", 1, 0)
			l.reported("0s a leads with token 1")
			l.created, l.last, l.written = l.began.Add(time.Second), 1, 0
			l.looksAgain()
			select {
			case <-l.feeds[0].stopped:
			case <-time.After(time.Second):
				t.Error("the feed of the old bucket was not given up")
			}
			l.looksAgain()
			if !open {
				l.update(nil)
			}
			l.writes("leading", "b", 2, 2*time.Second)
			if open {
				l.update(nil)
			}
			l.reported("2s b leads with token 2")
			l.written = 0
			l.writes("leading", "c", 3, 3*time.Second) // the same revision once more
			l.reported()

			// Now the new feed takes the place of one that has not been given up.
			l.created = l.began.Add(4 * time.Second)
			expect.OK(t, l.w.lookedAt(l.look(true), true))
			l.writes("leading", "d", 4, 5*time.Second)
			l.update(nil)
			l.reported("5s d leads with token 4")
		})
	}
}

// The instant since which a view is not up to date is the last at which it was.
func TestWatch_NotUpToDateSince(t *testing.T) {
	l := newLooks(t)
	l.began = l.began.Add(time.Minute)
	l.looksAgain()
	fresh := l.began
	l.began = l.began.Add(time.Minute)
	l.err = errors.New("timeout")
	l.looksAgain()
	expect.That(t, l.w.fresh.Equal(fresh) && l.w.troubled, "fresh at %v, not %v", l.w.fresh, fresh)
	v := l.w.view(fresh.Add(12*time.Second), l.err, "")
	want := "NOT UP TO DATE since " + fresh.Local().Format("15:04:05") + " (12s)"
	expect.That(t, v.trouble == want || strings.Contains(v.trouble, formatTime(fresh)),
		"%q, not %q", v.trouble, want)
	l.err = nil
	l.looksAgain()
	expect.That(t, !l.w.troubled, "it has not recovered")
}

// A look never waits for the bucket.
func TestWatch_LooksInBackground(t *testing.T) {
	l := newLooks(t)
	asked, answer := make(chan struct{}), make(chan look)
	l.w.look = func(context.Context, time.Duration, bool) look {
		close(asked)
		return <-answer
	}
	l.w.looked = time.Time{}
	for range 3 { // one look at a time
		expect.OK(t, l.w.ticked(t.Context()))
	}
	<-asked
	feed := &aFeed{make(chan struct{})}
	l.w.connection(errUnreachable) // gives the look up
	answer <- look{feed: feed, end: func() {}}
	<-feed.stopped
}
