package keys

import (
	"bytes"
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
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
// restart. After relistAfter such reads of a key in a row, some 8 s, the set is read again, for however many keys that is so once
// in relistPause.
const (
	firstRetry  = 250 * time.Millisecond
	mostDoubled = 5
	relistAfter = 6
	relistPause = 30 * time.Second
)

// fewIdle keys that are not ready are considered with each change, more of them only after a pause for each.
const (
	fewIdle     = 100
	pauseOfIdle = 10 * time.Microsecond
)

// patience is how long a replica may lag: for how long the watch may owe a revision that is known.
const patience = 10 * time.Second

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
//  5. After each break of the watch the set is read again. What is not in it is gone.
//  6. The watch owes the revisions that an earlier watch, a read or a guard has shown. A list ends when the watch has delivered
//     those that were known at the end of the list, or after patience: then a marker has expired, or messages were removed, and a
//     read confirms each begin, also with guards, until the watch delivers a later message. A watch that owes a revision for longer
//     than patience after the end of the list is opened again.
//  7. The bucket has lost messages if it has a lower last revision than is known, for longer than patience, or shows another
//     message at a revision, or a key only at an earlier one. Then, and when the bucket was made again, no revision that was known
//     means anything. All work ends, all that is known is forgotten, and the set is read again. The guard of a slot may be among
//     what was lost: a read confirms each begin in that slot, also with guards, until the slot ends.
type machine struct {
	slots  int
	wants  func(Entry) bool                                  // nil: all
	ready  func(Entry, func(name string) (Entry, bool)) bool // nil: all
	reads  bool                                              // rule 2, without guards
	limit  int                                               // of keys
	round  uint64                                            // of reading the set
	life   uint64                                            // of the revisions: how often all that is known was forgotten
	keys   map[string]*key                                   // that exist, or whose work has not returned
	slot   []map[string]*key                                 // these by slot
	grants map[int]*grant                                    // by slot
	awaits map[int]bool                                      // slots whose barrier the watch owes, since the end of the list
	idle   map[*key]bool                                     // wait until others make them ready
	glance time.Time                                         // before it these are not considered again
	missed bool                                              // a key has changed since they were considered
	rests  rests                                             // wait for a time
	reread time.Time                                         // before it reads in vain do not have the set read again
	last   uint64                                            // the id of the newest work or read
	fx     []effect

	high uint64 // the greatest revision that is known
	debt uint64 // the greatest that each list is to reach: high, unless a list was complete without it
	gap  uint64 // a read confirms each begin until this revision was delivered

	// Since the last break of the watch:
	listed bool            // the set was read to its end
	whole  bool            // the list has ended, but may be short
	void   bool            // the list began before all that was known was forgotten: it is ignored
	full   bool            // there were more keys than the limit: the set is not complete
	others map[string]bool // keys beyond the limit, at most as many as the limit
	asked  bool            // to read the set again
	before uint64          // high, at the break
	end    uint64          // the last revision of the bucket, after the break
	seen   uint64          // the greatest revision that was delivered
	owed   uint64          // the watch is to deliver this revision
	due    time.Time       // until then; zero: it owes nothing
}

// grant is a slot that this process owns.
type grant struct {
	barrier uint64 // no work begins before this revision was delivered: that of the guard
	reads   bool   // a read confirms each begin
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
	shown  uint64 // the revision that was delivered last
	phase  phase
	id     uint64    // of the work or the read
	done   uint64    // up to this revision this process has completed it
	sure   time.Time // until then it does not begin at that revision: no replica lags for longer
	doubt  bool      // this process may have completed it: a read confirms the next begin
	unfit  bool      // that it is not worked on was reported
	rests  time.Time // until then it does not begin
	armed  time.Time // the time for which it was put into machine.rests last
	failed int       // reads in a row that did not confirm the begin, at most relistAfter
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
		life  uint64 // of the revision of the entry
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
	lost     struct{} // report that the bucket was made again, or has lost messages
)

func (read) effect()     {}
func (begin) effect()    {}
func (update) effect()   {}
func (cancel) effect()   {}
func (release) effect()  {}
func (unfit) effect()    {}
func (overflow) effect() {}
func (relist) effect()   {}
func (lost) effect()     {}

// newMachine returns a machine without keys and slots.
func newMachine(slots int, reads bool) *machine {
	return &machine{
		slots: slots, reads: reads, limit: maxKeys, keys: make(map[string]*key), slot: make([]map[string]*key, slots),
		grants: make(map[int]*grant), awaits: make(map[int]bool), others: make(map[string]bool), idle: make(map[*key]bool),
	}
}

func (m *machine) emit(e effect) { m.fx = append(m.fx, e) }

// effects returns what the inputs since the last call have added.
func (m *machine) effects() []effect {
	fx := m.fx
	m.fx = nil
	return fx
}

// breaks takes that the watch may have missed a change, and that the set is read again: nothing begins until its end.
func (m *machine) breaks() {
	m.round++
	m.listed, m.whole, m.void, m.full, m.asked = false, false, false, false, false
	m.before, m.end, m.seen, m.owed, m.due = m.high, 0, 0, 0, time.Time{}
	clear(m.others)
}

// remade takes that the bucket was made again, before its list.
func (m *machine) remade() { m.forgetAll() }

// regressed concludes that the bucket has lost messages. What the watch delivers until it is opened again is no whole list.
func (m *machine) regressed() {
	m.forgetAll()
	m.void = true
	m.listAgain()
}

// forgetAll ends all work, and forgets all that is known of the bucket: rule 7.
func (m *machine) forgetAll() {
	m.life++
	m.listed, m.whole, m.due = false, false, time.Time{}
	m.high, m.debt, m.gap, m.before, m.end, m.seen, m.owed = 0, 0, 0, 0, 0, 0, 0
	for _, name := range slices.Sorted(maps.Keys(m.keys)) {
		k := m.keys[name]
		if m.stop(k) {
			m.emit(cancel{k.id, backend.ErrRegressed})
		}
		k.exists, k.wanted, k.Revision, k.done, k.doubt, k.shown = false, false, 0, 0, false, 0
		if k.phase == phaseIdle {
			m.forget(k)
		}
	}
	for _, g := range m.grants {
		g.barrier, g.reads = 0, true
	}
	clear(m.awaits)
	m.emit(lost{})
}

// listAgain has the set read again, once until that happens.
func (m *machine) listAgain() {
	if !m.asked {
		m.asked = true
		m.emit(relist{})
	}
}

// put takes an entry that the watch has delivered.
func (m *machine) put(e Entry, now time.Time) {
	if m.void {
		return
	}
	k := m.keys[e.Name]
	if k == nil {
		if len(m.keys) >= m.limit {
			m.refuse(e.Name)
			return
		}
		k = m.add(e.Name)
	}
	if k.exists && e.Revision == k.Revision && !sameValue(k, e) {
		m.regressed()
		return
	}
	k.round, k.shown = m.round, e.Revision
	if e.Revision >= k.Revision { // else a read was faster
		m.take(k, e)
		m.consider(k, now)
		m.changed(now)
	}
}

// refuse takes a key beyond the limit.
func (m *machine) refuse(name string) {
	if !m.full {
		m.emit(overflow{})
	}
	m.full = true
	if len(m.others) < m.limit {
		m.others[name] = true
	}
}

// fits has the set read again if it is not complete, and now may fit.
func (m *machine) fits() {
	if m.full && len(m.keys)+len(m.others) <= m.limit-m.limit/100 {
		m.listAgain()
	}
}

// sameValue reports whether an entry has the value of the key, as far as that is kept.
func sameValue(k *key, e Entry) bool {
	return k.unfit || bytes.Equal(k.Value, e.Value)
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
	if k.exists && e.Revision == k.Revision {
		return
	}
	k.Entry, k.exists = e, true
	err := unfitFor(e)
	if err != nil {
		k.Value = nil // it may be long
		if !k.unfit {
			m.emit(unfit{e.Name, err})
		}
	}
	k.unfit = err != nil
	k.wanted = err == nil && (m.wants == nil || m.wants(e))
	if k.wanted && k.phase == phaseWorks {
		m.emit(update{k.id, e})
	}
}

// gone takes that a key was deleted.
func (m *machine) gone(name string, revision uint64, now time.Time) {
	k := m.keys[name]
	if k == nil || m.void {
		delete(m.others, name)
		m.fits()
		return
	}
	if k.exists && revision == k.Revision {
		m.regressed()
		return
	}
	k.round, k.shown = m.round, revision
	if revision < k.Revision { // a read has shown a later value, which the watch is yet to deliver
		return
	}
	k.exists, k.Revision = false, revision
	m.consider(k, now)
	m.changed(now)
}

// delivered takes the greatest revision that was delivered, of whichever key, after the entry itself.
func (m *machine) delivered(revision uint64, now time.Time) {
	if m.void {
		return
	}
	m.know(revision)
	m.seen, m.end = max(m.seen, revision), max(m.end, revision)
	if !m.due.IsZero() && m.seen >= m.owed {
		m.due = time.Time{}
		if !m.listed && m.complete() {
			m.endList(now)
		}
		m.owes(now)
	}
	if !m.listed {
		return
	}
	for _, slot := range slices.Sorted(maps.Keys(m.awaits)) {
		if m.seen >= m.grants[slot].barrier {
			delete(m.awaits, slot)
			m.considerSlot(slot, now)
		}
	}
}

// know takes a revision that the bucket has.
func (m *machine) know(revision uint64) {
	m.high, m.debt = max(m.high, revision), max(m.debt, revision)
}

// complete reports whether the list has ended, and lacks nothing that is known.
func (m *machine) complete() bool { return m.whole && m.seen >= m.debt && m.end >= m.before }

// owes gives the watch time to deliver what is known, if it owes that.
func (m *machine) owes(now time.Time) {
	if m.whole && m.due.IsZero() && !m.complete() {
		m.owed, m.due = m.debt, now.Add(patience)
	}
}

// listedAll takes the end of the list. The bucket had the last revision end after the break of the watch.
func (m *machine) listedAll(end uint64, now time.Time) {
	if m.void {
		return
	}
	m.whole, m.end = true, max(m.end, end)
	if m.complete() {
		m.endList(now)
	}
	m.owes(now)
}

// late takes that the watch owes a revision for too long.
func (m *machine) late(now time.Time) {
	m.due = time.Time{}
	switch {
	case m.listed:
		m.listAgain()
	case m.end < m.before:
		m.regressed()
	default:
		m.gap, m.debt = m.debt, m.seen
		m.endList(now)
	}
}

// endList ends the list: what was not delivered is gone. All of it is marked before any work begins, because a key that waits
// for others may be gone with them.
func (m *machine) endList(now time.Time) {
	for _, k := range m.keys {
		switch {
		case k.round != m.round:
			k.exists = false
		case k.shown < k.Revision:
			m.regressed()
			return
		}
	}
	m.listed = true
	for _, name := range slices.Sorted(maps.Keys(m.keys)) {
		m.consider(m.keys[name], now)
	}
}

// granted takes that this process owns a slot. With guards, barrier is the revision of that of the slot.
func (m *machine) granted(slot int, barrier uint64, now time.Time) {
	m.grants[slot] = &grant{barrier: barrier}
	if m.know(barrier); m.seen < barrier {
		m.awaits[slot] = true
		m.owes(now)
	}
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
		delete(m.awaits, slot)
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
		k.rests = now.Add(min(firstRetry<<min(k.failed, mostDoubled), restart))
		k.failed = min(k.failed+1, relistAfter)
		if k.failed == relistAfter && !now.Before(m.reread) { // the watch may have missed what became of the key
			m.reread = now.Add(relistPause)
			m.listAgain()
		}
		m.consider(k, now)
		return
	}
	if e.Revision == k.Revision && !sameValue(k, e) {
		m.regressed()
		return
	}
	k.failed, k.doubt = 0, false
	m.know(e.Revision)
	m.owes(now)
	was := k.Revision
	m.take(k, e)
	m.decide(k, true, now)
	if e.Revision != was {
		m.changed(now)
	}
}

