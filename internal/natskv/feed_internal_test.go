package natskv

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// ordinary makes a bucket that does not republish.
func ordinary(t *lab, js jetstream.JetStream, cfg jetstream.KeyValueConfig) *Bucket {
	t.Helper()
	cfg.Bucket = "E"
	check.OK(t, check.Err(js.CreateKeyValue(t.Context(), cfg)))
	return mustOpen(t, js)
}

// A feed delivers the puts and deletes of its key.
func TestFeed_PutsAndDeletes(t *testing.T) {
	for name, create := range map[string]func(*lab, jetstream.JetStream) *Bucket{
		"republish": func(t *lab, js jetstream.JetStream) *Bucket { return mustCreate(t, js, Config{}) },
		"watch": func(t *lab, js jetstream.JetStream) *Bucket {
			return ordinary(t, js, jetstream.KeyValueConfig{History: 5})
		},
		"headers only": func(t *lab, js jetstream.JetStream) *Bucket {
			return ordinary(t, js, jetstream.KeyValueConfig{RePublish: &jetstream.RePublish{Source: ">", Destination: "x.>", HeadersOnly: true}})
		},
		"republish all": func(t *lab, js jetstream.JetStream) *Bucket {
			return ordinary(t, js, jetstream.KeyValueConfig{RePublish: &jetstream.RePublish{Source: ">", Destination: "x.>"}})
		},
		"given": func(t *lab, js jetstream.JetStream) *Bucket {
			mustCreate(t, js, Config{})
			b := check.Got(mustOpen(t, js).WithFeed("natsleader.feed.E"))(t)
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, server.Options{}, func(t *lab) {
				js := dialJS(t, t.s)
				b := create(t, js)
				kv := mustKV(t, js)
				w := watch(t, b, "a")
				w.nothing(t)
				before := lastRevision(t, b)
				_, _ = kv.Put(t.Context(), "b", []byte("other"))
				for i, want := range []backend.Entry{{Value: []byte("1")}, {Marker: true}, {}} {
					if want.Marker {
						_ = kv.Delete(t.Context(), "a")
					} else {
						_, _ = kv.Create(t.Context(), "a", want.Value)
					}
					e := w.next(t).Entry
					if e.Revision != before+uint64(i+2) || string(e.Value) != string(want.Value) || e.Marker != want.Marker || !e.Created.Equal(time.Now()) {
						t.Fatalf("event %d is %+v", i, e)
					}
				}
				w.Stop()
				_, _ = kv.Put(t.Context(), "a", []byte("late"))
				w.nothing(t)
				time.Sleep(time.Second)
				n := consumersOf(t, js, "KV_E")
				check.Must(t, n == 0, "%d consumers are left", n)
			})
		})
	}
}

// A watch feed begins with the last value of its key.
func TestWatchFeed_LastValue(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		b := ordinary(t, js, jetstream.KeyValueConfig{History: 5})
		kv := mustKV(t, js)
		_, _ = kv.Create(t.Context(), "a", []byte("1"))
		_, _ = kv.Update(t.Context(), "a", []byte("2"), 1)
		w := watch(t, b, "a")
		e := w.next(t).Entry
		check.Must(t, e.Revision == 2 && string(e.Value) == "2", "told %+v", e)
		w.nothing(t)
	})
}

// Every feed of a connection reports that the connection is back.
func TestFeed_Reconnection(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		g := &gate{s: t.s}
		js, other := dialJS(t, g), dialJS(t, t.s)
		b := mustCreate(t, other, Config{})
		mine := mustOpen(t, js)
		feeds := []watching{watch(t, mine, "a"), watch(t, mine, "a"), watch(t, mine, "b")}
		g.set(true)
		synctest.Wait()
		missed := check.Got(update(t.Context(), b, "a", "missed", 0))(t)
		g.set(false)
		time.Sleep(time.Minute)
		for _, w := range feeds {
			e := w.next(t)
			check.Must(t, e.Reconnected && e.Err == nil && e.Entry.Revision == 0, "told %+v", e)
			w.nothing(t)
		}
		check.OK(t, check.Err(update(t.Context(), b, "a", "heard", missed)))
		e := feeds[1].next(t)
		check.Must(t, e.Entry.Revision == missed+1, "told %+v", e)
		js.Conn().Close()
		for i, w := range feeds {
			if i == 0 {
				w.next(t) // the revision
			}
			e := w.next(t)
			wantErr(t, e.Err, backend.ErrConnectionClosed)
			w.nothing(t)
		}
	})
}

// A watch feed reports a reconnection, and ends with ErrUnreachable.
func TestWatchFeed_Reconnection(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		g := &gate{s: t.s}
		b := ordinary(t, dialJS(t, g), jetstream.KeyValueConfig{})
		w := watch(t, b, "a")
		g.reconnect()
		e := w.next(t)
		check.Must(t, e.Reconnected, "told %+v", e)
		wantErr(t, w.next(t).Err, backend.ErrUnreachable)
		w.Stop()
		again := watch(t, b, "a")
		check.OK(t, check.Err(update(t.Context(), b, "a", "1", 0)))
		if e := again.next(t); e.Entry.Revision != 1 {
			t.Fatalf("told %+v", e)
		}
	})
}

