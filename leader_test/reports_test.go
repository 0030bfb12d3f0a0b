package leader_test

import (
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
)

// A leader whose bucket no longer fits reports it once, however often it asks for the settings,
// and again when the bucket has fitted in between.
func TestLeader_ReportsUnfitBucketOnce(t *testing.T) {
	inSealed(t, func(w *world) {
		a := w.stand("a")
		w.at(time.Second)
		a.news()
		reconnects := func() {
			for range 3 {
				a.cut()
				a.open()
				w.at(w.now() + 2*time.Second)
			}
		}
		limit := func(size int32) {
			stream := check.Got(w.ops.js.Stream(w.Context(), "KV_E"))(w)
			conf := stream.CachedInfo().Config
			conf.MaxMsgSize = size
			check.Got(w.ops.js.UpdateStream(w.Context(), conf))(w)
		}
		limit(260)
		reconnects()
		a.saw(t, "1.1s faulted too large")
		limit(-1)
		reconnects()
		a.saw(t)
		limit(260)
		reconnects()
		a.saw(t, "13.1s faulted too large")
	})
}
