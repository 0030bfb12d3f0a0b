package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// remake makes the bucket anew.
func (w *world) remake(cfg leader.BucketConfig) {
	w.Helper()
	w.remove("KV_elections")
	cfg.Name = "elections"
	w.made(leader.CreateOrUpdateBucket(w.Context(), w.js, cfg))
}

// remove deletes a stream, if there is one.
func (w *world) remove(stream string) {
	w.Helper()
	if err := w.js.DeleteStream(w.Context(), stream); !errors.Is(err, jetstream.ErrStreamNotFound) {
		expect.OK(w, err)
	}
}

// change changes the settings of a stream.
func (w *world) change(stream string, change func(*jetstream.StreamConfig)) {
	w.Helper()
	c := w.config(stream)
	change(&c)
	w.made(w.js.UpdateStream(w.Context(), c))
}

// publish stores a message without conditions.
func (w *world) publish(subject, data string, header ...string) {
	w.Helper()
	m := nats.NewMsg(subject)
	m.Data = []byte(data)
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	w.made(w.js.PublishMsg(w.Context(), m))
}

// Doctor reports a bucket with bad settings or contents, and gives advice.
func TestDoctor_BadBuckets(t *testing.T) {
	type config = jetstream.StreamConfig
	// sealed makes a purge-protected bucket with changed settings.
	sealed := func(change func(*config)) func(*world) {
		return func(w *world) {
			c := config{
				Name: "KV_elections", Subjects: []string{"$KV.elections.>"}, MaxMsgsPerSubject: 1, AllowDirect: true,
				DenyDelete: true, DenyPurge: true, Discard: jetstream.DiscardNew,
				RePublish: &jetstream.RePublish{Source: "$KV.elections.>", Destination: "natsleader.feed.elections.>"},
				Metadata:  map[string]string{"natsleader.max_lease": "15s"},
			}
			change(&c)
			w.made(w.js.CreateStream(w.Context(), c))
		}
	}
	ordinary := func(c jetstream.KeyValueConfig) func(*world) {
		return func(w *world) {
			c.Bucket = "elections"
			w.made(w.js.CreateKeyValue(w.Context(), c))
		}
	}
	holds := func(value string, header ...string) func(*world) {
		return func(w *world) {
			w.remake(leader.BucketConfig{MaxLease: 15 * time.Second})
			w.publish("$KV.elections.billing", value, header...)
		}
	}
	const sound = `{"v":1,"state":"leading","id":"x","session":"s","n":1,"lease":"1m0s","token":1}`
	bubble(t, leader.BucketConfig{MaxLease: 15 * time.Second}, func(w *world) {
		findings{w, nil}.show("")
		f := w.findingsBeside("")
		for _, k := range []struct {
			name string
			set  func(*world)
			args string
		}{
			{"none", func(*world) {}, ""},
			{"it acknowledges nothing", sealed(func(c *config) { c.NoAck = true }), ""},
			{"a mirror", func(w *world) {
				w.made(leader.CreateOrUpdateBucket(w.Context(), w.js, leader.BucketConfig{Name: "mirrored"}))
				ordinary(jetstream.KeyValueConfig{Mirror: &jetstream.StreamSource{Name: "mirrored"}})(w)
			}, ""},
			{"with a source", sealed(func(c *config) { c.Sources = []*jetstream.StreamSource{{Name: "KV_elsewhere"}} }), ""},
			{"its server acknowledges early", sealed(func(c *config) { c.PersistMode = jetstream.AsyncPersistMode }), ""},
			{"it drops its oldest records", sealed(func(c *config) { c.MaxMsgs, c.Discard = 10, jetstream.DiscardOld }), ""},
			{"compressed, for few consumers", sealed(func(c *config) { c.Compression, c.MaxConsumers = jetstream.S2Compression, 10 }), ""},
			{"its history is lost", func(w *world) {
				w.remake(leader.BucketConfig{MaxLease: 15 * time.Second})
				w.run("bucket add --history 1d")
				w.remove(historyStream("elections"))
			}, ""},
			{"its history takes nothing more", func(w *world) {
				w.remake(leader.BucketConfig{MaxLease: 15 * time.Second})
				w.run("bucket add --history 1d")
				w.change(historyStream("elections"), func(c *config) { c.Sealed = true })
			}, ""},
			{"in memory", sealed(func(c *config) { c.Storage = jetstream.MemoryStorage }), ""},
			{"ordinary", ordinary(jetstream.KeyValueConfig{History: 5}), ""},
			{"messages can be deleted", sealed(func(c *config) { c.DenyDelete = false }), ""},
			{"messages may have TTLs", sealed(func(c *config) { c.AllowMsgTTL = true }), ""},
			{"with a TTL", func(w *world) { w.remake(leader.BucketConfig{TTL: time.Minute}) }, ""},
			{"a TTL shorter than leases", ordinary(jetstream.KeyValueConfig{TTL: 10 * time.Second}), "--lease 15s"},
			{"a TTL close to leases", ordinary(jetstream.KeyValueConfig{TTL: 20 * time.Second}), "--lease 15s"},
			{"a TTL without markers", ordinary(jetstream.KeyValueConfig{TTL: time.Minute}), "--lease 15s"},
			{"a MaxLease that is none", sealed(func(c *config) { c.Metadata["natsleader.max_lease"] = "soon" }), ""},
			{"not republished", sealed(func(c *config) { c.RePublish = nil }), ""},
			{"headers republished", sealed(func(c *config) { c.RePublish.HeadersOnly = true }), ""},
			{"leases too long", sealed(func(*config) {}), "--lease 20s"},
			{"leases much shorter than MaxLease", sealed(func(*config) {}), "--lease 3s"},
			{"full", func(w *world) {
				sealed(func(c *config) { c.MaxMsgs = 1 })(w)
				w.publish("$KV.elections.a", sound)
			}, ""},
			{"full of bytes", func(w *world) {
				sealed(func(c *config) { c.MaxBytes = 1000 })(w)
				w.publish("$KV.elections.a", strings.Repeat("x", 900))
			}, ""},
			{"it keeps every message", sealed(func(c *config) { c.MaxMsgsPerSubject = -1 }), ""},
			{"small messages", sealed(func(c *config) { c.MaxMsgSize = 500 }), ""},
			{"medium messages", sealed(func(c *config) { c.MaxMsgSize = 10_000 }), ""},
			{"a foreign key", holds("hello"), ""},
			{"a lease longer than MaxLease", holds(sound), ""},
			{"a cordon", func(w *world) {
				w.remake(leader.BucketConfig{MaxLease: 15 * time.Second})
				w.run("drain web-1 --keep")
			}, ""},
			{"a cordon that is none", func(w *world) {
				w.remake(leader.BucketConfig{MaxLease: 15 * time.Second})
				put(w.T, w.js, wire.CordonKey, "junk")
			}, ""},
			{"a marker with a long lease", holds(strings.Replace(sound, "1m0s", "8000h0m0s", 1), "KV-Operation", "DEL"), ""},
		} {
			w.remove("KV_elections")
			w.notef("# %s\n", k.name)
			k.set(w)
			f.show(k.args)
		}
	})
}

