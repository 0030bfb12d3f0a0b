package leader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// permUser is a user of the test's server and all that it may do.
type permUser struct {
	name     string
	pub, sub []string
}

// permList is what the package documentation lists for a candidate in the
// election of the bucket E, with its inboxes.
func permList(name, election string, watch bool) permUser {
	u := permUser{
		name: name,
		pub: []string{
			"$JS.API.STREAM.INFO.KV_E",
			"$JS.API.DIRECT.GET.KV_E.$KV.E." + election,
			"$KV.E." + election,
		},
		sub: []string{"_INBOX_" + name + ".>", "natsleader.ask.E." + election},
	}
	if watch {
		u.pub = append(u.pub, "$JS.API.CONSUMER.CREATE.KV_E.*.$KV.E."+election, "$JS.API.CONSUMER.DELETE.KV_E.*")
	} else {
		u.sub = append(u.sub, "natsleader.feed.E."+election)
	}
	return u
}

// without is the user without the permission that contains the text.
func (u permUser) without(text string) permUser {
	lacks := func(s string) bool { return strings.Contains(s, text) }
	u.pub = slices.DeleteFunc(slices.Clone(u.pub), lacks)
	u.sub = slices.DeleteFunc(slices.Clone(u.sub), lacks)
	return u
}

// permDesk lets users in and says what they may do. An ordinary reload of a
// server's configuration is not used: that of 2.15.2 races with direct gets.
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

func permOnly(subjects []string) *server.SubjectPermission {
	if len(subjects) == 0 {
		return &server.SubjectPermission{Deny: []string{">"}}
	}
	return &server.SubjectPermission{Allow: subjects}
}

// permHost is a server whose users may do what they are told, and no more.
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

// grant changes what users may do. As after a reload, their connections are
// made anew.
func (h *permHost) grant(t *testing.T, users ...permUser) {
	t.Helper()
	h.desk.mu.Lock()
	for _, u := range users {
		h.desk.users[u.name] = u
	}
	h.desk.mu.Unlock()
	conns, err := h.srv.Connz(&server.ConnzOptions{Username: true})
	tcpOK(t, err)
	for _, c := range conns.Conns {
		for _, u := range users {
			if c.AuthorizedUser == u.name {
				tcpOK(t, h.srv.DisconnectClientByID(c.Cid))
			}
		}
	}
}

// permDial connects as the user, whose inboxes are its own.
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
		_, err := js.CreateStream(t.Context(), tcpSealedWithoutFeed(lease))
		tcpOK(t, err)
	} else {
		tcpCreate(t, js, leader.BucketConfig{MaxLease: lease})
	}
	return js
}

func permFeeds(t *testing.T, test func(t *testing.T, watch bool)) {
	t.Helper()
	t.Run("republished", func(t *testing.T) { test(t, false) })
	t.Run("with a watch", func(t *testing.T) { test(t, true) })
}

// permDenials fails the test if the server has denied anything to the
// connection.
func permDenials(t *testing.T, nc *nats.Conn) {
	t.Helper()
	tcpOK(t, nc.Flush())
	if err := nc.LastError(); err != nil {
		t.Errorf("%v", err)
	}
}

// permNoFaults fails the test if the candidate was told of a fault.
func permNoFaults(t *testing.T, c *tcpCandidate) {
	t.Helper()
	for _, e := range c.Watcher.Events() {
		if e, ok := e.(leader.Faulted); ok {
			t.Errorf("%s: %v", c.ID(), e)
		}
	}
}

