package keys

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// The exploration visits all situations that a machine with two keys in one slot can get into, and around it a bucket, a
// watch that is late and breaks, reads, works, and the clock. Key b is ready while there is no a, and the value "no" is
// not wanted. In each situation the rules hold, and from each one all comes to its end: see settle.
type world struct {
	m       *machine
	now     time.Time
	stream  []message
	view    map[string]message // the newest that the watch or a read has shown of each key
	listing []message          // to be delivered before live messages
	ends    bool               // the listing was delivered
	listed  bool               // and the watch has reached what it had delivered before
	round   map[string]bool    // delivered in this listing
	next    int                // the first live message that the watch has not delivered
	seen    uint64             // the greatest revision that the watch has delivered since the last break
	high    uint64             // and ever
	granted bool
	ended   bool
	barrier uint64
	works   map[string]*work
	reads   []read
	done    map[string]uint64 // completed by this process
	budget  budget
	confirm map[string]bool // keys that a read has confirmed in this step
	trace   []string
}

type message struct {
	name  string // "" for the guard
	rev   uint64
	value string
	gone  bool
}

type work struct {
	id    uint64
	rev   uint64
	ended bool
}

// budget is how often things may still happen, so that the exploration ends.
type budget struct{ writes, breaks, grants, fails int }

var explored = []string{"a", "b"}

func ready(e Entry, get func(string) (Entry, bool)) bool {
	_, has := get("a")
	return e.Name != "b" || !has
}

func newWorld(guards bool, b budget) *world {
	w := &world{
		m: newMachine(1, !guards), now: time.Unix(1000, 0), view: make(map[string]message), round: make(map[string]bool),
		works: make(map[string]*work), done: make(map[string]uint64), budget: b, confirm: make(map[string]bool),
	}
	w.m.wants = func(e Entry) bool { return string(e.Value) != "no" }
	w.m.ready = ready
	w.list(0)
	return w
}

// list begins to list the bucket, on a replica that lacks the last messages.
func (w *world) list(lag int) {
	w.ends, w.listed, w.round, w.listing, w.next, w.seen = false, false, make(map[string]bool), nil, len(w.stream)-lag, 0
	last := make(map[string]message)
	for _, e := range w.stream[:w.next] {
		last[e.name] = e
	}
	w.listing = slices.SortedFunc(maps.Values(last), func(a, b message) int { return int(a.rev) - int(b.rev) })
}

func (w *world) clone() *world {
	c := *w
	m := *w.m
	c.m = &m
	m.keys, m.slot, m.grants, m.idle, m.rests = make(map[string]*key), []map[string]*key{make(map[string]*key)}, make(map[int]*grant), make(map[*key]bool), nil
	was := make(map[*key]*key)
	for name, k := range w.m.keys {
		copied := *k
		m.keys[name], m.slot[0][name], was[k] = &copied, &copied, &copied
	}
	for n, g := range w.m.grants {
		copied := *g
		m.grants[n] = &copied
	}
	for k := range w.m.idle {
		m.idle[was[k]] = true
	}
	for _, r := range w.m.rests {
		if k := was[r.key]; k != nil {
			m.rests = append(m.rests, rest{r.at, k}) // sorted as before: what is left out was forgotten
		}
	}
	c.stream, c.listing, c.reads, c.trace = slices.Clone(w.stream), slices.Clone(w.listing), slices.Clone(w.reads), slices.Clone(w.trace)
	c.view, c.round, c.done, c.confirm = maps.Clone(w.view), maps.Clone(w.round), maps.Clone(w.done), make(map[string]bool)
	c.works = make(map[string]*work)
	for name, k := range w.works {
		copied := *k
		c.works[name] = &copied
	}
	return &c
}

