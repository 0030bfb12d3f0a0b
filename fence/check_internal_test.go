package fence

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// check begins a check of the bucket.
func (d *desk) check(ctx context.Context) *call {
	return d.begin(func() error {
		reply := make(chan error, 1)
		d.bucket.Backend().Check(ctx, func(err error) { reply <- err })
		return <-reply
	})
}

// A stream is unfit if it loses its guard, or if one of its servers is old.
func TestCheck_Reports(t *testing.T) {
	replicas := &jetstream.ClusterInfo{Name: "C", Leader: "s1", Replicas: []*jetstream.PeerInfo{{Name: "s2"}, {Name: "s3"}}}
	version := func(of, is string) func(m *nats.Msg, nth int) []byte {
		return func(m *nats.Msg, _ int) []byte {
			var asked struct {
				Name    string `json:"server_name"`
				Cluster string `json:"cluster"`
				All     bool   `json:"include_unused"`
			}
			_ = json.Unmarshal(m.Data, &asked)
			if strings.HasPrefix(m.Subject, "$SYS.") && asked.Name == of && asked.Cluster == "C" && asked.All {
				return encode(map[string]any{"server": map[string]string{"name": of, "ver": is}})
			}
			return nil
		}
	}
	other := func(m *nats.Msg, _ int) []byte {
		if strings.HasPrefix(m.Subject, "$SYS.") {
			return encode(map[string]any{"server": map[string]string{"name": "s9", "ver": "2.10.0"}})
		}
		return nil
	}
	for _, k := range []struct {
		name    string
		conf    func(c *jetstream.StreamConfig)
		cluster *jetstream.ClusterInfo
		rule    func(m *nats.Msg, nth int) []byte
		at      time.Duration
		says    string // of ErrIncompatibleBucket; empty: it is fit
	}{
		{"fit", nil, nil, nil, 0, ""},
		{"sealed", func(c *jetstream.StreamConfig) { c.Sealed = true }, nil, nil, 0, ": bucket B is sealed, and takes no writes"},
		{"an old leader", func(c *jetstream.StreamConfig) { c.Metadata = map[string]string{"_nats.ver": "2.11.7"} }, replicas, nil, 0, ": bucket B needs nats-server 2.11.8 or later on all servers that keep it, or else some writes of " +
			"earlier terms are accepted: server s1, which leads the stream, is of version 2.11.7; update it"},
		{"no version", func(c *jetstream.StreamConfig) { c.Metadata = nil }, nil, nil, 0, "does not tell its version"},
		{"an old replica", nil, replicas, version("s3", "2.11.7"), 500 * time.Millisecond, "server s3, which may come to lead the stream, is of version 2.11.7"},
		{"new replicas", nil, replicas, version("s3", "2.11.8"), 500 * time.Millisecond, ""},
		{"another server's answer", nil, replicas, other, 0, ""},
		{"the server of this connection", nil, &jetstream.ClusterInfo{Replicas: []*jetstream.PeerInfo{{Name: "me"}}}, nil, 0, ""},
		{"its name in another cluster", nil, &jetstream.ClusterInfo{Name: "C", Replicas: []*jetstream.PeerInfo{{Name: "me"}}}, version("me", "2.11.7"), 0, "server me, which may come"},
	} {
		t.Run(k.name, func(t *testing.T) {
			atDesk(t, 1, func(d *desk) {
				if k.conf != nil {
					k.conf(&d.conf)
				}
				d.cluster = k.cluster
				d.follow(k.rule)
				c := d.check(d.Context())
				d.until(time.Second)
				if k.says == "" {
					c.is(k.at, nil)
					return
				}
				c.is(k.at, leader.ErrIncompatibleBucket)
				check.Says(t, c.err, leader.ErrIncompatibleBucket, k.says)
			})
		})
	}
}

