package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/permissions"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/testworld"
	expect "github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// Doctor reports a bucket with bad settings or contents, and gives advice.
func TestDoctor_BadBuckets(t *testing.T) {
	type config = jetstream.StreamConfig
	// sealed makes a purge-protected bucket with changed settings.
	sealed := func(change func(*config)) func(*testworld.World) {
		return func(w *testworld.World) {
			c := config{
				Name: "KV_elections", Subjects: []string{"$KV.elections.>"}, MaxMsgsPerSubject: 1, AllowDirect: true,
				DenyDelete: true, DenyPurge: true, Discard: jetstream.DiscardNew,
				RePublish: &jetstream.RePublish{Source: "$KV.elections.>", Destination: "natsleader.feed.elections.>"},
				Metadata:  map[string]string{"natsleader.max_lease": "15s"},
			}
			change(&c)
			w.Made(w.Js.CreateStream(w.Context(), c))
		}
	}
	ordinary := func(c jetstream.KeyValueConfig) func(*testworld.World) {
		return func(w *testworld.World) {
			c.Bucket = "elections"
			w.Made(w.Js.CreateKeyValue(w.Context(), c))
		}
	}
	holds := func(value string, header ...string) func(*testworld.World) {
		return func(w *testworld.World) {
			w.Remake(leader.BucketConfig{MaxLease: 15 * time.Second})
			w.Publish("$KV.elections.billing", value, header...)
		}
	}
	const sound = `{"v":1,"state":"leading","id":"x","session":"s","n":1,"lease":"1m0s","token":1}`
	testworld.Bubble(t, leader.BucketConfig{MaxLease: 15 * time.Second}, func(w *testworld.World) {
		testworld.Findings{World: w, First: nil}.Show("")
		f := w.FindingsBeside("")
		for _, k := range []struct {
			name string
			set  func(*testworld.World)
			args string
		}{
			{"none", func(*testworld.World) {}, ""},
			{"it acknowledges nothing", sealed(func(c *config) { c.NoAck = true }), ""},
			{"a mirror", func(w *testworld.World) {
				w.Made(leader.CreateOrUpdateBucket(w.Context(), w.Js, leader.BucketConfig{Name: "mirrored"}))
				ordinary(jetstream.KeyValueConfig{Mirror: &jetstream.StreamSource{Name: "mirrored"}})(w)
			}, ""},
			{"with a source", sealed(func(c *config) { c.Sources = []*jetstream.StreamSource{{Name: "KV_elsewhere"}} }), ""},
			{"its server acknowledges early", sealed(func(c *config) { c.PersistMode = jetstream.AsyncPersistMode }), ""},
			{"it drops its oldest records", sealed(func(c *config) { c.MaxMsgs, c.Discard = 10, jetstream.DiscardOld }), ""},
			{"compressed, for few consumers", sealed(func(c *config) { c.Compression, c.MaxConsumers = jetstream.S2Compression, 10 }), ""},
			{"its history is lost", func(w *testworld.World) {
				w.Remake(leader.BucketConfig{MaxLease: 15 * time.Second})
				w.Run("bucket add --history 1d")
				w.Remove(facts.HistoryStream("elections"))
			}, ""},
			{"its history takes nothing more", func(w *testworld.World) {
				w.Remake(leader.BucketConfig{MaxLease: 15 * time.Second})
				w.Run("bucket add --history 1d")
				w.Change(facts.HistoryStream("elections"), func(c *config) { c.Sealed = true })
			}, ""},
			{"in memory", sealed(func(c *config) { c.Storage = jetstream.MemoryStorage }), ""},
			{"ordinary", ordinary(jetstream.KeyValueConfig{History: 5}), ""},
			{"messages can be deleted", sealed(func(c *config) { c.DenyDelete = false }), ""},
			{"messages may have TTLs", sealed(func(c *config) { c.AllowMsgTTL = true }), ""},
			{"with a TTL", func(w *testworld.World) { w.Remake(leader.BucketConfig{TTL: time.Minute}) }, ""},
			{"a TTL shorter than leases", ordinary(jetstream.KeyValueConfig{TTL: 10 * time.Second}), "--lease 15s"},
			{"a TTL close to leases", ordinary(jetstream.KeyValueConfig{TTL: 20 * time.Second}), "--lease 15s"},
			{"a TTL without markers", ordinary(jetstream.KeyValueConfig{TTL: time.Minute}), "--lease 15s"},
			{"a MaxLease that is none", sealed(func(c *config) { c.Metadata["natsleader.max_lease"] = "soon" }), ""},
			{"not republished", sealed(func(c *config) { c.RePublish = nil }), ""},
			{"headers republished", sealed(func(c *config) { c.RePublish.HeadersOnly = true }), ""},
			{"leases too long", sealed(func(*config) {}), "--lease 20s"},
			{"leases much shorter than MaxLease", sealed(func(*config) {}), "--lease 3s"},
			{"full", func(w *testworld.World) {
				sealed(func(c *config) { c.MaxMsgs = 1 })(w)
				w.Publish("$KV.elections.a", sound)
			}, ""},
			{"full of bytes", func(w *testworld.World) {
				sealed(func(c *config) { c.MaxBytes = 1000 })(w)
				w.Publish("$KV.elections.a", strings.Repeat("x", 900))
			}, ""},
			{"it keeps every message", sealed(func(c *config) { c.MaxMsgsPerSubject = -1 }), ""},
			{"small messages", sealed(func(c *config) { c.MaxMsgSize = 500 }), ""},
			{"medium messages", sealed(func(c *config) { c.MaxMsgSize = 10_000 }), ""},
			{"a foreign key", holds("hello"), ""},
			{"a lease longer than MaxLease", holds(sound), ""},
			{"a cordon", func(w *testworld.World) {
				w.Remake(leader.BucketConfig{MaxLease: 15 * time.Second})
				w.Run("drain web-1 --keep")
			}, ""},
			{"a cordon that is none", func(w *testworld.World) {
				w.Remake(leader.BucketConfig{MaxLease: 15 * time.Second})
				testworld.Put(w.T, w.Js, wire.CordonKey, "junk")
			}, ""},
			{"a marker with a long lease", holds(strings.Replace(sound, "1m0s", "8000h0m0s", 1), "KV-Operation", "DEL"), ""},
		} {
			w.Remove("KV_elections")
			w.Notef("# %s\n", k.name)
			k.set(w)
			f.Show(k.args)
		}
	})
}

