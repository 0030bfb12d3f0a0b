package leader_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leaks"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// The durations of most tests: a lease of 6 s and the library's settings for it.
const (
	lease    = 6 * time.Second
	deadline = 4800 * time.Millisecond
	interval = time.Second
	// redial is how long a client waits before each try to connect again.
	redial = 100 * time.Millisecond
)

// world is a server and all its clients, in one bubble.
type world struct {
	*testing.T
	dir  string
	zero time.Time // when the test began

	options func() *server.Options // of the server; nil: those of JetStream alone

	mu       sync.Mutex
	srv      *server.Server
	checkers map[string]*electionChecker // by election
	stands   []*candidate
	clients  []*client
	buckets  []*leader.Bucket // opened by the clients
	locks    []*leader.Lock   // acquired by this test
	ledger   leaks.Ledger
	ops      *client // of the operator
}

// emptyPools empties nats.go's pool of timers. A timer that was made in a bubble is
// fatal outside of it, and the other way round. A sync.Pool survives one collection. So
// every test, in a bubble or not, calls emptyPools before it connects.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}

// bubble runs a test with an embedded server in a synctest bubble. A goroutine that
// does not end in the bubble fails the test.
func bubble(t *testing.T, test func(w *world)) {
	t.Helper()
	bubbleOf(t, nil, test)
}

// bubbleOf is bubble for a server with options. The server need not authenticate the
// operator.
func bubbleOf(t *testing.T, options func() *server.Options, test func(w *world)) {
	t.Helper()
	emptyPools()
	dir := testserver.StoreDir(t)
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, dir: dir, options: options, checkers: make(map[string]*electionChecker), ledger: leaks.Open()}
		w.startServer()
		t.Cleanup(w.end)
		w.ops = w.dial("operator")
		w.zero = time.Now()
		test(w)
	})
}

// setting runs a test in a bubble with something prepared.
type setting func(t *testing.T, test func(w *world))

// The settings of most tests: an embedded server, alone or with a bucket of that kind.
var (
	inBubble   = setting(bubble)
	inSealed   = in((*world).sealed)
	inOrdinary = in((*world).ordinary)
	inRostered = in((*world).rostered)
)

// in returns the setting that has been prepared so.
func in(prepare func(*world)) setting {
	return func(t *testing.T, test func(w *world)) {
		t.Helper()
		bubble(t, func(w *world) {
			prepare(w)
			test(w)
		})
	}
}

// run runs a subtest there.
func (s setting) run(t *testing.T, name string, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { s(t, func(w *world) { test(t, w) }) })
}

// end stops all candidates and checks that all events were delivered, and that nothing is left.
func (w *world) end() {
	if w.current() == nil {
		w.startServer()
	}
	for _, cl := range w.clients {
		cl.open()
	}
	for _, c := range w.stands {
		before := check.Now(c.Done())
		err := c.Stop()
		check.That(w, before || err == nil || errors.Is(err, leader.ErrNotReleased), "%s: Stop: %v", c.ID(), err)
		<-c.Done()
		<-c.read
		check.That(w, !c.IsLeader(), "%s leads after Stop", c.ID())
	}
	for _, l := range w.locks {
		_ = l.Unlock(context.Background()) // the test may have lost it or given it up
	}
	time.Sleep(time.Minute) // candidates that are not among them end with the context of the test
	var all []leaks.Keeper
	for _, b := range w.buckets {
		if k, ok := b.Backend().(leaks.Keeper); ok {
			all = append(all, k)
		}
	}
	w.ledger.Check(w, 0, all...)
	for _, cl := range w.clients {
		cl.nc.Close()
	}
	w.stopServer()
	time.Sleep(time.Second) // the loops that flush the server's store end at their next turn
}

// startServer starts the server, on the store of the one before. Clients may send their first
// requests at the same instant from then on.
func (w *world) startServer() {
	w.Helper()
	opts := &server.Options{}
	if w.options != nil {
		opts = w.options()
	}
	opts.DontListen, opts.JetStream, opts.StoreDir, opts.NoSigs, opts.NoLog = true, true, w.dir, true, true
	s := check.Got(server.NewServer(opts))(w)
	s.Start()
	check.Must(w, s.ReadyForConnections(time.Minute), "the server does not start")
	testserver.Prime(w, s)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.srv = s
}

