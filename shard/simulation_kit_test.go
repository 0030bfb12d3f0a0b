package shard_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/shard"
)

const (
	lease = 15 * time.Second
	drain = 5 * time.Second
	stop  = 8 * time.Second
	named = "orders"
)

// fleet is a number of processes that share shards, in a bubble. It keeps a ledger of who works on what.
type fleet struct {
	t      *testing.T
	store  *leadertest.Store
	from   time.Time
	shards int
	trace  func(line string) // nil: only the end of it is kept
	config func(id string, cfg *shard.Config)
	rng    *rand.Rand // of a test that needs chance

	mu     sync.Mutex
	ledger []page // by the number of the shard
	begins int
	procs  []*process // that have not ended
	made   int
	last   []string // of the trace
	ids    map[string]bool
}

// page is the ledger of one shard.
type page struct {
	works []*work // that have not ended, in the order in which they began
	token uint64  // the greatest
	ended time.Time
	begun time.Time
	count int       // how often work has begun
	first time.Time // when it has for the first time, since a test has set it back
	by    *process  // who began last
	again *process  // whose work ended early, so that it may begin again with the same token
}

// work is the work of a process on a shard.
type work struct {
	p      *process
	s      *shard.Shard
	over   time.Time // when its context ended by the notice of a timer; zero: not yet
	ill    bool      // the process was disturbed meanwhile
	number int
}

// process is one run of one member.
type process struct {
	f      *fleet
	id     string
	name   string // of the run, and of its link
	link   *leadertest.Link
	member *shard.Member
	cancel context.CancelFunc
	config shard.Config

	// under the lock of the fleet
	dead    bool          // it was killed: none of its work runs any more
	stopped time.Time     // when it was asked to stop
	hangs   time.Duration // its work goes on for that long after the end of its context
	early   time.Duration // its work ends after that time by itself; 0: it does not
	once    bool          // that counts for the next work alone whose context ends
	idle    time.Time     // when its last work ended
	ill     time.Time     // until when it counts as disturbed
}

func newFleet(t *testing.T, shards int, opts ...leadertest.Option) *fleet {
	return &fleet{
		t: t, store: leadertest.NewStore(nil, opts...), from: time.Now(), shards: shards, ledger: make([]page, shards), ids: make(map[string]bool),
	}
}

// say adds a line to the trace.
func (f *fleet) say(format string, args ...any) {
	line := fmt.Sprintf("%9.3fs ", time.Since(f.from).Seconds()) + fmt.Sprintf(format, args...)
	if f.trace != nil {
		f.trace(line)
	}
	f.last = append(f.last, line)
}

// fail fails the test. The lock is held.
func (f *fleet) fail(format string, args ...any) {
	f.t.Helper()
	f.say(format, args...)
	if f.t.Failed() {
		return // the first failure of a seed says enough
	}
	f.t.Errorf("WRONG: %s\n%s", fmt.Sprintf(format, args...), strings.Join(f.last[max(0, len(f.last)-120):], "\n"))
}

// start starts a process.
func (f *fleet) start(id string) *process {
	f.mu.Lock()
	f.made++
	p := &process{f: f, id: id, name: fmt.Sprintf("%s#%d", id, f.made)}
	p.link = f.store.Link(p.name)
	f.say("%s starts", p.name)
	f.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	cfg := shard.Config{Shards: f.shards, ID: id, LeaseDuration: lease, GracePeriod: drain, StopTimeout: stop}
	if f.config != nil {
		f.config(id, &cfg)
	}
	p.config = cfg
	m, err := shard.Join(ctx, p.link, named, cfg)
	if err != nil {
		f.t.Fatalf("%s: %v", p.name, err)
	}
	f.t.Cleanup(p.link.Close) // also if the test has failed
	f.mu.Lock()
	p.member = m
	f.procs = append(f.procs, p) // something may happen to it from now on
	f.mu.Unlock()
	runs(m, p.work)
	go func() {
		<-m.Done()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.left(p)
	}()
	return p
}

