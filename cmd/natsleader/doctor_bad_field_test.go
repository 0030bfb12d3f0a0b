//go:build field

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// Doctor reports a bucket with bad settings, and gives advice.
func TestDoctor_BadBuckets(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	_, js := connectTo(t, s.ClientURL())
	// the settings of a purge-protected bucket, changed
	sealed := func(change func(*jetstream.StreamConfig)) func(t *testing.T, bucket string) {
		return func(t *testing.T, bucket string) {
			t.Helper()
			subject := "$KV." + bucket + ".>"
			c := jetstream.StreamConfig{
				Name: "KV_" + bucket, Subjects: []string{subject}, MaxMsgsPerSubject: 1, AllowDirect: true,
				DenyDelete: true, DenyPurge: true, Discard: jetstream.DiscardNew,
				RePublish: &jetstream.RePublish{Source: subject, Destination: "natsleader.feed." + bucket + ".>"},
				Metadata:  map[string]string{"natsleader.max_lease": "15s"},
			}
			change(&c)
			if _, err := js.CreateStream(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	ordinary := func(c jetstream.KeyValueConfig) func(t *testing.T, bucket string) {
		return func(t *testing.T, bucket string) {
			t.Helper()
			c.Bucket = bucket
			if _, err := js.CreateKeyValue(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	holds := func(value string) func(t *testing.T, bucket string) {
		return func(t *testing.T, bucket string) {
			t.Helper()
			newBucket(t, s.ClientURL(), bucket, leader.BucketConfig{MaxLease: 10 * time.Second})
			kv, err := js.KeyValue(t.Context(), bucket)
			if err == nil {
				_, err = kv.PutString(t.Context(), "billing", value)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, k := range map[string]struct {
		set             func(t *testing.T, bucket string)
		args            []string
		check, severity string
		words           []string
	}{
		"missing": {
			func(*testing.T, string) {}, nil,
			"bucket", "critical",
			[]string{"does not exist", "natsleader bucket add missing"},
		},
		"no-acknowledgements": {
			sealed(func(c *jetstream.StreamConfig) { c.NoAck = true }), nil,
			"bucket", "critical",
			[]string{"acknowledges nothing"},
		},
		"mirror": {
			func(t *testing.T, bucket string) {
				newBucket(t, s.ClientURL(), "mirrored", leader.BucketConfig{})
				ordinary(jetstream.KeyValueConfig{Mirror: &jetstream.StreamSource{Name: "mirrored"}})(t, bucket)
			}, nil,
			"sources", "critical",
			[]string{"mirror of KV_mirrored"},
		},
		"source": {
			sealed(func(c *jetstream.StreamConfig) { c.Sources = []*jetstream.StreamSource{{Name: "KV_elsewhere"}} }), nil,
			"sources", "critical",
			[]string{"KV_elsewhere", "without conditions"},
		},
		"one-replica": {
			sealed(func(*jetstream.StreamConfig) {}), nil,
			"replicas", "warning",
			[]string{"one replica", "--replicas 3"},
		},
		"in-memory": {
			sealed(func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }), nil,
			"storage", "warning",
			[]string{"memory", "forgotten"},
		},
		"ordinary": {
			ordinary(jetstream.KeyValueConfig{}), nil,
			"protection", "warning",
			[]string{"DenyPurge", "AllowRollup", "bucket add ordinary"},
		},
		"deletable": {
			sealed(func(c *jetstream.StreamConfig) { c.DenyDelete = false }), nil,
			"protection", "warning",
			[]string{"vanish: messages can be deleted (DenyDelete)", "bucket add deletable"},
		},
		"ttl": {
			func(t *testing.T, bucket string) {
				newBucket(t, s.ClientURL(), bucket, leader.BucketConfig{TTL: time.Minute})
			}, nil,
			"protection", "warning",
			[]string{"TTL of 1m0s", "without a TTL"},
		},
		"ttl-shorter-than-leases": {
			ordinary(jetstream.KeyValueConfig{TTL: 10 * time.Second}),
			[]string{"--lease", "15s"},
			"ttl", "critical",
			[]string{"10s", "15s"},
		},
		"ttl-close-to-leases": {
			ordinary(jetstream.KeyValueConfig{TTL: 20 * time.Second}),
			[]string{"--lease", "15s"},
			"ttl", "warning",
			[]string{"20s", "15s", "two thirds"},
		},
		"ttl-without-markers": {
			ordinary(jetstream.KeyValueConfig{TTL: time.Minute}),
			[]string{"--lease", "15s"},
			"ttl", "note",
			[]string{"without a marker"},
		},
		"no-max-lease": {
			ordinary(jetstream.KeyValueConfig{}), nil,
			"max-lease", "warning",
			[]string{"no MaxLease", "--max-lease 15s"},
		},
		"max-lease-unreadable": {
			sealed(func(c *jetstream.StreamConfig) { c.Metadata["natsleader.max_lease"] = "soon" }), nil,
			"bucket", "critical",
			[]string{"natsleader.max_lease"},
		},
		"not-republished": {
			sealed(func(c *jetstream.StreamConfig) { c.RePublish = nil }), nil,
			"republish", "warning",
			[]string{"does not republish", "consumer"},
		},
		"headers-republished": {
			sealed(func(c *jetstream.StreamConfig) { c.RePublish.HeadersOnly = true }), nil,
			"republish", "warning",
			[]string{"no use"},
		},
		"lease-too-long": {
			sealed(func(*jetstream.StreamConfig) {}),
			[]string{"--lease", "20s"},
			"lease", "critical",
			[]string{"20s", "MaxLease 15s", "--max-lease 20s"},
		},
		"lease-much-shorter-than-max-lease": {
			sealed(func(*jetstream.StreamConfig) {}),
			[]string{"--lease", "3s"},
			"lease", "note",
			[]string{"3s", "MaxLease 15s", "--max-lease 3s"},
		},
		"full": {
			func(t *testing.T, bucket string) {
				sealed(func(c *jetstream.StreamConfig) { c.MaxMsgs = 1 })(t, bucket)
				if _, err := js.Publish(t.Context(), "$KV."+bucket+".a", nil); err != nil {
					t.Fatal(err)
				}
			}, nil,
			"limits", "critical",
			[]string{"MaxMsgs", "1 of 1", "renewals are refused"},
		},
		"full-of-bytes": {
			func(t *testing.T, bucket string) {
				sealed(func(c *jetstream.StreamConfig) { c.MaxBytes = 1000 })(t, bucket)
				if _, err := js.Publish(t.Context(), "$KV."+bucket+".a", make([]byte, 900)); err != nil {
					t.Fatal(err)
				}
			}, nil,
			"limits", "warning",
			[]string{"MaxBytes", "of 1000 in use"},
		},
		"hoarding": {
			sealed(func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 }), nil,
			"limits", "warning",
			[]string{"grows for ever"},
		},
		"history": {
			ordinary(jetstream.KeyValueConfig{History: 5}), nil,
			"limits", "note",
			[]string{"5 records"},
		},
		"small-messages": {
			sealed(func(c *jetstream.StreamConfig) { c.MaxMsgSize = 500 }), nil,
			"payload", "critical",
			[]string{"too small", "MaxMsgSize"},
		},
		"medium-messages": {
			sealed(func(c *jetstream.StreamConfig) { c.MaxMsgSize = 10_000 }), nil,
			"payload", "note",
			[]string{"do not fit"},
		},
		"foreign": {
			holds("hello"), nil,
			"elections", "warning",
			[]string{"1 of 1", "billing"},
		},
		"long-leases": {
			holds(`{"v":1,"state":"leading","id":"x","session":"s","n":1,"lease":"1m0s","token":1}`), nil,
			"elections", "warning",
			[]string{"MaxLease 10s", "billing (1m0s)", "nats kv del long-leases ELECTION"},
		},
		"marker-with-a-long-lease": {
			func(t *testing.T, bucket string) {
				t.Helper()
				holds("")(t, bucket)
				m := nats.NewMsg("$KV." + bucket + ".billing")
				m.Header.Set("KV-Operation", "DEL")
				m.Data = []byte(`{"v":1,"state":"leading","id":"x","session":"s","n":1,"lease":"8000h0m0s","token":1}`)
				if _, err := js.PublishMsg(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}, nil,
			"elections", "warning",
			[]string{"MaxLease 10s", "billing (8000h0m0s)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			k.set(t, name)
			d := diagnose(t, s.ClientURL(), append(k.args, "--bucket", name)...)
			d.says(t, k.check, k.severity, k.words...)
			// The other checks find nothing but what all of these buckets have.
			if name == "deletable" {
				d.fineBut(t, k.check, "replicas", "feed-publish", "ask-publish", "clock", "sync", "round-trip")
			}
		})
	}
}

// A JetStream domain has other subjects.
func TestDoctor_InADomain(t *testing.T) {
	s := startServer(t, func(o *server.Options) { o.JetStreamDomain = "hub" })
	newBucket(t, s.ClientURL(), "elections", leader.BucketConfig{MaxLease: generous})
	d := diagnose(t, s.ClientURL(), "--js-domain", "hub")
	d.says(t, "permissions", "ok", "all that a candidate does")
	d.fineBut(t, "replicas", "sync", "feed-publish", "ask-publish", "border", "clock")
	diagnose(t, s.ClientURL(), "--js-domain", "elsewhere").says(t, "server", "critical", "does not answer on $JS.elsewhere.API")
}

func TestDoctor_WithoutJetStream(t *testing.T) {
	s := startServer(t, func(o *server.Options) { o.JetStream = false })
	d := diagnose(t, s.ClientURL())
	d.says(t, "server", "critical", "JetStream does not answer")
	d.says(t, "protection", "note", "not checked")
}

func TestDoctor_AccountWithoutJS(t *testing.T) {
	s := configured(t, fmt.Sprintf(`host: 127.0.0.1, port: -1, jetstream { store_dir: %q }
		accounts { A { users: [ { user: a, password: x } ] }, B { jetstream: enabled } }`, testserver.StoreDir(t)))
	diagnose(t, asUser(s, "a")).says(t, "server", "critical", "JetStream does not answer")
}

// An account has limits of its storage and of its memory. Each bucket is subject to one of them.
func TestDoctor_FullAccount(t *testing.T) {
	s := configured(t, fmt.Sprintf(`host: 127.0.0.1, port: -1, jetstream { store_dir: %q }
		accounts { A { jetstream { max_store: 10000, max_memory: 20000 }, users: [ { user: a, password: x } ] } }`, testserver.StoreDir(t)))
	url := asUser(s, "a")
	_, js := connectTo(t, url)
	newBucket(t, url, "file", leader.BucketConfig{})
	newBucket(t, url, "memory", leader.BucketConfig{Storage: jetstream.MemoryStorage})
	for bucket, k := range map[string]struct {
		size  int
		words []string
	}{"file": {9500, []string{"storage of the account", "of 10000"}}, "memory": {19000, []string{"memory of the account", "of 20000"}}} {
		diagnose(t, url, "--bucket", bucket).says(t, "limits", "ok")
		if _, err := js.Publish(t.Context(), "$KV."+bucket+".a", make([]byte, k.size)); err != nil {
			t.Fatal(err)
		}
		diagnose(t, url, "--bucket", bucket).says(t, "limits", "warning", k.words...)
	}
}

func TestDoctor_UnsyncedDisks(t *testing.T) {
	for config, severity := range map[string]string{"": "warning", "sync_interval: 10s": "warning", "sync_interval: always": "ok"} {
		s := configured(t, fmt.Sprintf(`host: 127.0.0.1, port: -1, jetstream { store_dir: %q, %s } %s`, testserver.StoreDir(t), config, permitted))
		newBucket(t, asUser(s, "admin"), "elections", leader.BucketConfig{})
		words := map[string][]string{
			"": {"2m0s, the default", "sync_interval: always"}, "sync_interval: 10s": {"every 10s"},
		}[config]
		diagnose(t, asUser(s, "candidate"), "--system-context", systemContext(t, s)).says(t, "sync", severity, words...)
		diagnose(t, asUser(s, "candidate")).says(t, "sync", "note", "not checked", "--system-context")
	}
}

// Doctor names each permission of a candidate that is missing.
func TestDoctor_MissingPermissions(t *testing.T) {
	for _, k := range []struct{ missing, check, severity, words string }{
		{`"_INBOX.>", `, "permissions", "critical", "may not subscribe to _INBOX."},
		{`"$JS.API.STREAM.INFO.KV_elections", `, "permissions", "critical", "may not publish to $JS.API.STREAM.INFO.KV_elections"},
		{`"$JS.API.DIRECT.GET.KV_elections.$KV.elections.>", `, "permissions", "critical", "$JS.API.DIRECT.GET.KV_elections.$KV.elections."},
		{`"$KV.elections.>",`, "permissions", "critical", "may not publish to $KV.elections."},
		{`"natsleader.feed.elections.>", `, "permissions", "warning", "may not subscribe to natsleader.feed.elections."},
		{`, "natsleader.ask.elections.>"`, "permissions", "note", "may not subscribe to natsleader.ask.elections."},
		{`, "$JS.API.INFO"`, "limits", "note", "may not publish to $JS.API.INFO"},
		{`"$JS.API.CONSUMER.CREATE.KV_elections.*.$KV.elections.>", `, "elections", "note", "may not publish to $JS.API.CONSUMER.CREATE"},
	} {
		t.Run(strings.Trim(k.missing, `", `), func(t *testing.T) {
			accounts := strings.Replace(permitted, k.missing, "", 1)
			if accounts == permitted {
				t.Fatal("nothing is missing")
			}
			s := configured(t, fmt.Sprintf(`host: 127.0.0.1, port: -1, jetstream { store_dir: %q } %s`, testserver.StoreDir(t), accounts))
			newBucket(t, asUser(s, "admin"), "elections", leader.BucketConfig{})
			d := diagnose(t, asUser(s, "candidate"), "--timeout", "3s")
			d.says(t, k.check, k.severity, k.words)
		})
	}
}

// The doctor names missing permissions for a watch. Without a feed, a candidate needs to
// make consumers.
func TestDoctor_WatchPermissions(t *testing.T) {
	accounts := strings.Replace(permitted, `"$JS.API.CONSUMER.CREATE.KV_elections.*.$KV.elections.>", "$JS.API.CONSUMER.DELETE.KV_elections.*", `, "", 1)
	s := configured(t, fmt.Sprintf(`host: 127.0.0.1, port: -1, jetstream { store_dir: %q } %s`, testserver.StoreDir(t), accounts))
	_, js := connectTo(t, asUser(s, "admin"))
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "elections"}); err != nil {
		t.Fatal(err)
	}
	d := diagnose(t, asUser(s, "candidate"), "--election", "billing")
	d.says(t, "permissions", "warning", "may not publish to $JS.API.CONSUMER.CREATE.KV_elections.", "$KV.elections.billing")
	d.says(t, "permissions", "note", "may not publish to $JS.API.CONSUMER.DELETE.KV_elections.")
	d.says(t, "feed-publish", "ok", "does not republish")
}

// Permissions for one election are tried with that election.
func TestDoctor_OneElection(t *testing.T) {
	accounts := strings.NewReplacer("$KV.elections.>", "$KV.elections.billing", "feed.elections.>", "feed.elections.billing",
		"ask.elections.>", "ask.elections.billing").Replace(permitted)
	s := configured(t, fmt.Sprintf(`host: 127.0.0.1, port: -1, jetstream { store_dir: %q } %s`, testserver.StoreDir(t), accounts))
	newBucket(t, asUser(s, "admin"), "elections", leader.BucketConfig{})
	diagnose(t, asUser(s, "candidate")).says(t, "permissions", "critical", "--election")
	diagnose(t, asUser(s, "candidate"), "--election", "billing").says(t, "permissions", "ok", "all that a candidate does")
}

// Permissions that let a connection write one election and not another separate them within one
// account.
func TestDoctor_Border(t *testing.T) {
	s := configured(t, fmt.Sprintf(`host: 127.0.0.1, port: -1, jetstream { store_dir: %q } %s`, testserver.StoreDir(t),
		strings.ReplaceAll(permitted, "$KV.elections.>", "$KV.elections.billing")))
	newBucket(t, asUser(s, "admin"), "elections", leader.BucketConfig{})
	_, js := connectTo(t, asUser(s, "admin"))
	put(t, js, "billing", "{}")
	diagnose(t, asUser(s, "candidate"), "--election", "billing").says(t, "border", "ok", "which are 1")
	put(t, js, "shipping", "{}")
	diagnose(t, asUser(s, "candidate")).says(t, "border", "warning", "may write billing, from shipping", "an account of its own")
	diagnose(t, asUser(s, "candidate"), "--election", "mail").says(t, "border", "warning", "may write billing, from mail, shipping")
	diagnose(t, asUser(s, "admin")).says(t, "border", "ok", "which are 2")
}

func TestDoctor_TooManyPermissions(t *testing.T) {
	s := configured(t, fmt.Sprintf(`host: 127.0.0.1, port: -1, jetstream { store_dir: %q } %s`, testserver.StoreDir(t), permitted))
	newBucket(t, asUser(s, "admin"), "elections", leader.BucketConfig{})
	d := diagnose(t, asUser(s, "admin"))
	d.says(t, "feed-publish", "warning", "may publish to natsleader.feed.elections.>", "deny")
	d.says(t, "ask-publish", "note", "natsleader.ask.elections.>")
	d = diagnose(t, asUser(s, "candidate"))
	d.says(t, "feed-publish", "ok", "may not publish")
	d.says(t, "ask-publish", "ok", "may not")
}
