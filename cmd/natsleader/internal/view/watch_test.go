package view

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	"github.com/natsleader/natsleader/internal/backend"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// recorder is a renderer that adds the changes and the troubles to the transcript of a world.
type recorder struct {
	w *testworld.World
	Renderer
}

func (r recorder) Changed(changes ...Change) error {
	for _, c := range changes {
		r.w.Notef("%s  %s\n", c.time().Format(clock), c.text())
	}
	return nil
}

func (r recorder) NoteTrouble(err error) { r.w.Notef("! %v\n", err) }

// clock is how transcripts show the time. A bubble begins at midnight.
const clock = "15:04:05.999999999"

// looks is a bucket that a watcher looks at.
type looks struct {
	*testworld.World
	w       *Watcher
	began   time.Time // the server's time at each look
	created time.Time // when the stream was
	last    uint64    // revision
	at      string    // the leader of the stream
	conf    jetstream.StreamConfig
	err     error
	feeds   []*testworld.AFeed
	written uint64
}

func newLooks(t *testing.T) *looks {
	t.Helper()
	now := time.Now()
	l := &looks{World: &testworld.World{T: t}, began: now}
	l.w = newWatcher(&inspect.Inspector{Name: "elections", Clock: inspect.NewServerClock(now, 0)}, "", recorder{w: l.World})
	l.w.look = func(_ context.Context, _ time.Duration, opening bool) look { return l.look(opening) }
	expect.OK(t, l.w.open(t.Context()))
	l.update(nil)
	return l
}

// atBucket runs a test of looks in a bubble, and compares the transcript.
func atBucket(t *testing.T, test func(l *looks)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := newLooks(t)
		test(l)
		l.Compare()
	})
}

func (l *looks) look(opening bool) look {
	if l.err != nil {
		return look{err: l.err}
	}
	info := &jetstream.StreamInfo{
		Config: l.conf, Created: l.created, TimeStamp: l.began, State: jetstream.StreamState{LastSeq: l.last},
		Cluster: &jetstream.ClusterInfo{Leader: l.at},
	}
	r := look{info: info, at: time.Now(), end: func() {}}
	if opening {
		f := &testworld.AFeed{Stopped: make(chan struct{})}
		l.feeds = append(l.feeds, f)
		r.feed = f
	}
	return r
}

// looksAgain lets the watcher handle one look.
func (l *looks) looksAgain() {
	l.Helper()
	l.looked(l.w.Feed == nil)
}

// looked lets the watcher handle a look, and adds to the transcript which feeds are open then.
func (l *looks) looked(opening bool) {
	l.Helper()
	l.Notef("# %s: a look\n", time.Now().Format(clock))
	expect.OK(l, l.w.lookedAt(l.look(opening), opening))
	synctest.Wait() // for feeds that are given up
	l.Notef("# open feeds:")
	for i, f := range l.feeds {
		if f.IsOpen() {
			l.Notef(" %d", i+1)
		}
	}
	l.Notef("\n")
}

func (l *looks) update(e jetstream.KeyValueEntry) {
	l.Helper()
	expect.OK(l, l.w.update(e, true))
}

// writes delivers a record with a lease of one second.
func (l *looks) writes(state, id string, token int, after time.Duration) {
	l.Helper()
	l.written++
	created := l.began.Add(after)
	l.Notef("# %s: %s writes %s\n", created.Format(clock), id, state)
	value := fmt.Appendf(nil, `{"v":1,"state":%q,"id":%q,"session":"s-%s","n":1,"lease":"1s","token":%d}`, state, id, id, token)
	l.update(natskv.KeyValue(backend.Entry{Value: value, Revision: l.written, Created: created}, "billing"))
}

// ticks lets the watcher report what the passage of time has changed.
func (l *looks) ticks() {
	l.Helper()
	l.Notef("# %s: a tick\n", time.Now().Format(clock))
	expect.OK(l, l.w.report(l.w.all()...))
}

// shows adds to the transcript what a terminal shows at a moment.
func (l *looks) shows(now time.Time, trouble error) {
	l.Notef("%s\n", screenOf(l.w.view(now, trouble, ""), screen{width: 110, height: 12}, false))
}

