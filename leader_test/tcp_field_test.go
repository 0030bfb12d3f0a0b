//go:build field

package leader_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// tcpLong is a lease so long that a candidate that has to read the key by itself is too
// late for tcpLimit. An event in time shows that a message was received.
const tcpLong = time.Hour

// tcpHandover elects a, hands over to b, and back when b stops.
func tcpHandover(t *testing.T, a, b func() *leader.Bucket, cfg leader.Config) {
	t.Helper()
	el := tcpElectionOf(t, "shards.17")
	cfg.ID, cfg.Value, cfg.TurnTimeout = "a", []byte("10.0.0.1"), longTurn
	first := el.stand(a(), cfg)
	first.Expect(leadertest.Pending(), leadertest.Elected())
	store := b()
	holders := check.Got(leader.Observe(t.Context(), store, el.name))(t)
	tcpShows(t, holders, "a", "10.0.0.1")

	cfg.ID, cfg.Value = "b", []byte("10.0.0.2")
	second := el.stand(store, cfg)
	second.Expect(leadertest.Observed("a"))
	check.OK(t, leadertest.Led(first.Candidate).Proclaim(t.Context(), []byte("10.0.0.3")))
	tcpShows(t, holders, "a", "10.0.0.3")

	check.OK(t, leadertest.Resign(t.Context(), first.Candidate))
	first.Expect(leadertest.Deposed(leader.ErrResigned))
	term := tcpTerm(second)
	tcpShows(t, holders, "b", "10.0.0.2")
	first.Expect(leadertest.Observed("b"))
	h := check.Got(leader.Lookup(t.Context(), store, el.name))(t)
	check.That(t, h.ID == "b" && h.Token == term.Token() && h.State == leader.HolderLeading,
		"Lookup: %v, want b with token %d", h, term.Token())
	s := second.Leader()
	check.That(t, s.ID == "b" && s.Token == term.Token(), "b believes %v", s)
	check.OK(t, second.Stop())
	second.Expect(leadertest.Deposed(leader.ErrStopped))
}

// tcpTakeover elects a, and b when a stops. Candidate b receives no changes. So it may look at the
// key too late to take it from a candidate that resigned, and campaigns again.
func tcpTakeover(t *testing.T, a, b *leader.Bucket) {
	t.Helper()
	el := tcpElectionOf(t, "shards.17")
	first := el.stand(a, leader.Config{ID: "a"})
	first.Expect(leadertest.Pending(), leadertest.Elected())
	holders := check.Got(leader.Observe(t.Context(), b, el.name))(t)
	tcpShows(t, holders, "a", "")
	second := el.stand(b, leader.Config{ID: "b"})
	second.Expect(leadertest.Observed("a"), leadertest.Faulted(leader.ErrNoFeed))
	check.OK(t, leadertest.Led(first.Candidate).Proclaim(t.Context(), []byte("10.0.0.3")))
	tcpShows(t, holders, "a", "10.0.0.3")
	check.OK(t, first.Stop())
	first.Expect(leadertest.Deposed(leader.ErrStopped))
	second.Expect(leadertest.Elected())
	tcpShows(t, holders, "b", "")
	check.OK(t, second.Stop())
}

// tcpShows waits until the observer reports that holder.
func tcpShows(t *testing.T, holders <-chan leader.Holder, id, value string) {
	t.Helper()
	limit := time.NewTimer(tcpLimit)
	defer limit.Stop()
	for {
		select {
		case h := <-holders:
			if h.ID == id && string(h.Value) == value && h.State == leader.HolderLeading {
				return
			}
		case <-limit.C:
			t.Fatalf("the observer does not see %s", id)
		}
	}
}

