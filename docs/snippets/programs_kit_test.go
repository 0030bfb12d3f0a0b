package snippets_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// bubbleStart is the time at which each bubble begins.
var bubbleStart = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// row is a fault, in which run checks when other terms begin.
type row struct {
	name string
	cfg  leader.Config
	long time.Duration // how long items are; 0: about a second
	run  func(t *trial)
}

// replica is a process that runs the program. Its link is its store, with its own clock.
type replica struct {
	*leadertest.Link
	clock  *heldClock
	id     string
	stop   context.CancelFunc // SIGTERM
	ended  chan struct{}
	err    error         // of the program that has ended
	gate   chan struct{} // no item ends before it is closed; may be nil
	leaves bool          // the program has to end
}

func (r *replica) Clock() leader.Clock { return r.clock }

// piece is an item of work.
type piece struct {
	by         *replica
	key        int
	token      uint64
	begin, end time.Time
	broken     bool // its context had ended before it
	excused    bool // README.md says that it may go on beside others
}

// bound is the end of the term of a key: no item begins under its token from an instant on.
type bound struct {
	by      *replica
	token   uint64
	from    time.Time
	renewed time.Time // when the last renewal before the fault was stored
	begun   time.Time // when the last item before the fault began
}

// trial is one program in one fault, and the judge of its items.
type trial struct {
	*testing.T
	name    string // of the program
	run     service
	row     row
	store   *leadertest.Store
	oneWay  time.Duration // of each message
	cold    time.Duration // by how much later a group may begin, all of whose processes are new
	lengths []time.Duration

	mu       sync.Mutex
	replicas []*replica
	items    []*piece
	running  map[*piece]bool
	last     map[int]*piece // that has begun, of each key
	bounds   map[int]bound
	wrong    []string
	changes  int // of the replica that works on a key
}

// accuse notes a broken rule. The lock is held.
func (t *trial) accuse(format string, args ...any) {
	t.wrong = append(t.wrong, fmt.Sprintf("%v: ", time.Since(bubbleStart))+fmt.Sprintf(format, args...))
}

// start starts the program in a process.
func (t *trial) start(id string) *replica {
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	r := &replica{
		Link: t.store.Link(id), clock: &heldClock{Clock: t.store.Clock()}, id: id, stop: stop, ended: make(chan struct{}),
	}
	t.replicas = append(t.replicas, r)
	cfg := t.row.cfg
	cfg.ID, cfg.Logger = id, slog.New(slog.DiscardHandler)
	go func() {
		defer close(r.ended)
		r.err = t.run(ctx, r, cfg, func(ctx context.Context, key int, token uint64) { t.item(ctx, r, key, token) })
	}()
	synctest.Wait()
	return r
}

// item is an item of work, which the judge allows or not. It takes its time, whatever happens to its context.
func (t *trial) item(ctx context.Context, r *replica, key int, token uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := &piece{by: r, key: key, token: token, begin: time.Now()}
	for o := range t.running {
		if o.key == key && !o.excused && (o.by != r || o.token != token) {
			t.accuse("%s begins an item of %d under %d beside one of %s under %d", r.id, key, token, o.by.id, o.token)
		}
	}
	if o := t.last[key]; o != nil && o.by != r {
		t.changes++
	}
	if o := t.last[key]; o != nil && (token < o.token || token == o.token && o.by != r) {
		t.accuse("%s begins an item of %d under %d after one of %s under %d", r.id, key, token, o.by.id, o.token)
	}
	if b, ok := t.bounds[key]; ok && token <= b.token && !w.begin.Before(b.from) {
		t.accuse("%s begins an item of %d under %d, %v after its term", r.id, key, token, w.begin.Sub(b.from))
	}
	t.items, t.last[key], t.running[w] = append(t.items, w), w, true
	length := t.lengths[len(t.items)%len(t.lengths)]
	t.unlocked(func() { time.Sleep(length) })
	for r.gate != nil {
		gate := r.gate
		t.unlocked(func() { <-gate })
	}
	if ctx.Err() != nil {
		w.broken = t.running[w]
	} else if o := t.last[key]; o.token > token {
		t.accuse("the context of an item of %s for %d under %d lives in the term %d of %s", r.id, key, token, o.token, o.by.id)
	}
	t.finish(w)
}

// unlocked calls f without the lock.
func (t *trial) unlocked(f func()) {
	t.mu.Unlock()
	defer t.mu.Lock()
	f()
}

// finish notes that an item has ended. The lock is held.
func (t *trial) finish(w *piece) {
	if t.running[w] {
		w.end = time.Now()
		delete(t.running, w)
	}
}

// pass lets time pass, and waits until all is at rest.
func (*trial) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// length sets the length of items that begin from now on, 0 to about a second.
func (t *trial) length(d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lengths = []time.Duration{d}
	if d == 0 {
		t.lengths = []time.Duration{700 * time.Millisecond, time.Second, 1300 * time.Millisecond}
	}
}

