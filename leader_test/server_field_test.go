//go:build field

package leader_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	netlink "github.com/natsleader/natsleader/internal/link"
	"github.com/natsleader/natsleader/internal/testcluster"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
)

// Helpers for the tests in real time. These tests wait for the events that they expect,
// for up to tcpLimit, and assert an order of events, never a speed.

// longTurn is the TurnTimeout of a leader that resigns. It stays away for some turns, and the other
// candidate leads meanwhile, also on a busy machine.
const longTurn = 2 * time.Second

// tcpOptions returns the options of a server with JetStream on a free port of the
// loopback interface, with a configuration in the server's own language.
func tcpOptions(tb testing.TB, config string) *server.Options {
	tb.Helper()
	opts := &server.Options{}
	if config != "" {
		check.OK(tb, opts.ProcessConfigString(config))
	}
	opts.Host, opts.NoSigs, opts.NoLog = "127.0.0.1", true, true
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	opts.JetStream, opts.DisableJetStreamBanner = true, true
	opts.AuthTimeout, opts.TLSTimeout = tcpLimit.Seconds(), tcpLimit.Seconds()
	if opts.StoreDir == "" {
		opts.StoreDir = testserver.StoreDir(tb)
	}
	return opts
}

// tcpServe starts a server, which is shut down at the end of the test.
func tcpServe(tb testing.TB, opts *server.Options) *server.Server {
	tb.Helper()
	return tcpHostOf(tb, opts).up()
}

// tcpHost has a server, which may be down and up again on the same port and the
// same store.
type tcpHost struct {
	tb   testing.TB
	opts *server.Options
	srv  *server.Server // nil while it is down
}

func tcpHostOf(tb testing.TB, opts *server.Options) *tcpHost {
	tb.Helper()
	h := &tcpHost{tb: tb, opts: opts}
	tb.Cleanup(h.down)
	return h
}

func (h *tcpHost) up() *server.Server {
	h.tb.Helper()
	s := check.Got(server.NewServer(h.opts.Clone()))(h.tb)
	h.srv = s
	s.Start()
	check.Must(h.tb, s.ReadyForConnections(tcpLimit), "the server does not start")
	if addr, ok := s.Addr().(*net.TCPAddr); ok {
		h.opts.Port = addr.Port
	}
	return s
}

// down shuts the server down, and waits until nothing of it runs.
func (h *tcpHost) down() {
	if h.srv != nil {
		h.srv.Shutdown()
		h.srv.WaitForShutdown()
		h.srv = nil
	}
}

// tcpFreePorts returns free ports of the loopback interface. They stay free while the
// server that is to listen there is down.
func tcpFreePorts(tb testing.TB, n int) []int {
	tb.Helper()
	var free []int
	for range n {
		free = append(free, testserver.FreePort(tb))
	}
	return free
}

// tcpLink is a proxy before a server, which can be cut or hold what passes.
type tcpLink = netlink.Link

// linkTo starts a proxy for an address. The proxy ends with the test.
func linkTo(tb testing.TB, address string) *tcpLink {
	tb.Helper()
	l := check.Got(netlink.New(address))(tb)
	tb.Cleanup(l.Close)
	return l
}

// tcpDial connects, and closes the connection at the end of the test.
func tcpDial(tb testing.TB, url string, opts ...nats.Option) *nats.Conn {
	tb.Helper()
	emptyPools()
	var nc *nats.Conn
	tcpEventually(tb, "it is connected", func() (done bool) {
		var err error
		nc, err = nats.Connect(url, append([]nats.Option{
			nats.MaxReconnects(-1), nats.ReconnectWait(50 * time.Millisecond), nats.ReconnectJitter(0, 0),
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
		}, opts...)...)
		var late net.Error
		if errors.Is(err, nats.ErrTimeout) || errors.As(err, &late) && late.Timeout() { // 2 s for the handshake
			return false
		}
		check.OK(tb, err)
		return true
	})
	tb.Cleanup(nc.Close)
	return nc
}

