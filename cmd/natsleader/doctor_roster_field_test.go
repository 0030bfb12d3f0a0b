//go:build field

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

func TestDoctor_Rosters(t *testing.T) {
	s := startServer(t)
	_, js := connectTo(t, s.ClientURL())
	newBucket(t, s.ClientURL(), "none", leader.BucketConfig{})
	d := diagnose(t, s.ClientURL(), "--bucket", "none")
	d.says(t, "roster", "ok", "keeps no roster", "whoever is first")
	diagnose(t, s.ClientURL(), "--bucket", "none", "--roster").says(t, "roster", "warning", "keeps no roster", "natsleader bucket add none --roster")
	for name, x := range map[string]struct {
		set   func(*jetstream.StreamConfig)
		words string
	}{
		"full":    {func(c *jetstream.StreamConfig) { c.MaxMsgs = 3 }, "only so many (MaxMsgs, MaxBytes)"},
		"short":   {func(c *jetstream.StreamConfig) { c.MaxAge, c.Duplicates = 44*time.Second, 0 }, "a TTL of 44s, less than 3 leases"},
		"deaf":    {func(c *jetstream.StreamConfig) { c.SubjectDeleteMarkerTTL = 0 }, "nobody hears of what lapses"},
		"history": {func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 }, "out of date (MaxMsgsPerSubject 2)"},
	} {
		newBucket(t, s.ClientURL(), name, leader.BucketConfig{Roster: true})
		diagnose(t, s.ClientURL(), "--bucket", name, "--roster").says(t, "roster", "ok", "announce themselves in "+name+"_roster")
		stream, err := js.Stream(t.Context(), "KV_"+name+"_roster")
		if err != nil {
			t.Fatal(err)
		}
		c := stream.CachedInfo().Config
		x.set(&c)
		if _, err = js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"--bucket", name}, {"--bucket", name, "--roster"}} {
			diagnose(t, s.ClientURL(), args...).says(t, "roster", "warning", x.words, "natsleader bucket add "+name+" --roster")
		}
	}
	newBucket(t, s.ClientURL(), "gone", leader.BucketConfig{Roster: true})
	if err := js.DeleteStream(t.Context(), "KV_gone_roster"); err != nil {
		t.Fatal(err)
	}
	diagnose(t, s.ClientURL(), "--bucket", "gone", "--roster").says(t, "roster", "warning", "is gone", "natsleader bucket add gone --roster")
	// AllowMsgTTL is set when the roster is made, and cannot be unset. So this case is
	// tested without a server.
	e := &environment{name: "x", info: &jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: 3}}}
	wrong := strings.Join(e.wrongInRoster(jetstream.StreamConfig{Replicas: 1, MaxMsgsPerSubject: 1, SubjectDeleteMarkerTTL: time.Second}), "; ")
	if wrong != "nothing lapses (AllowMsgTTL); 1 replicas, where the bucket has 3" {
		t.Error(wrong)
	}
}

// The doctor names missing permissions for a roster.
func TestDoctor_RosterPermissions(t *testing.T) {
	t.Parallel()
	const rosters = `"$JS.API.STREAM.INFO.KV_elections_roster", "$KV.elections_roster.>",
		"$JS.API.CONSUMER.CREATE.KV_elections_roster.*.$KV.elections_roster.>", "$JS.API.CONSUMER.DELETE.KV_elections_roster.*", "$JS.API.INFO"`
	all := strings.Replace(permitted, `"$JS.API.INFO"`, rosters, 1)
	for _, k := range []struct{ missing, severity, words string }{
		{"", "ok", "all that a candidate does"},
		{`"$JS.API.STREAM.INFO.KV_elections_roster", `, "note", "may not publish to $JS.API.STREAM.INFO.KV_elections_roster (for the settings of the roster)"},
		{`"$KV.elections_roster.>",`, "warning", "may not publish to $KV.elections_roster."},
		{`"$JS.API.CONSUMER.CREATE.KV_elections_roster.*.$KV.elections_roster.>", `, "warning", "$JS.API.CONSUMER.CREATE.KV_elections_roster."},
		{`"$JS.API.CONSUMER.DELETE.KV_elections_roster.*", `, "note", "$JS.API.CONSUMER.DELETE.KV_elections_roster."},
	} {
		accounts := strings.Replace(all, k.missing, "", 1)
		if k.missing != "" && accounts == all {
			t.Fatalf("not missing: %s", k.missing)
		}
		s := configured(t, fmt.Sprintf(`host: 127.0.0.1, port: -1, jetstream { store_dir: %q } %s`, testserver.StoreDir(t), accounts))
		newBucket(t, asUser(s, "admin"), "elections", leader.BucketConfig{Roster: true})
		diagnose(t, asUser(s, "candidate"), "--timeout", "3s", "--roster").says(t, "permissions", k.severity, k.words)
	}
	// A candidate without a roster needs none of these permissions.
	s := configured(t, fmt.Sprintf(`host: 127.0.0.1, port: -1, jetstream { store_dir: %q } %s`, testserver.StoreDir(t), permitted))
	newBucket(t, asUser(s, "admin"), "elections", leader.BucketConfig{Roster: true})
	d := diagnose(t, asUser(s, "candidate"), "--timeout", "3s")
	d.says(t, "permissions", "ok", "all that a candidate does")
	d.says(t, "roster", "note", "not checked", "STREAM.INFO.KV_elections_roster")
}