// The documented permissions, and nothing else, are enough.
func TestPermissionsThatAreDocumentedAreEnough(t *testing.T) {
	permFeeds(t, func(t *testing.T, watch bool) {
		h := permServer(t, permList("a", "a", watch), permList("b", "a", watch), permObserver("o", watch))
		admin := permBucket(t, h, watch, time.Second)
		el := tcpElectionOf(t, "a")
		aConn, bConn, oConn := permDial(t, h, "a"), permDial(t, h, "b"), permDial(t, h, "o")
		a := el.stand(tcpBucket(t, tcpJS(t, aConn)), leader.Config{ID: "a", Value: []byte("1")})
		term := tcpTerm(a)
		b := el.stand(tcpBucket(t, tcpJS(t, bConn)), leader.Config{ID: "b", Value: []byte("2")})
		b.Expect(leadertest.Observed("a"))
		looksOn := tcpBucket(t, tcpJS(t, oConn))
		holders, err := leader.Observe(t.Context(), looksOn, "a")
		tcpOK(t, err)
		tcpShows(t, holders, "a", "1")
		tcpRenewed(t, tcpBucket(t, admin), "a", 8) // more than a lease
		tcpOK(t, a.Proclaim(t.Context(), []byte("3")))
		tcpShows(t, holders, "a", "3")
		if term.Err() != nil {
			t.Errorf("a lost its term: %v", term.Err())
		}
		tcpOK(t, a.Resign(t.Context()))
		b.Expect(leadertest.Elected())
		tcpShows(t, holders, "b", "2")
		got, err := leader.Lookup(t.Context(), looksOn, "a")
		tcpOK(t, err)
		if got.ID != "b" {
			t.Errorf("Lookup: %v", got)
		}
		tcpOK(t, a.Stop(t.Context()))
		tcpOK(t, b.Stop(t.Context()))
		for _, c := range []*tcpCandidate{a, b} {
			permNoFaults(t, c)
		}
		for _, nc := range []*nats.Conn{aConn, bConn, oConn} {
			permDenials(t, nc)
		}
	})
}

// permObserver is what the documentation lists for an observer.
func permObserver(name string, watch bool) permUser {
	u := permList(name, "a", watch)
	u.pub = slices.DeleteFunc(u.pub, func(s string) bool { return s == "$KV.E.a" })
	return u.without("natsleader.ask")
}

// Each permission that is missing is told by its subject, and when it is
// granted the candidate gets there by itself.
func TestPermissionsThatAreMissingAreNamed(t *testing.T) {
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
				full := permList("a", "a", watch)
				less := full.without(k.what)
				if k.what == "put" {
					less = permObserver("a", watch)
				}
				h := permServer(t, less, permList("b", "a", watch))
				permBucket(t, h, watch, 1500*time.Millisecond)
				el := tcpElectionOf(t, "a")
				a := el.stand(tcpBucket(t, permJS(t, h, "a")), leader.Config{ID: "a", LeaseDuration: 1500 * time.Millisecond})
				denied := leadertest.Match("Faulted that names "+k.names, func(e leader.Event) bool {
					f, ok := e.(leader.Faulted)
					return ok && errors.Is(f.Err, leader.ErrPermission) && strings.Contains(f.Err.Error(), k.names) &&
						errors.Is(f.Err, leader.ErrNoFeed) == k.feed
				})
				a.Expect(denied)
				if k.feed {
					defer func() { // told once, however often it is tried
						n := 0
						for _, e := range a.Watcher.Events() {
							if f, ok := e.(leader.Faulted); ok && errors.Is(f.Err, leader.ErrNoFeed) {
								n++
							}
						}
						if n != 1 {
							t.Errorf("%d faults, want one", n)
						}
					}()
					tcpEventually(t, "a leads without a feed", a.IsLeader)
					// It hears of another by polling.
					b := el.stand(tcpBucket(t, permJS(t, h, "b")), leader.Config{ID: "b"})
					tcpOK(t, a.Resign(t.Context()))
					b.Expect(leadertest.Elected())
					a.Expect(leadertest.Observed("b"))
					tcpOK(t, b.Stop(t.Context()))
					a.Expect(leadertest.Elected())
					return
				}
				if a.State() != leader.StateCandidate {
					t.Errorf("a is %v", a.State())
				}
				h.grant(t, full)
				a.Expect(leadertest.Elected())
			})
		}
	})
}

// CONSUMER.DELETE is tidiness: without it nothing is told and nothing fails.
func TestPermissionsToDeleteConsumersAreNotNeededToStop(t *testing.T) {
	h := permServer(t, permList("a", "a", true).without("CONSUMER.DELETE"))
	permBucket(t, h, true, time.Second)
	a := tcpElectionOf(t, "a").stand(tcpBucket(t, permJS(t, h, "a")), leader.Config{})
	tcpTerm(a)
	tcpOK(t, a.Stop(t.Context()))
	permNoFaults(t, a)
}