// working returns the replica that has just begun an item of the key 0.
func (t *trial) working() *replica {
	for from := time.Now(); time.Since(from) < time.Minute; t.pass(50*time.Millisecond + 1) {
		t.mu.Lock()
		for w := range t.running {
			if age := time.Since(w.begin); w.key == 0 && age >= 150*time.Millisecond && age < 300*time.Millisecond {
				t.mu.Unlock()
				return w.by
			}
		}
		t.mu.Unlock()
	}
	t.Fatalf("nobody works; wrong: %q", t.wrong)
	return nil
}

// alone starts one replica, and returns it in an item.
func (t *trial) alone() *replica {
	t.start("a")
	t.pass(time.Minute)
	return t.working()
}

// both starts two replicas, and returns the one in an item first.
func (t *trial) both() (victim, other *replica) {
	t.start("a")
	t.start("b")
	t.pass(time.Minute)
	t.length(t.row.long)
	t.pass(2 * t.row.long)
	return t.pair()
}

// pair returns the replicas, the one in an item first.
func (t *trial) pair() (victim, other *replica) {
	if victim = t.working(); victim == t.replicas[0] {
		return victim, t.replicas[1]
	}
	return victim, t.replicas[0]
}

// The instants at which a fault ends terms.
func now(bound) time.Time   { return time.Now() }
func never(bound) time.Time { return time.Now().AddDate(1, 0, 0) }

func (t *trial) fenced(b bound) time.Time { return b.renewed.Add(programDeadline - t.oneWay) } // since the renewal was sent

// lease is when another replica works after a term that was not handed over.
func (t *trial) lease(b bound, _ time.Time) time.Time {
	return b.renewed.Add(programLease + 3*t.oneWay)
}

// ends notes that the terms of these replicas end now, or at an instant to come.
func (t *trial) ends(at func(bound) time.Time, of ...*replica) {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.bounds)
	for key, w := range t.last {
		if !slices.Contains(of, w.by) {
			continue
		}
		b := bound{by: w.by, token: w.token, begun: w.begin}
		if !ofGroup(t.name) {
			b.renewed = t.store.Holder("e").Renewed
			b.from = at(b)
		} else {
			b.renewed = t.store.Holder(group.MemberKey("e", w.by.id)).Renewed
			b.from = at(b)
			if h := t.store.Holder(group.AssignerKey("e")); h.ID == w.by.id && h.Renewed.After(b.renewed) {
				b.renewed = h.Renewed // the shards need another assigner first
			}
		}
		t.bounds[key] = b
	}
}

// stays checks that the terms go on.
func (t *trial) stays() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, b := range t.bounds {
		if w := t.last[key]; w.token != b.token {
			t.accuse("%s works on %d under %d, and the term %d of %s goes on", w.by.id, key, w.token, b.token, b.by.id)
		}
	}
}

// ofGroup reports whether the program of that name is a member of a group.
func ofGroup(program string) bool { return strings.HasSuffix(program, "shards") }

// spare reports whether the program may need more round trips than README.md says of elections.
func (t *trial) spare() bool { return t.name == "locks" || ofGroup(t.name) }

// begins checks when the first items after the terms of a fault began. end is when the last item in the term did.
func (t *trial) begins(by *replica, at func(b bound, end time.Time) time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, b := range t.bounds {
		var end time.Time
		var next *piece
		for _, w := range t.items {
			switch {
			case w.key != key:
			case w.token <= b.token:
				if w.end.After(end) {
					end = w.end
				}
			case next == nil:
				next = w
			}
		}
		if next == nil {
			t.accuse("nobody works on %d", key)
			continue
		}
		late, most := next.begin.Sub(at(b, end)), time.Duration(0)
		if t.spare() {
			most = 30 * t.oneWay
		}
		if ofGroup(t.name) {
			most += t.cold
		}
		if late < -most || late > most || by != nil && next.by != by {
			t.accuse("%s begins with %d at %v, %v late", next.by.id, key, next.begin.Sub(bubbleStart), late)
		}
	}
}

// strikes causes a fault of the replica that works. Within a minute the other one begins.
func (t *trial) strikes(
	ends func(bound) time.Time, cause func(v *replica), begins func(b bound, end time.Time) time.Time,
) (v *replica) {
	v, other := t.both()
	t.ends(ends, v)
	cause(v)
	t.pass(time.Minute)
	t.begins(other, begins)
	return v
}

// handover ends a process by SIGTERM. The other one works two round trips after the item has ended.
func (t *trial) handover(v, other *replica) {
	t.ends(now, v)
	v.leaves = true
	v.stop()
	t.pass(time.Minute)
	t.begins(other, func(_ bound, end time.Time) time.Time { return end.Add(4 * t.oneWay) })
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.items {
		b, ended := t.bounds[w.key]
		if ended && strings.HasPrefix(t.name, "transactions") && w.by == v && w.broken && !w.end.Before(b.from) {
			t.accuse("%s has rolled back a transaction at a SIGTERM", v.id)
		}
	}
}

