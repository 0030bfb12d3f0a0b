//go:build field

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/roster"
)

// stall is a connection to a server on which writes can be made to block, as they do
// when the network swallows packets and the socket's buffer is full. nats.go holds its
// lock meanwhile.
type stall struct {
	mu      sync.Mutex
	blocked chan struct{} // closed by a write that blocks; nil: writes pass
	free    chan struct{}
}

// Dial implements nats.CustomDialer.
func (s *stall) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &stallConn{Conn: c, s: s}, nil
}

type stallConn struct {
	net.Conn
	s *stall
}

func (c *stallConn) Write(b []byte) (int, error) {
	c.s.mu.Lock()
	blocked, free := c.s.blocked, c.s.free
	c.s.mu.Unlock()
	if blocked != nil {
		select {
		case <-blocked: // another write has reported that
		default:
			close(blocked)
		}
		<-free
	}
	return c.Conn.Write(b)
}

// hold makes the connection's next write block, and waits until nats.go holds its lock.
func (s *stall) hold(t *testing.T, nc *nats.Conn) (release func()) {
	t.Helper()
	blocked, free := make(chan struct{}), make(chan struct{})
	s.mu.Lock()
	s.blocked, s.free = blocked, free
	s.mu.Unlock()
	check.OK(t, nc.Publish("application", []byte("x")))
	select {
	case <-blocked:
	case <-time.After(tcpLimit):
		t.Fatal("nothing is written")
	}
	release = sync.OnceFunc(func() {
		s.mu.Lock()
		s.blocked = nil
		s.mu.Unlock()
		close(free)
	})
	t.Cleanup(release)
	return release
}

// inTime waits until a channel is closed.
func inTime(t *testing.T, what string, closed <-chan struct{}) {
	t.Helper()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Fatalf("not in time: %s", what)
	}
}

// stalled is a connection to a server with the buckets E and G and the stream S, and a
// term of an election of E with guards.
type stalled struct {
	*stall
	nc     *nats.Conn
	js     jetstream.JetStream
	b      *leader.Bucket
	gb     *fence.Bucket
	gs     *fence.Stream
	leader *tcpCandidate
	term   *leader.Term
}

func newStalled(t *testing.T) *stalled {
	t.Helper()
	s := tcpServe(t, tcpOptions(t, ""))
	x := &stalled{stall: &stall{}}
	x.nc = tcpDial(t, s.ClientURL(), nats.SetCustomDialer(x.stall))
	x.js = tcpJS(t, x.nc)
	tcpCreate(t, x.js, leader.BucketConfig{Roster: true})
	x.gb = check.Got(fence.CreateOrUpdateBucket(t.Context(), x.js, jetstream.KeyValueConfig{Bucket: "G"}))(t)
	x.gs = check.Got(fence.CreateOrUpdateStream(t.Context(), x.js, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}}, "s.guard"))(t)
	x.b = tcpBucket(t, x.js)
	x.leader = tcpElectionOf(t, "e").stand(x.b, leader.Config{Queue: &leader.Queue{AtOnce: true}, Guards: []leader.Guard{x.gb, x.gs}})
	x.term = tcpTerm(x.leader)
	return x
}

// While nats.go holds its lock, each public call ends with its context, and Campaign
// returns at once.
func TestBlockedConnection_CallsEnd(t *testing.T) {
	x := newStalled(t)
	before := goleak.IgnoreCurrent()
	release := x.hold(t, x.nc)
	type call struct {
		what string
		call func(ctx context.Context) error
		want error
	}
	var calls []call
	add := func(what string, want error, f func(ctx context.Context) error) {
		calls = append(calls, call{what, f, want})
	}
	late := leader.ErrUnreachable
	add("Lookup", late, func(ctx context.Context) error { return check.Err(leader.Lookup(ctx, x.b, "e")) })
	add("Observe", nil, func(ctx context.Context) error {
		holders, err := leader.Observe(ctx, x.b, "e")
		for range holders {
		}
		return err
	})
	add("roster.Lookup", late, func(ctx context.Context) error { return check.Err(roster.Lookup(ctx, x.b, "e")) })
	add("roster.Observe", late, func(ctx context.Context) error { return check.Err(roster.Observe(ctx, x.b, "e")) })
	add("StepDown", late, func(ctx context.Context) error {
		return check.Err(leader.StepDown(ctx, x.b, "e", leader.StepDownOptions{}))
	})
	add("Transfer", late, func(ctx context.Context) error {
		return check.Err(leader.StepDown(ctx, x.b, "e", leader.StepDownOptions{To: "b"}))
	})
	add("Info", late, func(ctx context.Context) error { return check.Err(x.b.Info(ctx)) })
	add("CreateOrUpdateBucket", late, func(ctx context.Context) error {
		return check.Err(leader.CreateOrUpdateBucket(ctx, x.js, leader.BucketConfig{Name: "new"}))
	})
	add("fence.CreateOrUpdateBucket", late, func(ctx context.Context) error {
		return check.Err(fence.CreateOrUpdateBucket(ctx, x.js, jetstream.KeyValueConfig{Bucket: "new"}))
	})
	add("Check", late, func(ctx context.Context) error { return checked(ctx, x.gb) })
	nothing := context.DeadlineExceeded
	// Writes that may not go beside others are sent without the context of their
	// caller.
	add("Put", nothing, func(ctx context.Context) error { return check.Err(x.gb.Writer(x.term).Put(ctx, "k", nil)) })
	add("Create", nothing, func(ctx context.Context) error { return check.Err(x.gb.Writer(x.term).Create(ctx, "k", nil)) })
	add("Delete", nothing, func(ctx context.Context) error { return x.gb.Writer(x.term).Delete(ctx, "k") })
	add("Commit", nothing, func(ctx context.Context) error {
		b := x.gb.Writer(x.term).Batch()
		b.Put("a", nil)
		b.Put("b", nil)
		return check.Err(b.Commit(ctx))
	})
	add("Publish", nothing, func(ctx context.Context) error { return check.Err(x.gs.Writer(x.term).Publish(ctx, "s.a", nil)) })
	add("Campaign", nil, func(ctx context.Context) error {
		background := context.WithoutCancel(ctx)
		began := time.Now()
		c, err := leader.Campaign(background, x.b, "other", leader.Config{Queue: &leader.Queue{AtOnce: true}, Guards: []leader.Guard{x.gb}})
		if err != nil {
			return err
		}
		if time.Since(began) > 5*time.Second { // the connection is blocked for longer
			t.Errorf("Campaign: returned after %v", time.Since(began))
		}
		<-ctx.Done()
		_ = c.Stop()
		<-c.Done()
		return nil
	})
	add("Stop", leader.ErrUnreachable, func(ctx context.Context) error {
		err := x.leader.Stop()
		<-x.leader.Done()
		return err
	})

	var ended sync.WaitGroup
	for _, k := range calls {
		ended.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			done := make(chan error, 1)
			go func() { done <- k.call(ctx) }()
			select {
			case err := <-done:
				check.That(t, (k.want != nil || err == nil) && (k.want == nil || errors.Is(err, k.want)),
					"%s: %v, want %v", k.what, err, k.want)
			case <-time.After(20 * time.Second):
				t.Errorf("%s has not ended", k.what)
			}
		})
	}
	ended.Wait()
	release()
	tcpEventually(t, "nothing is left behind", func() bool { return goleak.Find(before) == nil })
}

