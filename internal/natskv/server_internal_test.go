package natskv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leaks"
	"github.com/natsleader/natsleader/internal/testserver"
)

// lab is a test and its server.
type lab struct {
	*testing.T
	s       *server.Server
	bubbled bool
	ledger  leaks.Ledger
	buckets []*Bucket // opened by this test
}

// ok ends the test if there is an error.
func (t *lab) ok(err error) {
	t.Helper()
	check.OK(t, err)
}

// close closes a connection, after all that uses it. In a bubble nothing may be left then.
func (t *lab) close(nc *nats.Conn) {
	defer nc.Close()
	if !t.bubbled || nc.IsClosed() {
		return
	}
	time.Sleep(10 * time.Second) // what a test has given up has ended by then
	var all []leaks.Keeper
	for _, b := range t.buckets {
		if b.api.Conn == nc {
			all = append(all, b)
		}
	}
	t.ledger.Check(t, 0, all...)
}

// bubble runs a test with an embedded server in a synctest bubble. The two
// collections empty nats.go's pool of timers, which must not cross bubbles.
func bubble(t *testing.T, opts server.Options, test func(t *lab)) {
	t.Helper()
	runtime.GC()
	runtime.GC()
	dir := testserver.StoreDir(t)
	synctest.Test(t, func(t *testing.T) {
		opts := opts
		opts.DontListen, opts.JetStream, opts.StoreDir, opts.NoSigs, opts.NoLog = true, true, dir, true, true
		s := check.Got(server.NewServer(&opts))(t)
		s.Start()
		check.Must(t, s.ReadyForConnections(time.Minute), "the server does not start")
		t.Cleanup(func() {
			s.Shutdown()
			s.WaitForShutdown()
		})
		test(&lab{T: t, s: s, bubbled: true, ledger: leaks.Open()})
	})
}

// gate is a way to the server that can be shut.
type gate struct {
	s *server.Server

	mu    sync.Mutex
	shut  bool
	conns []net.Conn
}

func (g *gate) InProcessConn() (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil, errors.New("the gate is shut")
	}
	c, err := g.s.InProcessConn()
	if err == nil {
		g.conns = append(g.conns, c)
	}
	return c, err
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = shut
	if shut {
		for _, c := range g.conns {
			_ = c.Close()
		}
		g.conns = nil
	}
}

// reconnect loses the connection, and makes it again.
func (g *gate) reconnect() {
	g.set(true)
	synctest.Wait()
	g.set(false)
	time.Sleep(time.Minute)
}

func dial(t *lab, s nats.InProcessConnProvider, opts ...nats.Option) *nats.Conn {
	t.Helper()
	quiet := nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})
	nc, err := nats.Connect("", append([]nats.Option{nats.InProcessServer(s), nats.MaxReconnects(-1), quiet}, opts...)...)
	t.ok(err)
	t.Cleanup(func() { t.close(nc) })
	return nc
}

func dialJS(t *lab, s nats.InProcessConnProvider, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	js := check.Got(jetstream.New(dial(t, s, opts...)))(t)
	return js
}

func mustCreate(t *lab, js jetstream.JetStream, cfg Config) *Bucket {
	t.Helper()
	if cfg.Name == "" {
		cfg.Name = "E"
	}
	b := check.Got(Create(t.Context(), js, cfg))(t)
	t.buckets = append(t.buckets, b)
	return b
}

func mustOpen(t *lab, js jetstream.JetStream) *Bucket {
	t.Helper()
	return mustOpenAs(t, js, "E")
}

func mustOpenAs(t *lab, js jetstream.JetStream, name string) *Bucket {
	t.Helper()
	b := check.Got(Open(js, name))(t)
	t.buckets = append(t.buckets, b)
	return b
}

func mustKV(t *lab, js jetstream.JetStream) jetstream.KeyValue {
	t.Helper()
	kv := check.Got(js.KeyValue(t.Context(), "E"))(t)
	return kv
}

// reply is the answer of a method of Store.
type reply[T any] struct {
	v   T
	err error
}

// await calls a method of Store and waits for its reply.
func await[T any](call func(func(T, error))) (T, error) {
	ch := make(chan reply[T], 1)
	call(func(v T, err error) { ch <- reply[T]{v, err} })
	select {
	case r := <-ch:
		return r.v, r.err
	case <-time.After(check.Limit):
		return *new(T), fmt.Errorf("no reply within %v", check.Limit)
	}
}

func settingsOf(ctx context.Context, b *Bucket) (backend.Settings, error) {
	return await(func(r func(backend.Settings, error)) { b.Settings(ctx, r) })
}

func getFrom(ctx context.Context, b *Bucket, key string) (backend.Entry, error) {
	return await(func(r func(backend.Entry, error)) { b.Get(ctx, key, r) })
}

func update(ctx context.Context, b *Bucket, key, value string, revision uint64) (uint64, error) {
	return await(func(r func(uint64, error)) { b.Update(ctx, key, []byte(value), revision, r) })
}

// watching is an open feed with the events that it delivered.
type watching struct {
	backend.Feed
	told chan backend.FeedEvent
}

func watch(t *lab, b *Bucket, key string) watching {
	t.Helper()
	return replaced(t, b, key, nil)
}

// replaced is watch for a feed in place of another one.
func replaced(t *lab, b *Bucket, key string, old backend.Feed) watching {
	t.Helper()
	w := watching{told: make(chan backend.FeedEvent, 1000)}
	f, err := await(func(r func(backend.Feed, error)) {
		b.Watch(t.Context(), key, old, func(e backend.FeedEvent) { w.told <- e }, r)
	})
	t.ok(err)
	w.Feed = f
	t.Cleanup(f.Stop)
	return w
}

// next returns the next event of the feed when everything has come to rest.
func (w watching) next(t *lab) backend.FeedEvent {
	t.Helper()
	synctest.Wait()
	select {
	case e := <-w.told:
		return e
	default:
		t.Fatal("the feed tells nothing")
		return backend.FeedEvent{}
	}
}

func (w watching) nothing(t *lab) {
	t.Helper()
	synctest.Wait()
	select {
	case e := <-w.told:
		t.Fatalf("the feed tells %+v, want nothing", e)
	default:
	}
}

func wantErr(t *lab, err, want error, texts ...string) {
	t.Helper()
	check.Must(t, errors.Is(err, want), "got error %v, want %v", err, want)
	for _, text := range texts {
		check.Must(t, strings.Contains(err.Error(), text), "error %q does not contain %q", err, text)
	}
}

// lastRevision returns the last revision of the whole bucket. That of an empty bucket is
// before the first.
func lastRevision(t *lab, b *Bucket) uint64 {
	t.Helper()
	s := check.Got(settingsOf(t.Context(), b))(t)
	return s.LastRevision
}
