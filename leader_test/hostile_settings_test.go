package leader_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// inAccount is the configuration of a server on which all clients are in one account.
func inAccount(settings string) string {
	return `accounts: {A: {jetstream: enabled, users: [{user: u}], ` + settings + `}}, no_auth_user: u`
}

// whatever is for the faults of a server that does something else each time.
const whatever = "whatever"

// hostileSettings are settings of a server, of an account, or of another stream. The configuration of the bucket does not show them.
var hostileSettings = map[string]struct {
	server string // its configuration
	others func(w *world)
	faults string // that two candidates report
	silent bool   // there is no leader
}{
	"messages are small":                 {server: `max_payload: 512`},
	"protocol lines are short":           {server: `max_control_line: 512`},
	"a client may not subscribe":         {server: `max_subscriptions: 1`, faults: "unreachable", silent: true},
	"there are no headers":               {server: `no_header_support: true`, faults: "unreachable", silent: true},
	"one stream, and one consumer":       {server: inAccount(`jetstream: {max_consumers: 1, max_streams: 1}`)},
	"one message without acknowledgment": {server: inAccount(`jetstream: {max_ack_pending: 1}`)},
	"the account is full":                {server: inAccount(`jetstream: {max_file: 300}`), faults: "full", silent: true},
	"the feed is denied": {
		server: `no_auth_user: u, authorization: {users: [{user: u, password: "", permissions: {subscribe: {deny: "natsleader.feed.>"}}}]}`,
		faults: "no feed",
	},
	"the feed is mapped":        {server: inAccount(`mappings: {"natsleader.feed.>": "lost.>"}`)},
	"the feed is lost at times": {server: inAccount(`mappings: {"natsleader.feed.>": [{destination: "lost.>", weight: 50%}]}`), faults: whatever},
	"the key is another":        {server: inAccount(`mappings: {"$KV.E.x": "$KV.E.y"}`)},
	"the bucket is another": {
		server: inAccount(`mappings: {"$KV.E.x": "$KV.F.x"}`),
		others: func(w *world) {
			check.Got(w.ops.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "F"}))(w)
		},
		faults: "unfit", silent: true,
	},
	"replies are lost at times":  {server: inAccount(`mappings: {"_INBOX.>": [{destination: "lost.>", weight: 50%}]}`), faults: whatever},
	"requests are lost at times": {server: inAccount(`mappings: {"$JS.API.>": [{destination: "lost.>", weight: 50%}]}`), faults: whatever},
	"another stream republishes into the bucket": {
		others: func(w *world) {
			w.makeStream(jetstream.StreamConfig{Name: "O", Subjects: []string{"o.>"}, RePublish: &jetstream.RePublish{Source: "o.>", Destination: "$KV.E.>"}})
			go func() {
				for range 40 {
					time.Sleep(700 * time.Millisecond)
					_, _ = w.ops.js.Publish(w.Context(), "o.x", []byte("o"))
				}
			}()
		},
		faults: "foreign", silent: true,
	},
	"another bucket republishes into it": {
		others: func(w *world) {
			w.makeStream(jetstream.StreamConfig{Name: "KV_G", Subjects: []string{"$KV.G.>"}, RePublish: &jetstream.RePublish{Source: "$KV.G.>", Destination: "$KV.E.>"}})
			g := check.Got(leader.OpenBucket(w.dial("g").js, "G"))(w)
			check.Got(leader.Campaign(w.Context(), g, "x", leader.Config{ID: "g"}))(w)
		},
		faults: whatever, // the conditions of its writers decide
	},
	"a mirror answers reads": {
		others: func(w *world) {
			w.makeStream(jetstream.StreamConfig{Name: "M", MirrorDirect: true, Mirror: &jetstream.StreamSource{Name: "KV_E"}})
		},
		faults: whatever, // the mirror, or the stream
	},
	"a copy is another bucket": {
		others: func(w *world) {
			w.makeStream(jetstream.StreamConfig{Name: "KV_F", Sources: []*jetstream.StreamSource{{
				Name: "KV_E", SubjectTransforms: []jetstream.SubjectTransformConfig{{Source: "$KV.E.>", Destination: "$KV.F.>"}},
			}}})
		},
	},
	"somebody else answers": {
		others: func(w *world) {
			check.Got(w.ops.nc.Subscribe("$JS.API.STREAM.INFO.>", func(m *nats.Msg) { _ = m.Respond([]byte(`{}`)) }))(w)
			check.Got(w.ops.nc.Subscribe("$JS.API.DIRECT.GET.KV_E.>", func(m *nats.Msg) { _ = m.Respond([]byte(`{}`)) }))(w)
		},
		faults: whatever,
	},
}

func (w *world) makeStream(cfg jetstream.StreamConfig) {
	w.Helper()
	check.Got(w.ops.js.CreateStream(w.Context(), cfg))(w)
}

// Whatever a server, an account or another stream does to a bucket, there are not two leaders. The candidates report what keeps them
// from the key, unless it is mapped to another key.
func TestHostile_Settings(t *testing.T) {
	for name, k := range hostileSettings {
		t.Run(name, func(t *testing.T) {
			options := func() *server.Options {
				o := &server.Options{}
				if k.server != "" {
					check.OK(t, o.ProcessConfigString(k.server))
				}
				return o
			}
			bubbleOf(t, options, func(w *world) {
				for try := 0; ; try++ { // replies may be lost
					_, err := leader.CreateOrUpdateBucket(w.Context(), w.ops.js, leader.BucketConfig{Name: "E", MaxLease: lease})
					if err == nil {
						break
					}
					check.Must(t, try < 100, "create: %v", err)
				}
				if k.others != nil {
					k.others(w)
				}
				a := w.campaign(w.Context(), w.dial("a"), "x", leader.Config{ID: "a"})
				w.at(w.now() + time.Second)
				b := w.campaign(w.Context(), w.dial("b"), "x", leader.Config{ID: "b"})
				w.at(w.now() + 29*time.Second)
				leads := a.IsLeader() || b.IsLeader()
				faults := make(map[string]bool)
				for _, told := range append(a.news(), b.news()...) {
					if _, fault, ok := strings.Cut(told, " faulted "); ok {
						faults[fault] = true
					}
				}
				got := strings.Join(slices.Sorted(maps.Keys(faults)), " ")
				check.That(t, k.faults == whatever || got == k.faults && leads == !k.silent, "leads: %v, told %q", leads, got)
			})
		})
	}
}