// A permission that is taken from a leader fences it in time, and its place is
// taken by one who has it.
func TestPermissionsTakenFromALeader(t *testing.T) {
	full := []permUser{permList("a", "a", false), permList("b", "a", false)}
	h := permServer(t, full...)
	permBucket(t, h, false, time.Second)
	el := tcpElectionOf(t, "a")
	a := el.stand(tcpBucket(t, permJS(t, h, "a")), leader.Config{ID: "a"})
	tcpTerm(a)
	b := el.stand(tcpBucket(t, permJS(t, h, "b")), leader.Config{ID: "b"})
	b.Expect(leadertest.Observed("a"))
	h.grant(t, permObserver("a", false))
	a.Expect(leadertest.Faulted(leader.ErrPermission), leadertest.Fenced(leader.ErrLeaseExpired), leadertest.Deposed(leader.ErrLeaseExpired))
	b.Expect(leadertest.Elected())
	h.grant(t, full[0])
	tcpOK(t, b.Stop(t.Context()))
	a.Expect(leadertest.Elected())
}

// permAttacker tries everything that a client might, with the permissions of a
// candidate for a.
type permAttacker struct {
	*testing.T
	nc *nats.Conn
	js jetstream.JetStream
}

// request returns the reply, or nil if none comes.
func (p *permAttacker) request(subject, body string, headers ...string) *nats.Msg {
	p.Helper()
	m := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{}}
	for i := 0; i+1 < len(headers); i += 2 {
		m.Header.Set(headers[i], headers[i+1])
	}
	ctx, cancel := context.WithTimeout(p.Context(), 200*time.Millisecond)
	defer cancel()
	reply, err := p.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return nil
	}
	return reply
}

const permSecret = "the address of b"

// reads fails the test if the reply tells what b has published.
func (p *permAttacker) reads(reply *nats.Msg, how string) {
	p.Helper()
	if reply != nil && strings.Contains(string(reply.Data), permSecret) {
		p.Errorf("a reads b by %s: %s", how, reply.Data)
	}
}

