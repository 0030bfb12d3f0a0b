//go:build field

package leader_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// without returns the user without the permissions that begin with the text.
func (u permUser) without(text string) permUser {
	lacks := func(s string) bool { return strings.HasPrefix(s, text) }
	u.pub = slices.DeleteFunc(slices.Clone(u.pub), lacks)
	u.sub = slices.DeleteFunc(slices.Clone(u.sub), lacks)
	return u
}

// permDesk authenticates users and sets their permissions. The ordinary reload of a
// server's configuration is not used: in 2.15.2 it races with direct gets.
type permDesk struct {
	mu    sync.Mutex
	users map[string]permUser
}

// Check implements server.Authentication. The admin may do everything.
func (d *permDesk) Check(c server.ClientAuthentication) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	name := c.GetOpts().Username
	user := &server.User{Username: name}
	if name != "admin" {
		u, ok := d.users[name]
		if !ok {
			return false
		}
		user.Permissions = &server.Permissions{Publish: permOnly(u.pub), Subscribe: permOnly(u.sub)}
	}
	c.RegisterUser(user)
	return true
}

// permHost is a server that gives its users only the permissions in its desk.
type permHost struct {
	desk *permDesk
	srv  *server.Server
}

func permServer(t *testing.T, users ...permUser) *permHost {
	t.Helper()
	opts := tcpOptions(t, "")
	h := &permHost{desk: &permDesk{users: make(map[string]permUser)}}
	opts.CustomClientAuthentication = h.desk
	for _, u := range users {
		h.desk.users[u.name] = u
	}
	h.srv = tcpServe(t, opts)
	return h
}

// grant changes the permissions of users. As after a reload, their connections are made
// anew.
func (h *permHost) grant(t *testing.T, users ...permUser) {
	t.Helper()
	h.desk.mu.Lock()
	for _, u := range users {
		h.desk.users[u.name] = u
	}
	h.desk.mu.Unlock()
	conns := check.Got(h.srv.Connz(&server.ConnzOptions{Username: true}))(t)
	for _, c := range conns.Conns {
		for _, u := range users {
			if c.AuthorizedUser == u.name {
				check.OK(t, h.srv.DisconnectClientByID(c.Cid))
			}
		}
	}
}

// permDial connects as the user, with inboxes of its own.
func permDial(t *testing.T, h *permHost, user string) *nats.Conn {
	t.Helper()
	return tcpDial(t, h.srv.ClientURL(), nats.UserInfo(user, "x"), nats.CustomInboxPrefix("_INBOX_"+user))
}

func permJS(t *testing.T, h *permHost, user string) jetstream.JetStream {
	t.Helper()
	return tcpJS(t, permDial(t, h, user))
}

// permBucket makes the bucket E, with either feed.
func permBucket(t *testing.T, h *permHost, watch bool, lease time.Duration) jetstream.JetStream {
	t.Helper()
	js := permJS(t, h, "admin")
	if watch {
		check.Got(js.CreateStream(t.Context(), tcpSealedWithoutFeed(lease)))(t)
	} else {
		tcpCreate(t, js, leader.BucketConfig{MaxLease: lease})
	}
	return js
}

func permFeeds(t *testing.T, test func(t *testing.T, watch bool)) {
	t.Helper()
	for name, watch := range map[string]bool{"republished": false, "with a watch": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, watch)
		})
	}
}

// permDenials fails the test if the server has denied anything to the connection.
func permDenials(t *testing.T, nc *nats.Conn) {
	t.Helper()
	check.OK(t, nc.Flush())
	check.Is(t, nc.LastError(), nil)
}

