package keys

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// The exploration visits all situations that a machine with two keys can get into, and around it a bucket that is made again,
// loses its last messages and its markers, a watch that is late and breaks, reads and completions that are answered late or
// never, works, and the clock. Key b is ready while there is no a, and the value "no" is not wanted. In each situation the rules
// hold, and from each one all comes to its end: see settle.
type world struct {
	scenario
	m       *machine
	now     time.Time
	stream  []message
	removed uint64             // markers up to this revision are not listed any more
	reset   bool               // the bucket has lost messages since the machine has noticed that last
	view    map[string]message // the newest that the watch or a read has shown of each key
	listing []message          // to be delivered before live messages
	ends    bool               // the listing was delivered
	listed  bool               // and the watch has reached what it had delivered before, or a list was complete without that
	void    bool               // the machine ignores the watch
	round   map[string]bool    // delivered in this listing
	next    int                // the first live message that the watch has not delivered
	end     uint64             // the last revision of the bucket at the listing
	seen    uint64             // the greatest revision that the watch has delivered since the last break
	debt    uint64             // and ever
	relist  bool               // the machine has asked for it
	slots   []slotWorld
	works   map[string]*work
	reads   []read
	acks    []ack
	done    map[string]uint64 // completed by this process
	doubt   map[string]bool   // since then no read has confirmed the key
	confirm map[string]bool   // keys that a read has confirmed in this step
	trace   []string
}

// scenario is what may happen, and how often, so that the exploration ends.
type scenario struct {
	guards                        bool
	writes, breaks, grants, fails int
	completes                     int
	remakes, losses, removals     int
	split                         bool // each key has a slot of its own
	limit                         int  // of keys; 0: no
}

type slotWorld struct {
	granted, ended, reads bool
	barrier               uint64
}

type message struct {
	name  string // "" for the guard
	rev   uint64
	value string
	gone  bool
}

type work struct {
	id, life, rev uint64
	value         string
	ended         bool
}

// ack is the answer to a Complete that is on its way.
type ack struct {
	name      string
	rev, life uint64
}

var explored = []string{"a", "b"}

func ready(e Entry, get func(string) (Entry, bool)) bool {
	_, has := get("a")
	return e.Name != "b" || !has
}

func newWorld(s scenario) *world {
	slots := 1
	if s.split {
		slots = 2
	}
	w := &world{
		scenario: s, m: newMachine(slots, !s.guards), now: time.Unix(1000, 0), view: make(map[string]message), round: make(map[string]bool),
		slots: make([]slotWorld, slots), works: make(map[string]*work), done: make(map[string]uint64), doubt: make(map[string]bool),
		confirm: make(map[string]bool),
	}
	if s.limit > 0 {
		w.m.limit = s.limit
	}
	w.m.wants = func(e Entry) bool { return string(e.Value) != "no" }
	w.m.ready = ready
	w.list(0)
	return w
}

// list begins to list the bucket, on a replica that lacks the last messages.
func (w *world) list(lag int) {
	w.ends, w.listed, w.void, w.relist, w.round, w.listing = false, false, false, false, make(map[string]bool), nil
	w.next, w.end, w.seen = len(w.stream)-lag, uint64(len(w.stream)), 0
	last := make(map[string]message)
	for _, e := range w.stream[:w.next] {
		last[e.name] = e
	}
	for name, e := range last {
		if e.gone && e.rev <= w.removed {
			delete(last, name)
		}
	}
	w.listing = slices.SortedFunc(maps.Values(last), func(a, b message) int { return int(a.rev) - int(b.rev) })
}

