package keys

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Limits of what a member keeps of each key, and of how many keys it keeps.
const (
	maxName  = 512
	maxValue = 64 << 10
	maxKeys  = 200_000
)

// restart is the pause before the work on a key begins again that has returned by itself: that of package shard.
const restart = 5 * time.Second

// A read that does not confirm a begin is repeated after firstRetry, and then after twice the pause each time, at most
// restart.
const (
	firstRetry  = 250 * time.Millisecond
	mostDoubled = 5
)

// listPatience is how long a replica may lag.
const listPatience = 10 * time.Second

// machine has the rules: on which keys this process works. It has no goroutine, lock, clock or I/O. One goroutine calls its
// inputs, and carries out the effects that they add. Wants and Ready of the application are functions of their arguments.
//
// The rules are:
//
//  1. Work on a key begins when its slot is granted, the set was read to its end, the entry is wanted and ready, and no
//     earlier work on the key goes on in this process.
//  2. Without guards, a read confirms each begin. With guards, the watch has delivered the guard of the slot before.
//  3. The work ends with the slot, or when the key is gone or not wanted.
//  4. A slot is released when its context has ended and the last work on its keys has returned.
//  5. After each break of the watch the set is read again. What is not in it is gone. A replica that lags may list less than was
//     delivered or read before. Then the list ends when the watch has delivered that. If it was not for listPatience, messages have
//     been removed from the bucket: the list has ended, and a read confirms each begin, also with guards.
type machine struct {
	slots  int
	wants  func(Entry) bool                                  // nil: all
	ready  func(Entry, func(name string) (Entry, bool)) bool // nil: all
	reads  bool                                              // rule 2, without guards
	limit  int                                               // of keys
	listed bool                                              // the set was read to its end since the last break
	full   bool                                              // there were more keys than the limit: the set is not complete
	asked  bool                                              // to read it again since
	round  uint64                                            // of reading the set
	seen   uint64                                            // the greatest revision that was delivered in it
	high   uint64                                            // the greatest that was delivered ever, or read
	short  time.Time                                         // until then the end of a list waits that has not reached high; zero: none does
	keys   map[string]*key                                   // that exist, or whose work has not returned
	slot   []map[string]*key                                 // these by slot
	grants map[int]*grant                                    // by slot
	idle   map[*key]bool                                     // wait until others make them ready
	rests  rests                                             // wait for a time
	last   uint64                                            // the id of the newest work or read
	fx     []effect
}

// grant is a slot that this process owns.
type grant struct {
	barrier uint64 // no work begins before this revision was delivered: that of the guard
	works   int    // that have not returned
	ended   bool
}

// phase is what a key does in this process.
type phase uint8

const (
	phaseIdle    phase = iota
	phaseReads         // a read is to confirm the begin
	phaseWorks         // its work goes on
	phaseReturns       // its context has ended, and its work goes on
)

// key is a key of the set.
type key struct {
	Entry
	slot   int
	exists bool
	wanted bool
	round  uint64 // in which it was delivered last
	phase  phase
	id     uint64    // of the work or the read
	done   uint64    // up to this revision this process has completed it
	rests  time.Time // until then it does not begin
	armed  time.Time // the time for which it is in machine.rests
	failed int       // reads in a row that did not confirm the begin
}

// effect is what the owner of the machine has to do.
type effect interface{ effect() }

type (
	read struct { // read a key, and call answer
		id   uint64
		name string
	}
	begin struct { // begin the work, and call returned
		id    uint64
		slot  int
		entry Entry
	}
	update struct { // the running work has a new value
		id    uint64
		entry Entry
	}
	cancel struct { // end the context of the work
		id    uint64
		cause error
	}
	release struct{ slot int } // the last work has returned
	unfit   struct {           // report that a key is not worked on
		name string
		err  error
	}
	overflow struct{} // report that there are too many keys
	relist   struct{} // read the set again
)

func (read) effect()     {}
func (begin) effect()    {}
func (update) effect()   {}
func (cancel) effect()   {}
func (release) effect()  {}
func (unfit) effect()    {}
func (overflow) effect() {}
func (relist) effect()   {}

