//go:build field

package leader_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// permAnnouncer adds the permissions that docs/permissions.md lists for a candidate in
// a roster, beyond those of any candidate; permRoster adds those for a reader of a
// roster.
func permAnnouncer(u permUser, election string) permUser {
	u.pub = append(slices.Clone(u.pub), "$JS.API.STREAM.INFO.KV_E_roster", "$KV.E_roster."+election+".*")
	return u
}

func permRoster(u permUser, election string) permUser {
	u.pub = append(slices.Clone(u.pub), "$JS.API.CONSUMER.CREATE.KV_E_roster.*.$KV.E_roster."+election+".*", "$JS.API.CONSUMER.DELETE.KV_E_roster.*")
	return u
}

func permRostered(t *testing.T, h *permHost) {
	t.Helper()
	tcpCreate(t, permJS(t, h, "admin"), leader.BucketConfig{Roster: true})
}

// The documented permissions, without any others, are enough to announce oneself and to
// read the roster.
func TestRosterPermissions_AreEnough(t *testing.T) {
	t.Parallel()
	inbox := func(name string) permUser { return permUser{name: name, sub: []string{"_INBOX_" + name + ".>"}} }
	h := permServer(t, permAnnouncer(inbox("a"), "a"), permRoster(inbox("o"), "a"))
	permRostered(t, h)
	aConn, oConn := permDial(t, h, "a"), permDial(t, h, "o")
	v := check.Got(stands(t, tcpBucket(t, tcpJS(t, oConn)), "a"))(t)
	a := tcpBucket(t, tcpJS(t, aConn))
	var told []string
	for _, x := range []struct{ entry, tells string }{{"1", "A=1"}, {"2", "A=2"}, {"", "A stands no more"}} {
		check.Got(announceWithin(t, tcpLimit, a, "a", rosterA, x.entry, time.Minute))(t)
		tcpEventually(t, "the view tells", func() bool { // before the next takes its place
			told = append(told, v.take()...)
			return slices.Contains(told, x.tells)
		})
	}
	check.That(t, told[0] == "complete", "told %q", told)
	v.Stop()
	tcpEventually(t, "the consumer is deleted", func() bool {
		s := check.Got(permJS(t, h, "admin").Stream(t.Context(), "KV_E_roster"))(t)
		return s.CachedInfo().State.Consumers == 0
	})
	permDenials(t, aConn)
	permDenials(t, oConn)
}

// A missing permission is named.
func TestRosterPermissions_Missing(t *testing.T) {
	t.Parallel()
	u := permList("a", "a", false)
	h := permServer(t, u)
	permRostered(t, h)
	b := tcpBucket(t, permJS(t, h, "a"))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	denied := make(chan error)
	b.Backend().Announce(ctx, "a", rosterA, []byte("1"), time.Minute, func(_ uint64, err error) { denied <- err })
	check.Says(t, <-denied, leader.ErrPermission, `"$KV.E_roster.a.`+rosterA+`"`)
	ctx, cancel = context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	b.Backend().View(ctx, "a", func(backend.Announcement) {}, func(_ backend.Feed, err error) { denied <- err })
	check.Says(t, <-denied, leader.ErrPermission, `"$JS.API.CONSUMER.CREATE.KV_E_roster.*.$KV.E_roster.a.*"`)
	// A client that may not ask for the roster assumes that there is one.
	info, err := b.Info(t.Context())
	check.That(t, err == nil && info.Roster, "Info: %+v, %v", info, err)
	h.grant(t, permRoster(permAnnouncer(u, "a"), "a"))
	tcpEventually(t, "it may", func() bool {
		_, err = announce(t, b, "a", rosterA, "1", time.Minute)
		return err == nil
	})
	check.Got(stands(t, b, "a"))(t)
}