// left notes that a member has ended. The lock is held.
func (f *fleet) left(p *process) {
	f.say("%s has ended", p.name)
	for i, q := range f.procs {
		if q == p {
			f.procs = append(f.procs[:i:i], f.procs[i+1:]...)
		}
	}
	if p.dead {
		return
	}
	if p.stopped.IsZero() {
		f.fail("%s has ended by itself: %v", p.name, p.member.Err())
		return
	}
	since := p.stopped
	if p.idle.After(since) {
		since = p.idle
	}
	if d := time.Since(since); d > stop+time.Second {
		f.fail("%s ended %v after it was asked to, or after its last work", p.name, d)
	}
}

// work works on a shard until its context has ended, and longer if the process hangs.
func (p *process) work(lead context.Context, s *shard.Shard) {
	w := &work{p: p, s: s, number: s.Number()}
	if !p.f.begin(w) {
		return
	}
	p.f.mu.Lock()
	early := p.early
	p.f.mu.Unlock()
	if early != 0 {
		select {
		case <-lead.Done():
		case <-time.After(early):
			p.f.mu.Lock()
			defer p.f.mu.Unlock()
			p.f.end(w)
			p.f.ledger[w.number].again = p
			return
		}
	}
	<-lead.Done()
	p.f.mu.Lock()
	w.over = time.Now()
	hangs := p.hangs
	if p.once {
		p.hangs = 0
	}
	p.f.mu.Unlock()
	time.Sleep(hangs)
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	p.f.end(w)
}

// begin notes that work begins, and checks that it may.
func (f *fleet) begin(w *work) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, now := w.p, time.Now()
	if p.dead || w.s.Context().Err() != nil {
		return false
	}
	e := &f.ledger[w.number]
	f.say("%s begins %d with %d", p.name, w.number, w.s.Token())
	for _, o := range e.works {
		switch {
		case o.s.Context().Err() == nil:
			f.fail("%d is owned by %s and %s", w.number, o.p.name, p.name)
		case o.over.IsZero() || now.Sub(o.over) >= drain || o.ill || o.p.ill.After(now):
		case !o.p.stopped.IsZero() && now.Sub(o.p.stopped) >= stop-2*time.Second:
		default:
			f.fail("%s begins %d before the work of %s has ended, whose context ended %v ago", p.name, w.number, o.p.name, now.Sub(o.over))
		}
	}
	if w.s.Token() < e.token || w.s.Token() == e.token && e.again != p {
		f.fail("%s begins %d with %d after %d", p.name, w.number, w.s.Token(), e.token)
	}
	e.token, e.begun, e.by = max(e.token, w.s.Token()), now, p
	e.works = append(e.works, w)
	f.begins++
	if e.count++; e.first.IsZero() {
		e.first = now
	}
	return true
}

// end notes that work has ended. The lock is held.
func (f *fleet) end(w *work) {
	if w.p.dead {
		return
	}
	e := &f.ledger[w.number]
	for i, o := range e.works {
		if o == w {
			e.works = append(e.works[:i:i], e.works[i+1:]...)
			e.ended, w.p.idle = time.Now(), time.Now()
			f.say("%s ends %d", w.p.name, w.number)
		}
	}
}

// disturb notes that a process may be cut off until then.
func (p *process) disturb(d time.Duration) {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	if until := time.Now().Add(d); until.After(p.ill) {
		p.ill = until
	}
	for i := range p.f.ledger {
		for _, w := range p.f.ledger[i].works {
			w.ill = w.ill || w.p == p
		}
	}
}

// kill ends a process at once: it neither sends nor works any more.
func (p *process) kill() {
	p.f.mu.Lock()
	p.f.say("%s is killed", p.name)
	p.dead = true
	for i := range p.f.ledger {
		e := &p.f.ledger[i]
		var rest []*work
		for _, w := range e.works {
			if w.p != p {
				rest = append(rest, w)
			}
		}
		if len(rest) < len(e.works) {
			e.ended = time.Now()
		}
		e.works = rest
	}
	p.f.mu.Unlock()
	p.link.Close()
	p.cancel()
}

