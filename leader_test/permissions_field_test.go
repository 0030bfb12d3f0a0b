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

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// without returns the user without the permission that contains the text.
func (u permUser) without(text string) permUser {
	lacks := func(s string) bool { return strings.Contains(s, text) }
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
		check.OK(t, a.Proclaim(t.Context(), []byte("3")))
		tcpShows(t, holders, "a", "3")
		check.That(t, term.Err() == nil, "a lost its term: %v", term.Err())
		check.OK(t, a.Resign(t.Context()))
		b.Expect(leadertest.Elected())
		tcpShows(t, holders, "b", "2")
		got := check.Got(leader.Lookup(t.Context(), looksOn, "a"))(t)
		check.That(t, got.ID == "b", "Lookup: %v", got)
		check.OK(t, a.Stop(t.Context()))
		check.OK(t, b.Stop(t.Context()))
		for _, c := range []*tcpCandidate{a, b} {
			tcpNoFaults(t, c)
		}
		for _, nc := range []*nats.Conn{aConn, bConn, oConn} {
			permDenials(t, nc)
		}
	})
}

// permObserver returns the permissions that the documentation lists for an observer.
func permObserver(name string, watch bool) permUser {
	u := permList(name, "a", watch)
	u.pub = slices.DeleteFunc(u.pub, func(s string) bool { return s == "$KV.E.a" })
	return u.without("natsleader.ask")
}

// Each permission that is missing is named by its subject. When it is granted, the
// candidate is elected without help.
func TestPermissions_Missing(t *testing.T) {
	t.Parallel()
	permFeeds(t, func(t *testing.T, watch bool) {
		type missing struct {
			what, names string
			feed        bool // only the feed needs it: the candidate polls
		}
		cases := []missing{
			{"STREAM.INFO", `"$JS.API.STREAM.INFO.KV_E"`, false},
			{"_INBOX", `"_INBOX_a.`, false},
		}
		if watch {
			cases = append(cases, missing{"CONSUMER.CREATE", `"$JS.API.CONSUMER.CREATE.KV_E.*.$KV.E.a"`, true})
		} else {
			cases = append(cases, missing{"natsleader.feed", `"natsleader.feed.E.a"`, true},
				missing{"DIRECT.GET", `"$JS.API.DIRECT.GET.KV_E.$KV.E.a"`, false},
				missing{"put", `"$KV.E.a"`, false})
		}
		for _, k := range cases {
			t.Run(k.what, func(t *testing.T) {
				t.Parallel()
				full := permList("a", "a", watch)
				less := full.without(k.what)
				if k.what == "put" {
					less = permObserver("a", watch)
				}
				h := permServer(t, less, permList("b", "a", watch))
				permBucket(t, h, watch, 15*time.Second)
				el := tcpElectionOf(t, "a")
				a := el.stand(tcpBucket(t, permJS(t, h, "a")), leader.Config{ID: "a", TurnTimeout: longTurn})
				denied := leadertest.Match("Faulted that names "+k.names, func(e leader.Event) bool {
					f, ok := e.(leader.Faulted)
					return ok && errors.Is(f.Err, leader.ErrPermission) && strings.Contains(f.Err.Error(), k.names) &&
						errors.Is(f.Err, leader.ErrNoFeed) == k.feed
				})
				a.Expect(denied)
				if k.feed {
					defer func() { // reported once, however often it is tried
						n := 0
						for _, e := range a.Watcher.Events() {
							if f, ok := e.(leader.Faulted); ok && errors.Is(f.Err, leader.ErrNoFeed) && errors.Is(f.Err, leader.ErrPermission) {
								n++
							}
						}
						check.That(t, n == 1, "%d faults, want one", n)
					}()
					tcpEventually(t, "a leads without a feed", a.IsLeader)
					// It learns of another holder by polling.
					b := el.stand(tcpBucket(t, permJS(t, h, "b")), leader.Config{ID: "b"})
					b.Expect(leadertest.Observed("a"))
					check.OK(t, a.Resign(t.Context()))
					b.Expect(leadertest.Elected())
					a.Expect(leadertest.Observed("b"))
					check.OK(t, b.Stop(t.Context()))
					a.Expect(leadertest.Elected())
					return
				}
				check.That(t, a.State() == leader.StateCandidate, "a is %v", a.State())
				h.grant(t, full)
				a.Expect(leadertest.Elected())
			})
		}
	})
}

// CONSUMER.DELETE is for tidiness. Without it, nothing is reported and nothing fails.
func TestPermissions_ConsumerDelete(t *testing.T) {
	t.Parallel()
	h := permServer(t, permList("a", "a", true).without("CONSUMER.DELETE"))
	permBucket(t, h, true, time.Second)
	a := tcpElectionOf(t, "a").stand(tcpBucket(t, permJS(t, h, "a")), leader.Config{})
	tcpTerm(a)
	check.OK(t, a.Stop(t.Context()))
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
	check.OK(t, b.Stop(t.Context()))
	a.Expect(leadertest.Elected())
}
