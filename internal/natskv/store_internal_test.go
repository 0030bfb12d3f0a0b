package natskv

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// Each request to a bucket that does not exist returns ErrNoBucket.
func TestMissingBucket_ErrNoBucket(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		b := mustOpen(t, dialJS(t, t.s))
		_, err := b.Info(t.Context())
		wantErr(t, err, backend.ErrNoBucket)
		_, err = settingsOf(t.Context(), b)
		wantErr(t, err, backend.ErrNoBucket)
		_, err = getFrom(t.Context(), b, "a")
		wantErr(t, err, backend.ErrNoBucket)
		_, err = update(t.Context(), b, "a", "x", 0)
		wantErr(t, err, backend.ErrUnreachable) // there are no responders, which proves nothing
		_, err = await(func(r func(backend.Feed, error)) { b.Watch(t.Context(), "a", nil, func(backend.FeedEvent) {}, r) })
		wantErr(t, err, backend.ErrNoBucket)
	})
}

// Where a bucket allows no direct gets, Get distinguishes a key without a message, a marker and an
// empty value, too. TestParity_Writes has the others.
func TestGet_EmptyValues(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		c := *mustCreate(t, js, Config{}).api.Known.Load()
		c.AllowDirect = false
		check.OK(t, check.Err(js.UpdateStream(t.Context(), c)))
		b, kv := mustOpen(t, js), mustKV(t, js)
		holds := func(revision uint64, value string, marker bool) {
			t.Helper()
			e := check.Got(getFrom(t.Context(), b, "a.b"))(t)
			check.Must(t, e.Revision == revision && string(e.Value) == value && e.Marker == marker, "got %+v", e)
			check.Must(t, revision == 0 || e.Created.Equal(time.Now()), "created %v", e.Created)
		}
		first := lastRevision(t, b) + 1
		holds(0, "", false)
		check.OK(t, check.Err(kv.Create(t.Context(), "a.b", []byte("v"))))
		holds(first, "v", false)
		check.OK(t, check.Err(kv.Update(t.Context(), "a.b", nil, first)))
		holds(first+1, "", false)
		t.ok(kv.Delete(t.Context(), "a.b"))
		holds(first+2, "", true)
	})
}

// Forged headers are not read.
func TestForgedHeaders_AreNotRead(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		b := mustCreate(t, js, Config{})
		first := lastRevision(t, b) + 1
		w := watch(t, b, "a")
		_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: "$KV.E.a", Header: nats.Header{
			"Nats-Sequence": {"99"}, "Nats-Stream": {"X"}, "Nats-Subject": {"y"}, "Nats-Time-Stamp": {"z"}, "Status": {"404"},
		}})
		t.ok(err)
		e, err := getFrom(t.Context(), b, "a")
		check.Must(t, err == nil && e.Revision == first && !e.Marker, "got %+v, %v", e, err)
		e = w.next(t).Entry
		check.Must(t, e.Revision == first && e.Created.Equal(time.Now()), "told %+v", e)
		// Not from the server at all: the last values are not ours.
		for _, h := range []nats.Header{
			{},
			{"Nats-Sequence": {"2"}, "Nats-Stream": {"KV_E"}, "Nats-Subject": {"$KV.E.b"}, "Nats-Time-Stamp": {time.Now().Format(time.RFC3339Nano)}},
			{"Nats-Sequence": {"2"}, "Nats-Stream": {"KV_F"}, "Nats-Subject": {"$KV.E.a"}, "Nats-Time-Stamp": {time.Now().Format(time.RFC3339Nano)}},
			{"Nats-Sequence": {"0"}, "Nats-Stream": {"KV_E"}, "Nats-Subject": {"$KV.E.a"}, "Nats-Time-Stamp": {time.Now().Format(time.RFC3339Nano)}},
		} {
			t.ok(js.Conn().PublishMsg(&nats.Msg{Subject: "natsleader.feed.E.a", Header: h}))
		}
		w.nothing(t)
	})
}

// A mirror that answers reads is named.
func TestGet_FromMirror(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		b := mustCreate(t, js, Config{})
		check.Got(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "M", MirrorDirect: true, Mirror: &jetstream.StreamSource{Name: "KV_E"}}))(t)
		_, err := update(t.Context(), b, "a", "1", 0)
		t.ok(err)
		time.Sleep(time.Second) // the mirror has it, too
		synctest.Wait()
		for range 100 { // the server chooses by chance
			if _, err = getFrom(t.Context(), b, "a"); err != nil {
				break
			}
		}
		check.That(t, errors.Is(err, backend.ErrUnreachable) && strings.Contains(err.Error(), `stream "M" has answered`), "%v", err)
	})
}

