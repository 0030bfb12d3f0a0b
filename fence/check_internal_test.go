package fence

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
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

// The probe finds out whether the server heeds a condition on another subject, and leaves a
// guard that stands as it is.
func TestProbe_Answers(t *testing.T) {
	empty := func(d *desk) { delete(d.stored, guardSubject) }
	for _, k := range []struct {
		name    string
		before  func(d *desk)
		replies [][]byte
		at      time.Duration
		want    []error
		writes  string
	}{
		{"heeds", nil, [][]byte{nil}, 0, nil, "mine"},
		{"compares the guard", nil, [][]byte{named("1")}, 0, []error{leader.ErrIncompatibleBucket}, "mine"},
		{"accepts", nil, [][]byte{[]byte(`{"stream":"KV_B","seq":9}`)}, 0, []error{leader.ErrIncompatibleBucket}, "mine"},
		{"the probe's subject has messages", nil, [][]byte{named("7")}, 0, nil, "mine"},
		{"no sequence at first", nil, [][]byte{refused, named("0")}, 0, nil, "mine mine"},
		{"never a sequence", nil, [][]byte{refused}, 2 * time.Second, []error{leader.ErrUnreachable, context.DeadlineExceeded}, ""},
		{"an error", nil, [][]byte{refusal(500, 10099, "broken")}, 0, []error{&jetstream.APIError{ErrorCode: 10099}}, "mine"},
		{"no guard", empty, [][]byte{nil}, 0, nil, " "},
		{"another client has made it", empty, [][]byte{refused, nil}, 0, nil, "  "},
		{"no guard may be made", empty, [][]byte{refusal(500, 10099, "broken")}, 0, []error{&jetstream.APIError{ErrorCode: 10099}}, ""},
	} {
		t.Run(k.name, func(t *testing.T) {
			atDesk(t, 1, func(d *desk) {
				if k.before != nil {
					k.before(d)
				}
				d.replies(k.replies...)
				ctx, cancel := context.WithTimeout(d.Context(), 2*time.Second)
				defer cancel()
				c := d.check(ctx)
				d.until(2 * time.Second)
				d.until(2100 * time.Millisecond) // of a call of nats.go that is given up
				c.is(k.at, k.want...)
				came := strings.ReplaceAll(d.came(), "natsleader.guard=", "")
				check.That(t, k.writes == "" || came == k.writes, "written: %q", came)
				if k.before == nil {
					return
				}
				e, err := d.bucket.api.LastOf(d.Context(), guardSubject)
				check.That(t, err == nil && (k.want != nil || e.Marker), "the guard: %+v, %v", e, err)
			})
		})
	}
}

// A stream is unfit if it loses its guard, or if one of its servers is old.
func TestCheck_Reports(t *testing.T) {
	replicas := &jetstream.ClusterInfo{Name: "C", Leader: "s1", Replicas: []*jetstream.PeerInfo{{Name: "s2"}, {Name: "s3"}}}
	version := func(of, is string) func(m *nats.Msg, nth int) []byte {
		return func(m *nats.Msg, _ int) []byte {
			if strings.HasPrefix(m.Subject, "$SYS.") && strings.Contains(string(m.Data), `"`+of+`"`) {
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
		{"sealed", func(c *jetstream.StreamConfig) { c.Sealed = true }, nil, nil, 0, "is sealed"},
		{"an old leader", func(c *jetstream.StreamConfig) { c.Metadata = map[string]string{"_nats.ver": "2.11.7"} }, replicas, nil, 0, "server s1, which leads the stream, is of version 2.11.7"},
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
					c.is(k.at)
				} else {
					c.is(k.at, leader.ErrIncompatibleBucket)
				}
				if k.says != "" && (c.err == nil || !strings.Contains(c.err.Error(), k.says)) {
					t.Errorf("%v, want %q", c.err, k.says)
				}
			})
		})
	}
}

// A check whose settings cannot be read says so, and does not write.
func TestCheck_NoSettings(t *testing.T) {
	atDesk(t, 1, func(d *desk) {
		d.follow(func(m *nats.Msg, nth int) []byte { return silence })
		ctx, cancel := context.WithTimeout(d.Context(), time.Second)
		defer cancel()
		c := d.check(ctx)
		d.until(1100 * time.Millisecond)
		c.is(time.Second, leader.ErrUnreachable)
		check.Equal(t, d.came(), "", "written: %s")
	})
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
				c.is(want)
			} else {
				c.is(time.Second) // at once
			}
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
		{"small", func(c *config) { c.MaxMsgSize = 1535 }, "takes messages of up to 1535 bytes"},
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
		{"a dollar", func(c *config) { c.SubjectTransform = &transform{Source: "x", Destination: "g.$x"} }, ""},
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

// A read of a guard that is gone reads the settings, too: perhaps it has expired. The next raise
// then never expires.
func TestGuard_GoneReadsSettings(t *testing.T) {
	get := func(d *desk) (e backend.Entry, err error) {
		c := d.begin(func() error {
			reply := make(chan error, 1)
			d.bucket.Backend().Get(d.Context(), func(got backend.Entry, err error) {
				e = got
				reply <- err
			})
			return <-reply
		})
		c.d.until(time.Since(d.zero))
		return e, c.err
	}
	atDesk(t, 1, func(d *desk) {
		d.conf.AllowMsgTTL = true
		if e, err := get(d); e.Revision != 1 || err != nil || d.bucket.keeps.Load() {
			t.Errorf("%+v, %v, %v", e, err, d.bucket.keeps.Load())
		}
		delete(d.stored, guardSubject)
		if e, err := get(d); e.Revision != 0 || err != nil || !d.bucket.keeps.Load() {
			t.Errorf("%+v, %v, %v", e, err, d.bucket.keeps.Load())
		}
		d.came()
		c := d.begin(func() error {
			reply := make(chan error, 1)
			d.bucket.Backend().Update(d.Context(), []byte("mine"), 0, func(_ uint64, err error) { reply <- err })
			return <-reply
		})
		c.is(0)
		got := d.headers()
		check.That(t, len(got) == 1 && got[0] == "guard at=0 Nats-TTL=never", "%q", got)
		d.follow(func(*nats.Msg, int) []byte { return refusal(500, 10099, "broken") })
		_, err := get(d)
		check.That(t, errors.Is(err, &jetstream.APIError{ErrorCode: 10099}), "%v", err)
		n := d.reads()
		check.That(t, n == 1 && len(d.asked) == 1, "%d reads, %q", n, d.asked)
	})
}