// A leader hands over on every transport and storage.
func TestTCP_TransportsAndStorage(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	for _, tr := range []struct {
		name string
		opts func(*server.Options)
		dial func(t *testing.T, s *server.Server) *nats.Conn
	}{
		{"TCP", func(*server.Options) {}, func(t *testing.T, s *server.Server) *nats.Conn {
			return tcpDial(t, s.ClientURL())
		}},
		{"TLS", func(o *server.Options) {
			o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{ca.server()}}
			o.TLS = true
		}, func(t *testing.T, s *server.Server) *nats.Conn {
			nc := tcpDial(t, s.ClientURL(), ca.secure())
			check.Got(nc.TLSConnectionState())(t)
			return nc
		}},
		{"WebSocket", func(o *server.Options) {
			o.Websocket = server.WebsocketOpts{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoTLS: true}
		}, func(t *testing.T, s *server.Server) *nats.Conn {
			return tcpDial(t, s.WebsocketURL())
		}},
		{"in process", func(o *server.Options) { o.DontListen = true }, func(t *testing.T, s *server.Server) *nats.Conn {
			return tcpDial(t, "", nats.InProcessServer(s))
		}},
	} {
		for _, storage := range []jetstream.StorageType{jetstream.MemoryStorage, jetstream.FileStorage} {
			t.Run(fmt.Sprintf("%s in %s", tr.name, storage), func(t *testing.T) {
				t.Parallel()
				opts := tcpOptions(t, "")
				tr.opts(opts)
				s := tcpServe(t, opts)
				tcpCreate(t, tcpJS(t, tr.dial(t, s)), leader.BucketConfig{Storage: storage, MaxLease: tcpLong})
				open := func() *leader.Bucket { return tcpBucket(t, tcpJS(t, tr.dial(t, s))) }
				tcpHandover(t, open, open, leader.Config{})
			})
		}
	}
}

// A leader hands over in a JetStream domain.
func TestTCP_Domain(t *testing.T) {
	t.Parallel()
	domain := func(t *testing.T, url string) jetstream.JetStream {
		return check.Got(jetstream.NewWithDomain(tcpDial(t, url), "hub"))(t)
	}
	for _, k := range []struct {
		name  string
		watch bool
	}{{"republished", false}, {"with a watch", true}} {
		create := func(t *testing.T, js jetstream.JetStream) leader.Config {
			if !k.watch {
				tcpCreate(t, js, leader.BucketConfig{MaxLease: tcpLong})
				return leader.Config{}
			}
			check.Got(js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "E"}))(t)
			return leader.Config{LeaseDuration: 6 * time.Second}
		}
		t.Run(k.name+" on the same server", func(t *testing.T) {
			t.Parallel()
			s := tcpServe(t, tcpOptions(t, `jetstream { domain: hub }`))
			cfg := create(t, domain(t, s.ClientURL()))
			open := func() *leader.Bucket { return tcpBucket(t, domain(t, s.ClientURL())) }
			tcpHandover(t, open, open, cfg)
		})
		t.Run(k.name+" across a leaf node", func(t *testing.T) {
			t.Parallel()
			hub := tcpOptions(t, `server_name: hub, jetstream { domain: hub }, leafnodes { host: 127.0.0.1, port: -1 }`)
			h := tcpServe(t, hub)
			leaf := tcpServe(t, tcpOptions(t, fmt.Sprintf(`server_name: leaf, jetstream { domain: leaf }
				leafnodes { reconnect: "1s", remotes: [ { url: "nats-leaf://127.0.0.1:%d" } ] }`, tcpLeafPort(t, h))))
			tcpEventually(t, "the leaf is connected", func() bool { return h.NumLeafNodes() == 1 && leaf.NumLeafNodes() == 1 })
			cfg := create(t, tcpJS(t, tcpDial(t, h.ClientURL())))
			near := func() *leader.Bucket { return tcpBucket(t, tcpJS(t, tcpDial(t, h.ClientURL()))) }
			far := func() *leader.Bucket { return tcpBucket(t, domain(t, leaf.ClientURL())) }
			tcpHandover(t, near, far, cfg)
		})
	}
}

func tcpLeafPort(t *testing.T, s *server.Server) int {
	t.Helper()
	v := check.Got(s.Varz(nil))(t)
	return v.LeafNode.Port
}

