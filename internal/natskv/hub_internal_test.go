package natskv

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/record"
)

// Feeds of one key share a subscription until the last of them stops. A feed that replaces a
// deaf one opens another, and all later feeds share that one.
func TestFeedSource_IsShared(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		g := &gate{s: t.s}
		nc := dialJS(t, g)
		b := mustCreate(t, nc, Config{})
		revision := uint64(0)
		open := func(want int, feeds ...watching) {
			t.Helper()
			n := b.api.Left().Subscriptions
			check.That(t, n == want, "%d subscriptions, want %d", n, want)
			var err error
			revision, err = update(t.Context(), b, "a", "x", revision)
			t.ok(err)
			for _, w := range feeds {
				e := w.next(t)
				check.That(t, e.Entry.Revision == revision, "told %+v", e)
				w.nothing(t)
			}
		}
		first, second, other := watch(t, b, "a"), watch(t, b, "a"), watch(t, b, "b")
		open(2, first, second)
		other.Stop()
		open(1, first, second)
		first.Stop()
		open(1, second)
		third := watch(t, b, "a")
		fourth := replaced(t, b, "a", third.Feed)
		open(2, second, fourth)
		fifth := replaced(t, b, "a", second.Feed) // the fourth has replaced that one before
		open(1, fourth, fifth)
		open(1, fourth, fifth, watch(t, b, "a"))

		g.reconnect()
		e := fourth.next(t)
		check.That(t, e.Reconnected, "told %+v", e)
	})
}

// A feed that is opened after the connection was lost does not share a consumer that may be lost,
// too.
func TestWatchFeed_NotSharedAfterReconnection(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		g := &gate{s: t.s}
		b := ordinary(t, dialJS(t, g), jetstream.KeyValueConfig{})
		watch(t, b, "a")
		g.reconnect()
		watch(t, b, "a")
		check.Equal(t, b.api.Left().Subscriptions, 2, "%d subscriptions")
	})
}

// A feed waits while another one opens their source, but not longer than its context. If that one
// gives up, it opens a source itself. If the server refuses, it does not ask again.
func TestFeedSource_OpenedByAnother(t *testing.T) {
	refused := errors.New("refused")
	for name, end := range map[string]func(s *source, conf jetstream.StreamConfig) error{
		"waits": nil,
		"gives up": func(s *source, conf jetstream.StreamConfig) error {
			s.open(check.Ended())
			return nil
		},
		"is refused": func(s *source, _ jetstream.StreamConfig) error {
			s.err = refused
			s.bucket.hub.distrust(s)
			close(s.opened)
			return refused
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, server.Options{}, func(t *lab) {
				b := mustCreate(t, dialJS(t, t.s), Config{})
				conf := *mustInfo(t, b)
				opener := &Feed{}
				b.hub.join(b, b.topic(conf, "a"), opener)
				s, begun := opener.source, time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				outcome := make(chan error, 1)
				b.Watch(ctx, "a", nil, func(backend.FeedEvent) {}, func(f backend.Feed, err error) {
					if f != nil {
						f.Stop()
					}
					outcome <- err
				})
				synctest.Wait()
				if end == nil {
					select {
					case err := <-outcome:
						check.That(t, errors.Is(err, backend.ErrUnreachable) && time.Since(begun) == time.Second,
							"%v after %v", err, time.Since(begun))
					case <-time.After(time.Minute):
						t.Error("it waits without an end")
					}
					check.That(t, len(s.feeds) == 1, "%d feeds", len(s.feeds))
					s.open(t.Context())
				} else {
					want := end(s, conf)
					err := check.Comes(t, "the outcome of Watch", outcome)
					check.That(t, errors.Is(err, want) && time.Since(begun) == 0,
						"%v after %v", err, time.Since(begun))
				}
				opener.Stop()
				check.Equal(t, len(b.hub.sources), 0, "%d sources are left")
			})
		})
	}
}

// An error is the last event of a feed, also among those that came before the feed began. After
// Stop there is none.
func TestFeed_EndsWithError(t *testing.T) {
	event := func(n uint64) backend.FeedEvent { return backend.FeedEvent{Entry: backend.Entry{Revision: n}} }
	lost := backend.FeedEvent{Err: backend.ErrUnreachable}
	for name, steps := range map[string]func(f *Feed){
		"after the beginning":  func(f *Feed) { f.Begin(); f.tell(event(1)); f.tell(lost); f.tell(event(2)) },
		"before the beginning": func(f *Feed) { f.tell(event(1)); f.tell(lost); f.tell(event(2)); f.Begin() },
	} {
		var told []backend.FeedEvent
		f := &Feed{deliver: func(e backend.FeedEvent) { told = append(told, e) }}
		steps(f)
		check.That(t, len(told) == 2 && told[0].Entry.Revision == 1 && told[1].Err != nil, "%s: %+v", name, told)
	}
	bubble(t, server.Options{}, func(t *lab) {
		b := ordinary(t, dialJS(t, t.s), jetstream.KeyValueConfig{})
		check.OK(t, check.Err(update(t.Context(), b, "a", "1", 0)))
		replied, early := false, false
		f, err := await(func(r func(backend.Feed, error)) {
			b.Watch(t.Context(), "a", nil, func(backend.FeedEvent) { early = early || !replied }, func(f backend.Feed, err error) {
				time.Sleep(time.Second)
				replied = true
				r(f, err)
			})
		})
		t.ok(err)
		synctest.Wait()
		check.That(t, !early, "an event came before the feed")
		f.Stop()
		f.(*Feed).deliver = func(backend.FeedEvent) { t.Error("an event came after Stop") }
		f.(*Feed).tell(event(9))
	})
}

