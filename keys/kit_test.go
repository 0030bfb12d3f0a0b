package keys_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/keys"
	"github.com/natsleader/natsleader/shard"
)

const lease = 15 * time.Second

// coldStart is the time after which a group has granted all shards: it grants in portions for a second.
const coldStart = 2 * time.Second

// fleet is processes that work on the keys "t.*" of a store, and a ledger of that work.
type fleet struct {
	*testing.T
	groups  *leadertest.Store
	tenants *leadertest.Store
	config  func(*keys.Config)
	work    func(p *process, k *keys.Key) // in place of waiting for the end

	mu     sync.Mutex
	log    strings.Builder
	lines  []string
	owners map[string]*running // whose work has not returned
	begun  map[string]int
	made   int
}

// running is work on a key.
type running struct {
	*keys.Key
	by *process
}

// process is a process of a fleet.
type process struct {
	*fleet
	id     string
	link   *leadertest.Link // to the tenants
	group  *leadertest.Link
	set    *keys.Set
	leave  context.CancelFunc
	served chan struct{} // closed when Serve has returned
	err    error         // of Serve
	dead   bool          // it has crashed; under the lock
}

func newFleet(t *testing.T) *fleet {
	return &fleet{
		T: t, groups: leadertest.NewStore(nil), tenants: leadertest.NewStore(nil),
		owners: make(map[string]*running), begun: make(map[string]int),
	}
}

// Write takes a line of the log.
func (f *fleet) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.Write(p)
}

// logged returns how many lines of the log contain a text.
func (f *fleet) logged(text string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Count(f.log.String(), text)
}

// start starts a process, which ends with the test.
func (f *fleet) start(id string) *process {
	f.Helper()
	f.made++
	name := fmt.Sprintf("%s#%d", id, f.made)
	p := &process{fleet: f, id: id, link: f.tenants.Link(name), group: f.groups.Link(name), served: make(chan struct{})}
	cfg := keys.Config{
		Bucket: p.link, Filter: "t.*",
		Member: shard.Config{ID: id, Shards: 16, LeaseDuration: lease, Logger: slog.New(slog.NewTextHandler(f, nil))},
	}
	if f.config != nil {
		f.config(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.leave = cancel
	p.set = check.Got(keys.Join(ctx, p.group, "tenants", cfg))(f)
	go func() {
		defer close(p.served)
		p.err = p.set.Serve(p.begin)
	}()
	f.Cleanup(func() {
		cancel()
		<-p.served
	})
	return p
}

// stop ends a process, and returns when it has ended.
func (p *process) stop() {
	p.Helper()
	p.leave()
	<-p.served
	check.OK(p, p.err)
}

// crash ends a process at once: what it works on counts no more.
func (p *process) crash() {
	p.mu.Lock()
	for name, k := range p.owners {
		if k.by == p {
			delete(p.owners, name)
		}
	}
	p.dead = true
	p.mu.Unlock()
	p.link.Close()
	p.group.Close()
}

// begin is the work on a key: it keeps the ledger, and fails the test if other work on the key goes on.
func (p *process) begin(lead context.Context, k *keys.Key) {
	p.mu.Lock()
	if p.dead || lead.Err() != nil {
		p.mu.Unlock()
		return
	}
	if was := p.owners[k.Name()]; was != nil {
		p.Errorf("%s begins %s with %d while work with %d goes on", p.id, k.Name(), k.Token(), was.Token())
	}
	p.owners[k.Name()] = &running{k, p}
	p.begun[k.Name()]++
	p.say("%s begins %s=%s", p.id, k.Name(), k.Entry().Value)
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.dead {
			return
		}
		delete(p.owners, k.Name())
		p.say("%s ends %s: %v", p.id, k.Name(), context.Cause(lead))
	}()
	if p.work != nil {
		p.work(p, k)
		return
	}
	<-lead.Done()
}

// say notes a line, which says. The lock is held.
func (f *fleet) say(format string, args ...any) {
	f.lines = append(f.lines, fmt.Sprintf(format, args...))
}

// said returns the lines since the last call, when all is at rest.
func (f *fleet) said() string {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := strings.Join(f.lines, "\n")
	f.lines = nil
	return lines
}

// works returns how many keys each process works on, as text, for example "a:3 b:2".
func (f *fleet) works(ids ...string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := make(map[string]int)
	for _, k := range f.owners {
		if k.Context().Err() == nil {
			n[k.by.id]++
		}
	}
	var text []string
	for _, id := range ids {
		text = append(text, fmt.Sprint(id, ":", n[id]))
	}
	return strings.Join(text, " ")
}

// isDeleted reports whether a context has ended because its key was deleted.
func isDeleted(ctx context.Context) bool { return errors.Is(context.Cause(ctx), keys.ErrDeleted) }