func (w *world) clone() *world {
	c := *w
	m := *w.m
	c.m = &m
	m.keys, m.slot, m.grants, m.idle, m.rests = make(map[string]*key), make([]map[string]*key, w.m.slots), make(map[int]*grant), make(map[*key]bool), nil
	m.awaits, m.others = maps.Clone(w.m.awaits), maps.Clone(w.m.others)
	for n := range m.slot {
		m.slot[n] = make(map[string]*key)
	}
	was := make(map[*key]*key)
	for name, k := range w.m.keys {
		copied := *k
		m.keys[name], m.slot[k.slot][name], was[k] = &copied, &copied, &copied
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
	c.stream, c.listing, c.reads, c.acks = slices.Clone(w.stream), slices.Clone(w.listing), slices.Clone(w.reads), slices.Clone(w.acks)
	c.slots, c.trace = slices.Clone(w.slots), slices.Clone(w.trace)
	c.view, c.round, c.done, c.doubt, c.confirm = maps.Clone(w.view), maps.Clone(w.round), maps.Clone(w.done), maps.Clone(w.doubt), make(map[string]bool)
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
	fmt.Fprint(&b, w.scenario, w.stream, w.removed, w.reset, w.view, w.listing, w.ends, w.listed, w.void, w.round, w.next, w.end, w.seen, w.debt, w.relist, w.slots, w.done, w.doubt)
	for _, n := range explored {
		if k := w.works[n]; k != nil {
			fmt.Fprint(&b, n, k.rev, k.value, k.ended, k.life == w.m.life)
		}
		if k := w.m.keys[n]; k != nil {
			fmt.Fprint(&b, "|", k.Entry, k.exists, k.wanted, k.round == w.m.round, k.shown, k.phase, k.done, k.doubt, in(k.sure), in(k.rests), k.armed.Equal(k.until()), k.failed, w.m.idle[k])
		}
	}
	for _, r := range w.reads {
		k := w.m.keys[r.name]
		fmt.Fprint(&b, "read", r.name, k != nil && k.id == r.id)
	}
	for _, a := range w.acks {
		fmt.Fprint(&b, "ack", a.name, a.rev, a.life == w.m.life)
	}
	m := w.m
	fmt.Fprint(&b, "|", m.listed, m.whole, m.void, m.full, m.asked, m.others, m.awaits, m.before, m.end, m.seen, m.high, m.debt, m.gap, m.owed, in(m.due), in(m.reread))
	for n := range w.slots {
		if g := m.grants[n]; g != nil {
			fmt.Fprint(&b, *g)
		}
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

// of returns the slot of a key.
func (w *world) of(name string) *slotWorld { return &w.slots[slotOf(name, len(w.slots))] }

// actions returns what can happen next.
func (w *world) actions() map[string]func(*world) {
	all := make(map[string]func(*world))
	for _, n := range explored {
		w.keyActions(n, all)
	}
	if len(w.listing) > 0 || !w.ends || w.next < len(w.stream) {
		all["deliver"] = (*world).deliver
	}
	if w.relist {
		all["relist"] = func(w *world) { w.m.breaks(); w.list(0) }
	}
	if w.breaks > 0 {
		for lag := range min(3, len(w.stream)+1) {
			all[fmt.Sprint("break ", lag)] = func(w *world) { w.breaks--; w.m.breaks(); w.list(lag) }
		}
	}
	if w.remakes > 0 {
		all["remake"] = func(w *world) {
			w.remakes--
			w.lose(0)
			w.m.breaks() // as the watch ends
			w.m.remade()
			w.list(0)
		}
	}
	if w.losses > 0 {
		for n := 1; n <= min(2, len(w.stream)); n++ {
			all[fmt.Sprint("lose ", n)] = func(w *world) {
				w.losses--
				w.lose(len(w.stream) - n)
			}
		}
	}
	if w.reset {
		all["notice"] = func(w *world) { w.m.breaks(); w.list(0) } // by the source, or because the connection was lost
	}
	if w.removals > 0 {
		all["remove markers"] = func(w *world) { w.removals--; w.removed = uint64(len(w.stream)) }
	}
	for n := range w.slots {
		if s := w.slots[n]; !s.granted && w.grants > 0 {
			all[fmt.Sprint("grant ", n)] = func(w *world) { w.grants--; w.grant(n) }
		} else if s.granted && !s.ended {
			all[fmt.Sprint("end ", n)] = func(w *world) { w.endSlot(n); w.m.ended(n) }
		}
	}
	if len(w.reads) > 0 {
		all["answer"] = func(w *world) { w.answer(true) }
		if w.fails > 0 {
			all["fail"] = func(w *world) { w.fails--; w.answer(false) }
		}
	}
	if len(w.acks) > 0 {
		all["ack"] = func(w *world) {
			a := w.acks[0]
			w.acks = w.acks[1:]
			w.m.completed(a.name, a.rev, a.life, w.now)
		}
		all["no ack"] = func(w *world) { w.acks = w.acks[1:] }
	}
	// Replicas do not lag for as long as the machine is patient.
	isLate := func(n string) bool { k := w.m.keys[n]; return k != nil && k.failed > 1 }
	if at := w.m.wake(); !at.IsZero() && (all["deliver"] == nil || !at.Equal(w.m.due) && !slices.ContainsFunc(explored, isLate)) {
		all["time"] = func(w *world) { w.pass(at) }
	}
	return all
}

func (w *world) keyActions(n string, all map[string]func(*world)) {
	if w.writes > 0 {
		for _, value := range []string{"yes", "no"} {
			all["put "+n+" "+value] = func(w *world) { w.writes--; w.write(message{name: n, value: value}) }
		}
		if !w.source(n).gone {
			all["delete "+n] = func(w *world) { w.writes--; w.write(message{name: n, gone: true}) }
		}
	}
	k := w.works[n]
	if k == nil {
		return
	}
	all["return "+n] = func(w *world) { delete(w.works, n); w.m.returned(n, !k.ended, w.now) }
	if !k.ended {
		all["return as the slot ends "+n] = func(w *world) {
			w.endSlot(slotOf(n, len(w.slots)))
			delete(w.works, n)
			w.m.returned(n, false, w.now)
		}
	}
	if s := w.source(n); w.completes > 0 && !s.gone && s.rev == k.rev && s.value == k.value {
		all["complete "+n] = func(w *world) {
			w.completes--
			w.done[n] = k.rev
			w.doubt[n] = w.doubt[n] || k.life == w.m.life
			w.m.completes(n, k.life)
			w.write(message{name: n, gone: true})
			w.acks = append(w.acks, ack{n, k.rev, k.life})
		}
	}
}

// lose lets the bucket lose all messages but the first n.
func (w *world) lose(n int) {
	w.stream, w.removed, w.next = w.stream[:n:n], min(w.removed, uint64(n)), min(w.next, n)
	w.listing = slices.DeleteFunc(slices.Clone(w.listing), func(e message) bool { return e.rev > uint64(n) })
	w.reset = true
	clear(w.done)
	for i := range w.slots {
		w.slots[i].barrier = 0
	}
}

// grant grants a slot, after its guard was raised.
func (w *world) grant(n int) {
	s := slotWorld{granted: true}
	if w.guards {
		w.write(message{})
		s.barrier = uint64(len(w.stream))
	}
	w.debt = max(w.debt, s.barrier)
	w.slots[n] = s
	w.m.granted(n, s.barrier, w.now)
}

// endSlot ends the context of a slot.
func (w *world) endSlot(slot int) {
	w.slots[slot].ended = true
	for n, k := range w.works {
		if slotOf(n, len(w.slots)) == slot {
			k.ended = true
		}
	}
}

// pass lets time pass.
func (w *world) pass(at time.Time) {
	w.now = at
	if at.Equal(w.m.due) && w.ends && !w.listed { // what is owed does not come
		w.debt = w.seen
		w.endList()
	}
	w.m.tick(at)
}

// deliver delivers the next message of the watch.
func (w *world) deliver() {
	var e message
	switch {
	case len(w.listing) > 0:
		e, w.listing = w.listing[0], w.listing[1:]
	case !w.ends:
		w.ends = true
		if w.seen >= w.debt && !w.void {
			w.endList()
		}
		w.m.listedAll(w.end, w.now)
		return
	default:
		e = w.stream[w.next]
		w.next++
	}
	if !w.void {
		w.seen, w.debt = max(w.seen, e.rev), max(w.debt, e.rev)
		w.round[e.name] = true
		if e.rev >= w.view[e.name].rev {
			w.view[e.name] = e
		}
		if w.ends && !w.listed && w.seen >= w.debt {
			w.endList()
		}
	}
	switch {
	case e.name == "":
	case e.gone:
		w.m.gone(e.name, e.rev, w.now)
	default:
		w.m.put(Entry{e.name, []byte(e.value), e.rev}, w.now)
	}
	w.m.delivered(e.rev, w.now)
}

// endList ends the list.
func (w *world) endList() {
	w.listed = true
	for _, n := range explored {
		if v := w.view[n]; !w.round[n] && v.rev <= w.seen || v.rev > w.debt {
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
		if k := w.m.keys[r.name]; ok && k != nil && k.phase == phaseReads && k.id == r.id && s.rev >= w.view[r.name].rev {
			w.confirm[r.name] = true
			delete(w.doubt, r.name)
			w.view[r.name], w.debt = s, max(w.debt, s.rev)
		}
	}
	w.m.answer(r.id, e, ok, w.now)
}

// notices takes that the machine has forgotten all.
func (w *world) notices() {
	w.reset, w.void, w.debt, w.seen, w.listed = false, w.m.void, 0, 0, false
	clear(w.view)
	clear(w.doubt)
	for i := range w.slots {
		w.slots[i].reads = true
	}
}

// do does an action, carries out the effects, and checks the rules.
func (w *world) do(t *testing.T, name string, action func(*world)) {
	w.trace = append(w.trace, name)
	clear(w.confirm)
	life := w.m.life
	action(w)
	wrong := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s\nafter %s", fmt.Sprintf(format, args...), strings.Join(w.trace, ", "))
	}
	if w.m.life != life {
		if !w.reset {
			wrong("the machine forgets all, and the bucket has lost nothing")
		}
		w.notices()
	}
	for _, e := range w.m.effects() {
		switch e := e.(type) {
		case read:
			w.reads = append(w.reads, e)
		case begin:
			w.begins(e, wrong)
		case update:
			k := w.works[e.entry.Name]
			k.rev, k.value = e.entry.Revision, string(e.entry.Value)
		case cancel:
			for n, k := range w.works {
				if k.id == e.id {
					v := w.view[n]
					if isLost := w.m.life != life; k.ended || !isLost && (!v.gone && v.value != "no" || v.gone != errors.Is(e.cause, ErrDeleted)) || isLost && !errors.Is(e.cause, leader.ErrRegressed) {
						wrong("%s is cancelled with %v", n, e.cause)
					}
					k.ended = true
				}
			}
		case release:
			for n, k := range w.works {
				if slotOf(n, len(w.slots)) == e.slot {
					wrong("the slot is released, and has %v", *k)
				}
			}
			if !w.slots[e.slot].ended {
				wrong("the slot is released, and has not ended")
			}
			w.slots[e.slot].granted = false
		case relist:
			w.relist = true
		case overflow:
			if w.limit == 0 {
				wrong("%T", e)
			}
		case lost:
		case unfit:
			wrong("%T", e)
		}
	}
	for _, n := range explored {
		if w.m.keys[n] == nil {
			delete(w.view, n)
			delete(w.doubt, n)
		}
		w.check(n, wrong)
	}
	for n, s := range w.slots {
		if s.ended && s.granted && !slices.ContainsFunc(explored, func(name string) bool { return w.works[name] != nil && slotOf(name, len(w.slots)) == n }) {
			wrong("the slot is not released")
		}
	}
}

// begins checks that work may begin.
func (w *world) begins(e begin, wrong func(string, ...any)) {
	n, rev, s := e.entry.Name, e.entry.Revision, w.of(e.entry.Name)
	switch v := w.view[n]; {
	case w.works[n] != nil:
		wrong("%s has two works", n)
	case !s.granted || s.ended:
		wrong("%s begins without its slot", n)
	case !w.listed || w.void:
		wrong("%s begins before the list has ended", n)
	case v.gone || v.rev != rev || v.value == "no" || v.value != string(e.entry.Value):
		wrong("%s begins at %d, and %v is known", n, rev, v)
	case rev <= w.done[n]:
		wrong("%s begins at %d, and was completed at %d", n, rev, w.done[n])
	case (!w.guards || s.reads || w.doubt[n]) && !w.confirm[n]:
		wrong("%s begins and was not read", n)
	case w.m.full:
		wrong("%s begins on a set that is not complete", n)
	}
	for _, o := range w.stream {
		if o.name == n && o.rev > rev && o.rev < s.barrier {
			wrong("%s begins at %d, and before the guard %v was written", n, rev, o)
		}
	}
	w.works[n] = &work{id: e.id, life: e.life, rev: rev, value: string(e.entry.Value)}
}

// check checks what the machine does with a key.
func (w *world) check(n string, wrong func(string, ...any)) {
	k, v, s := w.works[n], w.view[n], w.of(n)
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
	case goes && (k.rev != v.rev || k.value != v.value):
		wrong("the work on %s has %d, and %v is known", n, k.rev, v)
	case known && isReady && w.listed && !w.m.full && s.granted && !s.ended && w.seen >= s.barrier && v.rev > w.done[n] && !waits && !w.reset:
		wrong("%s has no work and no alarm", n)
	}
}

// settle lets everything happen that is under way, grants the slots, and then looks whether each key that is wanted and ready
// has work.
func (w *world) settle(t *testing.T) {
	w.scenario = scenario{guards: w.guards, split: w.split, limit: w.limit, grants: len(w.slots)}
	noticed := false
	for range 200 {
		all, next := w.actions(), ""
		for _, n := range explored {
			if k := w.works[n]; k != nil && k.ended {
				next = "return " + n
			}
		}
		if all["notice"] != nil && !noticed && next == "" {
			next, noticed = "notice", true
		}
		for _, name := range []string{"relist", "deliver", "answer", "ack", "grant 0", "grant 1", "time"} {
			if next == "" && all[name] != nil {
				next = name
			}
		}
		if next == "" {
			break
		}
		w.do(t, next, all[next])
	}
	exist := 0
	for _, n := range explored {
		if !w.source(n).gone {
			exist++
		}
	}
	if w.limit > 0 && exist > w.limit {
		return
	}
	for _, n := range explored {
		s, slot, k := w.source(n), w.of(n), w.works[n]
		may := !s.gone && s.value != "no"
		must := may && (n != "b" || w.source("a").gone) // a key that is not ready any more goes on
		if has := k != nil; slot.granted && !slot.ended && (has && !may || !has && must || has && (k.rev != s.rev || k.value != s.value)) {
			t.Fatalf("%s: %v, and its work is %v, after %s", n, s, k, strings.Join(w.trace, ", "))
		}
	}
}

// most bounds the exploration.
const most = 100_000

// explore visits all situations, breadth first.
func explore(t *testing.T, s scenario) (situations, transitions int) {
	start := newWorld(s)
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
			check.Must(t, len(seen) < proof.Size(most, 10*most), "more than %d situations: something grows without an end", most)
		}
		w.settle(t)
	}
	return len(seen), transitions
}