// A connection that may not ask for versions asks once.
func TestServerVersions_Denied(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		nc := d.dial("mute")
		defer nc.Close()
		js := check.Got(jetstream.New(nc))(d)
		b := check.Got(OpenBucket(js, "B"))(d)
		for i, want := range []time.Duration{20 * time.Millisecond, 20 * time.Millisecond} {
			c := d.begin(func() error {
				v := b.serverVersions(d.Context(), "C", []string{"s2"})
				check.That(t, v[0] == "", "its version is %q", v[0])
				return nil
			})
			d.until(time.Duration(i+1) * time.Second)
			if i == 0 {
				c.is(want, nil)
			} else {
				c.is(time.Second, nil) // at once
			}
		}
	})
}

// The version of the connection's own server is known without a question. Each check asks the others again.
func TestServerVersions_Own(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		for range 2 {
			d.came()
			v := d.bucket.serverVersions(d.Context(), "", []string{"me", "s2"})
			synctest.Wait()
			check.Deep(t, v, []string{server.VERSION, ""})
			check.Equal(t, len(d.asked), 2, "%d questions, each heard twice")
		}
	})
}

// A version is compared by its numbers. A text that is no version decides nothing.
func TestOlderThan_Versions(t *testing.T) {
	for v, want := range map[string]bool{
		"2.11.7": true, "2.9.30": true, "1.99.99": true, "2.11.8": false, "2.11.10": false, "2.12.0": false, "3.0.0": false,
		"2.11.8-RC.1": false, "2.10": false, "junk": false, "": false,
	} {
		check.That(t, olderThan(v, "2.11.8") == want, "%q: %v", v, !want)
	}
}