// Doctor compares the settings of a roster with those that it needs.
func TestDoctor_Rosters(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		f := w.findingsBeside("")
		f.show("--roster")
		for _, change := range []func(*jetstream.StreamConfig){
			func(*jetstream.StreamConfig) {},
			func(c *jetstream.StreamConfig) { c.MaxMsgs, c.MaxMsgsPerSubject = 3, 2 },
			func(c *jetstream.StreamConfig) {
				c.MaxAge, c.Duplicates, c.SubjectDeleteMarkerTTL = 44*time.Second, 0, 0
			},
		} {
			w.remove("KV_elections_roster")
			w.remake(leader.BucketConfig{Roster: true})
			w.change("KV_elections_roster", change)
			f.show("", "--roster")
		}
		w.remove("KV_elections_roster")
		f.show("", "--roster")
	})
}

// An account has limits of its storage and of its memory. Each bucket is subject to one of them. When the
// account is full, it stores nothing. Another account has no JetStream.
func TestDoctor_FullAccount(t *testing.T) {
	bubble(t, leader.BucketConfig{}, func(w *world) {
		f := w.findingsBeside("")
		f.show(as("nothing"))
		w.publish("$KV.elections.a", strings.Repeat("x", 18_500))
		f.show("")
		w.publish("$KV.elections.b", strings.Repeat("x", 1000))
		f.show("")
		w.remake(leader.BucketConfig{Storage: jetstream.MemoryStorage})
		w.publish("$KV.elections.a", strings.Repeat("x", 18_500))
		f.show("")
		w.noteStreams()
	}, func(o *server.Options) {
		expect.OK(t, o.ProcessConfigString(`no_auth_user: small, accounts {
			A { jetstream { max_store: 20000, max_memory: 20000 }, users: [ { user: small, password: small } ] }
			B { users: [ { user: nothing, password: nothing } ] } }`))
	})
}

// candidateMay returns the permissions of a candidate, and those that it takes to look at the elections and
// the limits.
func candidateMay() *server.Permissions {
	return &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			"$JS.API.STREAM.INFO.KV_elections", "$JS.API.DIRECT.GET.KV_elections.$KV.elections.>", "$KV.elections.>",
			"$JS.API.CONSUMER.CREATE.KV_elections.*.$KV.elections.>", "$JS.API.CONSUMER.DELETE.KV_elections.*", "$JS.API.INFO",
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>", "natsleader.feed.elections.>", "natsleader.ask.elections.>"}},
	}
}

