package natskv

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// openOf opens the key a, and returns the feed and the entry.
func openOf(ctx context.Context, t *lab, b *Bucket) (w watching, e backend.Entry, feedErr, entryErr error) {
	t.Helper()
	w.told = make(chan backend.FeedEvent, 1000)
	entries := make(chan reply[backend.Entry], 1)
	f, feedErr := await(func(r func(*Feed, error)) {
		b.Open(ctx, ctx, "a", func(e backend.FeedEvent) { w.told <- e }, nil, r, func(e backend.Entry, err error) { entries <- reply[backend.Entry]{e, err} })
	})
	if feedErr == nil {
		w.Feed = f
		t.Cleanup(f.Stop)
	}
	got := check.Comes(t, "the entry", entries)
	return w, got.v, feedErr, got.err
}

// What is read and what the feed delivers afterwards has all messages, whatever is known of the bucket, and whatever it is.
func TestOpen_ReadsAndHears(t *testing.T) {
	unlike := func(change func(*jetstream.StreamConfig)) func(*lab, jetstream.JetStream) *Bucket {
		return func(t *lab, js jetstream.JetStream) *Bucket {
			conf := *mustInfo(t, mustCreate(t, js, Config{}))
			change(&conf)
			check.Got(js.UpdateStream(t.Context(), conf))(t)
			return ensured(t, js)
		}
	}
	for name, make := range map[string]func(*lab, jetstream.JetStream) *Bucket{
		"known":    func(t *lab, js jetstream.JetStream) *Bucket { return mustCreate(t, js, Config{}) },
		"unknown":  func(t *lab, js jetstream.JetStream) *Bucket { mustCreate(t, js, Config{}); return mustOpen(t, js) },
		"expected": unlike(func(*jetstream.StreamConfig) {}),
		"consumer": func(t *lab, js jetstream.JetStream) *Bucket { return ordinary(t, js, jetstream.KeyValueConfig{}) },
		"another feed": unlike(func(c *jetstream.StreamConfig) {
			c.RePublish = &jetstream.RePublish{Source: "$KV.E.>", Destination: "elsewhere.>"}
		}),
		"no feed":        unlike(func(c *jetstream.StreamConfig) { c.RePublish = nil }),
		"no direct gets": unlike(func(c *jetstream.StreamConfig) { c.AllowDirect = false }),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, server.Options{}, func(t *lab) {
				b := make(t, dialJS(t, t.s))
				other := mustOpen(t, dialJS(t, t.s))
				first := check.Got(update(t.Context(), other, "a", "1", 0))(t)
				begun := time.Now()
				w, e, feedErr, err := openOf(t.Context(), t, b)
				t.ok(feedErr)
				t.ok(err)
				check.That(t, e.Revision == first && string(e.Value) == "1" && time.Since(begun) == 0, "read %+v after %v", e, time.Since(begun))
				second := check.Got(update(t.Context(), other, "a", "2", first))(t)
				w.nothing(t)
				w.Feed.(*Feed).Begin()
				for e := w.next(t); e.Entry.Revision != second; e = w.next(t) { // a consumer begins with what was read
					check.Equal(t, e.Entry.Revision, first, "told %+v", e)
				}
				check.Equal(t, b.api.Left().Subscriptions, 1, "%d subscriptions")
				again, e, feedErr, err := openOf(t.Context(), t, b) // shares the subscription
				t.ok(feedErr)
				t.ok(err)
				check.Equal(t, e.Revision, second, "read %d")
				check.Equal(t, b.api.Left().Subscriptions, 1, "%d subscriptions")
				again.Stop()
			})
		})
	}
}

// An opening waits for the bucket that a candidate creates.
func TestOpen_BucketIsCreated(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		b := ensured(t, dialJS(t, t.s))
		opened := false
		go func() {
			_, e, feedErr, err := openOf(t.Context(), t, b)
			check.That(t, feedErr == nil && err == nil && e.Revision == 0, "%+v, %v, %v", e, feedErr, err)
			opened = true
		}()
		time.Sleep(time.Second)
		synctest.Wait()
		check.That(t, !opened, "opened without a bucket")
		_, err := await(func(r func(backend.Settings, error)) { b.SettingsEnsured(t.Context(), r) })
		t.ok(err)
		synctest.Wait()
		check.That(t, opened, "not opened")
	})
}

// What is given up is answered, and leaves nothing.
func TestOpen_GivenUp(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		for name, b := range map[string]*Bucket{"no bucket": ensured(t, dialJS(t, t.s)), "not opened": mustOpen(t, dialJS(t, t.s))} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, _, feedErr, err := openOf(ctx, t, b)
			check.That(t, feedErr != nil && err != nil, "%s: %v, %v", name, feedErr, err)
			cancel()
			synctest.Wait()
			check.Equal(t, b.Left()[0].Subscriptions, 0, "%d subscriptions")
		}
	})
}

// Of several reads the last one counts, and a failure asks for another.
func TestOpeningRead_LastCounts(t *testing.T) {
	var told []uint64
	r := &openingRead{reply: func(e backend.Entry, err error) { told = append(told, e.Revision) }, due: true}
	first := r.next()
	second := r.next()
	second(backend.Entry{Revision: 2}, nil)
	first(backend.Entry{Revision: 1}, nil)
	check.That(t, !r.isDue() && told == nil, "due, or told %v", told)
	r.release()
	third := r.next()
	r.void()
	third(backend.Entry{Revision: 3}, nil)
	check.That(t, r.isDue(), "not due")
	fourth := r.next()
	fourth(backend.Entry{}, backend.ErrUnreachable)
	check.That(t, r.isDue(), "not due after a failure")
	check.Deep(t, told, []uint64{2, 0})
}

// A read that was asked for before the bucket was there may fail at any time. Once it is sent again, and then the failure counts.
func TestOpeningRead_FailsLate(t *testing.T) {
	for _, early := range []bool{false, true} {
		told, asked := 0, 0
		r := &openingRead{reply: func(backend.Entry, error) { told++ }, due: true}
		reply := r.next()
		get := func() { asked++; reply = r.next() }
		r.onFailure(get)
		if early {
			reply(backend.Entry{}, backend.ErrUnreachable)
		}
		r.release()
		if !early {
			reply(backend.Entry{}, backend.ErrUnreachable)
		}
		check.That(t, told == 0 && asked == 1 && !r.isDue(), "early %v: told %d times, asked %d times more", early, told, asked)
		reply(backend.Entry{}, backend.ErrUnreachable)
		check.That(t, told == 1 && asked == 1, "early %v: told %d times, asked %d times more", early, told, asked)
	}
}