// A lease that ended is reported also if another candidate has taken the key at once, and the feed was
// replaced just before. The lease of b is valid when c takes the key, so it was lost by force. A holder that hands
// over late has not fallen silent.
func TestWatch_ExpiryBeforeTakeover(t *testing.T) {
	atBucket(t, func(l *looks) {
		l.writes("leading", "a", 1, 0)
		l.writes("leading", "a", 1, 500*time.Millisecond)
		l.looked(true)
		l.writes("pending", "b", 0, 1500*time.Millisecond)
		l.update(nil)
		l.writes("pending", "b", 1, 1550*time.Millisecond)
		l.writes("leading", "b", 2, 1600*time.Millisecond)
		l.writes("leading", "c", 3, 1700*time.Millisecond)
		l.writes("released", "c", 3, 3*time.Second)
	})
}

// What a feed did not deliver is not reported as an expiry.
func TestWatch_NoExpiryInGap(t *testing.T) {
	atBucket(t, func(l *looks) {
		l.writes("leading", "a", 1, 0)
		l.w.connection(front.ErrUnreachable)
		l.looksAgain()
		l.writes("leading", "b", 2, 10*time.Second)
		l.update(nil)
	})
}

// A connection that is not made again for another reason than it was lost for is reported once more.
func TestWatch_WhyNoConnection(t *testing.T) {
	atBucket(t, func(l *looks) {
		l.writes("leading", "a", 1, 0)
		for _, why := range []string{"", "", ": the servers refuse the credentials", ": the servers refuse the credentials", ": no server takes it"} {
			l.w.connection(fmt.Errorf("%w: the connection was lost%s", front.ErrUnreachable, why))
		}
	})
}

// A lease is over when a feed that was opened afterwards has nothing newer.
func TestWatch_LeaseOver(t *testing.T) {
	atBucket(t, func(l *looks) {
		l.writes("leading", "a", 1, 0)
		time.Sleep(10 * time.Second)
		l.ticks()
		l.began = time.Now()
		l.looked(true)
		l.writes("leading", "a", 1, -10*time.Second) // delivered again
		l.ticks()                                    // perhaps a newer record of the feed has not come
		l.update(nil)
		l.looked(true)
		l.writes("leading", "a", 1, 0)
		l.ticks()
		l.update(nil)
	})
}

// A leader that does not know since when it leads has led since the first record of its term.
func TestWatch_UnknownSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooks(t)
		for i, since := range []time.Duration{0, 0, 2, 2} {
			l.writes("leading", "a", 1+i/2, time.Duration(i))
			got := l.w.Elections["billing"].Now.Since(facts.Leading)
			expect.Equal(t, got, l.began.Add(since), "the term began at %v")
		}
	})
}

// A feed that is deaf, or that was opened before the stream changed its leader, is replaced. One that is slow is not.
func TestWatch_ReplacesDeafFeed(t *testing.T) {
	atBucket(t, func(l *looks) {
		l.last = 5
		l.looksAgain()
		l.w.seen = 4
		l.looksAgain()
		l.looksAgain()
		l.looksAgain()
		l.update(nil)
		l.at = "n2"
		l.looksAgain()
	})
}

// An election whose key is deleted is in trouble, whatever was before, unless keys expire: then it may have been given up in
// order. One whose key is gone is forgotten.
func TestWatch_DroppedRecord(t *testing.T) {
	atBucket(t, func(l *looks) {
		drop := func(after time.Duration) {
			l.written++
			l.update(natskv.KeyValue(backend.Entry{Marker: true, Revision: l.written, Created: l.began.Add(after)}, "billing"))
			l.shows(l.began.Add(time.Second), nil)
		}
		l.writes("released", "a", 1, 0)
		drop(time.Second)
		l.conf.MaxAge = time.Hour
		l.looked(false)
		l.shows(l.began.Add(time.Second), nil)
		l.looked(true)
		l.update(nil)
		l.shows(l.began.Add(time.Second), nil)
		l.writes("leading", "a", 2, 0)
		drop(500 * time.Millisecond)
	})
}