// print returns what tells one situation from another.
func (w *world) print() string {
	var b strings.Builder
	in := func(at time.Time) time.Duration { return max(0, at.Sub(w.now)) }
	fmt.Fprint(&b, w.stream, w.view, w.listing, w.ends, w.listed, w.round, w.next, w.seen, w.high, w.granted, w.ended, w.barrier, w.done, w.budget)
	for _, n := range explored {
		if k := w.works[n]; k != nil {
			fmt.Fprint(&b, n, k.rev, k.ended)
		}
		if k := w.m.keys[n]; k != nil {
			fmt.Fprint(&b, "|", k.Entry, k.exists, k.wanted, k.round == w.m.round, k.phase, k.done, in(k.rests), k.armed.Equal(k.rests), k.failed, w.m.idle[k])
		}
	}
	for _, r := range w.reads {
		k := w.m.keys[r.name]
		fmt.Fprint(&b, "read", r.name, k != nil && k.id == r.id)
	}
	fmt.Fprint(&b, "|", w.m.listed, w.m.seen, w.m.high, w.m.short.IsZero())
	for _, g := range w.m.grants {
		fmt.Fprint(&b, *g)
	}
	return b.String()
}

// write appends a message to the stream.
func (w *world) write(e message) {
	e.rev = uint64(len(w.stream) + 1)
	w.stream = append(w.stream, e)
}

// source returns the newest message of a key.
func (w *world) source(name string) message {
	for _, e := range slices.Backward(w.stream) {
		if e.name == name {
			return e
		}
	}
	return message{name: name, gone: true}
}

// actions returns what can happen next.
func (w *world) actions() map[string]func(*world) {
	all := make(map[string]func(*world))
	for _, n := range explored {
		if w.budget.writes > 0 {
			for _, value := range []string{"yes", "no"} {
				all["put "+n+" "+value] = func(w *world) { w.budget.writes--; w.write(message{name: n, value: value}) }
			}
			if !w.source(n).gone {
				all["delete "+n] = func(w *world) { w.budget.writes--; w.write(message{name: n, gone: true}) }
			}
		}
		if k := w.works[n]; k != nil {
			all["return "+n] = func(w *world) { delete(w.works, n); w.m.returned(n, !k.ended, w.now) }
			if !k.ended {
				all["return as the slot ends "+n] = func(w *world) {
					w.end()
					delete(w.works, n)
					w.m.returned(n, false, w.now)
				}
			}
			if s := w.source(n); !s.gone && s.rev == k.rev {
				all["complete "+n] = func(w *world) {
					w.done[n] = k.rev
					w.write(message{name: n, gone: true})
					w.m.completed(n, k.rev)
				}
			}
		}
	}
	if len(w.listing) > 0 || !w.ends || w.next < len(w.stream) {
		all["deliver"] = (*world).deliver
	}
	if w.budget.breaks > 0 {
		for lag := range min(3, len(w.stream)+1) {
			all[fmt.Sprint("break ", lag)] = func(w *world) { w.budget.breaks--; w.m.breaks(); w.list(lag) }
		}
	}
	if !w.granted && w.budget.grants > 0 {
		all["grant"] = func(w *world) {
			w.budget.grants--
			w.granted, w.ended, w.barrier = true, false, 0
			if !w.m.reads {
				w.write(message{})
				w.barrier = uint64(len(w.stream))
			}
			w.m.granted(0, w.barrier, w.now)
		}
	}
	if w.granted && !w.ended {
		all["end"] = func(w *world) {
			w.end()
			w.m.ended(0)
		}
	}
	if len(w.reads) > 0 {
		all["answer"] = func(w *world) { w.answer(true) }
		if w.budget.fails > 0 {
			all["fail"] = func(w *world) { w.budget.fails--; w.answer(false) }
		}
	}
	if at := w.m.wake(); !at.IsZero() && !at.Equal(w.m.short) { // replicas do not lag for so long
		all["time"] = func(w *world) { w.now = at; w.m.tick(at) }
	}
	return all
}

// end ends the context of the slot.
func (w *world) end() {
	w.ended = true
	for _, k := range w.works {
		k.ended = true
	}
}

