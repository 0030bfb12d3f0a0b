package leader_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
)

// kvProcess runs the algorithm of nats-kv-leader-elect, written from its description,
// over the API of nats.go that it uses. It creates the key to win. It updates the key
// after each interval, three quarters of the bucket's TTL, on the condition of the last
// sequence. An update that fails is a loss. The first update that succeeds makes the
// winner the leader, and the winner is notified a little later.
type kvProcess struct {
	*client
	name  string
	kv    nats.KeyValue
	leads atomic.Bool
	told  func(p *kvProcess, what string) // "won" and "lost"
	end   context.CancelFunc
	done  chan struct{}
}

// kvGrace is the time from the first update to the notification of the winner.
const kvGrace = 200 * time.Millisecond

// run campaigns for the first time when the splay is over. A request takes up to 5 s,
// the default of nats.go. Create makes up to three requests.
func (p *kvProcess) run(ctx context.Context, interval, splay time.Duration) {
	defer close(p.done)
	defer p.leads.Store(false)
	var seq uint64 // of its last write; 0: it has not won
	notify := false
	campaign := func() {
		if seq == 0 {
			if s, err := p.kv.Create("e", []byte(p.name)); err == nil {
				seq, notify = s, true
			}
			return
		}
		s, err := p.kv.Update("e", []byte(p.name), seq)
		if err != nil {
			seq, notify = 0, false
			p.leads.Store(false)
			p.told(p, "lost")
			return
		}
		seq = s
		if notify && ctx.Err() == nil {
			notify = false
			p.leads.Store(true)
			if pause(ctx, kvGrace) {
				p.told(p, "won")
			}
		}
	}
	if !pause(ctx, splay) {
		return
	}
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	campaign()
	for {
		select {
		case <-ticks.C:
			campaign()
		case <-ctx.Done():
			return
		}
	}
}

// pause reports whether ctx is still alive after d.
func pause(ctx context.Context, d time.Duration) bool {
	over := time.NewTimer(d)
	defer over.Stop()
	select {
	case <-over.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// quit ends the process. Its record stays until it expires.
func (p *kvProcess) quit() {
	p.end()
	p.leads.Store(false)
}

// kvElect makes a bucket as such processes have it: with a TTL, and nothing else. It is in memory, see
// expiring.
func (w *world) kvElect() {
	w.Helper()
	cfg := jetstream.KeyValueConfig{Bucket: "E", TTL: kvTTL, Storage: jetstream.MemoryStorage}
	check.Got(w.ops.js.CreateKeyValue(w.Context(), cfg))(w)
}

// legacyKV opens the bucket by the older of the two APIs of nats.go.
func legacyKV(tb testing.TB, nc *nats.Conn, bucket string) nats.KeyValue {
	tb.Helper()
	js := check.Got(nc.JetStream())(tb)
	return check.Got(js.KeyValue(bucket))(tb)
}

// runs starts a process of nats-kv-leader-elect that campaigns when the splay is over.
func (s *stage) runs(who string, args []string) {
	s.Helper()
	cl := s.client(who)
	ctx, cancel := context.WithCancel(context.Background())
	p := &kvProcess{client: cl, name: who, kv: legacyKV(s.T, cl.nc, "E"), end: cancel, done: make(chan struct{})}
	p.told = func(_ *kvProcess, what string) {
		s.note(who, "%s", what)
		s.judge()
	}
	s.noting.Lock()
	s.olds = append(s.olds, p)
	s.noting.Unlock()
	s.Cleanup(func() {
		p.quit()
		p.open()
		<-p.done
		p.nc.Close()
	})
	go p.run(ctx, kvInterval, s.duration(args[0]))
}

// judge fails the test if there are two leaders.
func (s *stage) judge() {
	s.noting.Lock()
	defer s.noting.Unlock()
	var leaders []string
	for _, p := range s.olds {
		if p.leads.Load() {
			leaders = append(leaders, p.name)
		}
	}
	for id, c := range s.cast {
		if c.IsLeader() {
			leaders = append(leaders, id)
		}
	}
	check.That(s, len(leaders) <= 1, "%v: two leaders: %q", s.now(), leaders)
}

// judging checks for two leaders at the moment at which a candidate is about to report that it leads.
type judging struct {
	slog.Handler // none
	*stage
}

func (judging) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (j judging) WithAttrs([]slog.Attr) slog.Handler             { return j }

func (j judging) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "elected" {
		j.judge()
	}
	return nil
}