// The leaders of a bucket that is gone have the same order at each look, so the reason stays the same.
func TestWatch_GoneSortsLeaders(t *testing.T) {
	atBucket(t, func(l *looks) {
		for c := 'z'; c >= 'a'; c-- {
			value := fmt.Appendf(nil, `{"v":1,"state":"leading","id":"%c","session":"s","n":1,"lease":"1h","token":1}`, c)
			l.update(natskv.KeyValue(backend.Entry{Value: value, Revision: uint64(c), Created: l.began}, "of-"+string(c)))
		}
		l.Notef("! %v\n", l.w.gone())
	})
}

// A leader of a bucket that is gone may lead until the longest lease of that bucket is over, counted
// from the look that did not find it. Before that watch does not report that nobody leads, and does
// not advise to make a bucket. Each advice is printed once.
func TestWatch_BucketGone(t *testing.T) {
	atBucket(t, func(l *looks) {
		l.conf = jetstream.StreamConfig{Replicas: 3, Metadata: map[string]string{wire.MaxLeaseKey: "20s", wire.RosterKey: "elections_roster"}}
		l.looksAgain()
		l.writes("leading", "a", 1, 0)
		time.Sleep(500 * time.Millisecond)
		l.err = fmt.Errorf("%w: not found", leader.ErrNoBucket)
		l.looksAgain()
		l.shows(time.Now(), leader.ErrNoBucket)
		time.Sleep(20*time.Second + 500*time.Millisecond - 1)
		l.looksAgain()
		time.Sleep(time.Nanosecond)
		l.looksAgain()
		l.looksAgain()
		l.shows(time.Now(), leader.ErrNoBucket)
		l.Notef("# the bucket is made again, and deleted again\n")
		l.err, l.began = nil, time.Now()
		l.looksAgain()
		l.update(nil)
		l.err = leader.ErrNoBucket
		l.looksAgain()
	})
}

// The view names who is cordoned, also after another feed, until the bucket has no cordon.
func TestWatch_Cordoned(t *testing.T) {
	atBucket(t, func(l *looks) {
		cordons := func(value string) {
			l.written++
			l.update(natskv.KeyValue(backend.Entry{Value: []byte(value), Revision: l.written, Created: l.began}, wire.CordonKey))
		}
		is := func(want string) {
			l.Helper()
			_, got, _ := strings.Cut(l.w.view(l.began, nil, "").summary.Paint(false), "; ")
			expect.Equal(l, got, want, "the summary ends with %q")
		}
		l.writes("leading", "a", 1, 0)
		l.w.names = regexp.MustCompile("^b")
		cordons(`{"v":1,"names":["web-1","x\u001b"]}`)
		is(`cordoned: web-1, x\x1b`)
		cordons("junk")
		is("")
		cordons(`{"v":1,"names":["web-1"]}`)
		for _, value := range []string{`{"v":1,"names":["web-1"]}`, ""} {
			l.w.closeFeed()
			l.looksAgain()
			is("cordoned: web-1")
			if value != "" {
				cordons(value)
			}
			l.update(nil)
		}
		is("")
	})
}

// The view counts the candidates that stand, every 10 s, and not where the roster may not be read.
func TestWatch_CountsCandidates(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		for _, id := range []string{"a", "b", "c"} {
			w.Campaigns("billing", leader.Config{ID: id, Queue: &leader.Queue{AtOnce: true}})
		}
		testworld.Put(w.T, w.Js, "lock", "hello")
		testworld.Put(w.T, w.Js, "orders.shard.assigner", testworld.Record(w.T, w.Js, "billing", "m", time.Hour))
		for _, user := range []string{"", "limited"} {
			g := w.Globals()
			g.User, g.Password = user, user
			s := expect.Got(inspect.New(w.Context(), g))(w.T)
			defer s.Close()
			l := newWatcher(s, "", recorder{w: w})
			defer l.close()
			l.counts = true
			expect.OK(w, l.open(w.Context()))
			for more := true; more; {
				e := expect.Comes(w, "the next entry", l.updates())
				more = e != nil
				expect.OK(w, l.update(e, true))
			}
			for _, later := range []time.Duration{0, countEvery / 2, countEvery} { // the second look does not count
				time.Sleep(later)
				for range 3 {
					expect.OK(w, l.ticked(w.Context()))
					time.Sleep(100 * time.Millisecond)
				}
				w.Notef("# user %q, after %v, counts: %v\n%s", user, later, l.counts, screenOf(l.view(s.Clock.Now(), nil, ""), screen{width: 120, height: 8}, false))
				expect.OK(w, w.Stands[2].Stop())
			}
		}
	}, testworld.WithUser("limited", testworld.Denied("$JS.API.CONSUMER.CREATE.KV_elections_roster.>")))
}