// deliver delivers the next message of the watch.
func (w *world) deliver() {
	var e message
	switch {
	case len(w.listing) > 0:
		e, w.listing = w.listing[0], w.listing[1:]
	case !w.ends:
		w.ends = true
		w.endList()
		w.m.listedAll(w.now)
		return
	default:
		e = w.stream[w.next]
		w.next++
	}
	w.seen, w.high = max(w.seen, e.rev), max(w.high, e.rev)
	w.round[e.name] = true
	if e.rev >= w.view[e.name].rev {
		w.view[e.name] = e
	}
	w.endList()
	switch {
	case e.name == "":
	case e.gone:
		w.m.gone(e.name, e.rev, w.now)
	default:
		w.m.put(Entry{e.name, []byte(e.value), e.rev}, w.now)
	}
	w.m.delivered(e.rev, w.now)
}

// endList notes that the list has ended, if it has reached what was delivered before.
func (w *world) endList() {
	if w.listed || !w.ends || w.seen < w.high {
		return
	}
	w.listed = true
	for _, n := range explored {
		if v := w.view[n]; !w.round[n] {
			v.gone = true
			w.view[n] = v
		}
	}
}

// answer answers the oldest read.
func (w *world) answer(ok bool) {
	r := w.reads[0]
	w.reads = w.reads[1:]
	s := w.source(r.name)
	e := Entry{Name: r.name}
	if !s.gone {
		e.Value, e.Revision = []byte(s.value), s.rev
		if k := w.m.keys[r.name]; ok && k != nil && k.phase == phaseReads && k.id == r.id {
			w.confirm[r.name] = true
			w.view[r.name], w.high = s, max(w.high, s.rev)
		}
	}
	w.m.answer(r.id, e, ok, w.now)
}

// do does an action, carries out the effects, and checks the rules.
func (w *world) do(t *testing.T, name string, action func(*world)) {
	w.trace = append(w.trace, name)
	clear(w.confirm)
	action(w)
	wrong := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s\nafter %s", fmt.Sprintf(format, args...), strings.Join(w.trace, ", "))
	}
	for _, e := range w.m.effects() {
		switch e := e.(type) {
		case read:
			w.reads = append(w.reads, e)
		case begin:
			n, rev := e.entry.Name, e.entry.Revision
			switch v := w.view[n]; {
			case w.works[n] != nil:
				wrong("%s has two works", n)
			case !w.granted || w.ended:
				wrong("%s begins without its slot", n)
			case !w.listed:
				wrong("%s begins before the list has ended", n)
			case v.gone || v.rev != rev || v.value == "no":
				wrong("%s begins at %d, and %v is known", n, rev, v)
			case rev <= w.done[n]:
				wrong("%s begins at %d, and was completed at %d", n, rev, w.done[n])
			case w.m.reads && !w.confirm[n]:
				wrong("%s begins and was not read", n)
			}
			for _, s := range w.stream {
				if s.name == n && s.rev > rev && s.rev < w.barrier {
					wrong("%s begins at %d, and before the guard %v was written", n, rev, s)
				}
			}
			w.works[n] = &work{id: e.id, rev: rev}
		case update:
			w.works[e.entry.Name].rev = e.entry.Revision
		case cancel:
			for n, k := range w.works {
				if k.id == e.id {
					v := w.view[n]
					if k.ended || !v.gone && v.value != "no" || v.gone != errors.Is(e.cause, ErrDeleted) {
						wrong("%s is cancelled with %v", n, e.cause)
					}
					k.ended = true
				}
			}
		case release:
			if !w.ended || len(w.works) > 0 {
				wrong("the slot is released, and has %d works", len(w.works))
			}
			w.granted = false
		case unfit, overflow, relist:
			wrong("%T", e)
		}
	}
	for _, n := range explored {
		k, v := w.works[n], w.view[n]
		goes := k != nil && !k.ended
		known := v.rev > 0 && !v.gone && v.value != "no"
		isReady := true
		if a := w.view["a"]; n == "b" && a.rev > 0 && !a.gone {
			isReady = false
		}
		waits := k != nil || !w.m.wake().IsZero() || slices.ContainsFunc(w.reads, func(r read) bool { return r.name == n })
		switch {
		case goes && !known:
			wrong("the work on %s goes on, and %v is known", n, v)
		case goes && k.rev != v.rev:
			wrong("the work on %s has %d, and %v is known", n, k.rev, v)
		case known && isReady && w.listed && w.granted && !w.ended && w.seen >= w.barrier && v.rev > w.done[n] && !waits:
			wrong("%s has no work and no alarm", n)
		}
	}
	if w.ended && w.granted && len(w.works) == 0 {
		wrong("the slot is not released")
	}
}

