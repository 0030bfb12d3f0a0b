package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
)

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
		f.show("--election billing " + as("one"))
		put(w.T, w.js, "shipping", "{}")
		f.show(as("one"), "--election mail "+as("one"), "")
	}, withUser("one", may))
}
