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