// Doctor compares the settings of a roster with those that it needs.
func TestDoctor_Rosters(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		f := w.FindingsBeside("")
		f.Show("--roster")
		for _, change := range []func(*jetstream.StreamConfig){
			func(*jetstream.StreamConfig) {},
			func(c *jetstream.StreamConfig) { c.MaxMsgs, c.MaxMsgsPerSubject = 3, 2 },
			func(c *jetstream.StreamConfig) {
				c.MaxAge, c.Duplicates, c.SubjectDeleteMarkerTTL = 44*time.Second, 0, 0
			},
		} {
			w.Remove("KV_elections_roster")
			w.Remake(leader.BucketConfig{Roster: true})
			w.Change("KV_elections_roster", change)
			f.Show("", "--roster")
		}
		w.Remove("KV_elections_roster")
		f.Show("", "--roster")
	})
}

// An account has limits of its storage and of its memory. Each bucket is subject to one of them. When the
// account is full, it stores nothing. Another account has no JetStream.
func TestDoctor_FullAccount(t *testing.T) {
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		f := w.FindingsBeside("")
		f.Show(as("nothing"))
		w.Publish("$KV.elections.a", strings.Repeat("x", 18_500))
		f.Show("")
		w.Publish("$KV.elections.b", strings.Repeat("x", 1000))
		f.Show("")
		w.Remake(leader.BucketConfig{Storage: jetstream.MemoryStorage})
		w.Publish("$KV.elections.a", strings.Repeat("x", 18_500))
		f.Show("")
		w.NoteStreams()
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
	users := []func(*server.Options){testworld.WithUser("candidate", candidateMay()), testworld.WithUser("all", all)}
	subjects := slices.Concat(all.Publish.Allow, all.Subscribe.Allow)
	for i, subject := range subjects {
		users = append(users, testworld.WithUser(fmt.Sprint("less", i), without(all, subject)))
	}
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		f := w.FindingsBeside("--roster " + as("all"))
		f.Show(as("candidate"), "--roster "+as("candidate"))
		for i, subject := range subjects {
			w.Notef("# no %s\n", subject)
			f.Show("--roster " + as(fmt.Sprint("less", i)))
		}
		w.Notef("# everything is permitted\n")
		f.Show("")
		w.Notef("# no feed\n")
		w.Change("KV_elections", func(c *jetstream.StreamConfig) { c.RePublish = nil })
		for i, subject := range subjects {
			if strings.Contains(subject, "CONSUMER") && !strings.Contains(subject, "roster") {
				f.Show("--election billing " + as(fmt.Sprint("less", i)))
			}
		}
		w.Notef("# no direct reads\n")
		w.Change("KV_elections", func(c *jetstream.StreamConfig) { c.AllowDirect = false })
		f.Show("--election billing " + as("candidate"))
	}, users...)
}