// In a sealed bucket a client that may campaign for a cannot read, write, wipe
// or hear b.
func TestPermissionsForOneElectionAreNoneForAnother(t *testing.T) {
	permFeeds(t, func(t *testing.T, watch bool) {
		h := permServer(t, permList("a", "a", watch), permList("b", "b", watch))
		admin := permBucket(t, h, watch, time.Second)
		holder := tcpElectionOf(t, "b").stand(tcpBucket(t, permJS(t, h, "b")), leader.Config{ID: "b", Value: []byte(permSecret)})
		term := tcpTerm(holder)
		tcpTerm(tcpElectionOf(t, "a").stand(tcpBucket(t, permJS(t, h, "a")), leader.Config{ID: "a"}))
		p := &permAttacker{T: t, nc: permDial(t, h, "a")}
		p.js = tcpJS(t, p.nc)

		// Hear.
		heard := make(chan *nats.Msg, 1000)
		for _, subject := range []string{
			"natsleader.feed.E.b", "natsleader.feed.E.*", "natsleader.feed.>", "$KV.E.b", "$KV.>", ">", "_INBOX_b.>", "$JS.ACK.>",
		} {
			_, err := p.nc.ChanSubscribe(subject, heard)
			tcpOK(t, err)
		}
		// Read.
		p.reads(p.request("$JS.API.DIRECT.GET.KV_E.$KV.E.b", ""), "a direct get")
		p.reads(p.request("$JS.API.DIRECT.GET.KV_E", `{"last_by_subj":"$KV.E.b"}`), "a direct get")
		p.reads(p.request("$JS.API.STREAM.MSG.GET.KV_E", `{"last_by_subj":"$KV.E.b"}`), "a get")
		for _, body := range []string{
			`{"last_by_subj":"$KV.E.b"}`, `{"seq":1}`, `{"seq":1,"next_by_subj":"$KV.E.b"}`,
			`{"multi_last":["$KV.E.b"]}`, `{"multi_last":["$KV.E.>"],"batch":10}`, `{"batch":10,"seq":1}`,
		} {
			p.reads(p.request("$JS.API.DIRECT.GET.KV_E.$KV.E.a", body), "a direct get of a with "+body)
		}
		if _, err := leader.Lookup(permSoon(t), tcpBucket(t, p.js), "b"); !errors.Is(err, leader.ErrPermission) {
			t.Errorf("Lookup of b: %v", err)
		}
		inbox := "_INBOX_a.heard"
		_, err := p.nc.ChanSubscribe(inbox, heard)
		tcpOK(t, err)
		for i, filter := range []string{`"filter_subject":"$KV.E.b"`, `"filter_subject":"$KV.E.>"`, `"filter_subjects":["$KV.E.b","$KV.E.a"]`, `"filter_subject":""`} {
			name := fmt.Sprintf("spy%d", i)
			p.request("$JS.API.CONSUMER.CREATE.KV_E."+name+".$KV.E.a",
				`{"stream_name":"KV_E","config":{"name":"`+name+`","deliver_subject":"`+inbox+`","deliver_policy":"all","ack_policy":"none",`+filter+`}}`)
		}
		// Write, and wipe.
		p.request("$KV.E.b", "x")
		for _, header := range [][]string{
			{"Nats-Rollup", "all"},
			{"Nats-Rollup", "sub"},
			{"KV-Operation", "PURGE"},
			{"KV-Operation", "PURGE", "Nats-Rollup", "sub"},
			{"KV-Operation", "PURGE", "Nats-Rollup", "all"},
			{"Nats-TTL", "1s"},
			{"Nats-Schedule", "@every 1s", "Nats-Schedule-Target", "$KV.E.b"},
			{"Nats-Incr", "1"},
			{"Nats-Batch-Id", "x", "Nats-Batch-Sequence", "1", "Nats-Batch-Commit", "1"},
			{"Nats-Subject", "$KV.E.b", "Nats-Stream", "KV_E", "Nats-Sequence", "1000000"},
			{"Nats-Marker-Reason", "Purge"},
		} {
			p.request("$KV.E.a", "x", header...)
		}
		for _, api := range []string{"STREAM.PURGE.KV_E", "STREAM.DELETE.KV_E", "STREAM.UPDATE.KV_E", "STREAM.RESTORE.KV_E", "STREAM.SNAPSHOT.KV_E"} {
			p.request("$JS.API."+api, `{}`)
		}
		p.request("$JS.API.STREAM.MSG.DELETE.KV_E", fmt.Sprintf(`{"seq":%d}`, 1))
		p.request("natsleader.feed.E.b", "x")
		tcpOK(t, p.nc.Flush())

		tcpRenewed(t, tcpBucket(t, admin), "b", 8)
		if term.Err() != nil {
			t.Errorf("b lost its term: %v", term.Err())
		}
		permNoFaults(t, holder)
		tcpOK(t, p.nc.Flush())
		for len(heard) > 0 {
			m := <-heard
			if strings.Contains(string(m.Data), permSecret) || strings.HasSuffix(m.Subject, ".b") {
				t.Errorf("a hears b on %s: %s", m.Subject, m.Data)
			}
		}
		// Not even with every permission is it purged, or a message deleted.
		s, err := admin.Stream(t.Context(), "KV_E")
		tcpOK(t, err)
		if err := s.Purge(t.Context()); err == nil {
			t.Error("the stream was purged")
		}
		if err := s.DeleteMsg(t.Context(), 1); err == nil {
			t.Error("a message was deleted")
		}
	})
}

func permSoon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// What is documented of a bucket that is not sealed: the header Nats-Rollup
// wipes other elections. The promise of one leader holds all the same: the
// leader finds out, and whoever takes the key waits for one unknown lease.
func TestPermissionsInAnUnsealedBucketLetOneWipeAnother(t *testing.T) {
	h := permServer(t, permList("a", "a", false), permList("b", "b", false))
	tcpCreate(t, permJS(t, h, "admin"), leader.BucketConfig{MaxLease: time.Second, TTL: 3 * time.Second})
	el := tcpElectionOf(t, "b")
	b := el.stand(tcpBucket(t, permJS(t, h, "b")), leader.Config{ID: "b"})
	tcpTerm(b)
	p := &permAttacker{T: t, nc: permDial(t, h, "a")}
	if reply := p.request("$KV.E.a", "x", "Nats-Rollup", "all"); reply == nil || strings.Contains(string(reply.Data), "error") {
		t.Fatalf("the roll-up was refused: the documentation promises less than there is: %v", reply)
	}
	b.Expect(leadertest.Deposed(leader.ErrDeleted), leadertest.Pending(), leadertest.Elected())
}