// crash ends a process: nothing that it sends arrives any more, and its items are over.
func (t *trial) crash(v *replica) {
	t.mu.Lock()
	v.leaves = true
	for w := range t.running {
		if w.by == v {
			t.finish(w)
		}
	}
	t.mu.Unlock()
	v.Close()
}

// hold keeps the items of a replica from their end until resume is called.
func (t *trial) hold(v *replica) (resume func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	gate := make(chan struct{})
	v.gate = gate
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		v.gate = nil
		close(gate)
	}
}

// sleep holds up the timers of a replica and what it sends and receives, until resume is called.
func (t *trial) sleep(v *replica) (resume func()) {
	v.clock.hold()
	v.Freeze()
	return func() {
		v.clock.resume()
		v.Thaw()
	}
}

// excuse lets the items of a replica that are under way go on beside others.
func (t *trial) excuse(v *replica) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for w := range t.running {
		w.excused = w.excused || w.by == v
	}
}

// pause stops a process for longer than its lease. When it goes on, its items end before its timers are due, or after.
func (t *trial) pause(itemsFirst bool) {
	var first, second func()
	t.strikes(t.fenced, func(v *replica) {
		t.excuse(v)
		first, second = t.hold(v), t.sleep(v)
	}, t.lease)
	if !itemsFirst {
		first, second = second, first
	}
	first()
	synctest.Wait()
	second()
}

// away cuts all replicas off for two hours, or ten minutes with the race detector, and returns when it ended.
func (t *trial) away() (back time.Time) {
	for _, r := range t.replicas {
		r.Cut()
	}
	t.pass(time.Duration(proof.Raced(120, 12)) * time.Minute)
	back = time.Now()
	for _, r := range t.replicas {
		r.Restore()
	}
	t.pass(time.Minute)
	return back
}

// try runs a program in a fault. If both replicas have survived it, the one that works then hands over to the other.
func try(t *testing.T, name string, run service, r row, oneWay time.Duration) (tr *trial) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		tr = &trial{
			T: t, name: name, run: run, row: r, store: leadertest.NewStore(nil, leadertest.WithLatency(oneWay)), oneWay: oneWay,
			running: map[*piece]bool{}, last: map[int]*piece{}, bounds: map[int]bound{},
		}
		tr.length(0)
		r.run(tr)
		tr.length(0)
		tr.pass(time.Minute)
		if tr.working(); len(tr.replicas) == 2 && !tr.replicas[0].leaves && !tr.replicas[1].leaves {
			tr.handover(tr.pair())
		}
		for _, r := range tr.replicas {
			r.stop()
		}
		tr.pass(time.Minute)
		for _, r := range tr.replicas {
			check.Must(t, check.Now(r.ended), "%s has not ended", r.id)
			check.That(t, r.leaves || r.err == nil, "%s: %v", r.id, r.err)
		}
	})
	proof.Ran(1, "faults of programs")
	proof.Ran(len(tr.items), "items of programs")
	proof.Ran(tr.changes, "handovers of programs")
	return tr
}

// heldClock is the clock of a process that can be stopped. It always shows the right time, but its timers fire only when
// the process goes on. Timeouts of requests are not held up: an election has none under way then, but a group may.
type heldClock struct {
	leader.Clock
	mu   sync.Mutex
	held bool
	due  []func() // timers that would have fired meanwhile
}

// heldTimer is a timer of a heldClock.
type heldTimer struct {
	clock *heldClock
	c     chan time.Time
	fire  func()
	timer *time.Timer
	set   int // how often it was set: a tick of an earlier setting is dropped
}

func (c *heldClock) NewTimer(d time.Duration) leader.Timer {
	t := &heldTimer{clock: c, c: make(chan time.Time, 1)}
	t.fire = func() { t.c <- c.Now() }
	t.Reset(d)
	return t
}

func (c *heldClock) AfterFunc(d time.Duration, f func()) leader.Timer {
	t := &heldTimer{clock: c, fire: func() { go f() }}
	t.Reset(d)
	return t
}

func (c *heldClock) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = true
}

func (c *heldClock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = false
	for _, f := range c.due {
		go f()
	}
	c.due = nil
}

func (t *heldTimer) C() <-chan time.Time { return t.c }

func (t *heldTimer) Reset(d time.Duration) bool {
	was := t.Stop()
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.timer = time.AfterFunc(d, t.tick(t.set))
	return was
}

func (t *heldTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.set++
	select {
	case <-t.c:
	default:
	}
	return t.timer != nil && t.timer.Stop()
}

// tick returns what happens when a setting of the timer is due.
func (t *heldTimer) tick(set int) (tick func()) {
	return func() {
		t.clock.mu.Lock()
		defer t.clock.mu.Unlock()
		switch {
		case t.set != set:
		case t.clock.held:
			t.clock.due = append(t.clock.due, t.tick(set))
		default:
			t.fire()
		}
	}
}
