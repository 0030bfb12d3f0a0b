package group

import (
	"fmt"
	"math"
	"strings"
)

// The world of the exploration: members, each with the key of its election, one map, and writes on their way.
// There is no clock. The election of a member is as package leader promises it: others take its key only when its
// term is over by its own clock. So a term may end at any time, and its key may be taken at any time after that. A
// crash, a lost reply, a refused renewal, and a pause or a loss of the connection beyond the lease are such ends.
//
// What cannot find more is left out:
//   - A member starts work as soon as it may. One that starts it later, under the same grant, is in the same situation
//     then. One that never does is in the situation in which the work has ended.
//   - A reply arrives with the write. A member that gets it later, or never, sends nothing until then, which it may do
//     anyway.
//   - Of the writes of a member that are on their way, all but one are refused, because each is a compare-and-set.
//     So there is only the one that is stored. A request that is lost, or refused, is one that was not sent.
//   - A write that changes nothing is not sent.
//   - The assigner plans with members and shards in each order, which covers each shard that it may draw to move first.

const (
	maxMembers = 3
	maxShards  = 2
)

// session is a Session: the number of its member, and the token. Token 0 is none.
type session struct{ id, token uint8 }

type grant struct {
	owner session
	since uint8
	pred  session
}

type shardMap struct {
	revision uint8
	grants   [maxShards]grant
}

type report struct {
	seen uint8
	left bool
	busy [maxShards]bool
}

// member is a process.
type member struct {
	gone  bool  // it has left, and does not come back
	token uint8 // of its term; 0: it has none
	seen  shardMap
	work  [maxShards]work8
	left  bool
	sends bool // a write is on its way to its key
	sent  report
}

type work8 struct {
	since uint8
	stops bool
}

// key is the key of a member's election.
type key struct {
	token  uint8 // of the last term
	over   bool  // it was released, or the key was taken from it
	junk   bool  // the record was deleted
	report report
	at     uint8 // the revision of the map when the record was stored
}

type world struct {
	members [maxMembers]member
	keys    [maxMembers]key
	old     [maxMembers]key  // the record before, which a late reader may get
	now     shardMap         // the map that is stored
	before  shardMap         // the one before, which a late reader may get
	pending shardMap         // a map on its way, to be stored if revision is that of now; revision 0: none
	listed  [maxMembers]bool // of the members, those that were in the registry when the map was lost
	budget  uint8            // how many faults may still happen
}

// order renames members and shards: it has the new number of each.
type order struct {
	members [maxMembers]uint8
	shards  [maxShards]uint8
}

