//go:build field

package shard_test

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// right is a permission of docs/permissions.md.
type right struct{ may, subject string }

// rightsOf returns the rights that the page lists for a client, in a bucket that republishes, or in any other.
func rightsOf(t *testing.T, client string, republishes bool) (all []right) {
	t.Helper()
	page := string(check.Got(os.ReadFile("../docs/permissions.md"))(t))
	_, rows, found := strings.Cut(page, "\n| "+client+" ")
	check.Must(t, found, "the page has no rights of a %s", client)
	feed := ""
	for i, row := range strings.Split(rows, "\n") {
		cells := strings.Split(row, "|") // of the first row, the first one is the rest of the client's
		if i > 0 {
			cells = cells[min(1, len(cells)):]
		}
		if len(cells) < 4 {
			break
		}
		who, may, what := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[1]), cells[2]
		if strings.HasPrefix(who, "in a") {
			feed = who
		} else if who != "" && i > 0 {
			break
		}
		subjects := regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(what, -1)
		if strings.Contains(what, "as a member, without") {
			all = rightsOf(t, aMember, republishes)
			for _, s := range subjects {
				all = slices.DeleteFunc(all, func(r right) bool { return r.subject == s[1] })
			}
		} else if feed == "" || strings.Contains(feed, "republishes") == republishes {
			for _, s := range subjects {
				all = append(all, right{may, s[1]})
			}
		}
	}
	return all
}

// The clients, as the page calls them.
const (
	aMember    = "member of the group `orders`"
	anObserver = "observer of the group"
	anOperator = "operator of the group"
)

// gate is a server with the bucket E, on which members have no other rights than given ones.
type gate struct {
	t   *testing.T
	srv *server.Server
	js  func(*nats.Conn) (jetstream.JetStream, error)
}

// gateOf starts a server with the users "member", who has the rights of a member, and "client", who has other ones.
func gateOf(t *testing.T, rights []right, republishes bool) *gate {
	t.Helper()
	user := func(name string, rights []right) *server.User {
		pub := &server.SubjectPermission{Allow: []string{"nothing"}}
		sub := &server.SubjectPermission{Allow: []string{"_INBOX.>"}}
		for _, r := range rights {
			if r.may == "publish" {
				pub.Allow = append(pub.Allow, r.subject)
			} else {
				sub.Allow = append(sub.Allow, r.subject)
			}
		}
		all := &server.Permissions{Publish: pub, Subscribe: sub}
		return &server.User{Username: name, Password: "x", Permissions: all}
	}
	g := serve(t, &server.Options{Users: []*server.User{
		{Username: "admin", Password: "x"}, user("client", rights), user("member", rightsOf(t, aMember, republishes)),
	}})
	if republishes {
		check.Got(leader.CreateOrUpdateBucket(t.Context(), g.admin(), leader.BucketConfig{Name: "E", Storage: memory}))(t)
	} else {
		check.Got(g.admin().CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "E", Storage: memory}))(t)
	}
	return g
}

const memory = jetstream.MemoryStorage

func serve(t *testing.T, opts *server.Options) *gate {
	t.Helper()
	opts.DontListen, opts.NoSigs, opts.JetStream, opts.StoreDir = true, true, true, testserver.StoreDir(t)
	s := check.Got(server.NewServer(opts))(t)
	s.Start()
	t.Cleanup(s.Shutdown)
	check.Must(t, s.ReadyForConnections(10*time.Second), "the server is not ready")
	return &gate{t, s, func(nc *nats.Conn) (jetstream.JetStream, error) { return jetstream.New(nc) }}
}

// admin connects as the user who may do everything.
func (g *gate) admin() jetstream.JetStream {
	g.t.Helper()
	nc := check.Got(nats.Connect("", nats.InProcessServer(g.srv), nats.UserInfo("admin", "x")))(g.t)
	g.t.Cleanup(nc.Close)
	return check.Got(jetstream.New(nc))(g.t)
}

// connection is a connection of its own to the bucket, which remembers what the server denied.
type connection struct {
	*leader.Bucket
	nc *nats.Conn

	mu     sync.Mutex
	denied []string
}

// dial connects as a user.
func (g *gate) dial(user string) *connection {
	g.t.Helper()
	c := &connection{}
	c.nc = check.Got(nats.Connect("", nats.InProcessServer(g.srv), nats.UserInfo(user, "x"),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.denied = append(c.denied, err.Error())
		})))(g.t)
	g.t.Cleanup(c.nc.Close)
	c.Bucket = check.Got(leader.OpenBucket(check.Got(g.js(c.nc))(g.t), "E"))(g.t)
	return c
}

// denials returns what the server denied.
func (c *connection) denials() string {
	_ = c.nc.Flush() // fails on a connection that the test has closed
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.denied, "\n")
}

// clerk is a member that counts the shards on which it works.
type clerk struct {
	*shard.Member
	*connection
	works atomic.Int64
}

// join joins the group until ctx ends.
func (g *gate) join(ctx context.Context, c *connection, id string) *clerk {
	g.t.Helper()
	m := &clerk{connection: c}
	cfg := shard.Config{Shards: 12, ID: id, LeaseDuration: 3 * time.Second}
	m.Member = check.Got(shard.Join(ctx, c, "orders", cfg))(g.t)
	runs(m.Member, func(lead context.Context, _ *shard.Shard) {
		m.works.Add(1)
		<-lead.Done()
		m.works.Add(-1)
	})
	return m
}

// eventually waits until a condition holds.
func (g *gate) eventually(what string, holds func() bool) {
	g.t.Helper()
	for from := time.Now(); !holds(); time.Sleep(10 * time.Millisecond) {
		check.Must(g.t, time.Since(from) < 30*time.Second, "not within 30 s: %s", what)
	}
}