// The settings of a stream that loses its guard, or takes no writes of it, have a reason.
func TestHazard_Settings(t *testing.T) {
	s := &guardedStream{guard: "g.a", whole: "g.a"}
	type config = jetstream.StreamConfig
	source := func(filter string, transforms ...jetstream.SubjectTransformConfig) func(c *config) {
		return func(c *config) {
			c.Sources = []*jetstream.StreamSource{{Name: "SAFE", FilterSubject: "other"}, {Name: "SRC", FilterSubject: filter, SubjectTransforms: transforms}}
		}
	}
	type transform = jetstream.SubjectTransformConfig
	for _, k := range []struct {
		name string
		set  func(c *config)
		says string
	}{
		{"plain", func(*config) {}, ""},
		{"mirror", func(c *config) { c.Mirror = &jetstream.StreamSource{Name: "M"} }, "is a mirror of stream M"},
		{"sealed", func(c *config) { c.Sealed = true }, "is sealed"},
		{"no acknowledgement", func(c *config) { c.NoAck = true }, "acknowledges nothing"},
		{"no guard", func(c *config) { c.Subjects = []string{"h.>", "g.a.b"} }, "does not contain its guard"},
		{"counters", func(c *config) { c.AllowMsgCounter = true }, "takes nothing but counters"},
		{"new per subject", func(c *config) { c.DiscardNewPerSubject, c.MaxMsgsPerSubject = true, 1 }, "refuses more than 1"},
		{"new per subject, no limit", func(c *config) { c.DiscardNewPerSubject = true }, ""},
		{"a limit per subject", func(c *config) { c.MaxMsgsPerSubject = 1 }, ""},
		{"small", func(c *config) { c.MaxMsgSize = 1535 }, "takes messages of up to 1535 bytes (MaxMsgSize), less than the 1536 that"},
		{"the least", func(c *config) { c.MaxMsgSize = 1 }, "takes messages of up to 1 bytes"},
		{"room", func(c *config) { c.MaxMsgSize = 1536 }, ""},
		{"no limit", func(c *config) { c.MaxMsgSize = -1 }, ""},
		{"interest", func(c *config) { c.Retention = jetstream.InterestPolicy }, "drops what consumers have read"},
		{"messages", func(c *config) { c.MaxMsgs = 1 }, "(MaxMsgs 1"},
		{"messages, new", func(c *config) { c.MaxMsgs, c.Discard = 1, jetstream.DiscardNew }, ""},
		{"bytes", func(c *config) { c.MaxBytes = 1 }, "(MaxBytes 1"},
		{"bytes, new", func(c *config) { c.MaxBytes, c.Discard = 1, jetstream.DiscardNew }, ""},
		{"unlimited", func(c *config) { c.MaxBytes, c.MaxMsgs, c.MaxAge = -1, -1, 0 }, ""},
		{"age", func(c *config) { c.MaxAge = 1 }, "drops messages after"},
		{"age with TTLs", func(c *config) { c.MaxAge, c.AllowMsgTTL = 1, true }, ""},
		{"async", func(c *config) { c.PersistMode = jetstream.AsyncPersistMode }, "a crash of the server can undo"},
		{"all transformed", func(c *config) { c.SubjectTransform = &transform{Source: "", Destination: "x.>"} }, "(SubjectTransform)"},
		{"the guard transformed", func(c *config) { c.SubjectTransform = &transform{Source: "g.*", Destination: "x.$1"} }, "(SubjectTransform)"},
		{"transformed to the guard", func(c *config) { c.SubjectTransform = &transform{Source: "x", Destination: "g.a"} }, "(SubjectTransform)"},
		{"perhaps to the guard", func(c *config) { c.SubjectTransform = &transform{Source: "x.*", Destination: "g.$1"} }, "(SubjectTransform)"},
		{"perhaps, in words", func(c *config) {
			c.SubjectTransform = &transform{Source: "x.*", Destination: "g.{{wildcard(1)}}"}
		}, "(SubjectTransform)"},
		{"longer", func(c *config) { c.SubjectTransform = &transform{Source: "x", Destination: "g.a.b"} }, ""},
		{"shorter", func(c *config) { c.SubjectTransform = &transform{Source: "x", Destination: "g"} }, ""},
		{"elsewhere", func(c *config) { c.SubjectTransform = &transform{Source: "x.*", Destination: "h.$1"} }, ""},
		{"the first number", func(c *config) { c.SubjectTransform = &transform{Source: "x.*", Destination: "g.$0"} }, "(SubjectTransform)"},
		{"the last digit", func(c *config) { c.SubjectTransform = &transform{Source: "x.*", Destination: "g.$9"} }, "(SubjectTransform)"},
		{"a dollar", func(c *config) { c.SubjectTransform = &transform{Source: "x", Destination: "g.$x"} }, ""},
		{"a dollar and a sign", func(c *config) { c.SubjectTransform = &transform{Source: "x", Destination: "g.$-"} }, ""},
		{"a dollar alone", func(c *config) { c.SubjectTransform = &transform{Source: "x", Destination: "g.$"} }, ""},
		{"a number without a dollar", func(c *config) { c.SubjectTransform = &transform{Source: "x", Destination: "g.x1"} }, ""},
		{"all of a source", source(""), "takes what comes from stream SRC"},
		{"the guard of a source", source("g.>"), "takes what comes from stream SRC"},
		{"other parts of a source", source("h.>"), ""},
		{"a source's filter", source("", transform{Source: "h.>"}), ""},
		{"a source's filter of all", source("", transform{Source: "h.>"}, transform{Source: ""}), "takes what comes from stream SRC"},
		{"a source's filter of the guard", source("", transform{Source: "g.*"}), "takes what comes from stream SRC"},
		{"a source to the guard", source("", transform{Source: "h", Destination: "g.a"}), "takes what comes from stream SRC"},
		{"a source elsewhere", source("", transform{Source: "g.a", Destination: "h"}), ""},
	} {
		c := config{Subjects: []string{"g.*"}}
		k.set(&c)
		got := s.hazard(c)
		check.That(t, (got == "") == (k.says == "") && strings.Contains(got, k.says), "%s: %q, want %q", k.name, got, k.says)
	}
}