// A bucket that is made again between two looks does not end the lease of a leader of the old one.
func TestWatch_BucketMadeAgain(t *testing.T) {
	atBucket(t, func(l *looks) {
		again := func() {
			l.w.closeFeed()
			l.began = time.Now()
			l.looksAgain()
			l.update(nil)
		}
		l.writes("leading", "a", 1, 0)
		again()
		time.Sleep(wire.DefaultLease - 1)
		again()
		l.shows(time.Now(), nil)
		time.Sleep(time.Nanosecond)
		l.ticks()
		l.writes("leading", "b", 9, 0)
		again()
		l.writes("leading", "c", 10, 0)
		time.Sleep(wire.DefaultLease)
		l.ticks() // a record is there
	})
}

// A bucket that was deleted and made again between two looks has ended the feed, whatever the revisions of the new
// bucket. A record there is not older than one of the old bucket because its revision is lower, and between the two no
// lease has run out.
func TestWatch_BucketMadeAgainAtOnce(t *testing.T) {
	atBucket(t, func(l *looks) {
		for _, open := range []bool{false, true} {
			l.Notef("# there is a record when the next feed is opened: %v\n", open)
			l.created, l.last, l.written = l.began, 100, 99
			l.looked(true)
			l.update(nil)
			l.writes("leading", "a", 1, 0)
			l.created, l.last, l.written = l.began.Add(time.Second), 1, 0
			l.looksAgain()
			l.looksAgain()
			if !open {
				l.update(nil)
			}
			l.writes("leading", "b", 2, 2*time.Second)
			if open {
				l.update(nil)
			}
			l.Notef("# the same revision comes once more\n")
			l.written = 0
			l.writes("leading", "c", 3, 3*time.Second)
			l.Notef("# the new feed replaces one that has not been given up\n")
			l.created = l.began.Add(4 * time.Second)
			l.looked(true)
			l.writes("leading", "d", 4, 5*time.Second)
			l.update(nil)
		}
	})
}

// The instant since which a view is not up to date is the last at which it was. A server that did not answer and then
// shows no majority is reported once more, and so is what another server shows, to which the connection has moved. What a
// look has shown of the stream is not known any more after one that has failed, and through another connection.
func TestWatch_NotUpToDateSince(t *testing.T) {
	atBucket(t, func(l *looks) {
		l.began = l.began.Add(time.Minute)
		l.looksAgain()
		l.began = l.began.Add(time.Minute)
		l.err = errors.New("timeout")
		l.looksAgain()
		l.shows(l.began, l.err)
		for range 2 {
			l.err = inspect.ErrNoMajority
			l.looksAgain()
		}
		expect.That(t, l.w.Info == nil, "after a look that has failed the stream is known: %+v", l.w.Info)
		l.Notef("# the connection moves\n")
		l.w.connection(nil)
		l.looksAgain()
		l.looksAgain()
		l.err = nil
		l.looksAgain()
		expect.That(t, l.w.Info != nil, "the stream is not known")
		l.w.connection(nil)
		expect.That(t, l.w.Info == nil, "through another connection the stream is known: %+v", l.w.Info)
	})
}

// A look never waits for the bucket. There is one look at a time, and one that is given up stops the feed that it opens.
func TestWatch_LooksInBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooks(t)
		feed := &testworld.AFeed{Stopped: make(chan struct{})}
		l.w.looked = time.Time{}
		asked, answer := 0, make(chan struct{})
		l.w.look = func(context.Context, time.Duration, bool) look {
			asked++
			<-answer
			return look{feed: feed, end: func() {}}
		}
		for range 3 {
			expect.OK(t, l.w.ticked(t.Context()))
			time.Sleep(2 * LookEvery)
		}
		l.w.connection(front.ErrUnreachable)
		close(answer)
		synctest.Wait()
		expect.That(t, asked == 1 && !feed.IsOpen(), "%d looks, the late feed is open: %v", asked, feed.IsOpen())
	})
}