// uses have what each client does until ctx ends, beside a member a. It sets works when all works.
var uses = map[string]func(ctx context.Context, g *gate, c *connection, works *atomic.Bool){
	aMember: func(ctx context.Context, g *gate, c *connection, works *atomic.Bool) {
		b := g.join(ctx, c, "b")
		for ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
			works.Store(b.works.Load() == 6)
		}
		<-b.Done()
	},
	anObserver: func(ctx context.Context, _ *gate, c *connection, works *atomic.Bool) {
		once, _ := shard.Lookup(ctx, c, "orders")
		views, err := shard.Observe(ctx, c, "orders")
		if err != nil {
			return
		}
		for v := range views {
			works.Store(len(once.Owners) == 12 && len(v.Owners) == 12 && v.Owners[11].State == shard.OwnerWorks)
		}
	},
	anOperator: func(ctx context.Context, _ *gate, c *connection, works *atomic.Bool) {
		moves := shard.Move(ctx, c, "orders", 3, "a")
		drains := shard.Drain(ctx, c, "orders", "a")
		works.Store(moves == nil && drains == nil && shard.Undrain(ctx, c, "orders", "a") == nil)
	},
}

// The rights that the page lists for a client of a group are enough. Without each of them the server denies something.
func TestPermissions_OfGroup(t *testing.T) {
	for client, use := range uses {
		for feed, republishes := range map[string]bool{"republished": true, "watched": false} {
			rights := rightsOf(t, client, republishes)
			check.Must(t, len(rights) > 0, "no rights")
			for i := range len(rights) + 1 {
				name, lacks := client+", "+feed, right{}
				given := slices.Clone(rights)
				if i < len(rights) {
					lacks, given = rights[i], slices.Delete(given, i, i+1)
					name += ", without " + lacks.may + " " + lacks.subject
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					g := gateOf(t, given, republishes)
					a := g.join(t.Context(), g.dial("member"), "a")
					g.eventually("a works", func() bool { return a.works.Load() == 12 })
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					c, done, works := g.dial("client"), make(chan struct{}), new(atomic.Bool)
					go func() {
						defer close(done)
						use(ctx, g, c, works)
					}()
					prefix, _, _ := strings.Cut(strings.TrimSuffix(lacks.subject, ">"), "*")
					denied := func() bool { return strings.Contains(c.denials(), `"`+prefix) }
					until := denied
					if lacks == (right{}) || strings.Contains(prefix, "DELETE") { // which it needs to leave
						until = works.Load
					}
					g.eventually("it works, or is denied", until)
					cancel()
					<-done
					if lacks == (right{}) {
						check.Equal(t, c.denials(), "", "denied: %s")
						return
					}
					g.eventually("it is denied", denied)
				})
			}
		}
	}
}

// The rights of a member are also enough to take the key of another one that died, and its shards.
func TestPermissions_OfMembers(t *testing.T) {
	for feed, republishes := range map[string]bool{"republished": true, "watched": false} {
		t.Run(feed, func(t *testing.T) {
			t.Parallel()
			g := gateOf(t, nil, republishes)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var members []*clerk
			for _, id := range []string{"a", "b", "c"} {
				members = append(members, g.join(ctx, g.dial("member"), id))
			}
			share := func(each int64) {
				t.Helper()
				g.eventually("the shards are spread evenly", func() bool {
					return !slices.ContainsFunc(members, func(m *clerk) bool { return m.works.Load() != each })
				})
			}
			share(4)
			members[0].nc.Close() // perhaps the assigner
			members = members[1:]
			share(6)
			cancel()
			for _, m := range members {
				<-m.Done()
				check.Equal(t, m.denials(), "", "denied: %s")
			}
		})
	}
}

// Members in an account of their own, which imports what the page lists for a group.
func TestPermissions_OtherAccount(t *testing.T) {
	opts := new(server.Options)
	check.OK(t, opts.ProcessConfigString(`accounts {
		HUB {
			jetstream: enabled, users: [ { user: admin, password: x } ]
			exports: [
				{ service: "$JS.API.STREAM.INFO.KV_E" }, { service: "$JS.API.DIRECT.GET.KV_E.$KV.E.orders.shard.>" }
				{ service: "$KV.E.orders.shard.>" }, { stream: "natsleader.feed.E.orders.shard.>" }
			]
		}
		APP {
			users: [ { user: member, password: x } ]
			imports: [
				{ service: { account: HUB, subject: "$JS.API.STREAM.INFO.KV_E" }, to: "P.STREAM.INFO.KV_E" }
				{ service: { account: HUB, subject: "$JS.API.DIRECT.GET.KV_E.$KV.E.orders.shard.>" },
				  to: "P.DIRECT.GET.KV_E.$KV.E.orders.shard.>" }
				{ service: { account: HUB, subject: "$KV.E.orders.shard.>" }, to: "P.$KV.E.orders.shard.>" }
				{ stream: { account: HUB, subject: "natsleader.feed.E.orders.shard.>" } }
			]
		}
	}`))
	g := serve(t, opts)
	g.js = func(nc *nats.Conn) (jetstream.JetStream, error) { return jetstream.NewWithAPIPrefix(nc, "P") }
	check.Got(leader.CreateOrUpdateBucket(t.Context(), g.admin(), leader.BucketConfig{Name: "E", Storage: memory}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	a, b := g.join(ctx, g.dial("member"), "a"), g.join(ctx, g.dial("member"), "b")
	g.eventually("the shards are spread evenly", func() bool { return a.works.Load() == 6 && b.works.Load() == 6 })
	cancel()
	<-a.Done()
	<-b.Done()
}