// settle lets everything happen that is under way, grants the slot, and then looks whether each key that is wanted and ready
// has work.
func (w *world) settle(t *testing.T) {
	w.budget = budget{grants: 1}
	for range 200 {
		all, next := w.actions(), ""
		for _, n := range explored {
			if k := w.works[n]; k != nil && k.ended {
				next = "return " + n
			}
		}
		for _, name := range []string{"deliver", "answer", "grant", "time"} {
			if next == "" && all[name] != nil {
				next = name
			}
		}
		if next == "" {
			break
		}
		w.do(t, next, all[next])
	}
	for _, n := range explored {
		s := w.source(n)
		may := !s.gone && s.value != "no"
		must := may && (n != "b" || w.source("a").gone) // a key that is not ready any more goes on
		if has := w.works[n] != nil; w.granted && !w.ended && (has && !may || !has && must) {
			t.Fatalf("%s: %v, and its work is %v, after %s", n, s, w.works[n], strings.Join(w.trace, ", "))
		}
	}
}

// most bounds the exploration.
const most = 100_000

// explore visits all situations, breadth first.
func explore(t *testing.T, guards bool, b budget) (situations, transitions int) {
	start := newWorld(guards, b)
	seen, queue := map[string]bool{start.print(): true}, []*world{start}
	for len(queue) > 0 {
		w := queue[0]
		queue = queue[1:]
		actions := w.actions()
		for _, name := range slices.Sorted(maps.Keys(actions)) {
			next := w.clone()
			next.do(t, name, actions[name])
			transitions++
			if p := next.print(); !seen[p] {
				seen[p] = true
				queue = append(queue, next)
			}
			check.Must(t, len(seen) < most, "more than %d situations: something grows without an end", most)
		}
		w.settle(t)
	}
	return len(seen), transitions
}

func TestMachine_Exploration(t *testing.T) {
	proof.NotRaced(t)
	for _, guards := range []bool{false, true} {
		budgets := []budget{{writes: 3, grants: 1}, {writes: 1, breaks: 1, grants: 2, fails: 1}}
		if proof.Long {
			budgets = append(budgets, budget{writes: 2, breaks: 1, grants: 1, fails: 1}, budget{writes: 1, breaks: 2, grants: 2, fails: 1})
		}
		for _, b := range budgets {
			t.Run(fmt.Sprintf("guards=%v,%+v", guards, b), func(t *testing.T) {
				from := time.Now()
				situations, transitions := explore(t, guards, b)
				t.Logf("%d situations, %d transitions in %v", situations, transitions, time.Since(from).Round(time.Millisecond))
			})
		}
	}
}

// The slot of a name is that of docs/howto/shards.md.
func TestSlotOf(t *testing.T) {
	for name, want := range map[string]int{"": 37, "customer-17": 12, "order-4711": 39} {
		check.Equal(t, slotOf(name, 50), want, "%d")
		h := fnv.New64a()
		_, _ = h.Write([]byte(name))
		check.Equal(t, uint64(slotOf(name, 997)), h.Sum64()%997, "%d")
	}
}