// tcpAccounts starts a server with two accounts. HUB has the bucket. APP imports the
// JetStream API with the prefix P, and the feed as given.
func tcpAccounts(t *testing.T, feed string) *server.Server {
	t.Helper()
	return tcpServe(t, tcpOptions(t, `
		accounts {
			HUB {
				jetstream: enabled
				users: [ { user: hub, password: x } ]
				exports: [ { service: "$JS.API.>", response: stream }, { service: "$KV.E.>" }, { stream: "natsleader.feed.>" } ]
			}
			APP {
				users: [ { user: app, password: x } ]
				imports: [
					{ service: { account: HUB, subject: "$JS.API.STREAM.>" }, to: "P.STREAM.>" }
					{ service: { account: HUB, subject: "$JS.API.DIRECT.>" }, to: "P.DIRECT.>" }
					{ service: { account: HUB, subject: "$KV.E.>" }, to: "P.$KV.E.>" }
					`+feed+`
				]
			}
		}`))
}

// A leader hands over with a prefix of the JetStream API.
func TestTCP_APIPrefix(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		name, feed string
		subject    string // of the feed, if it is given
		heard      bool
	}{
		{"feed imported", `{ stream: { account: HUB, subject: "natsleader.feed.>" } }`, "", true},
		{
			"feed imported with a prefix",
			`{ stream: { account: HUB, subject: "natsleader.feed.>" }, prefix: "from.hub" }`,
			"from.hub.natsleader.feed.E",
			true,
		},
		{
			"feed imported to another subject",
			`{ stream: { account: HUB, subject: "natsleader.feed.E.>" }, to: "other.>" }`,
			"other",
			true,
		},
		{"feed not imported", "", "", false},
	} {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := tcpAccounts(t, k.feed)
			hub := tcpJS(t, tcpDial(t, s.ClientURL(), nats.UserInfo("hub", "x")))
			cfg := leader.BucketConfig{MaxLease: tcpLong}
			if !k.heard {
				cfg.MaxLease = 10 * time.Second
			}
			tcpCreate(t, hub, cfg)
			prefixed := func() jetstream.JetStream {
				js, err := jetstream.NewWithAPIPrefix(tcpDial(t, s.ClientURL(), nats.UserInfo("app", "x")), "P")
				check.OK(t, err)
				return js
			}
			if !k.heard {
				tcpTakeover(t, tcpBucket(t, hub), tcpBucket(t, prefixed()))
				return
			}
			tcpHandover(t,
				func() *leader.Bucket { return tcpBucket(t, hub) },
				func() *leader.Bucket {
					b := tcpBucket(t, prefixed())
					if k.subject == "" {
						return b
					}
					b = check.Got(b.WithFeedSubject(k.subject))(t)
					return b
				},
				leader.Config{})
		})
	}
}

// The first connection fails, and the bucket appears later. Fault 18 of docs/faults.md.
func TestTCPFault18_LateServerAndBucket(t *testing.T) {
	t.Parallel()
	opts := tcpOptions(t, "")
	opts.Port = tcpFreePorts(t, 1)[0]
	host := tcpHostOf(t, opts)
	nc := tcpDial(t, fmt.Sprintf("nats://127.0.0.1:%d", opts.Port), nats.RetryOnFailedConnect(true))
	check.Must(t, !nc.IsConnected(), "there is a server already")
	js := tcpJS(t, nc)
	c := tcpElectionOf(t, "e").stand(tcpBucket(t, js), leader.Config{LeaseDuration: 5 * time.Second})
	holders := check.Got(leader.Observe(t.Context(), tcpBucket(t, js), "e"))(t)
	c.Expect(leadertest.Faulted(leader.ErrUnreachable))
	if s := c.State(); s != leader.StateCandidate || c.IsLeader() {
		t.Errorf("it is %v", s)
	}
	s := host.up()
	c.Expect(leadertest.Faulted(leader.ErrNoBucket))
	tcpCreate(t, tcpJS(t, tcpDial(t, s.ClientURL())), leader.BucketConfig{})
	c.Expect(leadertest.Elected())
	tcpShows(t, holders, c.ID(), "")
}

// Without RetryOnFailedConnect there is no connection to give to the library. With it,
// a candidate may also be stopped before there is any server.
func TestTCPFault01_StopBeforeServer(t *testing.T) {
	t.Parallel()
	nc := tcpDial(t, fmt.Sprintf("nats://127.0.0.1:%d", tcpFreePorts(t, 1)[0]), nats.RetryOnFailedConnect(true))
	c := tcpElectionOf(t, "e").stand(tcpBucket(t, tcpJS(t, nc)), leader.Config{})
	c.Expect(leadertest.Faulted(leader.ErrUnreachable))
	check.OK(t, c.Stop())
	<-c.Done()
	check.That(t, c.Err() == nil, "%v", c.Err())
}