// The successor of a release gets it first, and once. In a crowd all others get it after a head
// start, unless a newer message comes meanwhile.
func TestFeedSource_HeadStart(t *testing.T) {
	const large = crowd + 2
	for _, c := range []struct {
		name     string
		feeds    int
		phase    record.Phase
		to       string
		next     record.Line
		who      subscriber
		newer    time.Duration // when a newer message comes; 0: never
		first    bool          // the successor is here
		others   time.Duration // when the others get it; negative: not at all
		returned time.Duration
	}{
		{name: "named by ID", feeds: large, phase: record.PhaseReleased, to: "b", who: subscriber{"b", "B"}, first: true, others: headStart, returned: headStart},
		{name: "named by session", feeds: large, phase: record.PhaseReleased, to: "B", who: subscriber{"b", "B"}, first: true, others: headStart, returned: headStart},
		{name: "first in line", feeds: large, phase: record.PhaseReleased, next: "B C", who: subscriber{"b", "B"}, first: true, others: headStart, returned: headStart},
		{name: "second in line", feeds: large, phase: record.PhaseReleased, next: "C B", who: subscriber{"b", "B"}, others: headStart, returned: headStart},
		{name: "named before the line", feeds: large, phase: record.PhaseReleased, to: "b", next: "C", who: subscriber{"b", "B"}, first: true, others: headStart, returned: headStart},
		{name: "elsewhere", feeds: large, phase: record.PhaseReleased, to: "z", who: subscriber{"b", "B"}, others: headStart, returned: headStart},
		{name: "overtaken", feeds: large, phase: record.PhaseReleased, to: "b", who: subscriber{"b", "B"}, newer: 2 * time.Millisecond, first: true, others: -1, returned: 2 * time.Millisecond},
		{name: "a small crowd", feeds: crowd, phase: record.PhaseReleased, to: "b", who: subscriber{"b", "B"}, first: true},
		{name: "nobody named", feeds: large, phase: record.PhaseReleased, who: subscriber{"b", "B"}},
		{name: "no release", feeds: large, phase: record.PhaseLeading, next: "B", who: subscriber{"b", "B"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, s := time.Now(), &source{feeds: make(map[*Feed]struct{})}
				var order []string
				at := map[time.Duration]int{}
				for i := range c.feeds {
					name, f := fmt.Sprint(i), &Feed{begun: true}
					if i == 0 {
						name = "successor"
						f.who.Store(&c.who)
					}
					f.deliver = func(backend.FeedEvent) {
						order = append(order, name)
						at[time.Since(begun)]++
					}
					s.feeds[f] = struct{}{}
				}
				r := record.Record{Phase: c.phase, ID: "a", Session: "S", Lease: 15 * time.Second, Token: 42, To: c.to, Next: c.next}
				s.tellUnless(backend.FeedEvent{Entry: backend.Entry{Revision: 1, Value: r.Encode(0)}}, func() bool { return c.newer != 0 && time.Since(begun) >= c.newer })
				d := time.Since(begun)
				check.That(t, d == c.returned, "returned after %v", d)
				want := map[time.Duration]int{}
				if c.first {
					want[0] = 1
					check.That(t, order[0] == "successor" && !slices.Contains(order[1:], "successor"), "told in this order: %q", order)
				}
				if c.others >= 0 {
					want[c.others] += c.feeds - want[0]
				}
				check.That(t, fmt.Sprint(at) == fmt.Sprint(want), "told at %v, want %v", at, want)
			})
		})
	}
}

// A feed takes no message that a consumer sends to its subject, whatever the headers. The publisher
// of a stored message chooses them.
func TestFeed_ConsumerCannotForge(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		b := mustCreate(t, js, Config{})
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "X", Subjects: []string{"x"}})
		check.Must(t, err == nil, "%v", err)
		forged := &nats.Msg{Subject: "x", Header: nats.Header{
			"Nats-Stream": {"KV_E"}, "Nats-Subject": {"$KV.E.a"}, "Nats-Sequence": {"99"}, "Nats-Time-Stamp": {time.Now().Format(time.RFC3339Nano)},
		}}
		check.OK(t, check.Err(js.PublishMsg(t.Context(), forged)))
		w := watch(t, b, "a")
		if _, err := js.CreatePushConsumer(t.Context(), "X", jetstream.ConsumerConfig{DeliverSubject: "natsleader.feed.E.a", AckPolicy: jetstream.AckNonePolicy}); err != nil {
			t.Fatal(err)
		}
		w.nothing(t)
		time.Sleep(time.Second)
		w.nothing(t)
	})
}

// nats.go drops a status that a full channel does not take, and the last one is that the connection
// is closed.
func TestHub_MissesNoClose(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		b := mustCreate(t, js, Config{})
		js.Conn().Close()
		var told []backend.FeedEvent
		f := &Feed{begun: true, deliver: func(e backend.FeedEvent) { told = append(told, e) }}
		h := hub{sources: map[*source]struct{}{{bucket: b, feeds: map[*Feed]struct{}{f: {}}}: {}}}
		status, ended := make(chan nats.Status, 1), make(chan struct{})
		status <- nats.CONNECTED
		close(status)
		h.listen(b, status, ended)
		check.That(t, len(told) == 1 && errors.Is(told[0].Err, backend.ErrConnectionClosed), "told %+v", told)
	})
}