// The documented permissions are enough, without any others.
func TestPermissions_AreEnough(t *testing.T) {
	t.Parallel()
	permFeeds(t, func(t *testing.T, watch bool) {
		h := permServer(t, permList("a", "a", watch), permList("b", "a", watch), permObserver("o", watch))
		admin := permBucket(t, h, watch, 6*time.Second)
		el := tcpElectionOf(t, "a")
		aConn, bConn, oConn := permDial(t, h, "a"), permDial(t, h, "b"), permDial(t, h, "o")
		a := el.stand(tcpBucket(t, tcpJS(t, aConn)), leader.Config{ID: "a", Value: []byte("1"), TurnTimeout: longTurn})
		term := tcpTerm(a)
		b := el.stand(tcpBucket(t, tcpJS(t, bConn)), leader.Config{ID: "b", Value: []byte("2")})
		b.Expect(leadertest.Observed("a"))
		looksOn := tcpBucket(t, tcpJS(t, oConn))
		holders := check.Got(leader.Observe(t.Context(), looksOn, "a"))(t)
		tcpShows(t, holders, "a", "1")
		tcpRenewed(t, tcpBucket(t, admin), "a", 6) // more than a lease
		check.OK(t, leadertest.Led(a.Candidate).Proclaim(t.Context(), []byte("3")))
		tcpShows(t, holders, "a", "3")
		check.That(t, leader.Err(term.Context()) == nil, "a lost its term: %v", leader.Err(term.Context()))
		check.OK(t, leadertest.Resign(t.Context(), a.Candidate))
		b.Expect(leadertest.Elected())
		tcpShows(t, holders, "b", "2")
		got := check.Got(leader.Lookup(t.Context(), looksOn, "a"))(t)
		check.That(t, got.ID == "b", "Lookup: %v", got)
		check.OK(t, a.Stop())
		check.OK(t, b.Stop())
		for _, c := range []*tcpCandidate{a, b} {
			tcpNoFaults(t, c)
		}
		for _, nc := range []*nats.Conn{aConn, bConn, oConn} {
			permDenials(t, nc)
		}
	})
}

// permFull returns the permissions of a candidate in a roster, with the guard of the bucket "orders",
// that may create the bucket of elections and the roster.
func permFull(name string) permUser {
	u := permRoster(permAnnouncer(permGuard(name), "a"), "a")
	u.pub = append(u.pub, "$JS.API.STREAM.CREATE.KV_E", "$JS.API.STREAM.CREATE.KV_E_roster")
	return u
}

// permGuard returns the permissions of a candidate with the guard of the bucket "orders".
func permGuard(name string) permUser {
	u := permList(name, "a", false)
	u.pub = append(u.pub, "$JS.API.STREAM.INFO.KV_orders", "$JS.API.STREAM.MSG.GET.KV_orders", "$KV.orders."+fence.DefaultGuardKey)
	return u
}

// permObserver returns the permissions that the documentation lists for an observer.
func permObserver(name string, watch bool) permUser {
	return permList(name, "a", watch).without("$KV.E.").without("natsleader.ask")
}

// permOrders makes the guarded bucket "orders", and opens it for a connection.
func permOrders(t *testing.T, admin jetstream.JetStream, nc *nats.Conn) *fence.Bucket {
	t.Helper()
	check.Got(fence.CreateOrUpdateBucket(t.Context(), admin, jetstream.KeyValueConfig{Bucket: "orders"}))(t)
	return check.Got(fence.OpenBucket(tcpJS(t, nc), "orders"))(t)
}

// So are those for a candidate with everything: it creates its bucket and its roster, announces itself
// and raises a guard.
func TestPermissions_AreEnoughForAll(t *testing.T) {
	t.Parallel()
	h := permServer(t, permFull("a"))
	admin := permJS(t, h, "admin")
	nc := permDial(t, h, "a")
	g := permOrders(t, admin, nc)
	b := check.Got(leader.EnsureBucket(tcpJS(t, nc), leader.BucketConfig{Name: "E", MaxLease: time.Second, Roster: true}))(t)
	a := tcpElectionOf(t, "a").stand(b, leader.Config{ID: "a", Queue: &leader.Queue{AtOnce: true}, Guards: []leader.Guard{g}})
	tcpTerm(a)
	tcpRenewed(t, tcpBucket(t, admin), "a", 8) // more than a lease, after which it looks after the guard
	e := check.Got(check.Got(admin.KeyValue(t.Context(), "orders"))(t).Get(t.Context(), fence.DefaultGuardKey))(t)
	check.That(t, strings.Contains(string(e.Value()), `"election":"E/a"`), "the guard is %s", e.Value())
	check.OK(t, a.Stop())
	tcpNoFaults(t, a)
	permDenials(t, nc)
}