// While the connection is down, no request is handed to it.
func TestDisconnected_SendsNothing(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		g := &gate{s: t.s}
		js := dialJS(t, g)
		b := mustCreate(t, js, Config{})
		g.set(true)
		synctest.Wait()
		start := time.Now()
		_, err := update(t.Context(), b, "a", "x", 0)
		wantErr(t, err, backend.ErrUnreachable, "reconnecting")
		_, err = getFrom(t.Context(), b, "a")
		wantErr(t, err, backend.ErrUnreachable)
		d := time.Since(start)
		check.Must(t, d == 0, "took %v", d)
		g.set(false)
		time.Sleep(time.Minute)
		e, err := getFrom(t.Context(), b, "a")
		check.Must(t, err == nil && e.Revision == 0, "got %+v, %v: the write was kept", e, err)
		js.Conn().Close()
		_, err = update(t.Context(), b, "a", "x", 0)
		wantErr(t, err, backend.ErrConnectionClosed)
		_, err = b.Info(t.Context())
		wantErr(t, err, backend.ErrConnectionClosed)
	})
}

// A missing permission is named in the error of the request.
func TestMissingPermission_IsNamed(t *testing.T) {
	user := func(name string, p *server.Permissions) *server.User {
		return &server.User{Username: name, Password: "x", Permissions: p}
	}
	most := &server.SubjectPermission{Allow: []string{">"}, Deny: []string{"$KV.E.a", "$JS.API.DIRECT.GET.KV_E.$KV.E.a"}}
	users := []*server.User{
		user("all", nil),
		user("deaf", &server.Permissions{Publish: most, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}}}),
		user("blind", &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$JS.API.STREAM.INFO.>", "$JS.API.CONSUMER.>"}}}),
		user("mute", &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"_INBOX.>"}}}),
	}
	bubble(t, server.Options{Users: users}, func(t *lab) {
		mustCreate(t, dialJS(t, t.s, nats.UserInfo("all", "x")), Config{})
		second := func() context.Context {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			t.Cleanup(cancel)
			return ctx
		}
		as := func(name string) *Bucket { return mustOpen(t, dialJS(t, t.s, nats.UserInfo(name, "x"))) }

		deaf := as("deaf")
		for range 2 {
			_, err := update(second(), deaf, "a", "x", 0)
			wantErr(t, err, backend.ErrPermission, `"$KV.E.a"`)
			_, err = getFrom(second(), deaf, "a")
			wantErr(t, err, backend.ErrPermission, `"$JS.API.DIRECT.GET.KV_E.$KV.E.a"`)
		}
		if _, err := update(second(), deaf, "b", "x", 0); err != nil {
			t.Fatalf("another key: %v", err)
		}
		start := time.Now()
		_, err := await(func(r func(backend.Feed, error)) { deaf.Watch(t.Context(), "a", nil, func(backend.FeedEvent) {}, r) })
		wantErr(t, err, backend.ErrPermission, `"natsleader.feed.E.a"`)
		d := time.Since(start)
		check.Must(t, d == 0, "took %v to notice", d)

		_, err = as("blind").Info(second())
		wantErr(t, err, backend.ErrPermission, `"$JS.API.STREAM.INFO.KV_E"`)
		mute := as("mute")
		for range 2 {
			_, err = mute.Info(second())
			wantErr(t, err, backend.ErrPermission, "_INBOX.")
		}
		_, err = Create(second(), mute.api.JS, Config{Name: "F"})
		wantErr(t, err, backend.ErrPermission)
	})
}

// A bucket's store follows the domain of its JetStream context as the KV client does.
func TestDomain_AsWithKV(t *testing.T) {
	bubble(t, server.Options{JetStreamDomain: "hub"}, func(t *lab) {
		nc := dial(t, t.s)
		byDomain, err := jetstream.NewWithDomain(nc, "hub")
		t.ok(err)
		byPrefix, err := jetstream.NewWithAPIPrefix(nc, "$JS.hub.API")
		t.ok(err)
		var rev uint64
		for _, js := range []jetstream.JetStream{byDomain, byPrefix} {
			b := mustCreate(t, js, Config{})
			actual := lastRevision(t, b) + 1
			check.Must(t, b.put == "$JS.hub.API.$KV.E.", "puts go to %q", b.put)
			w := watch(t, b, "a")
			got, err := update(t.Context(), b, "a", "x", rev)
			check.Must(t, err == nil && got == actual, "update: %d, %v", got, err)
			if e, err := getFrom(t.Context(), b, "a"); err != nil || e.Revision != actual {
				t.Fatalf("get: %+v, %v", e, err)
			}
			e := w.next(t)
			check.Must(t, e.Entry.Revision == actual, "told %+v", e)
			rev = actual
		}
	})
}
