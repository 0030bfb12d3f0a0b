package page

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// A page and an exporter that have run for long say the same of an election as those that begin now, whatever was done to it:
// each way to do three things to a key, in a bucket that is deleted and made again after one of them, or is not. Only the terms
// that an exporter has counted are of the past. A leader of a bucket that was deleted may lead for a lease, which nothing that
// begins later knows.
func TestViews_SameAsFresh(t *testing.T) {
	proof.NotRaced(t)
	const steps = 3
	var keys []string
	for i := range len(ways) * len(ways) * len(ways) {
		keys = append(keys, fmt.Sprintf("%d.%d.%d", i%len(ways), i/len(ways)%len(ways), i/len(ways)/len(ways)))
	}
	for variant := range 2 * (steps + 1) {
		anew, ttl := variant/2, time.Duration(variant%2)*20*time.Second
		testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
			expect.OK(w, w.Js.DeleteKeyValue(w.Context(), "elections"))
			makeBucket(w, ttl)
			old, endOld := bothViews(w, keys)
			defer endOld()
			for step := range steps {
				for i, key := range keys {
					ways[key[2*step]-'0'](w, key, steps*i+step+1)
				}
				time.Sleep(time.Second)
				if anew == step {
					expect.OK(w, w.Js.DeleteKeyValue(w.Context(), "elections"))
					time.Sleep(time.Duration(step%2) * 20 * time.Second)
					makeBucket(w, ttl)
				}
			}
			time.Sleep(30 * time.Second) // leases are over
			for _, key := range keys[:len(ways)] {
				purge(w, key, 0)
			}
			time.Sleep(time.Minute)
			fresh, endFresh := bothViews(w, keys)
			defer endFresh()
			time.Sleep(5 * time.Second)
			want := fresh()
			for i, got := range old() {
				expect.Must(w, got == want[i], "the bucket is made anew after step %d, its TTL is %v, and this is shown:\n%s\nnot\n%s", anew, ttl, got, want[i])
			}
		})
	}
}

// makeBucket makes a bucket from which keys can be purged.
func makeBucket(w *testworld.World, ttl time.Duration) {
	expect.Got(w.Js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "elections", TTL: ttl, LimitMarkerTTL: ttl / 10}))(w)
}

// bothViews begins a page and an exporter, and returns what they show of each key.
func bothViews(w *testworld.World, keys []string) (shown func() []string, end func()) {
	log := front.NewLineLog(io.Discard, "", front.LogText)
	u, e := NewUIState(log), newElectionMetrics("elections", len(keys), log)
	registry := expect.Got(front.MetricsRegistry(e))(w)
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- view.FollowAlways(ctx, w.Globals(), renderers{all: []view.Renderer{u, e}}, true, func(s *inspect.Inspector) {
			if u.connected(s); s == nil {
				e.ticked()
			}
		})
	}()
	shown = func() (all []string) {
		page := httptest.NewRecorder()
		e.serve(page, httptest.NewRequest(http.MethodGet, "/metrics", nil), registry)
		lines := slices.DeleteFunc(strings.Split(page.Body.String(), "\n"), func(line string) bool { return strings.Contains(line, "_terms_total") })
		of := func(part string) (its string) {
			for _, line := range lines {
				if strings.Contains(line, part) {
					its += "\n" + line
				}
			}
			return its
		}
		for _, key := range keys {
			all = append(all, fmt.Sprintf("%+v", u.Row(key))+of(`election="`+key+`"`))
		}
		return append(all, of("natsleader_bucket"))
	}
	return shown, func() {
		cancel()
		expect.OK(w, <-ended)
	}
}

// ways are what is done to an election.
var ways = []func(w *testworld.World, key string, token int){
	func(w *testworld.World, key string, token int) { put(w, key, "leading", token) },
	func(w *testworld.World, key string, token int) { put(w, key, "released", token) },
	func(w *testworld.World, key string, _ int) { w.Publish("$KV.elections."+key, "hello") },
	func(w *testworld.World, key string, _ int) {
		w.Publish("$KV.elections."+key, "", "KV-Operation", "DEL")
	},
	purge,
	func(w *testworld.World, key string, _ int) {
		w.Publish("$KV.elections."+facts.NotePrefix+key, `{"owner":"team","one_shot":true}`)
	},
}

func put(w *testworld.World, key, state string, token int) {
	w.Publish("$KV.elections."+key, fmt.Sprintf(`{"v":1,"state":%q,"id":"w%d","session":"s","n":1,"lease":"10s","token":%d,"since":%q}`,
		state, token, token, time.Now().UTC().Format(time.RFC3339Nano)))
}

func purge(w *testworld.World, key string, _ int) {
	stream := expect.Got(w.Js.Stream(w.Context(), "KV_elections"))(w)
	expect.OK(w, stream.Purge(w.Context(), jetstream.WithPurgeSubject("$KV.elections."+key)))
}