// newMachine returns a machine without keys and slots.
func newMachine(slots int, reads bool) *machine {
	return &machine{
		slots: slots, reads: reads, limit: maxKeys, keys: make(map[string]*key), slot: make([]map[string]*key, slots),
		grants: make(map[int]*grant), idle: make(map[*key]bool),
	}
}

func (m *machine) emit(e effect) { m.fx = append(m.fx, e) }

// effects returns what the inputs since the last call have added.
func (m *machine) effects() []effect {
	fx := m.fx
	m.fx = nil
	return fx
}

// breaks takes that the watch may have missed a change: nothing begins until the set was read again.
func (m *machine) breaks() {
	m.round++
	m.listed, m.full, m.asked, m.seen, m.short = false, false, false, 0, time.Time{}
}

// remade takes that the revisions begin anew.
func (m *machine) remade() {
	m.high = 0
	for _, k := range m.keys {
		k.Revision, k.done = 0, 0
	}
}

// put takes an entry that the watch has delivered.
func (m *machine) put(e Entry, now time.Time) {
	k := m.keys[e.Name]
	if k == nil {
		if len(m.keys) >= m.limit {
			if !m.full {
				m.emit(overflow{})
			}
			m.full = true
			return
		}
		k = m.add(e.Name)
	}
	k.round = m.round
	if e.Revision >= k.Revision { // else a read was faster
		m.take(k, e)
		m.consider(k, now)
		m.changed(now)
	}
}

// add adds a key.
func (m *machine) add(name string) *key {
	k := &key{Entry: Entry{Name: name}, slot: slotOf(name, m.slots)}
	m.keys[name] = k
	if m.slot[k.slot] == nil {
		m.slot[k.slot] = make(map[string]*key)
	}
	m.slot[k.slot][name] = k
	return k
}

// take replaces the entry of a key by one that is not older.
func (m *machine) take(k *key, e Entry) {
	isNew := !k.exists || e.Revision != k.Revision
	k.Entry, k.exists = e, true
	if !isNew {
		return
	}
	err := unfitFor(e)
	if err != nil {
		m.emit(unfit{e.Name, err})
	}
	k.wanted = err == nil && (m.wants == nil || m.wants(e))
	if k.wanted && k.phase == phaseWorks {
		m.emit(update{k.id, e})
	}
}

// gone takes that a key was deleted.
func (m *machine) gone(name string, revision uint64, now time.Time) {
	k := m.keys[name]
	if k == nil || revision < k.Revision { // a read has shown a later value, which the watch is yet to deliver
		return
	}
	k.exists, k.Revision = false, revision
	m.consider(k, now)
	m.changed(now)
}

// delivered takes the greatest revision that was delivered, of whichever key, after the entry itself.
func (m *machine) delivered(revision uint64, now time.Time) {
	was := m.seen
	m.seen, m.high = max(m.seen, revision), max(m.high, revision)
	if !m.short.IsZero() && m.seen >= m.high {
		m.endList(now)
	}
	if m.reads {
		return // there are no barriers
	}
	for slot, g := range m.grants {
		if was < g.barrier && m.seen >= g.barrier {
			m.considerSlot(slot, now)
		}
	}
}

// listedAll takes the end of the list.
func (m *machine) listedAll(now time.Time) {
	if m.seen < m.high {
		m.short = now.Add(listPatience)
		return
	}
	m.endList(now)
}

// endList ends the list: what was not delivered is gone. All of it is marked before any work begins, because a key that waits
// for others may be gone with them.
func (m *machine) endList(now time.Time) {
	m.listed, m.short = true, time.Time{}
	for _, k := range m.keys {
		if k.round != m.round {
			k.exists = false
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.keys)) {
		m.consider(m.keys[name], now)
	}
}

// granted takes that this process owns a slot. With guards, barrier is the revision of that of the slot.
func (m *machine) granted(slot int, barrier uint64, now time.Time) {
	m.grants[slot] = &grant{barrier: barrier}
	m.considerSlot(slot, now)
}