func (w *world) stopServer() {
	w.mu.Lock()
	s := w.srv
	w.srv = nil
	w.mu.Unlock()
	s.Shutdown()
	s.WaitForShutdown()
}

// current returns the running server, or nil.
func (w *world) current() *server.Server {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.srv
}

// now returns the time since the test began.
func (w *world) now() time.Duration { return time.Since(w.zero) }

// at lets time pass until d, and waits for everything that is due by then.
func (w *world) at(d time.Duration) {
	w.Helper()
	check.Must(w, d >= w.now(), "it is %v already, and not %v", w.now(), d)
	time.Sleep(d - w.now())
	synctest.Wait()
}

// isAt fails the test unless want is the time.
func (w *world) isAt(want time.Duration, what string) {
	w.Helper()
	got := w.now()
	check.That(w, got == want, "%s at %v, want %v", what, got, want)
}

// ok fails the test at once if there is an error.
func (w *world) ok(err error) {
	w.Helper()
	check.Must(w, err == nil, "at %v: %v", w.now(), err)
}

// call is a call that may take time.
type call struct {
	w    *world
	done chan struct{}
	at   time.Duration
	err  error
}

// begin starts a call and returns.
func (w *world) begin(f func() error) *call {
	c := &call{w: w, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = f()
		c.at = w.now()
	}()
	return c
}

// returned fails the test unless the call has returned that error at that time.
func (c *call) returned(at time.Duration, want error) {
	c.w.Helper()
	synctest.Wait()
	select {
	case <-c.done:
		check.That(c.w, c.at == at && errors.Is(c.err, want), "returned %v at %v, want %v at %v", c.err, c.at, want, at)
	default:
		c.w.Errorf("%v: has not returned, want %v at %v", c.w.now(), want, at)
	}
}

// pending fails the test if the call has returned.
func (c *call) pending() {
	c.w.Helper()
	synctest.Wait()
	select {
	case <-c.done:
		c.w.Errorf("returned %v at %v, too soon", c.err, c.at)
	default:
	}
}

// client is a client with a connection of its own.
type client struct {
	*link
	nc     *nats.Conn
	js     jetstream.JetStream
	stands string // the bucket in which it stands; empty: E
	mark   mark   // of the stores of its candidates and locks
}

// mark is what package seats or kvelect says of a store. nil is nothing.
type mark func(leader.Store) leader.Store

func (m mark) of(store leader.Store) leader.Store {
	if m == nil {
		return store
	}
	return m(store)
}

// seated is the mark of elections with n leaders.
func seated(n int) mark { return func(s leader.Store) leader.Store { return seats.Of(s, n) } }

func (w *world) dial(name string, opts ...nats.Option) *client {
	w.Helper()
	cl := &client{link: &link{w: w, conns: make(map[*linkConn]struct{})}}
	nc, err := nats.Connect("", append([]nats.Option{
		nats.Name(name), nats.InProcessServer(cl), nats.MaxReconnects(-1),
		nats.ReconnectWait(redial), nats.ReconnectJitter(0, 0),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	}, opts...)...)
	w.ok(err)
	cl.nc = nc
	w.mu.Lock()
	w.clients = append(w.clients, cl)
	w.mu.Unlock()
	cl.js, err = jetstream.New(nc)
	w.ok(err)
	return cl
}

// bucket returns the bucket in which this client stands.
func (cl *client) bucket(t *testing.T) *leader.Bucket {
	t.Helper()
	b := check.Got(leader.OpenBucket(cl.js, cmp.Or(cl.stands, "E")))(t)
	cl.w.opened(b)
	return b
}

// opened has a bucket checked at the end of the test.
func (w *world) opened(b *leader.Bucket) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buckets = append(w.buckets, b)
}

// misses reports, and logs, that the server is older than 2.minor, which a test needs. The root module asks for an older one.
func misses(t *testing.T, minor int, test string) bool {
	t.Helper()
	var is int
	_, err := fmt.Sscanf(server.VERSION, "2.%d.", &is)
	check.OK(t, err)
	if is < minor {
		t.Logf("%s: nats-server is %s, before 2.%d", test, server.VERSION, minor)
	}
	return is < minor
}

// The kinds of buckets.

// sealed makes a bucket as the library recommends it.
func (w *world) sealed() {
	w.Helper()
	w.create(leader.BucketConfig{MaxLease: lease})
}

