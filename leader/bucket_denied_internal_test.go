package leader

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/proof"
)

// denying runs a test in a bubble with a user x that may not write the keys below "denied".
func denying(t *testing.T, test func(t *lab, b *Bucket)) {
	t.Helper()
	users := []*server.User{
		{Username: "all", Password: "x"},
		{Username: "x", Password: "x", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"$KV.E.denied.>"}}}},
	}
	bubble(t, server.Options{Users: users}, func(t *lab) {
		mustCreate(t, dialJS(t, t.s, nats.UserInfo("all", "x")), BucketConfig{})
		b, err := OpenBucket(dialJS(t, t.s, nats.UserInfo("x", "x")), "E")
		if err != nil {
			t.Fatal(err)
		}
		test(t, b)
	})
}

// elected makes a candidate and returns how long it takes until it leads.
func elected(t *lab, b *Bucket, election string) time.Duration {
	t.Helper()
	begun := time.Now()
	c, err := Campaign(t.Context(), b, election, Config{ID: "sound"})
	if err != nil {
		t.Fatal(err)
	}
	for e := range c.Events(t.Context()) {
		if _, ok := e.(Elected); ok {
			break
		}
	}
	after := time.Since(begun)
	if err := c.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	return after
}

// Candidates that are denied their writes do not hold up one that is not, however many they
// are: when all of them begin, and when they try again.
func TestDeniedCrowd_HoldsNobodyUp(t *testing.T) {
	if slowdown > 1 { // in time.go (maybeRunChan) or tsan_rtl.cpp, in a run of two
		proof.Skip(t, "with the race detector, Go 1.26.8 crashes in the timers of so many goroutines in a bubble")
	}
	denying(t, func(t *lab, b *Bucket) {
		const crowd = 500 // more than the most slots
		var all []*Candidate
		for i := range crowd {
			c, err := Campaign(t.Context(), b, fmt.Sprint("denied.", i), Config{ID: "denied"})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		for _, rest := range []time.Duration{0, time.Millisecond, 700 * time.Millisecond, time.Second} {
			time.Sleep(rest)
			if d := elected(t, b, fmt.Sprint("sound.", rest)); d > 50*time.Millisecond {
				t.Errorf("%v later, a sound candidate waits for %v", rest, d)
			}
		}
		told := 0
		for _, c := range all {
			if err := c.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			for e := range c.Events(t.Context()) {
				if f, ok := e.(Faulted); ok && errors.Is(f.Err, ErrPermission) {
					told++
				}
			}
		}
		if told == 0 { // nats.go keeps one error of all
			t.Error("none reports the permission")
		}
	})
}

// A request that is denied ends at the next look at the connection's last error, each time. The
// second look comes soon after the first, because more denials are likely.
func TestDeniedRequest_EndsAtOnce(t *testing.T) {
	denying(t, func(t *lab, b *Bucket) {
		for _, after := range []time.Duration{20 * time.Millisecond, time.Millisecond, 20 * time.Millisecond} {
			begun := time.Now()
			_, err := update(t.Context(), &b.s, "denied.a", "x", 0)
			wantErr(t, err, ErrPermission, `"$KV.E.denied.a"`)
			if d := time.Since(begun); d != after {
				t.Errorf("after %v, want %v", d, after)
			}
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
		if _, err := other.Subscribe("silence", func(*nats.Msg) {}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		b.s.api.RequestThen(ctx, &nats.Msg{Subject: "$KV.E.denied.a"}, func(_ *nats.Msg, err error) {
			full(&b.s, backend.RankTake) // within the call: the denial of this request clears none of these slots
			ended <- err
		})
		wantErr(t, <-ended, ErrPermission)
		begun := time.Now()
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b.s.api.RequestThen(ctx, &nats.Msg{Subject: "silence"}, func(_ *nats.Msg, err error) { ended <- err })
		for time.Since(begun) < 59*time.Second {
			for _, subject := range []string{"$KV.E.denied.silence", "$KV.E.denied.b"} {
				if err := b.s.api.Conn.Publish(subject, nil); err != nil {
					t.Fatal(err)
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		if b.s.Window().Take(new(backend.Place), backend.RankTake, unheard{}, time.Time{}) {
			t.Error("a slot is free")
		}
		if err := <-ended; !errors.Is(err, ErrUnreachable) || time.Since(begun) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}