// ended takes the end of the context of a slot, with which those of its keys have ended.
func (m *machine) ended(slot int) {
	g := m.grants[slot]
	if g == nil || g.ended {
		return
	}
	g.ended = true
	for _, k := range m.slot[slot] {
		m.stop(k)
	}
	m.leave(slot)
}

// stop ends a read, or notes that the context of the work has ended. It reports whether there is work.
func (m *machine) stop(k *key) bool {
	switch k.phase {
	case phaseReads:
		k.phase = phaseIdle
	case phaseWorks:
		k.phase = phaseReturns
		return true
	case phaseIdle, phaseReturns:
	}
	return false
}

// leave releases a slot that has ended and has no work.
func (m *machine) leave(slot int) {
	if g := m.grants[slot]; g.ended && g.works == 0 {
		delete(m.grants, slot)
		m.emit(release{slot})
	}
}

// answer takes the result of a read: the entry, one without a revision if there is none, or that the read failed.
func (m *machine) answer(id uint64, e Entry, ok bool, now time.Time) {
	k := m.keys[e.Name]
	if k == nil || k.phase != phaseReads || k.id != id {
		return // it has ended meanwhile
	}
	k.phase = phaseIdle
	if !ok || e.Revision < k.Revision { // deleted, or a replica that lags: the watch decides
		k.rests = now.Add(min(firstRetry<<k.failed, restart))
		k.failed = min(k.failed+1, mostDoubled)
		m.consider(k, now)
		return
	}
	k.failed, m.high = 0, max(m.high, e.Revision)
	was := k.Revision
	m.take(k, e)
	m.decide(k, true, now)
	if e.Revision != was {
		m.changed(now)
	}
}

// completed takes that the work of this process has completed a key at a revision. Until the watch shows that it is gone,
// or a later value, it does not begin.
func (m *machine) completed(name string, revision uint64) {
	if k := m.keys[name]; k != nil {
		k.done = max(k.done, revision)
	}
}

// returned takes that work has returned, early if its context had not ended.
func (m *machine) returned(name string, early bool, now time.Time) {
	k := m.keys[name]
	switch {
	case k.phase != phaseWorks: // it was to end
	case early:
		k.rests = now.Add(restart)
	default: // the slot has ended, and this is the first sign of it
		m.ended(k.slot)
	}
	k.phase = phaseIdle
	m.grants[k.slot].works--
	m.leave(k.slot)
	m.consider(k, now)
}

// tick takes the time.
func (m *machine) tick(now time.Time) {
	if !m.short.IsZero() && !now.Before(m.short) {
		m.endList(now)
	}
	for at := m.rested(); !at.IsZero() && !now.Before(at); at = m.rested() {
		m.consider(heap.Pop(&m.rests).(rest).key, now) //nolint:forcetypeassert // it holds nothing else
	}
}

// wake returns when tick is due, or zero.
func (m *machine) wake() time.Time {
	at := m.rested()
	if !m.short.IsZero() && (at.IsZero() || m.short.Before(at)) {
		return m.short
	}
	return at
}

// rested returns when the first key has rested, or zero.
func (m *machine) rested() time.Time {
	for len(m.rests) > 0 {
		r := m.rests[0]
		if r.key.phase == phaseIdle && r.key.rests.Equal(r.at) && m.keys[r.key.Name] == r.key {
			return r.at
		}
		heap.Pop(&m.rests)
	}
	return time.Time{}
}

// changed considers the keys that were not ready.
func (m *machine) changed(now time.Time) {
	if len(m.idle) == 0 || !m.listed {
		return
	}
	idle := slices.SortedFunc(maps.Keys(m.idle), func(a, b *key) int { return strings.Compare(a.Name, b.Name) })
	for _, k := range idle {
		delete(m.idle, k)
		m.consider(k, now)
	}
}

func (m *machine) considerSlot(slot int, now time.Time) {
	for _, name := range slices.Sorted(maps.Keys(m.slot[slot])) {
		m.consider(m.slot[slot][name], now)
	}
}

