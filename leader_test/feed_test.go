package leader_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
)

// requests returns how many messages the client has published, by the server's count.
func (w *world) requests(cl *client) int64 {
	w.Helper()
	synctest.Wait()
	cid := check.Got(cl.nc.GetClientID())(w)
	z := check.Got(w.current().Connz(&server.ConnzOptions{CID: cid}))(w)
	check.Must(w, len(z.Conns) == 1, "%d connections", len(z.Conns))
	return z.Conns[0].InMsgs
}

// A waiting candidate sends no requests.
func TestWaiter_SendsNoRequests(t *testing.T) { story(t) }

// A leader sends one request per interval.
func TestLeader_RequestsPerInterval(t *testing.T) { story(t) }

// deafen loses all messages for the subscriptions that get the next message of the feed
// from now on. A subscription that is made later receives its messages.
func (l *link) deafen() {
	deaf := ""
	l.filter(func(f frame) treatment {
		isFeed := strings.HasPrefix(f.subject, "natsleader.feed.") || strings.HasPrefix(f.reply, "$JS.ACK.KV_E.")
		if f.dir != down || !isFeed {
			return pass
		}
		if deaf == "" {
			deaf = f.sid
		}
		if f.sid == deaf {
			return drop
		}
		return pass
	})
}

// A deaf feed is opened anew. The candidate asks for the settings a third of a lease after the last
// message of the feed, and reads the key exactly half a lease after it.
func TestDeafFeed_IsRebuilt(t *testing.T) { story(t) }

// A watch feed whose consumer is deleted is opened anew.
func TestWatchFeed_DeletedConsumer(t *testing.T) {
	inOrdinary(t, func(w *world) {
		a, b := w.veterans()
		s := check.Got(w.ops.js.Stream(w.Context(), "KV_E"))(w)
		n := 0
		for name := range s.ConsumerNames(w.Context()).Name() {
			w.ok(s.DeleteConsumer(w.Context(), name))
			n++
		}
		check.That(t, n == 4, "there were %d consumers; each client has one for the key and one for the cordon", n)
		w.at(50500 * time.Millisecond)
		w.ok(leadertest.Resign(w.Context(), a))
		b.turned(t, "50.5s pending", "50.5s elected")
	})
}

// A candidate without a feed polls.
func TestCandidate_WithoutFeed(t *testing.T) { story(t) }

// A leader learns when its term began also from a later write, if its feed has not delivered the one that elected.
func TestSince_FeedDeliversOnlyLaterWrite(t *testing.T) { story(t) }

// Each record says when it was written, from the first to the release. So a copy that is stored later shows it.
func TestRecord_SaysWhenItWasWritten(t *testing.T) {
	k := newKit(t)
	a, _ := k.lead(leader.Config{})
	shown := func(what string) {
		t.Helper()
		e := k.store.Entry("e")
		at := record.WrittenAt(e.Value)
		check.That(t, at.Equal(e.Created), "%s says %v, and was stored at %v", what, at, e.Created)
	}
	shown("the record that elects")
	for _, d := range []time.Duration{6 * time.Second, time.Hour, 5 * time.Hour} {
		k.clock.Advance(d)
		shown(fmt.Sprintf("the renewal after %v", d))
	}
	check.OK(t, a.Stop())
	shown("the release")
}

// A feed that is not opened in time is reported, and each fault of the feed again once a feed was
// open in between.
func TestFeed_NotOpenedIsReported(t *testing.T) { story(t) }

// With a wrong feed subject, a candidate falls back to reads of the key.
func TestFeedSubject_WrongIsPolled(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.stand("a")
		w.at(12 * time.Second)
		cl := w.dial("b")
		bucket := check.Got(leader.OpenBucket(cl.js, "E"))(w)
		bucket = check.Got(bucket.WithFeedSubject("nowhere"))(w)
		b := w.standOn(cl, bucket, leader.Config{ID: "b"})
		w.at(20500 * time.Millisecond)
		a.news()
		b.news()
		w.ok(a.Stop())
		w.at(40 * time.Second)
		got := b.transitions()
		check.That(t, len(got) == 2, "b saw %q", got)
	})
}