// orders returns all orders of some members and shards. The first one renames nothing.
func orders(members, shards int) (all []order) {
	names := [][maxMembers]uint8{{0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for _, m := range names[:[]int{1, 1, 2, 6}[members]] {
		for _, s := range [][maxShards]uint8{{0, 1}, {1, 0}}[:shards] {
			all = append(all, order{m, s})
		}
	}
	return all
}

// back returns the order that undoes o.
func (o order) back() (b order) {
	for i, to := range o.members {
		b.members[to] = uint8(i)
	}
	for i, to := range o.shards {
		b.shards[to] = uint8(i)
	}
	return b
}

func (o *order) session(s session) session {
	if s.token != 0 {
		s.id = o.members[s.id]
	}
	return s
}

func (o *order) shardMap(m *shardMap) shardMap {
	r := shardMap{revision: m.revision}
	for s, g := range m.grants {
		r.grants[o.shards[s]] = grant{o.session(g.owner), g.since, o.session(g.pred)}
	}
	return r
}

func (o *order) report(r *report) {
	busy := r.busy
	for s, to := range o.shards {
		r.busy[to] = busy[s]
	}
}

// world returns the same world with other names.
func (o *order) world(w *world) world {
	r := *w
	for i, to := range o.members {
		r.members[to], r.keys[to], r.old[to], r.listed[to] = w.members[i], w.keys[i], w.old[i], w.listed[i]
		p := &r.members[to]
		p.seen = o.shardMap(&p.seen)
		for s, to := range o.shards {
			p.work[to] = w.members[i].work[s]
		}
		o.report(&p.sent)
		o.report(&r.keys[to].report)
		o.report(&r.old[to].report)
	}
	r.now, r.before, r.pending = o.shardMap(&w.now), o.shardMap(&w.before), o.shardMap(&w.pending)
	return r
}

// model is a world with its rules.
type model struct {
	world
	orders       []order
	size, shards int
	faults       string           // the kinds that may happen
	lacks        [maxMembers]bool // the registry that the assigner has read is from before these members
	broken       string           // the promise that was broken
}

func name(id uint8) string { return "abc"[id : id+1] }

func (s session) wide() Session {
	if s.token == 0 {
		return Session{}
	}
	return Session{ID: name(s.id), Token: uint64(s.token)}
}

func narrow(s Session) session {
	if s == (Session{}) {
		return session{}
	}
	return session{id: s.ID[0] - 'a', token: uint8(s.Token)}
}

func (m *shardMap) wide(shards int) Map {
	w := Map{Revision: uint64(m.revision)}
	for _, g := range m.grants[:shards] {
		w.Grants = append(w.Grants, Grant{g.owner.wide(), uint64(g.since), g.pred.wide()})
	}
	return w
}

func narrowMap(w Map) (m shardMap) {
	m.revision = uint8(w.Revision)
	for i, g := range w.Grants {
		m.grants[i] = grant{narrow(g.Owner), uint8(g.Since), narrow(g.Pred)}
	}
	return m
}

func (r report) wide() Report {
	w := Report{Seen: uint64(r.seen), Left: r.left}
	for i, busy := range r.busy {
		if busy {
			w.Busy = append(w.Busy, i)
		}
	}
	return w
}

func narrowReport(w Report) (r report) {
	r.seen, r.left = uint8(w.Seen), w.Left
	for _, i := range w.Busy {
		r.busy[i] = true
	}
	return r
}

// machine returns the machine under test of a member's term.
func (w *model) machine(i int) *Member {
	p := &w.members[i]
	m := &Member{self: Session{name(uint8(i)), uint64(p.token)}, left: p.left}
	if p.seen.revision != 0 {
		m.seen = p.seen.wide(w.shards)
		m.work = make([]work, w.shards)
	}
	for s := range m.work {
		m.work[s] = work{uint64(p.work[s].since), p.work[s].stops}
	}
	return m
}

// keep stores the machine.
func (w *model) keep(i int, m *Member) {
	p := &w.members[i]
	p.seen, p.left, p.work = narrowMap(m.seen), m.left, [maxShards]work8{}
	for s := range m.work {
		p.work[s] = work8{uint8(m.work[s].since), m.work[s].stops}
	}
}

// standing is what the stored record shows.
func (w *model) standing(s Session) Standing {
	k, t := &w.keys[narrow(s).id], narrow(s).token
	switch {
	case t < k.token || t == k.token && k.over:
		return Standing{Over: true}
	case t == k.token:
		return Standing{Report: k.report.wide()}
	}
	return Standing{} // the record is an older one
}

func (w *model) assigner() *Assigner {
	a := &Assigner{
		Over:  func(s Session) bool { return w.standing(s).Over },
		Freed: func(s Session, shard int, since uint64) bool { return w.standing(s).Freed(shard, since) },
		Held:  func(Session) bool { return false },
		Roll:  math.MaxUint64,
	}
	for i := range w.size {
		k := &w.keys[i]
		if w.lacks[i] {
			if w.listed[i] {
				a.Roll = uint64(w.orphans()) - 1
			}
			continue
		}
		if k.token != 0 {
			s := Session{name(uint8(i)), uint64(k.token)}
			a.Everyone = append(a.Everyone, Newest{s, uint64(k.at), func(shard int, since uint64) bool { return a.Freed(s, shard, since) }})
		}
		if k.token != 0 && !k.over && !k.junk {
			a.Workers = append(a.Workers, Worker{Session: Session{name(uint8(i)), uint64(k.token)}, Weight: 1, Leaves: k.report.left})
		}
	}
	return a
}

// store stores a map.
func (w *model) store(m Map) {
	w.before = w.now
	m.Revision = uint64(w.now.revision) + 1
	m.Resolve()
	w.now = narrowMap(m)
}

// put stores a record of the key of a member. A write on its way is then refused.
func (w *model) put(i int, k key) {
	k.at = w.now.revision
	w.old[i] = w.keys[i]
	w.keys[i] = k
	w.members[i].sends = false
}

// works reports whether a member works on a shard.
func (w *model) works(i, shard int) bool {
	return w.members[i].work[shard].since != 0
}

// check finds two owners of one shard.
func (w *model) check() {
	for s := range w.shards {
		var owners []string
		for i := range w.size {
			if w.works(i, s) {
				owners = append(owners, name(uint8(i)))
			}
		}
		if len(owners) > 1 {
			w.broken = fmt.Sprintf("shard %d is worked on by %v", s, owners)
		}
	}
}

// end ends the term of a member, and all its work. A write may still be on its way.
func (p *member) end() { *p = member{gone: p.gone, sends: p.sends, sent: p.sent} }

// action is something that may happen next.
type action struct {
	what string
	i, j int
}

func (a action) String() string { return fmt.Sprintf("%s %d %d", a.what, a.i, a.j) }

// may reports whether a kind of faults is part of the scenario.
func (w *model) may(kind string) bool { return strings.Contains(w.faults, kind) }

// actions returns what may happen next.
func (w *model) actions() (all []action) {
	add := func(ok bool, what string, i, j int) {
		if ok {
			all = append(all, action{what, i, j})
		}
	}
	fault := func(kind string) bool { return w.budget > 0 && w.may(kind) }
	for i := range w.size {
		p, k := &w.members[i], &w.keys[i]
		add(p.sends, "arrive", i, 0)
		add(fault("delete") && k.token != 0 && !k.junk, "delete", i, 0)
		for s := range w.shards {
			add(fault("move") && k.token != 0 && !k.over, "move", i, s)
		}
		if p.token == 0 {
			add(k.token != 0 && !k.over, "reap", i, 0) // by any member
			add(!p.gone, "campaign", i, 0)
			continue
		}
		add(true, "end term", i, 0)
		m := w.machine(i)
		add(!p.sends && !k.junk && narrowReport(m.Report()) != k.report, "send", i, 0)
		add(w.now.revision > p.seen.revision, "receive", i, 0)
		add(w.before.revision > p.seen.revision || w.before.revision != 0 && w.may("older"), "receive late", i, 0)
		add(fault("leave") && !p.left, "leave", i, 0)
		working := false
		for s := range w.shards {
			working = working || p.work[s].since != 0
			add(p.work[s].stops, "end", i, s)
		}
		add(p.left && !working && !k.junk, "release", i, 0)
	}
	add(fault("wipe"), "wipe", 0, 0)
	for i := range w.size {
		k := &w.keys[i]
		if fault("late roll") && k.token != 0 && w.orphans() != 0 {
			for by := range w.orders {
				add(w.plannedWithout(i, by).revision != 0, "late roll", i, by)
			}
		}
		add(k.token != 0 && k.over && k.at < w.orphans(), "touch", i, 0)
		if fault("late view") && w.old[i].token != 0 {
			for by := range w.orders {
				add(w.plannedLate(i, by).revision != 0, "late view", i, by)
			}
		}
	}
	for by := range w.orders {
		if w.planned(by).revision == 0 {
			break
		}
		add(w.pending.revision == 0 && fault("plan"), "plan", 0, by)
		add(true, "plan and store", 0, by)
	}
	add(w.pending.revision != 0, "store", 0, 0)
	return all
}

// start starts all work that may start.
func (w *model) start() {
	for i := range w.size {
		p := &w.members[i]
		if p.token == 0 || p.seen.revision == 0 {
			continue
		}
		m := w.machine(i)
		for s := range w.shards {
			if pred, waits := m.Waits(s); waits && m.Start(s, w.standing(pred)) {
				if p.work[s].since != 0 {
					w.broken = fmt.Sprintf("shard %d is worked on twice by %s", s, name(uint8(i)))
				}
				w.keep(i, m)
			}
		}
	}
}

// planned returns the map as an assigner changes it that has members and shards in that order. Its revision is 0 if
// there is nothing to change, which does not depend on the order.
func (w *model) planned(by int) shardMap {
	o := &w.orders[by]
	as := model{world: o.world(&w.world), size: w.size, shards: w.shards}
	for i, to := range o.members {
		as.lacks[to] = w.lacks[i]
	}
	m := as.now.wide(w.shards)
	if len(as.assigner().Assign(m.Grants)) == 0 {
		return shardMap{}
	}
	changed, back := narrowMap(m), o.back()
	return back.shardMap(&changed)
}

// plannedLate is planned by an assigner that knows an older record of a member.
func (w *model) plannedLate(i, by int) shardMap {
	late := *w
	late.keys[i] = w.old[i]
	return late.planned(by)
}

// plannedWithout is planned by an assigner that knows a registry from before a member.
func (w *model) plannedWithout(i, by int) shardMap {
	late := *w
	late.lacks[i] = true
	return late.planned(by)
}

// orphans returns the newest revision that left shards without an owner and a predecessor, or 0.
func (w *model) orphans() (newest uint8) {
	for _, g := range w.now.grants[:w.shards] {
		if g.owner.token == 0 && g.pred.token == 0 {
			newest = max(newest, g.since)
		}
	}
	return newest
}

// do lets an action happen.
func (w *model) do(a action) {
	p, k := &w.members[a.i], &w.keys[a.i]
	switch a.what {
	case "end term":
		p.end()
	case "campaign":
		w.put(a.i, key{token: k.token + 1})
		p.token = w.keys[a.i].token
	case "reap", "touch":
		w.put(a.i, key{token: k.token + 1, over: true})
	case "send":
		p.sends, p.sent = true, narrowReport(w.machine(a.i).Report())
	case "arrive":
		w.put(a.i, key{token: k.token, report: p.sent})
	case "receive", "receive late":
		m := w.machine(a.i)
		m.Receive(map[bool]*shardMap{true: &w.now, false: &w.before}[a.what == "receive"].wide(w.shards))
		w.keep(a.i, m)
	case "leave":
		w.budget--
		m := w.machine(a.i)
		m.Leave()
		w.keep(a.i, m)
	case "end":
		m := w.machine(a.i)
		m.Ended(a.j)
		w.keep(a.i, m)
	case "release":
		w.put(a.i, key{token: k.token, over: true})
		p.end()
		p.gone = true
	case "delete":
		w.budget--
		w.put(a.i, key{token: k.token, junk: true})
	case "move":
		m := w.now.wide(w.shards)
		if w.assigner().Move(a.j, &m.Grants[a.j], Session{name(uint8(a.i)), uint64(k.token)}) {
			w.budget--
			w.store(m)
		}
	case "late view":
		w.budget--
		late := w.plannedLate(a.i, a.j)
		w.store(late.wide(w.shards))
	case "late roll":
		w.budget--
		late := w.plannedWithout(a.i, a.j)
		w.store(late.wide(w.shards))
	case "wipe":
		w.budget--
		for i := range w.keys {
			w.listed[i] = w.keys[i].token != 0 && w.may("late roll")
		}
		w.store(Map{Grants: make([]Grant, w.shards)})
	case "plan":
		w.budget--
		w.pending = w.planned(a.j)
	case "plan and store":
		next := w.planned(a.j)
		w.store(next.wide(w.shards))
	case "store":
		if w.pending.revision == w.now.revision {
			w.store(w.pending.wide(w.shards))
		}
		w.pending = shardMap{}
	}
	w.start()
	w.check()
}