// A client that may announce itself in a can neither stand in another election nor look
// at it.
func TestRosterPermissions_OneRoster(t *testing.T) {
	t.Parallel()
	full := func(name, election string) permUser {
		return permRoster(permAnnouncer(permList(name, election, false), election), election)
	}
	h := permServer(t, full("a", "a"), full("b", "a.b"))
	permRostered(t, h)
	b := tcpBucket(t, permJS(t, h, "b"))
	check.Got(announceWithin(t, tcpLimit, b, "a.b", rosterB, permSecret, time.Minute))(t)
	p := &permAttacker{T: t, nc: permDial(t, h, "a")}
	check.That(t, p.request("$KV.E_roster.a.b."+rosterA, "x") == nil, "a stands in a.b")
	heard := make(chan *nats.Msg, 10)
	check.Got(p.nc.ChanSubscribe("_INBOX_a.heard", heard))(t)
	for _, filter := range []string{"$KV.E_roster.a.b.*", "$KV.E_roster.>"} {
		p.request("$JS.API.CONSUMER.CREATE.KV_E_roster.spy.$KV.E_roster.a.*",
			`{"stream_name":"KV_E_roster","config":{"name":"spy","deliver_subject":"_INBOX_a.heard","deliver_policy":"all","ack_policy":"none","filter_subject":"`+filter+`"}}`)
	}
	own := check.Got(announceWithin(t, tcpLimit, tcpBucket(t, tcpJS(t, p.nc)), "a", rosterA, "1", time.Minute))(t)
	v := check.Got(stands(t, b, "a.b"))(t)
	tcpEventually(t, "b sees its own", func() bool { return slices.Contains(v.take(), "B="+permSecret) })
	check.OK(t, p.nc.Flush())
	if len(heard) > 0 || own == 0 {
		t.Errorf("a hears %s", (<-heard).Data)
	}
}

// With a prefix of the JetStream API, announcements go through it.
func TestRoster_WithAPIPrefix(t *testing.T) {
	t.Parallel()
	s := tcpServe(t, tcpOptions(t, `
		accounts {
			HUB {
				jetstream: enabled
				users: [ { user: hub, password: x } ]
				exports: [ { service: "$JS.API.>", response: stream }, { service: "$KV.E_roster.>" } ]
			}
			APP {
				users: [ { user: app, password: x } ]
				imports: [
					{ service: { account: HUB, subject: "$JS.API.STREAM.>" }, to: "P.STREAM.>" }
					{ service: { account: HUB, subject: "$KV.E_roster.>" }, to: "P.$KV.E_roster.>" }
				]
			}
		}`))
	hub := tcpJS(t, tcpDial(t, s.ClientURL(), nats.UserInfo("hub", "x")))
	js := check.Got(jetstream.NewWithAPIPrefix(tcpDial(t, s.ClientURL(), nats.UserInfo("app", "x")), "P"))(t)
	app := tcpBucket(t, js)
	check.Is(t, check.Err(announce(t, app, "e", rosterA, "1", time.Minute)), leader.ErrNoRoster)
	tcpCreate(t, hub, leader.BucketConfig{Roster: true})
	v := check.Got(stands(t, tcpBucket(t, hub), "e"))(t)
	check.Got(announceWithin(t, tcpLimit, app, "e", rosterA, "1", time.Minute))(t)
	tcpEventually(t, "the view tells", func() bool { return slices.Contains(v.take(), "A=1") })
}

// On three replicas the roster has as many, and outlives the server that leads it.
func TestClusterRoster_OutlivesServer(t *testing.T) {
	proof.Only(t)
	t.Parallel()
	c := clusterStart(t)
	clusterPlaced(t, func() error {
		_, err := leader.CreateOrUpdateBucket(t.Context(), c.JS, leader.BucketConfig{Name: "E", Replicas: 3, Roster: true})
		return err
	})
	b := tcpBucket(t, c.JS)
	before := check.Got(announceWithin(t, tcpLimit, b, "e", rosterA, "1", time.Hour))(t)
	stream := check.Got(c.JS.Stream(t.Context(), "KV_E_roster"))(t)
	check.Equal(t, stream.CachedInfo().Config.Replicas, 3, "%d replicas")
	leads := stream.CachedInfo().Cluster.Leader
	v := check.Got(stands(t, b, "e"))(t)
	c.Node(leads).Kill()
	tcpEventually(t, "announcements are taken again", func() bool {
		after, err := announce(t, b, "e", rosterB, "1", time.Hour)
		check.That(t, err == nil || errors.Is(err, leader.ErrUnreachable), "announced: %v", err)
		return after > before
	})
	// A view that does not report it has ended.
	var told []string
	tcpEventually(t, "a view tells, or another", func() bool {
		told = append(told, v.take()...)
		if slices.Contains(told, "over") {
			v.Stop()
			again, err := stands(t, b, "e")
			if err != nil {
				return false
			}
			v, told = again, nil
		}
		return slices.Contains(told, "A=1") && slices.Contains(told, "B=1")
	})
}