// A candidate uses the feed that the bucket republishes, and otherwise a consumer. It sends no requests
// while it waits, and leaves no consumer behind.
func TestFeed_OfTheBucket(t *testing.T) {
	for _, k := range []struct {
		name      string
		republish *jetstream.RePublish
		feed      string
		consumers int
	}{
		{"with a watch", nil, "", 4}, // each client watches the key and the cordon
		{"republished", &jetstream.RePublish{Source: "$KV.E.>", Destination: "elsewhere.>"}, "elsewhere", 0},
		{"republished from everywhere", &jetstream.RePublish{Source: ">", Destination: "all.>"}, "all.$KV.E", 0},
		{"republished without a source", &jetstream.RePublish{Destination: "bare.>"}, "bare.$KV.E", 0},
		{"republished headers are no feed", &jetstream.RePublish{Source: "$KV.E.>", Destination: "heads.>", HeadersOnly: true}, "", 4},
	} {
		inBubble.run(t, k.name, func(t *testing.T, w *world) {
			_, err := w.ops.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "E", RePublish: k.republish})
			w.ok(err)
			info := check.Got(w.ops.bucket(t).Info(w.Context()))(w)
			check.That(t, info.FeedSubject == k.feed && !info.PurgeProtected, "%+v, want the feed %q", info, k.feed)
			a, b := w.veterans()
			check.Equal(t, w.consumers("KV_E"), k.consumers, "%d consumers")
			before := w.requests(b.client)
			w.at(80 * time.Second)
			check.Equal(t, w.requests(b.client)-before, 0, "b sent %d requests")
			w.ok(leadertest.Resign(w.Context(), a))
			b.saw(t, "1m20s observed nobody", "1m20s pending", "1m20s elected")
			w.ok(a.Stop())
			w.ok(b.Stop())
			check.Equal(t, w.consumers("KV_E"), 0, "%d consumers after the end")
		})
	}
}

// forgery returns a released record on the feed, with all the headers of the server.
func forgery(revision int) *nats.Msg {
	return &nats.Msg{
		Subject: "natsleader.feed.E.e",
		Header: nats.Header{
			"Nats-Stream": {"KV_E"}, "Nats-Subject": {"$KV.E.e"}, "Nats-Sequence": {fmt.Sprint(revision)},
			"Nats-Last-Sequence": {fmt.Sprint(revision - 1)}, "Nats-Time-Stamp": {"2000-01-01T00:00:03Z"},
		},
		Data: []byte(`{"v":1,"state":"released","id":"x","session":"x","n":1,"lease":"6s","token":1}`),
	}
}

// A forged message on the feed does not depose a leader.
func TestForgedFeedMessage_Leader(t *testing.T) {
	for _, revision := range []int{1, 21, 22, 1000, 1 << 40} {
		inSealed(t, func(w *world) {
			a, b := w.veterans()
			term := a.lastTerm(t)
			w.ok(w.ops.nc.PublishMsg(forgery(revision)))
			w.at(40 * time.Second)
			a.saw(t)
			now, ok := a.Term()
			check.That(t, ok && now == term, "a leads another term")
			b.turned(t)
			w.leads(a, b) // b has the correct holder again
			a.cut()
			w.at(2 * time.Minute)
			got := b.transitions()
			check.That(t, len(got) == 2, "b saw %q", got)
		})
	}
}

// The forged headers of a client that may write a key are not believed.
func TestForgedHeaders_OfKeyWriter(t *testing.T) {
	forEachKind(t, func(w *world, unknown time.Duration) {
		a, b := w.veterans()
		m := forgery(1 << 40)
		m.Subject = "$KV.E.other" // a writer of that key may not write e
		check.Got(w.ops.js.PublishMsg(w.Context(), m))(w)
		w.at(40 * time.Second)
		a.saw(w.T)
		b.saw(w.T)
		w.leads(a, b)
		w.ok(b.Stop())
		m.Subject = "$KV.E.e" // a writer of this key may, but does not number the revisions
		check.Got(w.ops.js.PublishMsg(w.Context(), m))(w)
		w.at(time.Minute)
		// The record says that the key is released. But no writer sends these headers, so the
		// entry is foreign.
		got, want := a.transitions(), fmt.Sprintf("40s deposed preempted|%v pending", 40*time.Second+unknown)
		check.That(w, strings.HasPrefix(strings.Join(got, "|"), want), "a saw %q", got)
	})
}

// Junk on the feed is ignored.
func TestFeed_JunkIsIgnored(t *testing.T) {
	inSealed(t, func(w *world) {
		a, b := w.veterans()
		w.ok(w.ops.nc.Publish("natsleader.feed.E.e", []byte("junk")))
		for header, value := range map[string]string{
			"Nats-Stream": "KV_X", "Nats-Subject": "$KV.E.x", "Nats-Sequence": "many", "Nats-Time-Stamp": "now",
		} {
			m := forgery(1000)
			m.Header.Set(header, value)
			w.ok(w.ops.nc.PublishMsg(m))
		}
		before := w.requests(b.client)
		w.at(time.Minute)
		check.Equal(t, w.requests(b.client)-before, 0, "b sent %d requests")
		a.saw(t)
		b.saw(t)
	})
}
