package leader_test

import (
	"bytes"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// The errors of a missing bucket and of a server without JetStream say what to do, and say
// it once.
func TestErrorTexts_MissingBucket(t *testing.T) {
	bubble(t, func(w *world) {
		open := func(name string) *leader.Bucket {
			return check.Got(leader.OpenBucket(w.ops.js, name))(w)
		}
		info := func(b *leader.Bucket) string { return fmt.Sprint(check.Err(b.Info(w.Context()))) }
		got, want := info(open("orders")), "leader: bucket orders does not exist: make it with leader.CreateOrUpdateBucket or leader.EnsureBucket, or by `natsleader bucket add orders`"
		check.That(w, got == want, "got  %s\nwant %s", got, want)
		if got, want := info(open("KV_orders")), "leader: bucket KV_orders does not exist: KV_ is the prefix of its stream; the name of the bucket may be orders"; got != want {
			w.Errorf("got  %s\nwant %s", got, want)
		}
		w.sealed()
		b := open("E")
		w.ok(check.Err(b.Info(w.Context())))
		w.deleteBucket()
		if got, want := info(b), "leader: bucket E does not exist any more: stop all candidates, or wait for one MaxLease, before you make it again"; got != want {
			w.Errorf("got  %s\nwant %s", got, want)
		}
		err := check.Err(b.Info(w.Context()))
		check.That(w, errors.Is(err, leader.ErrNoBucket) && errors.Is(err, jetstream.ErrStreamNotFound),
			"%v is not what it says", err)
	})
}

// A candidate of the zero Config says to the default logger, once, that nobody has made a bucket of that name.
func TestErrorTexts_MistypedBucket(t *testing.T) {
	var text bytes.Buffer // the log is flushed before the candidate has ended
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	defer log.SetOutput(log.Writer())
	defer slog.SetDefault(before)
	inSealed(t, func(w *world) {
		b := check.Got(leader.OpenBucket(w.dial("a").js, "Elections"))(w)
		c := check.Got(leader.Campaign(w.Context(), b, "e", leader.Config{}))(w)
		w.at(time.Hour)
		w.ok(c.Stop())
	})
	got := text.String()
	check.That(t, strings.Count(got, "\n") == 1 && strings.Contains(got, "level=WARN msg=faulted election=e ") &&
		strings.Contains(got, "bucket Elections does not exist: make it with "), "logged:\n%s", got)
}
