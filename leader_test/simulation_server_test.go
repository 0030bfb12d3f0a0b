package leader_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
)

// arena is the ground made of a real embedded server in a bubble, with a link in front
// of every client.
type arena struct {
	*world
	s           *simulation
	time        leader.Clock
	serverLinks map[string]serverLink
	expires     bool // the bucket is in memory: the server must not be stopped
	sealed      bool
}

// newArena draws a bucket.
func newArena(w *world, s *simulation) *arena {
	a := &arena{world: w, s: s, time: leader.SystemClock(), serverLinks: make(map[string]serverLink)}
	switch s.rng.IntN(3) {
	case 0:
		a.sealed = true
		w.create(leader.BucketConfig{MaxLease: s.lease})
	case 1:
		a.expires = true
		w.create(leader.BucketConfig{MaxLease: s.lease, TTL: s.lease * 3 / 2, Storage: jetstream.MemoryStorage})
	default:
		s.uniform = true
		w.ordinary()
	}
	return a
}

func (a *arena) clock() leader.Clock { return a.time }

func (a *arena) pass(d time.Duration) { a.at(a.now() + d) }

func (a *arena) begin(f func()) {
	go f()
	synctest.Wait()
}

// quiet is how long it takes until a connection is made again, and held messages have
// arrived.
func (a *arena) quiet() time.Duration { return 2 * request }

// serverLink is a client's connection.
type serverLink struct {
	*client
	bucket *leader.Bucket
}

func (w serverLink) store() leader.Store { return w.bucket }

func (w serverLink) close() { w.nc.Close() }

func (a *arena) link(name string) simulatedLink {
	l, ok := a.serverLinks[name]
	if !ok {
		for a.current() == nil {
			a.startServer()
		}
		cl := a.dial(name)
		l = serverLink{cl, cl.bucket(a.T)}
		a.serverLinks[name] = l
	}
	return l
}

// unknown is the longest lease that could be running.
func (a *arena) unknown() time.Duration { return a.s.lease * 3 / 2 }

func (a *arena) calm() {
	if a.current() == nil {
		a.startServer()
	}
	for _, w := range a.serverLinks {
		w.open()
	}
}

// faults returns all faults that links, the server and an operator can cause.
func (a *arena) faults() []fault {
	s := a.s
	on := func(name string, weight int, strike func(w serverLink, dirs ...direction)) fault {
		return fault{name, weight, true, func(l *life) bool {
			w := l.link.(serverLink)
			strike(w, [][]direction{{up}, {down}, {up, down}}[s.rng.IntN(3)]...)
			s.later(s.between(0, 3*s.lease), w.open)
			return true
		}}
	}
	asks := func(name string, f func(ctx context.Context, kv jetstream.KeyValue) error) fault {
		return fault{name, 1, false, func(*life) bool {
			s.call(name, func() error {
				ctx, cancel := context.WithTimeout(context.Background(), request)
				defer cancel()
				if kv, err := a.ops.js.KeyValue(ctx, "E"); err == nil {
					_ = f(ctx, kv) // the server may be down
				}
				return nil
			})
			return true
		}}
	}
	faults := []fault{
		{"StepDown", 2, false, func(l *life) bool { // not in memory: its goroutines run in no particular order
			ctx, cancel := context.WithTimeout(context.Background(), s.between(0, s.lease))
			p := s.petitioner()
			s.call("StepDown", func() error {
				defer cancel()
				_, err := leader.StepDown(ctx, p, "e", leader.StepDownOptions{By: "operator"})
				return err
			})
			return l.isLeading()
		}},
		{"Transfer", 2, false, func(l *life) bool {
			ctx, cancel := context.WithTimeout(context.Background(), s.between(0, s.lease))
			p, to := s.petitioner(), s.ids[s.rng.IntN(len(s.ids))]
			s.call("Transfer to "+to, func() error {
				defer cancel()
				h, err := leader.StepDown(ctx, p, "e", leader.StepDownOptions{To: to, Next: to == "", By: "operator"})
				if err == nil {
					s.took("Transfer", h.Token, to)
				}
				return err
			})
			return l.isLeading()
		}},
		on("a client cut off", 4, func(w serverLink, _ ...direction) { w.cut() }),
		on("a black hole", 6, func(w serverLink, dirs ...direction) { w.filter(messages(1, all(drop, dirs))) }),
		on("a link held up", 6, func(w serverLink, dirs ...direction) { w.filter(messages(1, all(hold, dirs))) }),
		on("messages lost", 4, func(w serverLink, dirs ...direction) { w.filter(messages(3, all(drop, dirs))) }),
		on("a link opened", 2, func(w serverLink, _ ...direction) { w.open() }),
		{"a connection closed", 1, false, func(l *life) bool {
			l.closed = true
			l.link.close()
			return true
		}},
		asks("an operator deletes", func(ctx context.Context, kv jetstream.KeyValue) error { return kv.Delete(ctx, "e") }),
		asks("an operator writes", func(ctx context.Context, kv jetstream.KeyValue) error {
			_, err := kv.Put(ctx, "e", []byte("junk"))
			return err
		}),
	}
	if !a.sealed {
		faults = append(faults, asks("an operator purges", func(ctx context.Context, kv jetstream.KeyValue) error { return kv.Purge(ctx, "e") }))
	}
	if !a.expires {
		faults = append(faults, fault{"the server restarted", 3, false, func(*life) bool {
			if a.current() == nil {
				return false
			}
			a.stopServer()
			s.later(s.between(0, 2*s.lease), func() {
				if a.current() == nil {
					a.startServer()
				}
			})
			return true
		}})
	}
	return faults
}

// messages applies a rule to every nth message, and to no other frame. In the
// handshake, a client that waits for an answer holds a mutex, and a goroutine that
// waits for a mutex stops the time of a bubble.
func messages(nth int64, rule func(frame) treatment) func(frame) treatment {
	var n atomic.Int64
	return func(f frame) treatment {
		if f.subject == "" || n.Add(1)%nth != 0 {
			return pass
		}
		return rule(f)
	}
}

// The same on a real server. Its goroutines run in no particular order within one
// instant, so a seed is not the same every time.
func TestSimulation_OnServer(t *testing.T) {
	sum := simulate(t, seeds(25), func(t *testing.T, seed uint64, trace func(string)) (s *simulation) {
		t.Helper()
		bubble(t, func(w *world) {
			s = newSimulation(w.T, seed, trace)
			a := newArena(w, s)
			s.ground = a
			s.run(a.unknown())
		})
		return s
	})
	check.That(t, *onlySeed != 0 || sum.elections >= seeds(25), "only %d elections", sum.elections)
}