// Each permission that is missing is named by its subject. When it is granted, the candidate is elected
// without help. Without a permission for the feed the candidate polls.
func TestPermissions_Missing(t *testing.T) {
	t.Parallel()
	republished, watched, guarded := permList("a", "a", false), permList("a", "a", true), permGuard("a")
	for _, k := range []struct {
		full  permUser
		lacks string // the beginning of the permission
	}{
		{republished, "$JS.API.STREAM.INFO"},
		{republished, "$JS.API.DIRECT.GET"},
		{republished, "$KV.E."},
		{republished, "_INBOX"},
		{republished, "natsleader.feed"},
		{watched, "$JS.API.STREAM.INFO"},
		{watched, "_INBOX"},
		{watched, "$JS.API.CONSUMER.CREATE"},
		{guarded, "$JS.API.STREAM.INFO.KV_orders"},
		{guarded, "$JS.API.STREAM.MSG.GET.KV_orders"},
		{guarded, "$KV.orders."},
	} {
		name := "without " + k.lacks
		watch := slices.Equal(k.full.pub, watched.pub)
		if watch {
			name = "watched, " + name
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			less, missing := k.full.without(k.lacks), ""
			for _, s := range slices.Concat(k.full.pub, k.full.sub) {
				if strings.HasPrefix(s, k.lacks) && !strings.HasSuffix(s, wire.CordonKey) { // it needs no cordon
					missing = `"` + strings.TrimSuffix(s, ">")
				}
			}
			h := permServer(t, less, permList("b", "a", watch))
			admin := permBucket(t, h, watch, 15*time.Second)
			nc := permDial(t, h, "a")
			cfg := leader.Config{ID: "a", TurnTimeout: longTurn}
			prefix := ""
			if len(k.full.pub) > len(republished.pub) && !watch {
				cfg.Guards, prefix = []leader.Guard{permOrders(t, admin, nc)}, "guard of bucket orders: "
			}
			feed := strings.Contains(k.lacks, "feed") || strings.Contains(k.lacks, "CONSUMER")
			el := tcpElectionOf(t, "a")
			a := el.stand(tcpBucket(t, tcpJS(t, nc)), cfg)
			denied := func(e leader.Event) bool {
				f, ok := e.(leader.Faulted)
				return ok && errors.Is(f.Err, leader.ErrPermission) && errors.Is(f.Err, leader.ErrNoFeed) == feed
			}
			a.Expect(leadertest.Match("Faulted that names "+missing, func(e leader.Event) bool {
				text := e.String()
				return denied(e) && strings.Contains(text, missing) && strings.Contains(text, prefix)
			}))
			if !feed {
				check.That(t, a.State() == leader.StateCandidate, "a is %v", a.State())
				h.grant(t, k.full)
				a.Expect(leadertest.Elected())
				return
			}
			tcpEventually(t, "a leads without a feed", a.IsLeader)
			b := el.stand(tcpBucket(t, permJS(t, h, "b")), leader.Config{ID: "b"})
			b.Expect(leadertest.Observed("a"))
			check.OK(t, leadertest.Resign(t.Context(), a.Candidate))
			b.Expect(leadertest.Elected())
			a.Expect(leadertest.Observed("b"))
			check.OK(t, b.Stop())
			a.Expect(leadertest.Elected())
			n := len(slices.DeleteFunc(a.Watcher.Events(), func(e leader.Event) bool { return !denied(e) }))
			check.Equal(t, n, 1, "%d faults") // however often it is tried
		})
	}
}

// CONSUMER.DELETE is for tidiness. Without it, nothing is reported and nothing fails.
func TestPermissions_ConsumerDelete(t *testing.T) {
	t.Parallel()
	h := permServer(t, permList("a", "a", true).without("$JS.API.CONSUMER.DELETE"))
	permBucket(t, h, true, time.Second)
	a := tcpElectionOf(t, "a").stand(tcpBucket(t, permJS(t, h, "a")), leader.Config{})
	tcpTerm(a)
	check.OK(t, a.Stop())
	tcpNoFaults(t, a)
}

// A permission that is taken from a leader fences it in time, and a candidate that has
// the permission takes its place.
func TestPermissions_TakenFromLeader(t *testing.T) {
	t.Parallel()
	full := []permUser{permList("a", "a", false), permList("b", "a", false)}
	h := permServer(t, full...)
	permBucket(t, h, false, 4*time.Second)
	el := tcpElectionOf(t, "a")
	a := el.stand(tcpBucket(t, permJS(t, h, "a")), leader.Config{ID: "a"})
	tcpTerm(a)
	b := el.stand(tcpBucket(t, permJS(t, h, "b")), leader.Config{ID: "b"})
	b.Expect(leadertest.Observed("a"))
	h.grant(t, permObserver("a", false))
	a.Expect(leadertest.Faulted(leader.ErrPermission), leadertest.Fenced(leader.ErrLeaseExpired), leadertest.Deposed(leader.ErrLeaseExpired))
	b.Expect(leadertest.Elected())
	h.grant(t, full[0])
	check.OK(t, b.Stop())
	a.Expect(leadertest.Elected())
}