// scenarios are those of the exploration, with the number of situations, without and with guards.
var scenarios = []struct {
	name string
	long bool
	scenario
	situations map[bool]int
}{
	{"life", false, scenario{writes: 3, grants: 1}, map[bool]int{false: 4824, true: 11282}},
	{"moves", false, scenario{writes: 2, grants: 2}, map[bool]int{false: 979, true: 4872}},
	{"complete", false, scenario{writes: 2, grants: 1, completes: 1}, map[bool]int{false: 3685, true: 7462}},
	{"break", false, scenario{writes: 1, breaks: 1, grants: 2, fails: 1}, map[bool]int{false: 1296, true: 4498}},
	{"slots", false, scenario{writes: 2, grants: 2, split: true}, map[bool]int{false: 2118, true: 23048}},
	{"full", false, scenario{writes: 2, grants: 1, limit: 1}, map[bool]int{false: 476, true: 1214}},
	{"remade", false, scenario{writes: 2, grants: 1, remakes: 1}, map[bool]int{false: 1667, true: 3257}},
	{"lost", false, scenario{writes: 2, grants: 1, losses: 1}, map[bool]int{false: 22154, true: 30099}},
	{"deletion", false, scenario{writes: 1, grants: 1, completes: 1, losses: 1}, map[bool]int{false: 4699, true: 13467}},
	{"removed", false, scenario{writes: 1, completes: 1, grants: 1, breaks: 1, removals: 1}, map[bool]int{false: 10702, true: 39372}},
	{"breaks", true, scenario{writes: 2, breaks: 1, grants: 1, fails: 1}, nil},
	{"two", true, scenario{writes: 1, breaks: 1, grants: 2, split: true, fails: 1}, nil},
	{"deletions", true, scenario{writes: 2, grants: 1, completes: 1, losses: 1}, nil},
	{"again", true, scenario{writes: 2, grants: 1, completes: 1, remakes: 1}, nil},
	{"markers", true, scenario{writes: 2, grants: 1, breaks: 1, removals: 1}, nil},
}

func TestMachine_Exploration(t *testing.T) {
	proof.NotRaced(t)
	for _, s := range scenarios {
		if s.long && !proof.Long {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			for _, guards := range []bool{false, true} {
				from := time.Now()
				s.guards = guards
				situations, transitions := explore(t, s.scenario)
				t.Logf("guards: %v, %d situations, %d transitions in %v", guards, situations, transitions, time.Since(from).Round(time.Millisecond))
				if want := s.situations[guards]; want != 0 {
					check.Equal(t, situations, want, "%d situations: if the rules have changed, write this number into the table")
				}
			}
		})
	}
}