// leave stops a process gracefully.
func (p *process) leave() {
	p.f.mu.Lock()
	p.f.say("%s is to stop", p.name)
	p.stopped = time.Now()
	p.f.mu.Unlock()
	p.cancel()
}

// live returns the processes that neither were killed nor are to stop.
func (f *fleet) live() (live []*process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.procs {
		if !p.dead && p.stopped.IsZero() {
			live = append(live, p)
		}
	}
	return live
}

// uneven says in which way the shards are not spread evenly over the live processes by their weights, each owned if one
// has room; "" if they are.
func (f *fleet) uneven() string {
	live := f.live()
	f.mu.Lock()
	defer f.mu.Unlock()
	has, without := map[*process]int{}, []int{}
	for i := range f.ledger {
		owned := false
		for _, w := range f.ledger[i].works {
			if w.s.Context().Err() == nil {
				has[w.p]++
				owned = true
			}
		}
		if !owned {
			without = append(without, i)
		}
	}
	even, text := true, ""
	for _, p := range live {
		text += fmt.Sprintf(" %s:%d", p.name, has[p])
		if c := p.config; c.Most > 0 && has[p] >= c.Most {
			even = even && has[p] == c.Most
			continue
		}
		even = even && len(without) == 0
		for _, q := range live {
			even = even && has[q]*max(1, p.config.Weight) <= (has[p]+1)*max(1, q.config.Weight)
		}
	}
	if even && len(live) > 0 {
		return ""
	}
	for _, i := range without {
		text += fmt.Sprintf("; %d: %+v", i, f.grant(i))
	}
	return fmt.Sprintf("without an owner: %v, of others:%s", without, text)
}

// owns returns on how many shards a process works.
func (p *process) owns() (n int) {
	p.f.mu.Lock()
	defer p.f.mu.Unlock()
	for i := range p.f.ledger {
		for _, w := range p.f.ledger[i].works {
			if w.p == p && w.s.Context().Err() == nil {
				n++
			}
		}
	}
	return n
}

// stop stops all and waits for it.
func (f *fleet) stop() {
	for _, p := range f.live() {
		p.leave()
	}
	for range 3600 {
		f.mu.Lock()
		n := len(f.procs)
		f.mu.Unlock()
		if n == 0 {
			time.Sleep(stop + time.Second) // a candidate that takes the key of another member may end later
			return
		}
		time.Sleep(time.Second / 10)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.procs {
		f.fail("%s does not end", p.name)
	}
}

// assigner returns the live process that leads the election of the group.
func (f *fleet) assigner() *process {
	id := f.store.Holder(group.AssignerKey(named)).ID
	for _, p := range f.live() {
		if p.id == id {
			return p
		}
	}
	return nil
}

// grant shows the grant of a shard in the store.
func (f *fleet) grant(i int) string {
	r, err := group.DecodeRegistry(f.store.Entry(group.RegistryKey(named)).Value)
	if err != nil {
		return err.Error()
	}
	e := f.store.Entry(group.PageKey(named, i/r.PageSize))
	m, err := r.DecodePage(i/r.PageSize, e.Value, e.Revision)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+v", m.Grants[i%r.PageSize])
}

// watch adds to the trace which terms the elections have.
func (f *fleet) watch() (stop func()) {
	if f.trace == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		was := map[string]string{}
		for ctx.Err() == nil {
			keys := map[string]string{"the assigner": group.AssignerKey(named)}
			f.mu.Lock()
			for _, p := range f.procs {
				f.ids[p.id] = true
			}
			for id := range f.ids {
				keys[id] = group.MemberKey(named, id)
			}
			f.mu.Unlock()
			for who, key := range keys {
				h := f.store.Holder(key)
				now := h.String()
				if h.Last != nil {
					now += ", last " + h.Last.String()
				}
				f.mu.Lock()
				if was[who] != now {
					f.say("key of %s: %s", who, now)
				}
				was[who] = now
				f.mu.Unlock()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	return func() {
		cancel()
		time.Sleep(time.Second)
	}
}
