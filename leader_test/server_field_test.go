//go:build field

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	netlink "github.com/natsleader/natsleader/internal/link"
	"github.com/natsleader/natsleader/internal/testserver"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
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
type tcpLink struct {
	*netlink.Link
	port int
}

// linkTo starts a proxy for a port of the loopback interface. The proxy ends with the test.
func linkTo(tb testing.TB, port int) *tcpLink {
	tb.Helper()
	l := check.Got(netlink.New(fmt.Sprintf("127.0.0.1:%d", port)))(tb)
	tb.Cleanup(l.Close)
	_, own, err := net.SplitHostPort(l.Addr())
	check.OK(tb, err)
	return &tcpLink{l, check.Got(strconv.Atoi(own))(tb)}
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
	check.Got(leader.CreateBucket(tb.Context(), js, cfg))(tb)
}

// tcpEventually waits until ok.
func tcpEventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(tcpLimit)
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			tb.Fatalf("not within %v: %s", tcpLimit, what)
		}
	}
}

// tcpElection is the candidates of one election. It checks that of all terms at most
// one is alive, that tokens rise, and that there is one Deposed for each Elected.
type tcpElection struct {
	tb   testing.TB
	name string

	mu    sync.Mutex
	terms []*leader.Term
	who   map[*leader.Term]string
}

func tcpElectionOf(tb testing.TB, name string) *tcpElection {
	tb.Helper()
	return &tcpElection{tb: tb, name: name, who: make(map[*leader.Term]string)}
}

// tcpCandidate is a candidate and its events.
type tcpCandidate struct {
	*leader.Candidate
	*leadertest.Watcher
	began time.Time
	read  chan struct{} // closed when the events were read to their end
}

// stand makes a candidate, which is stopped at the end of the test.
func (el *tcpElection) stand(store leader.Store, cfg leader.Config) *tcpCandidate {
	el.tb.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(el.tb.Output(), nil))
	}
	began := time.Now()
	lc := check.Got(leader.Campaign(el.tb.Context(), store, el.name, cfg))(el.tb)
	c := &tcpCandidate{Candidate: lc, Watcher: leadertest.Watch(el.tb, nil, lc), began: began, read: make(chan struct{})}
	go el.judge(c)
	el.tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), tcpLimit)
		defer cancel()
		err := lc.Stop(ctx)
		check.That(el.tb, err == nil, "%s: Stop: %v", lc.ID(), err)
		<-lc.Done()
		<-c.read
		check.That(el.tb, !lc.IsLeader(), "%s leads after Stop", lc.ID())
	})
	return c
}

// judge checks each event, whether the test reads it or not.
func (el *tcpElection) judge(c *tcpCandidate) {
	defer close(c.read)
	var open *leader.Term
	for e := range c.Candidate.Events(context.Background()) {
		switch e := e.(type) {
		case leader.Elected:
			if open != nil {
				el.tb.Errorf("%s: elected within the term with token %d", c.ID(), open.Token())
			}
			open = e.Term
			el.enter(c.ID(), e.Term)
		case leader.Fenced:
			el.over(c.ID(), e.Term, open, e.Cause)
		case leader.Deposed:
			el.over(c.ID(), e.Term, open, e.Cause)
			open = nil
		case leader.Pending, leader.Observed, leader.Faulted:
		}
	}
	if open != nil {
		el.tb.Errorf("%s: no Deposed for the term with token %d", c.ID(), open.Token())
	}
}

// over checks that a term is over when its end is reported.
func (el *tcpElection) over(id string, term, open *leader.Term, cause error) {
	switch {
	case term != open:
		el.tb.Errorf("%s: the end of a term that is not the current one", id)
	case cause == nil || context.Cause(term.Context()) != cause: //nolint:errorlint // the same, not a like one
		el.tb.Errorf("%s: the term with token %d ended with %v, the event says %v", id, term.Token(), context.Cause(term.Context()), cause)
	}
}

// enter adds a new term. A term that has ended before its event was read may be older
// than the terms of the others that were read before. While it goes on it is the newest.
func (el *tcpElection) enter(id string, term *leader.Term) {
	el.mu.Lock()
	defer el.mu.Unlock()
	newest := term.Err() == nil
	for _, o := range el.terms {
		if o.Token() == term.Token() || newest && o.Token() > term.Token() {
			el.tb.Errorf("%s has token %d, %s had %d before", id, term.Token(), el.who[o], o.Token())
		}
		if term.Err() == nil && o.Err() == nil && term.Err() == nil {
			el.tb.Errorf("two leaders: %s with token %d and %s with %d", el.who[o], o.Token(), id, term.Token())
		}
	}
	el.terms = append(el.terms, term)
	el.who[term] = id
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