// Fault 16 of docs/faults.md: same store, same port, same connections, same
// candidates.
func TestTCPFault16_ServerRestarts(t *testing.T) {
	t.Parallel()
	for _, k := range []struct {
		name  string
		lease time.Duration
		keeps bool
	}{
		{"within the lease", 15 * time.Second, true},
		{"after the lease", 2 * time.Second, false},
	} {
		for _, feed := range []string{"republished", "with a watch"} {
			t.Run(k.name+" "+feed, func(t *testing.T) {
				t.Parallel()
				opts := tcpOptions(t, "")
				opts.Port = tcpFreePorts(t, 1)[0]
				host := tcpHostOf(t, opts)
				s := host.up()
				js := tcpJS(t, tcpDial(t, s.ClientURL()))
				cfg := leader.Config{LeaseDuration: k.lease, TurnTimeout: min(longTurn, k.lease*3/4)}
				if feed == "republished" {
					tcpCreate(t, js, leader.BucketConfig{MaxLease: k.lease})
				} else {
					check.Got(js.CreateStream(t.Context(), tcpSealedWithoutFeed(k.lease)))(t)
				}
				open := func() *leader.Bucket { return tcpBucket(t, tcpJS(t, tcpDial(t, s.ClientURL()))) }
				a, b, term := tcpElectionOf(t, "e").pair(open(), open(), cfg)

				host.down()
				if !k.keeps {
					a.Expect(leadertest.Fenced(leader.ErrLeaseExpired))
					check.Is(t, leader.Err(term.Context()), leader.ErrLeaseExpired)
				}
				host.up()
				if k.keeps {
					tcpRenewed(t, tcpBucket(t, js), "e", 2)
					check.That(t, leader.Err(term.Context()) == nil, "a lost its term: %v", leader.Err(term.Context()))
				} else {
					tcpEventually(t, "one leads again", func() bool { return a.IsLeader() || b.IsLeader() })
				}
				// They still receive each other's changes.
				from, to := a, b
				if b.IsLeader() {
					from, to = b, a
				}
				tcpEventually(t, "the other knows", func() bool { h := to.Leader(); return h.ID == from.ID() })
				check.OK(t, leadertest.Resign(t.Context(), from.Candidate))
				to.Expect(leadertest.Elected())
			})
		}
	}
}

// tcpSealedWithoutFeed is a purge-protected bucket E in which an empty key may be led
// at once, but which republishes nothing.
func tcpSealedWithoutFeed(lease time.Duration) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "KV_E", Subjects: []string{"$KV.E.>"}, MaxMsgsPerSubject: 1, AllowDirect: true,
		DenyDelete: true, DenyPurge: true, Discard: jetstream.DiscardNew,
		Metadata: map[string]string{"natsleader.max_lease": lease.String()},
	}
}

// JetStream may be off on the server, or for the account.
func TestErrorTexts_NoJetStream(t *testing.T) {
	t.Parallel()
	off := tcpOptions(t, "")
	off.JetStream = false
	account := tcpOptions(t, `accounts { A { jetstream: enabled }, B { users: [ { user: b, password: x } ] } }`)
	for what, nc := range map[string]*nats.Conn{
		"JetStream does not answer on $JS.API.STREAM.INFO.KV_E: it is not enabled on the server or for the account, or its domain or API prefix is wrong or out of reach": tcpDial(t, tcpServe(t, off).ClientURL()),
		"JetStream is not enabled for the account of this connection": tcpDial(t, tcpServe(t, account).ClientURL(), nats.UserInfo("b", "x")),
	} {
		err := check.Err(tcpBucket(t, tcpJS(t, nc)).Info(t.Context()))
		check.That(t, errors.Is(err, leader.ErrUnreachable) && fmt.Sprint(err) == "leader: "+what,
			"got  %v\nwant leader: %s", err, what)
	}
}