// A set with more keys than the limit is not complete: nothing begins, and what works goes on. When there are less, it is read
// again, once.
func TestMachine_Full(t *testing.T) {
	m, now := newMachine(1, false), time.Unix(1000, 0)
	m.limit = 2
	m.granted(0, 0, now)
	shows := func(want string) {
		t.Helper()
		text := ""
		for _, e := range m.effects() {
			text += fmt.Sprintf("%T ", e)
		}
		check.Equal(t, text, want, "%q")
	}
	put := func(name string, rev uint64) { m.put(Entry{Name: name, Revision: rev}, now) }
	m.listedAll(now)
	put("a", 1)
	shows("keys.begin ")
	put("b", 2)
	put("c", 3)
	put("d", 4)
	shows("keys.begin keys.overflow ")
	m.gone("b", 5, now)
	shows("keys.cancel ")
	m.returned("b", true, now)
	shows("keys.relist ")
	m.breaks()
	put("a", 1)
	put("c", 3)
	put("d", 4)
	m.listedAll(now)
	shows("keys.overflow ")
	m.gone("c", 6, now)
	shows("keys.relist ")
	put("c", 7)
	m.gone("c", 8, now)
	shows("")
	m.breaks()
	put("a", 1)
	put("d", 4)
	shows("")
	m.listedAll(now)
	shows("keys.begin ")
}

// A list that does not reach what was delivered before ends after 10 s. Then a read confirms each begin, also with guards, until
// the bucket has a later message.
func TestMachine_ShortList(t *testing.T) {
	m, now := newMachine(1, false), time.Unix(1000, 0)
	m.granted(0, 1, now)
	deliver := func(name string, rev uint64) {
		m.put(Entry{Name: name, Revision: rev}, now)
		m.delivered(rev, now)
	}
	deliver("a", 1)
	deliver("b", 2)
	m.listedAll(now)
	check.Equal(t, len(m.effects()), 2, "%d effects")
	m.breaks()
	deliver("a", 1)
	m.listedAll(now)
	check.Equal(t, len(m.effects()), 0, "%d effects")
	check.Equal(t, m.wake(), now.Add(10*time.Second), "the machine wakes at %v")
	m.returned("b", true, now)
	now = now.Add(10 * time.Second)
	m.tick(now.Add(-1))
	_, has := m.get("b")
	check.That(t, has, "b is gone before the list has ended")
	m.effects()
	m.tick(now)
	_, has = m.get("b")
	check.That(t, !has, "b is there")
	m.returned("a", true, now)
	now = m.wake()
	m.tick(now)
	check.Deep(t, m.effects(), []effect{read{3, "a"}})
	deliver("c", 3)
	deliver("d", 4)
	check.Deep(t, m.effects(), []effect{read{4, "c"}, begin{5, 0, Entry{Name: "d", Revision: 4}}})
}

// What a read has shown while the set is read again is not gone because the list was made before.
func TestMachine_ReadWhileListing(t *testing.T) {
	m, now := newMachine(1, true), time.Unix(1000, 0)
	m.granted(0, 0, now)
	m.listedAll(now)
	m.put(Entry{Name: "a", Revision: 1}, now)
	m.delivered(1, now)
	check.Deep(t, m.effects(), []effect{read{1, "a"}})
	m.breaks()
	m.answer(1, Entry{Name: "a", Revision: 3}, true, now)
	m.gone("a", 2, now)
	m.delivered(2, now)
	m.listedAll(now)
	_, has := m.get("a")
	check.That(t, has, "a is gone")
	m.put(Entry{Name: "a", Revision: 3}, now)
	m.delivered(3, now)
	check.Deep(t, m.effects(), []effect{read{2, "a"}})
}

// Keys that rest wake the machine in turn, and one whose value changes while it rests has one alarm.
func TestMachine_Rests(t *testing.T) {
	m, now := newMachine(1, false), time.Unix(1000, 0)
	m.granted(0, 0, now)
	m.listedAll(now)
	for i, name := range []string{"a", "b"} {
		now = now.Add(time.Second)
		m.put(Entry{Name: name, Revision: uint64(i + 1)}, now)
		m.returned(name, true, now)
	}
	for i := range uint64(100) {
		m.put(Entry{Name: "a", Revision: i + 3}, now)
	}
	check.Equal(t, len(m.rests), 2, "%d alarms")
	m.effects()
	for range 2 {
		now = m.wake()
		m.tick(now.Add(-1))
		check.Equal(t, len(m.effects()), 0, "%d effects")
		m.tick(now)
		check.Equal(t, len(m.effects()), 1, "%d effects")
	}
	check.That(t, m.wake().IsZero(), "there is an alarm more")
}
