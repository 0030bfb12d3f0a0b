package natskv

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

// A read that is not answered in time leaves the settings known, except for several direct
// gets in a row. A definite answer that is none of a direct get's makes the next read begin
// with the settings.
func TestGet_ForgetsSettings(t *testing.T) {
	bubble(t, server.Options{}, func(t *lab) {
		js := dialJS(t, t.s)
		b := mustCreate(t, js, Config{})
		read := func(limit time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := getFrom(ctx, b, "a")
			return err
		}
		known := func(want bool) {
			t.Helper()
			got := b.api.Known.Load() != nil
			check.Must(t, got == want, "the settings are known: %v", got)
		}
		direct := b.direct
		b.direct = "silence."
		silent := check.Got(js.Conn().SubscribeSync("silence.>"))(t)
		for range 2 {
			for range mostUnanswered - 1 {
				wantErr(t, read(time.Second), backend.ErrUnreachable)
				known(true)
			}
			b.direct = direct
			t.ok(read(time.Second))
			known(true)
			b.direct = "silence."
		}
		for range mostUnanswered {
			known(true)
			wantErr(t, read(time.Second), backend.ErrUnreachable)
		}
		known(false)
		t.ok(silent.Unsubscribe())
		check.OK(t, check.Err(b.Info(t.Context())))
		wantErr(t, read(time.Minute), nats.ErrNoResponders)
		known(false)
		b.direct = direct

		// The stream is gone.
		conf := *mustInfo(t, b)
		conf.AllowDirect = false
		check.OK(t, check.Err(js.UpdateStream(t.Context(), conf)))
		mustInfo(t, b)
		t.ok(js.DeleteStream(t.Context(), "KV_E"))
		known(true)
		wantErr(t, read(time.Minute), backend.ErrNoBucket)
		known(false)
	})
}

// mustInfo reads the settings of the bucket's stream.
func mustInfo(t *lab, b *Bucket) *jetstream.StreamConfig {
	t.Helper()
	check.OK(t, check.Err(b.Info(t.Context())))
	return b.api.Known.Load()
}