// completes takes that the work of this process is about to complete a key: from now on a read confirms its begin, because the
// outcome may never be known, and the watch may be late.
func (m *machine) completes(name string, life uint64) {
	if k := m.keys[name]; k != nil && life == m.life {
		k.doubt = true
	}
}

// completed takes that the work of this process has completed a key at a revision. Until the watch shows that it is gone,
// or a later value, it does not begin, for as long as a replica may lag. Then a read decides: the bucket may have lost the
// deletion. life is that of the revision.
func (m *machine) completed(name string, revision, life uint64, now time.Time) {
	if k := m.keys[name]; k != nil && life == m.life {
		k.done, k.sure = max(k.done, revision), now.Add(patience)
		m.consider(k, now)
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
	if !m.due.IsZero() && !now.Before(m.due) {
		m.late(now)
	}
	if m.missed && !now.Before(m.glance) {
		m.changed(now)
	}
	for at := m.rested(); !at.IsZero() && !now.Before(at); at = m.rested() {
		m.consider(heap.Pop(&m.rests).(rest).key, now) //nolint:forcetypeassert // it holds nothing else
	}
}

// wake returns when tick is due, or zero.
func (m *machine) wake() time.Time {
	first := m.rested()
	sooner := func(at time.Time) {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	sooner(m.due)
	if m.missed {
		sooner(m.glance)
	}
	return first
}

// rested returns when the first key has rested, or zero.
func (m *machine) rested() time.Time {
	for len(m.rests) > 0 {
		r := m.rests[0]
		if r.key.phase == phaseIdle && r.key.until().Equal(r.at) && m.keys[r.key.Name] == r.key {
			return r.at
		}
		heap.Pop(&m.rests)
		if r.key.armed.Equal(r.at) {
			r.key.armed = time.Time{}
		}
	}
	return time.Time{}
}

// changed considers the keys that were not ready. If they are many, it does not do so again for a time that grows with their
// number, so that Ready has a small share of the time of the process.
func (m *machine) changed(now time.Time) {
	switch {
	case len(m.idle) == 0 || !m.listed:
		m.missed = false // the end of the list considers all
		return
	case now.Before(m.glance):
		m.missed = true
		return
	}
	m.missed, m.glance = false, time.Time{}
	if many := len(m.idle) - fewIdle; many > 0 {
		m.glance = now.Add(time.Duration(many) * pauseOfIdle)
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
	case now.Before(k.until()):
		if at := k.until(); !k.armed.Equal(at) {
			k.armed = at
			heap.Push(&m.rests, rest{at, k})
		}
	case m.ready != nil && !m.ready(k.Entry, m.get):
		m.idle[k] = true
	case !confirmed && (m.reads || k.doubt || m.grants[k.slot].reads || m.seen < m.gap):
		m.last++
		k.id, k.phase = m.last, phaseReads
		m.emit(read{k.id, k.Name})
	default:
		m.last++
		k.id, k.phase = m.last, phaseWorks
		m.grants[k.slot].works++
		m.emit(begin{k.id, m.life, k.slot, k.Entry})
	}
}

// mayBegin reports whether the set and the slot of a key are such that its work may begin.
func (m *machine) mayBegin(k *key) bool {
	g := m.grants[k.slot]
	return m.listed && !m.full && g != nil && !g.ended && m.seen >= g.barrier
}

// forget drops a key that is gone.
func (m *machine) forget(k *key) {
	delete(m.keys, k.Name)
	delete(m.slot[k.slot], k.Name)
	delete(m.idle, k)
	m.fits()
}

// get returns the entry of a key that exists.
func (m *machine) get(name string) (Entry, bool) {
	k := m.keys[name]
	if k == nil || !k.exists {
		return Entry{}, false
	}
	return k.Entry, true
}

// until returns the time before which the work on a key does not begin.
func (k *key) until() time.Time {
	if k.Revision <= k.done && k.rests.Before(k.sure) {
		return k.sure
	}
	return k.rests
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