// consider begins or ends what is due for a key.
func (m *machine) consider(k *key, now time.Time) { m.decide(k, false, now) }

// decide is consider, perhaps just after a read has confirmed the entry.
func (m *machine) decide(k *key, confirmed bool, now time.Time) {
	switch {
	case !k.exists || !k.wanted:
		if m.stop(k) {
			m.emit(cancel{k.id, k.cause()})
		}
		if !k.exists && k.phase == phaseIdle {
			m.forget(k)
		}
	case k.phase != phaseIdle || !m.mayBegin(k):
	case now.Before(k.rests):
		if !k.armed.Equal(k.rests) {
			k.armed = k.rests
			heap.Push(&m.rests, rest{k.rests, k})
		}
	case m.ready != nil && !m.ready(k.Entry, m.get):
		m.idle[k] = true
	case (m.reads || m.seen < m.high) && !confirmed:
		m.last++
		k.id, k.phase = m.last, phaseReads
		m.emit(read{k.id, k.Name})
	default:
		m.last++
		k.id, k.phase = m.last, phaseWorks
		m.grants[k.slot].works++
		m.emit(begin{k.id, k.slot, k.Entry})
	}
}

// mayBegin reports whether the set and the slot of a key are such that its work may begin.
func (m *machine) mayBegin(k *key) bool {
	g := m.grants[k.slot]
	return m.listed && !m.full && g != nil && !g.ended && m.seen >= g.barrier && k.Revision > k.done
}

// forget drops a key that is gone.
func (m *machine) forget(k *key) {
	delete(m.keys, k.Name)
	delete(m.slot[k.slot], k.Name)
	delete(m.idle, k)
	if m.full && !m.asked && len(m.keys) <= m.limit-m.limit/100 {
		m.asked = true
		m.emit(relist{})
	}
}

// get returns the entry of a key that exists.
func (m *machine) get(name string) (Entry, bool) {
	k := m.keys[name]
	if k == nil || !k.exists {
		return Entry{}, false
	}
	return k.Entry, true
}

// cause returns why the context of a key ends.
func (k *key) cause() error {
	if !k.exists {
		return ErrDeleted
	}
	return ErrNotWanted
}

// unfitFor returns why an entry is not worked on.
func unfitFor(e Entry) error {
	switch {
	case len(e.Name) > maxName:
		return fmt.Errorf("its name has %d bytes: at most %d are worked on", len(e.Name), maxName)
	case len(e.Value) > maxValue:
		return fmt.Errorf("its value has %d bytes: keep what is above %d elsewhere", len(e.Value), maxValue)
	case !isKey(e.Name):
		return fmt.Errorf("it is no key of a bucket, and so cannot be read or deleted")
	}
	return nil
}

// isKey applies the rule of jetstream/kv.go, keyValid.
func isKey(name string) bool {
	return name != "" && name[0] != '.' && name[len(name)-1] != '.' && strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || 'z' < r) && (r < 'A' || 'Z' < r) && (r < '0' || '9' < r) && !strings.ContainsRune("-/_=.", r)
	}) < 0
}

// slotOf returns the slot of a name: its 64-bit FNV-1a hash modulo the number of slots. It never changes.
func slotOf(name string, slots int) int {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return int(h % uint64(slots)) //nolint:gosec // slots is positive, and so the result is less than it
}

// rest is a key that waits for a time.
type rest struct {
	at  time.Time
	key *key
}

// rests are the keys that wait for a time, the first one first. One that does not wait any more stays in it until then.
type rests []rest

func (r rests) Len() int           { return len(r) }
func (r rests) Less(i, j int) bool { return r[i].at.Before(r[j].at) }
func (r rests) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }
func (r *rests) Push(x any)        { *r = append(*r, x.(rest)) } //nolint:forcetypeassert // it holds nothing else
func (r *rests) Pop() any {
	last := (*r)[len(*r)-1]
	*r = (*r)[:len(*r)-1]
	return last
}