// Each method of a store returns at once.
func TestBlockedConnection_Store(t *testing.T) {
	x := newStalled(t)
	x.hold(t, x.nc)
	returned := make(chan struct{})
	var replies sync.WaitGroup
	go func() {
		defer close(returned)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		replies.Add(7)
		x.b.Backend().Settings(ctx, func(backend.Settings, error) { replies.Done() })
		x.b.Backend().Get(ctx, "k", func(backend.Entry, error) { replies.Done() })
		x.b.Backend().Update(ctx, "k", nil, 0, func(uint64, error) { replies.Done() })
		x.b.Backend().Mark(ctx, "k", nil, 0, func(uint64, error) { replies.Done() })
		x.b.Backend().Watch(ctx, "k", nil, func(backend.FeedEvent) {}, func(backend.Feed, error) { replies.Done() })
		x.b.Backend().Listen(ctx, "k", func([]byte, func([]byte)) {}, func(func(func()), error) { replies.Done() })
		x.b.Backend().Ask(ctx, "k", nil, func([]byte, error) { replies.Done() })
	}()
	inTime(t, "the return of all methods", returned)
	replies.Wait() // the context has ended
}

// If the connection of a leader hangs, the leader is fenced at its deadline, and its
// candidate can be ended.
func TestBlockedConnection_Fences(t *testing.T) {
	x := newStalled(t)
	c := tcpElectionOf(t, "brief").stand(x.b, leader.Config{LeaseDuration: time.Second})
	term := tcpTerm(c)
	x.hold(t, x.nc)
	inTime(t, "the end of the term's context", term.Context().Done())
	c.Expect(leadertest.Fenced(leader.ErrLeaseExpired))
	backend.Crash(c.Candidate)
	inTime(t, "the end of the candidate", c.Done())
}

// Calls that wait for the lock do not accumulate without bound. Beyond a number of
// calls that their callers have left, calls fail at once.
func TestBlockedConnection_BoundsCalls(t *testing.T) {
	x := newStalled(t)
	release := x.hold(t, x.nc)
	lookups := func(n int, patience time.Duration) {
		var all sync.WaitGroup
		for range n {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				check.Is(t, check.Err(leader.Lookup(ctx, x.b, "e")), leader.ErrUnreachable)
			})
		}
		all.Wait()
	}
	lookups(100, 10*time.Millisecond)
	atOnce := make(chan error, 1)
	go func() {
		_, err := leader.Lookup(context.WithoutCancel(t.Context()), x.b, "e")
		atOnce <- err
	}()
	before := time.Now()
	if err := <-atOnce; !errors.Is(err, leader.ErrUnreachable) || time.Since(before) > 4*time.Second { // it would wait 5 s
		t.Errorf("after %v: %v", time.Since(before), err)
	}
	release()
	tcpEventually(t, "the bucket can be used again", func() bool {
		_, err := leader.Lookup(t.Context(), x.b, "e")
		return err == nil
	})
}

// A guarded write that may have been handed to the connection when its caller left is
// of unknown outcome. A write that had not been handed over is not.
func TestBlockedConnection_UnsentWrites(t *testing.T) {
	x := newStalled(t)
	release := x.hold(t, x.nc)
	var writes sync.WaitGroup
	for i := range 10 {
		writes.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err := x.gb.Writer(x.term).Put(ctx, fmt.Sprintf("k%d", i), []byte("x"))
			check.That(t, err != nil && !errors.Is(err, fence.ErrUnknownOutcome), "Put: %v", err)
		})
	}
	writes.Wait()
	release()
	check.Got(x.gb.Writer(x.term).Put(t.Context(), "last", []byte("x")))(t)
	kv := check.Got(x.js.KeyValue(t.Context(), "G"))(t)
	for i := range 10 {
		_, err := kv.Get(t.Context(), fmt.Sprintf("k%d", i))
		check.That(t, errors.Is(err, jetstream.ErrKeyNotFound), "k%d: %v", i, err)
	}
}