// With --as an operator and a creator are not blamed for what they need not. A creator is no operator.
func TestDoctor_Roles(t *testing.T) {
	plan := permissions.Plan{Bucket: "elections", Inbox: "_INBOX", Api: jetstream.DefaultAPIPrefix, Roster: true}
	var users []func(*server.Options)
	for _, role := range []string{facts.Operator, facts.Creator, "operator of billing"} {
		if plan.Elections = nil; strings.HasSuffix(role, " of billing") {
			plan.Elections = []string{"billing"}
		}
		may := &server.Permissions{Publish: &server.SubjectPermission{}, Subscribe: &server.SubjectPermission{}}
		for _, g := range plan.User(strings.TrimSuffix(role, " of billing")).Grants {
			of := map[string]*server.SubjectPermission{permissions.MayPublish: may.Publish, permissions.MaySubscribe: may.Subscribe}[g.Verb]
			of.Allow = append(of.Allow, g.Subject)
		}
		users = append(users, testworld.WithUser(strings.ReplaceAll(role, " ", "-"), may))
	}
	testworld.Bubble(t, leader.BucketConfig{Roster: true}, func(w *testworld.World) {
		w.Prompt("doctor --read-only --as operator --roster "+as(facts.Operator), "doctor --read-only --as creator "+as(facts.Creator))
		f := w.FindingsBeside("--as operator " + as(facts.Operator))
		f.Show("--as operator "+as(facts.Creator), "--as creator "+as(facts.Operator), "--as operator",
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
	testworld.Bubble(t, leader.BucketConfig{}, func(w *testworld.World) {
		f := w.FindingsBeside("--election billing " + as("one"))
		f.Show(as("one"))
		testworld.Put(w.T, w.Js, "billing", "{}")
		testworld.Put(w.T, w.Js, "natsleader.note.billing", "{}")
		testworld.Put(w.T, w.Js, wire.CordonKey, `{"v":1,"names":[]}`)
		f.Show("--election billing " + as("one"))
		testworld.Put(w.T, w.Js, "shipping", "{}")
		f.Show(as("one"), "--election mail "+as("one"), "")
		for _, key := range []string{"map", "page.0", "member.a"} {
			testworld.Put(w.T, w.Js, "orders.shard."+key, "{}")
		}
		f.Show(as("one"), "")
	}, testworld.WithUser("one", may))
}
