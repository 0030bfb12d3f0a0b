package jsapi

import (
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
)

func TestMajority(t *testing.T) {
	alive, fresh := &jetstream.PeerInfo{Current: true, Active: time.Second}, &jetstream.PeerInfo{}
	stale, offline := &jetstream.PeerInfo{Name: "b", Active: unheard}, &jetstream.PeerInfo{Name: "c", Active: time.Second, Offline: true}
	for name, tt := range map[string]struct {
		cluster *jetstream.ClusterInfo
		want    string // of the error; empty: none
	}{
		"a single server":                {nil, ""},
		"no leader":                      {&jetstream.ClusterInfo{Replicas: []*jetstream.PeerInfo{alive, alive}}, "has no leader"},
		"one replica":                    {&jetstream.ClusterInfo{Leader: "a"}, ""},
		"a new leader":                   {&jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{fresh, fresh}}, ""},
		"all":                            {&jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{alive, alive}}, ""},
		"one of three is lost":           {&jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{alive, stale}}, ""},
		"a leader that is cut off":       {&jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{stale, offline}}, "hear from b, c: 2 of its 3 servers"},
		"half of two":                    {&jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{stale}}, "from b: 1 of its 2 servers"},
		"half of four, the leader's own": {&jetstream.ClusterInfo{Leader: "a", Replicas: []*jetstream.PeerInfo{alive, stale, stale}}, "from b, b: 2 of its 4 servers"},
	} {
		err := Majority(&jetstream.StreamInfo{Cluster: tt.cluster})
		if (err == nil) != (tt.want == "") || err != nil && (!errors.Is(err, backend.ErrUnreachable) || !strings.HasSuffix(err.Error(), tt.want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// bubble runs f in a bubble. nats.go keeps timers for later use, and those of a bubble are fatal outside
// of it: the garbage collector takes them, in two steps.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	empty := func() { runtime.GC(); runtime.GC() }
	empty()
	defer empty()
	synctest.Test(t, f)
}

// newMovable connects to one server by the addresses of some, and returns a stream of that connection.
func newMovable(t *testing.T, addresses string, opts ...nats.Option) *Stream {
	t.Helper()
	s := check.Got(server.NewServer(&server.Options{DontListen: true, NoSigs: true, NoLog: true}))(t)
	s.Start()
	nc, err := nats.Connect(addresses, append(opts, nats.InProcessServer(s), nats.DontRandomize(), nats.IgnoreDiscoveredServers())...)
	check.OK(t, err)
	t.Cleanup(func() {
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
	})
	js := check.Got(jetstream.New(nc))(t)
	a := new(Stream)
	a.Init(js, "KV_E")
	return a
}

// While no sign comes, a connection moves after the wait, then after twice, four times and so on as
// long, at most a minute, each time after a random pause. A sign makes it begin anew. Many candidates
// that ask at once move the connection once.
func TestMove_WaitsLongerEachTime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newMovable(t, "nats://one,nats://two,nats://three")
		const quiet = 5 * time.Second
		var moves, pauses []time.Duration
		var from []string
		began := time.Now()
		ask := func(until time.Duration) {
			for ; time.Since(began) < until; time.Sleep(time.Second) {
				for range 100 {
					a.Move(quiet, func(address string) bool {
						at := time.Since(began)
						moves, from = append(moves, at.Truncate(time.Second)), append(from, address)
						pauses = append(pauses, at%time.Second)
						return true
					})
				}
			}
			synctest.Wait()
		}
		ask(4 * time.Minute)
		want := []time.Duration{5 * time.Second, 15 * time.Second, 35 * time.Second, 75 * time.Second, 135 * time.Second, 195 * time.Second}
		check.That(t, slices.Equal(moves, want), "moved at %v, not at %v", moves, want)
		if !slices.Equal(from[:min(4, len(from))], []string{"nats://one:4222", "nats://two:4222", "nats://three:4222", "nats://one:4222"}) {
			t.Errorf("left %v", from)
		}
		longest := slices.Max(pauses)
		check.That(t, longest <= quiet/8 && slices.Min(pauses) != longest,
			"paused for %v, not at random for up to %v", pauses, quiet/8)
		moves = nil
		a.Signed()
		ask(4*time.Minute + 16*time.Second)
		want = []time.Duration{4*time.Minute + 5*time.Second, 4*time.Minute + 15*time.Second}
		check.That(t, slices.Equal(moves, want), "after a sign moved at %v, not at %v", moves, want)
	})
}