func tcpJS(tb testing.TB, nc *nats.Conn) jetstream.JetStream {
	tb.Helper()
	return check.Got(jetstream.New(nc))(tb)
}

// tcpBucket returns the bucket E.
func tcpBucket(tb testing.TB, js jetstream.JetStream) *leader.Bucket {
	tb.Helper()
	return check.Got(leader.OpenBucket(js, "E"))(tb)
}

// tcpCreate makes the bucket E.
func tcpCreate(tb testing.TB, js jetstream.JetStream, cfg leader.BucketConfig) {
	tb.Helper()
	cfg.Name = "E"
	check.Got(leader.CreateOrUpdateBucket(tb.Context(), js, cfg))(tb)
}

// tcpEventually waits until a condition holds.
var tcpEventually = testcluster.Eventually

// tcpElection is the candidates of one election, with the checker of their events.
type tcpElection struct {
	tb      testing.TB
	name    string
	checker electionChecker // a context may end late, so it asks the terms alone
}

func tcpElectionOf(tb testing.TB, name string) *tcpElection {
	tb.Helper()
	return &tcpElection{tb: tb, name: name}
}

// tcpCandidate is a candidate and its events.
type tcpCandidate struct {
	*leader.Candidate
	*leadertest.Watcher
	began time.Time
}

// stand makes a candidate, which is stopped at the end of the test. Each of its events is checked,
// whether the test reads it or not.
func (el *tcpElection) stand(store leader.Store, cfg leader.Config) *tcpCandidate {
	el.tb.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(el.tb.Output(), nil))
	}
	began, clock := time.Now(), cmp.Or(cfg.Clock, leader.SystemClock())
	lc := check.Got(leader.Campaign(el.tb.Context(), store, el.name, cfg))(el.tb)
	read := make(chan struct{}) // closed when the events were read to their end
	go func() {
		defer close(read)
		w := el.checker.watch(lc.ID())
		for e := range lc.Events(context.Background()) {
			el.checker.next(el.tb, time.Since(began), w, e, clock.Now())
		}
		report(el.tb, time.Since(began), w.End())
	}()
	el.tb.Cleanup(func() { // after the clean-up of Watch, which ends the candidate
		<-lc.Done()
		<-read
		check.That(el.tb, !lc.IsLeader(), "%s leads after its end", lc.ID())
	})
	return &tcpCandidate{lc, leadertest.Watch(el.tb, nil, lc), began}
}

// pair makes a candidate that leads and one that knows it.
func (el *tcpElection) pair(a, b leader.Store, cfg leader.Config) (first, second *tcpCandidate, term *leader.Term) {
	el.tb.Helper()
	cfg.ID = "a"
	first = el.stand(a, cfg)
	term = tcpTerm(first)
	cfg.ID = "b"
	second = el.stand(b, cfg)
	second.Expect(leadertest.Observed("a"))
	return first, second, term
}

// tcpTerm waits until the candidate leads, and returns the term.
func tcpTerm(c *tcpCandidate) *leader.Term {
	c.Expect(leadertest.Elected())
	return c.Watcher.Term()
}

// tcpRenewed waits until the holder of the key has stored n more renewals.
func tcpRenewed(tb testing.TB, b *leader.Bucket, election string, n int) {
	tb.Helper()
	var last leader.Holder
	tcpEventually(tb, "renewals are stored", func() bool {
		ctx, cancel := context.WithTimeout(tb.Context(), time.Second)
		defer cancel()
		h, err := leader.Lookup(ctx, b, election)
		if err == nil && h.Revision != last.Revision {
			if last.Revision != 0 {
				n--
			}
			last = h
		}
		return n <= 0
	})
}

// tcpNoFaults fails the test if the candidate reported a fault. One late answer is excused if
// the machine was late since the candidate began.
func tcpNoFaults(t *testing.T, c *tcpCandidate) {
	t.Helper()
	late := machine.since(c.began, time.Now())
	for _, err := range unexcused(c.Watcher.Events(), late) {
		t.Errorf("%s: %v (the machine was late by %v at most)", c.ID(), err, late)
	}
}