// The inboxes of one prefix are open to all who share it: with the default one
// a client may listen to the replies to another.
func TestPermissionsToSharedInboxesLetOneReadAnother(t *testing.T) {
	shared := func(u permUser) permUser {
		u.sub = append(u.sub, "_INBOX.>")
		return u
	}
	h := permServer(t, shared(permList("a", "a", false)), shared(permList("b", "b", false)))
	permBucket(t, h, false, time.Second)
	spy := permDial(t, h, "a")
	heard := make(chan *nats.Msg, 1000)
	_, err := spy.ChanSubscribe("_INBOX.>", heard)
	tcpOK(t, err)
	tcpOK(t, spy.Flush())
	nc := tcpDial(t, h.srv.ClientURL(), nats.UserInfo("b", "x"))
	b := tcpElectionOf(t, "b").stand(tcpBucket(t, tcpJS(t, nc)), leader.Config{Value: []byte(permSecret)})
	tcpTerm(b)
	_, err = leader.Lookup(t.Context(), tcpBucket(t, tcpJS(t, nc)), "b")
	tcpOK(t, err)
	tcpEventually(t, "a hears the reply to b", func() bool {
		select {
		case m := <-heard:
			return strings.Contains(string(m.Data), permSecret)
		default:
			return false
		}
	})
}

// Who may create a consumer may have the server deliver what it likes to any
// subject, also to the feed of another election, with headers of its own. Such a
// message keeps the subject that it was stored under, and is nobody's feed.
func TestPermissionsToCreateConsumersForgeNoFeed(t *testing.T) {
	h := permServer(t, permList("a", "a", true), permList("b", "b", false))
	admin := permBucket(t, h, false, time.Second)
	el := tcpElectionOf(t, "b")
	holder := el.stand(tcpBucket(t, permJS(t, h, "b")), leader.Config{ID: "b"})
	term := tcpTerm(holder)
	waiter := el.stand(tcpBucket(t, permJS(t, h, "b")), leader.Config{ID: "c"})
	waiter.Expect(leadertest.Observed("b"))
	forged := make(chan struct{}, 100)
	_, err := admin.Conn().Subscribe("natsleader.feed.E.b", func(m *nats.Msg) {
		if strings.Contains(string(m.Data), "mallory") {
			forged <- struct{}{}
		}
	})
	tcpOK(t, err)
	tcpOK(t, admin.Conn().Flush())

	p := &permAttacker{T: t, nc: permDial(t, h, "a")}
	p.request("$KV.E.a", `{"v":1,"state":"leading","id":"mallory","session":"m","n":1,"lease":"1s","token":1000}`,
		"Nats-Subject", "$KV.E.b", "Nats-Stream", "KV_E", "Nats-Sequence", "1000000", "Nats-Time-Stamp", time.Now().Format(time.RFC3339Nano))
	p.request("$JS.API.CONSUMER.CREATE.KV_E.spy.$KV.E.a", `{"stream_name":"KV_E","config":{"name":"spy",
		"deliver_subject":"natsleader.feed.E.b","deliver_policy":"all","ack_policy":"none","filter_subject":"$KV.E.a"}}`)
	select {
	case <-forged:
	case <-time.After(tcpLimit):
		t.Fatal("the server does not deliver the forged message")
	}
	// The server answers to any subject, too, but with its own headers.
	tcpOK(t, p.nc.PublishRequest("$JS.API.DIRECT.GET.KV_E.$KV.E.a", "natsleader.feed.E.b", nil))
	<-forged
	tcpRenewed(t, tcpBucket(t, admin), "b", 3)
	if got, ok := waiter.Leader(); !ok || got.ID != "b" || got.Token != term.Token() {
		t.Errorf("c believes that %v", got)
	}
	for _, e := range waiter.Watcher.Events() {
		if o, ok := e.(leader.Observed); ok && o.Holder.ID != "b" {
			t.Errorf("c: %v", e)
		}
	}
}