// A feed delivers nothing after Stop has returned.
func TestFeed_SilentAfterStop(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		b := mustCreate(t, js, Config{})
		var mu sync.Mutex
		stopped, late := false, false
		f, err := await(func(r func(backend.Feed, error)) {
			b.Watch(t.Context(), "a", nil, func(backend.FeedEvent) {
				mu.Lock()
				defer mu.Unlock()
				late = late || stopped
			}, r)
		})
		t.ok(err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range 200 {
				_ = js.Conn().PublishMsg(&nats.Msg{Subject: "$KV.E.a"})
			}
		}()
		f.Stop()
		mu.Lock()
		stopped = true
		mu.Unlock()
		<-done
		synctest.Wait()
		check.Must(t, !late, "an event came after Stop")
	})
}

// A feed keeps the newest events that arrive before the reply to Watch, and delivers them
// after it.
func TestFeed_KeepsEarlyEvents(t *testing.T) {
	var told []backend.FeedEvent
	f := &Feed{deliver: func(e backend.FeedEvent) { told = append(told, e) }}
	for i := range earlyEvents + 3 {
		f.tell(backend.FeedEvent{Entry: backend.Entry{Revision: uint64(i)}})
	}
	check.Must(t, len(told) == 0, "told before the reply")
	f.Begin()
	check.Must(t, len(told) == earlyEvents && told[len(told)-1].Entry.Revision == earlyEvents+2, "told %v", told)
}

// The end of its context ends each request of a bucket's store.
func TestStoreRequests_EndOfContext(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		nc := dial(t, t.s)
		for _, subject := range []string{"$JS.hub.API.>"} { // takes requests and says nothing
			check.OK(t, check.Err(nc.SubscribeSync(subject)))
		}
		js := check.Got(jetstream.NewWithDomain(nc, "hub"))(t)
		b := mustOpen(t, js)
		b.api.Known.Store(&jetstream.StreamConfig{Name: "KV_E", AllowDirect: true}) // a watch feed
		for name, call := range map[string]func(context.Context) error{
			"settings": func(ctx context.Context) error { _, err := settingsOf(ctx, b); return err },
			"get":      func(ctx context.Context) error { _, err := getFrom(ctx, b, "a"); return err },
			"update":   func(ctx context.Context) error { _, err := update(ctx, b, "a", "x", 0); return err },
			"watch": func(ctx context.Context) error {
				_, err := await(func(r func(backend.Feed, error)) { b.Watch(ctx, "a", nil, func(backend.FeedEvent) {}, r) })
				return err
			},
		} {
			ctx, cancel := context.WithCancel(t.Context())
			start := time.Now()
			time.AfterFunc(time.Minute, cancel) // longer than any time-out of nats.go
			err := call(ctx)
			wantErr(t, err, backend.ErrUnreachable)
			d := time.Since(start)
			check.That(t, d == time.Minute, "%s took %v", name, d)
		}
	})
}

// A message is not passed on to thousands of feeds when a newer message waits.
func TestFeedSource_SkipsStaleMessage(t *testing.T) {
	for _, newer := range []bool{false, true} {
		told := 0
		s := &source{feeds: make(map[*Feed]struct{})}
		for range 10 * crowd {
			s.feeds[&Feed{begun: true, deliver: func(backend.FeedEvent) { told++ }}] = struct{}{}
		}
		s.tellUnless(backend.FeedEvent{Entry: backend.Entry{Revision: 1}}, func() bool { return newer })
		want := 10 * crowd
		if newer {
			want = crowd - 1
		}
		check.That(t, told == want, "newer %v: %d were told, want %d", newer, told, want)
	}
}

// A message is decoded once for all feeds of its key.
func TestFeedSource_DecodesOnce(t *testing.T) {
	told := make(map[any]int)
	s := &source{feeds: make(map[*Feed]struct{})}
	for range 1000 {
		s.feeds[&Feed{begun: true, deliver: func(ev backend.FeedEvent) { told[ev.Decoded]++ }}] = struct{}{}
	}
	s.tell(backend.FeedEvent{Entry: backend.Entry{Revision: 1}})
	check.That(t, len(told) == 1 && told[nil] == 0, "%d records for %d feeds, %d feeds without one", len(told), len(s.feeds), told[nil])
}

// A message for a crowd of feeds, which takes long to deliver, does not hold up the feeds of other keys.
func TestFeedSource_CrowdHoldsUpNone(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		b := mustCreate(t, dialJS(t, t.s), Config{})
		other := watch(t, b, "other")
		for range crowd + 1 {
			f, err := await(func(r func(backend.Feed, error)) {
				b.Watch(t.Context(), "crowd", nil, func(backend.FeedEvent) { time.Sleep(time.Second) }, r)
			})
			t.ok(err)
			t.Cleanup(f.Stop)
		}
		for _, key := range []string{"crowd", "other"} {
			t.ok(check.Err(update(t.Context(), b, key, "x", 0)))
		}
		synctest.Wait()
		n := len(other.told)
		time.Sleep(2 * crowd * time.Second) // all has been delivered
		check.Equal(t, n, 1, "%d messages of the other key come at once")
	})
}