// The pause before a move is short where a leader waits for long.
func TestMove_ShortPause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newMovable(t, "nats://one,nats://two")
		const quiet = 8 * time.Minute
		for range 20 {
			time.Sleep(quiet)
			var paused time.Duration
			began := time.Now()
			a.Move(quiet, func(string) bool {
				paused = time.Since(began)
				return true
			})
			time.Sleep(quiet / 8)
			synctest.Wait()
			check.That(t, paused > 0 && paused <= longestPause, "paused for %v", paused)
			a.Signed()
		}
	})
}

// A connection that knows no other server stays, and so does one that must not reconnect, one that was
// closed, one on which a sign has come, one on which a sign comes before it has moved, and one that the
// caller does not need any more.
func TestMove_Stays(t *testing.T) {
	for name, tt := range map[string]struct {
		addresses string
		opts      []nats.Option
		before    func(*Stream)
		after     func(*Stream)
		refused   bool
	}{
		"no other server":    {addresses: "nats://one"},
		"must not reconnect": {addresses: "nats://one,nats://two", opts: []nats.Option{nats.NoReconnect()}},
		"no second try":      {addresses: "nats://one,nats://two", opts: []nats.Option{nats.MaxReconnects(0)}},
		"not needed":         {addresses: "nats://one,nats://two", refused: true},
		"closed":             {addresses: "nats://one,nats://two", before: func(a *Stream) { a.Conn.Close() }},
		"a sign":             {addresses: "nats://one,nats://two", before: (*Stream).Signed},
		"a sign meanwhile":   {addresses: "nats://one,nats://two", after: (*Stream).Signed},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				a := newMovable(t, tt.addresses, tt.opts...)
				time.Sleep(time.Minute)
				if tt.before != nil {
					tt.before(a)
				}
				var asked atomic.Bool
				a.Move(5*time.Second, func(string) bool {
					asked.Store(true)
					return !tt.refused
				})
				if tt.after != nil {
					tt.after(a)
				}
				time.Sleep(2 * time.Second)
				url := a.Conn.ConnectedUrl()
				check.That(t, asked.Load() == tt.refused && (url == "nats://one:4222" || a.Conn.IsClosed()),
					"asked: %t, connected to %q", asked.Load(), url)
			})
		})
	}
}

// A connection that the caller needs where it is moves as soon as it is not needed any more.
func TestMove_AfterRefusal(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newMovable(t, "nats://one,nats://two")
		time.Sleep(time.Minute)
		var asked int
		for range 2 {
			a.Move(5*time.Second, func(string) bool { asked++; return asked == 2 })
			time.Sleep(time.Second)
			synctest.Wait()
		}
		check.That(t, asked == 2 && a.Conn.ConnectedUrl() == "nats://two:4222", "asked %d times, connected to %s", asked, a.Conn.ConnectedUrl())
	})
}

// The options of nats.go say how often a connection is made again.
func TestReconnects_Options(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newMovable(t, "nats://one")
		for _, tt := range []struct {
			allow       bool
			maximum     int
			tries       int
			wantForever bool
		}{{false, 7, 0, false}, {true, 7, 7, false}, {true, 0, 0, false}, {true, -1, -1, true}} {
			a.Conn.Opts.AllowReconnect, a.Conn.Opts.MaxReconnect = tt.allow, tt.maximum
			tries, forever := a.Reconnects()
			check.That(t, tries == tt.tries && forever == tt.wantForever, "%+v: %d, forever: %v", tt, tries, forever)
		}
	})
}

// moves returns when a connection moves that is asked to again and again.
func moves(t *testing.T, quiet, step, until time.Duration) (at []time.Duration) {
	bubble(t, func(t *testing.T) {
		a := newMovable(t, "nats://one,nats://two")
		for began := time.Now(); time.Since(began) <= until; time.Sleep(step) {
			a.Move(quiet, func(string) bool {
				at = append(at, time.Since(began))
				return true
			})
		}
		synctest.Wait()
	})
	return at
}

// A silence of hours leaves the waits at a minute. Its moves are more than a duration has bits.
func TestMove_LongSilence(t *testing.T) {
	const step = 5 * time.Second
	want := []time.Duration{step, 15 * time.Second, 35 * time.Second, 75 * time.Second}
	for len(want) < 70 {
		want = append(want, want[len(want)-1]+time.Minute)
	}
	got := moves(t, step, step, want[len(want)-1])
	for i := range got {
		got[i] = got[i].Truncate(step)
	}
	check.Deep(t, got, want)
}

// The bound of a minute shortens no wait that is longer than a minute.
func TestMove_LongWait(t *testing.T) {
	const quiet = 10 * time.Minute
	at := moves(t, quiet, time.Minute, 24*time.Minute)
	check.That(t, len(at) == 2 && at[1]-at[0] >= quiet-quiet/8, "moved at %v", at)
}
