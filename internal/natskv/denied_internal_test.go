package natskv

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// denying runs a test in a bubble with a user x that may not write the keys below "denied".
func denying(t *testing.T, test func(t *lab, b *Bucket)) {
	t.Helper()
	users := []*server.User{
		{Username: "all", Password: "x"},
		{Username: "x", Password: "x", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$KV.E.denied.>"}}}},
	}
	bubble(t, server.Options{Users: users}, func(t *lab) {
		mustCreate(t, dialJS(t, t.s, nats.UserInfo("all", "x")), Config{})
		b := check.Got(Open(dialJS(t, t.s, nats.UserInfo("x", "x")), "E"))(t)
		test(t, b)
	})
}

// A request that is denied ends at the next look at the connection's last error, each time. The
// second look comes soon after the first, because more denials are likely.
func TestDeniedRequest_EndsAtOnce(t *testing.T) {
	denying(t, func(t *lab, b *Bucket) {
		for _, after := range []time.Duration{20 * time.Millisecond, time.Millisecond, 20 * time.Millisecond} {
			begun := time.Now()
			wantErr(t, check.Err(update(t.Context(), b, "denied.a", "x", 0)), backend.ErrPermission, `"$KV.E.denied.a"`)
			d := time.Since(begun)
			check.That(t, d == after, "after %v, want %v", d, after)
			if after == time.Millisecond {
				time.Sleep(time.Second)
			}
		}
	})
}

// The denial of another subject ends no request, and frees no slot. Nor does a denial from
// before the request.
func TestDeniedRequest_OthersGoOn(t *testing.T) {
	denying(t, func(t *lab, b *Bucket) {
		other := dial(t, t.s, nats.UserInfo("all", "x"))
		check.OK(t, check.Err(other.Subscribe("silence", func(*nats.Msg) {})))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		b.api.RequestThen(ctx, &nats.Msg{Subject: "$KV.E.denied.a"}, func(_ *nats.Msg, err error) {
			full(b.Window(), backend.RankTake) // within the call: the denial of this request clears none of these slots
			ended <- err
		})
		wantErr(t, check.Comes(t, `the denial of "$KV.E.denied.a"`, ended), backend.ErrPermission)
		begun := time.Now()
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b.api.RequestThen(ctx, &nats.Msg{Subject: "silence"}, func(_ *nats.Msg, err error) { ended <- err })
		for time.Since(begun) < 59*time.Second {
			for _, subject := range []string{"$KV.E.denied.silence", "$KV.E.denied.b"} {
				t.ok(b.api.Conn.Publish(subject, nil))
				time.Sleep(100 * time.Millisecond)
			}
		}
		check.That(t, !b.Window().Take(new(backend.Place), backend.RankTake, unheard{}, time.Time{}), "a slot is free")
		err := check.Comes(t, "the end of the request to silence", ended)
		check.That(t, errors.Is(err, backend.ErrUnreachable) && time.Since(begun) == time.Minute,
			"%v after %v", err, time.Since(begun))
	})
}