// expiring makes a bucket that drops records after one and a half leases. It is in
// memory, because the server's file store counts ages by a clock outside the bubble
// (nats-server, filestore.go, expireMsgs, and package ats).
func (w *world) expiring() {
	w.Helper()
	w.create(leader.BucketConfig{MaxLease: lease, TTL: lease * 3 / 2, Storage: jetstream.MemoryStorage})
}

// ordinary makes a bucket with the defaults of NATS: no metadata, not purge-protected,
// and nothing republished.
func (w *world) ordinary() {
	w.Helper()
	check.Got(w.ops.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "E"}))(w)
}

func (w *world) create(cfg leader.BucketConfig) {
	w.Helper()
	cfg.Name = "E"
	_, err := leader.CreateOrUpdateBucket(w.Context(), w.ops.js, cfg)
	for range 3 {
		if err == nil || !strings.Contains(err.Error(), "creating store for stream") {
			break
		}
		time.Sleep(time.Microsecond) // the server is still removing the files of a stream of that name
		_, err = leader.CreateOrUpdateBucket(w.Context(), w.ops.js, cfg)
	}
	w.ok(err)
}

// kinds runs a test with each kind of bucket.
func kinds(t *testing.T, test func(w *world)) {
	t.Helper()
	forEachKind(t, func(w *world, _ time.Duration) { test(w) })
}

// forEachKind runs a test with each kind of bucket, and passes it the unknown lease
// there.
func forEachKind(t *testing.T, test func(w *world, unknown time.Duration)) {
	t.Helper()
	for _, k := range []struct {
		name    string
		make    func(*world)
		unknown time.Duration
	}{
		{"sealed", (*world).sealed, lease},
		{"with a TTL", (*world).expiring, lease * 3 / 2},
		{"ordinary", (*world).ordinary, lease},
	} {
		t.Run(k.name, func(t *testing.T) {
			bubble(t, func(w *world) {
				k.make(w)
				test(w, k.unknown)
			})
		})
	}
}

// stand makes a candidate with a connection of its own in the election "e".
func (w *world) stand(id string) *candidate {
	w.Helper()
	return w.standAs(leader.Config{ID: id})
}

func (w *world) standAs(cfg leader.Config) *candidate {
	w.Helper()
	return w.campaign(w.Context(), w.dial(cfg.ID), "e", cfg)
}

// campaign makes a candidate and records its events.
func (w *world) campaign(ctx context.Context, cl *client, election string, cfg leader.Config) *candidate {
	w.Helper()
	c := w.mute(ctx, cl, election, cfg)
	c.read = make(chan struct{})
	w.stands = append(w.stands, c)
	go c.record(w.T, w.zero, w.checker(election))
	return c
}

// mute makes a candidate and does not read its events. The candidate is not stopped at
// the end of the test.
func (w *world) mute(ctx context.Context, cl *client, election string, cfg leader.Config) *candidate {
	w.Helper()
	if cfg.LeaseDuration == 0 {
		cfg.LeaseDuration = lease
	}
	lc := check.Got(leader.Campaign(ctx, cl.mark.of(cl.bucket(w.T)), election, cfg))(w)
	return &candidate{Candidate: lc, client: cl, clock: cfg.Clock}
}

func (w *world) checker(election string) *electionChecker {
	w.mu.Lock()
	defer w.mu.Unlock()
	k := w.checkers[election]
	if k == nil {
		k = newElectionChecker()
		w.checkers[election] = k
	}
	return k
}

// kv is the operator's view of the bucket.
func (w *world) kv() jetstream.KeyValue {
	w.Helper()
	return check.Got(w.ops.js.KeyValue(w.Context(), "E"))(w)
}

// write writes a key on the condition that it is as it was read. Candidates write so, and other
// values count for nothing.
func (w *world) write(kv jetstream.KeyValue, key, value string) (revision uint64) {
	w.Helper()
	var last uint64
	switch e, err := kv.Get(w.Context(), key); {
	case err == nil:
		last = e.Revision()
	case !errors.Is(err, jetstream.ErrKeyNotFound):
		w.Fatal(err)
	}
	var err error
	if last == 0 { // perhaps there is a marker
		revision, err = kv.Create(w.Context(), key, []byte(value))
	} else {
		revision, err = kv.Update(w.Context(), key, []byte(value), last)
	}
	w.ok(err)
	return revision
}
