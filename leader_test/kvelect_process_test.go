package leader_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
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

// fleet is a set of old processes and candidates on one key.
type fleet struct {
	*world
	ttl time.Duration

	mu   sync.Mutex
	olds []*kvProcess
	news []*candidate
	said []string // the wins and losses
}

// fleet makes a bucket as such processes have it: with a TTL, and nothing else. It is
// in memory, see expiring.
func (w *world) fleet(ttl time.Duration) *fleet {
	w.Helper()
	_, err := w.ops.js.CreateKeyValue(w.Context(), jetstream.KeyValueConfig{Bucket: "E", TTL: ttl, Storage: jetstream.MemoryStorage})
	w.ok(err)
	f := &fleet{world: w, ttl: ttl}
	w.Cleanup(f.retire)
	return f
}

// retire ends the old processes.
func (f *fleet) retire() {
	f.mu.Lock()
	olds := slices.Clone(f.olds)
	f.mu.Unlock()
	for _, p := range olds {
		p.quit()
		p.open()
		<-p.done
		p.nc.Close()
	}
}

func (f *fleet) interval() time.Duration { return f.ttl / 4 * 3 }

// old starts a process that campaigns when the splay is over.
func (f *fleet) old(name string, splay time.Duration) *kvProcess {
	f.Helper()
	cl := f.dial(name)
	kv := legacyKV(f.T, cl.nc, "E")
	ctx, cancel := context.WithCancel(context.Background())
	p := &kvProcess{client: cl, name: name, kv: kv, told: f.tells, end: cancel, done: make(chan struct{})}
	f.mu.Lock()
	f.olds = append(f.olds, p)
	f.mu.Unlock()
	go p.run(ctx, f.interval(), splay)
	return p
}

// legacyKV opens the bucket by the older of the two APIs of nats.go.
func legacyKV(tb testing.TB, nc *nats.Conn, bucket string) nats.KeyValue {
	tb.Helper()
	js := check.Got(nc.JetStream())(tb)
	return check.Got(js.KeyValue(bucket))(tb)
}

// new starts a candidate.
func (f *fleet) new(id string) *candidate {
	f.Helper()
	c := f.campaign(f.Context(), f.dial(id), "e", leader.Config{
		ID: id, KVElect: true, LeaseDuration: 15 * time.Second, Logger: slog.New(fleetEar{fleet: f, id: id}),
	})
	f.mu.Lock()
	f.news = append(f.news, c)
	f.mu.Unlock()
	return c
}

// fleetEar checks for two leaders at the moment at which a candidate is about to report
// that it leads.
type fleetEar struct {
	slog.Handler // none
	*fleet
	id string
}

func (fleetEar) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (e fleetEar) WithAttrs([]slog.Attr) slog.Handler             { return e }

func (e fleetEar) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "elected" {
		e.note(e.id + " elected")
		e.judge()
	}
	return nil
}

// tells records a notification of a process.
func (f *fleet) tells(p *kvProcess, what string) {
	f.note(p.name + " " + what)
	f.judge()
}

func (f *fleet) note(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, fmt.Sprintf("%v %s", f.now(), what))
}

// heard returns the wins and losses since it was last called.
func (f *fleet) heard() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	said := f.said
	f.said = nil
	return said
}

// leaders returns all current leaders.
func (f *fleet) leaders() (olds, news []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.olds {
		if p.leads.Load() {
			olds = append(olds, p.name)
		}
	}
	for _, c := range f.news {
		if c.IsLeader() {
			news = append(news, c.ID())
		}
	}
	return olds, news
}

// judge fails the test if there are two leaders.
func (f *fleet) judge() {
	olds, news := f.leaders()
	check.That(f, len(olds)+len(news) <= 1, "%v: two leaders: %v and %v", f.now(), olds, news)
}

// leader returns the current leader, or "".
func (f *fleet) leader() string {
	olds, news := f.leaders()
	if both := append(olds, news...); len(both) > 0 {
		return both[0]
	}
	return ""
}

// heardIs fails the test unless exactly these wins and losses have occurred.
func (f *fleet) heardIs(t *testing.T, want ...string) {
	t.Helper()
	got := f.heard()
	check.That(t, slices.Equal(got, want), "heard\n  %q\nwant\n  %q", got, want)
}