// rosterMay returns the permissions of a candidate with a roster.
func rosterMay() *server.Permissions {
	p := candidateMay()
	p.Publish.Allow = append(p.Publish.Allow, "$JS.API.STREAM.INFO.KV_elections_roster", "$KV.elections_roster.>",
		"$JS.API.CONSUMER.CREATE.KV_elections_roster.*.$KV.elections_roster.>", "$JS.API.CONSUMER.DELETE.KV_elections_roster.*")
	return p
}

// without returns permissions without one subject. There is always another subject in
// them, because an empty list permits everything.
func without(p *server.Permissions, subject string) *server.Permissions {
	less := func(p *server.SubjectPermission) *server.SubjectPermission {
		rest := slices.DeleteFunc(slices.Clone(p.Allow), func(s string) bool { return s == subject })
		return &server.SubjectPermission{Allow: append(rest, "nothing.at.all")}
	}
	return &server.Permissions{Publish: less(p.Publish), Subscribe: less(p.Subscribe)}
}

// Doctor names each permission of a candidate that is missing.
func TestDoctor_MissingPermissions(t *testing.T) {
	all := rosterMay()
	users := []func(*server.Options){withUser("candidate", candidateMay()), withUser("all", all)}
	subjects := slices.Concat(all.Publish.Allow, all.Subscribe.Allow)
	for i, subject := range subjects {
		users = append(users, withUser(fmt.Sprint("less", i), without(all, subject)))
	}
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		f := w.findingsBeside("--roster " + as("all"))
		f.show(as("candidate"), "--roster "+as("candidate"))
		for i, subject := range subjects {
			w.notef("# no %s\n", subject)
			f.show("--roster " + as(fmt.Sprint("less", i)))
		}
		w.notef("# everything is permitted\n")
		f.show("")
		w.notef("# no feed\n")
		w.change("KV_elections", func(c *jetstream.StreamConfig) { c.RePublish = nil })
		for i, subject := range subjects {
			if strings.Contains(subject, "CONSUMER") && !strings.Contains(subject, "roster") {
				f.show("--election billing " + as(fmt.Sprint("less", i)))
			}
		}
		w.notef("# no direct reads\n")
		w.change("KV_elections", func(c *jetstream.StreamConfig) { c.AllowDirect = false })
		f.show("--election billing " + as("candidate"))
	}, users...)
}

// With --as an operator and a creator are not blamed for what they need not. A creator is no operator.
func TestDoctor_Roles(t *testing.T) {
	plan := permissionPlan{bucket: "elections", inbox: "_INBOX", api: jetstream.DefaultAPIPrefix, roster: true}
	var users []func(*server.Options)
	for _, role := range []string{facts.Operator, facts.Creator, "operator of billing"} {
		if plan.elections = nil; strings.HasSuffix(role, " of billing") {
			plan.elections = []string{"billing"}
		}
		may := &server.Permissions{Publish: &server.SubjectPermission{}, Subscribe: &server.SubjectPermission{}}
		for _, g := range plan.user(strings.TrimSuffix(role, " of billing")).grants {
			of := map[string]*server.SubjectPermission{mayPublish: may.Publish, maySubscribe: may.Subscribe}[g.verb]
			of.Allow = append(of.Allow, g.subject)
		}
		users = append(users, withUser(strings.ReplaceAll(role, " ", "-"), may))
	}
	bubble(t, leader.BucketConfig{Roster: true}, func(w *world) {
		w.prompt("doctor --read-only --as operator --roster "+as(facts.Operator), "doctor --read-only --as creator "+as(facts.Creator))
		f := w.findingsBeside("--as operator " + as(facts.Operator))
		f.show("--as operator "+as(facts.Creator), "--as creator "+as(facts.Operator), "--as operator",
			"--as operator --election billing "+as("operator-of-billing"), "--as operator --election shipping "+as("operator-of-billing"),
			"--as operator "+as("operator-of-billing"))
	}, users...)
}

// Permissions for one election are tried with that election. If they let a connection write one election and
// not another, they separate them within one account.
func TestDoctor_Border(t *testing.T) {
	may := candidateMay()
	for _, p := range []*server.SubjectPermission{may.Publish, may.Subscribe} {
		for i, subject := range p.Allow {
			p.Allow[i] = strings.Replace(subject, "elections.>", "elections.billing", 1)
		}
	}
	bubble(t, leader.BucketConfig{}, func(w *world) {
		f := w.findingsBeside("--election billing " + as("one"))
		f.show(as("one"))
		put(w.T, w.js, "billing", "{}")
		put(w.T, w.js, "natsleader.note.billing", "{}")
		put(w.T, w.js, wire.CordonKey, `{"v":1,"names":[]}`)
		f.show("--election billing " + as("one"))
		put(w.T, w.js, "shipping", "{}")
		f.show(as("one"), "--election mail "+as("one"), "")
		for _, key := range []string{"map", "page.0", "member.a"} {
			put(w.T, w.js, "orders.shard."+key, "{}")
		}
		f.show(as("one"), "")
	}, withUser("one", may))
}
