package group

import (
	"fmt"
	"strings"
)

// The world of the exploration: members, each with the key of its election, one map, and writes on their way.
// Time goes by ticks. All else happens between two ticks, in any order. The election of a member is as package
// leader promises it: a term is valid for a lease from the sending of its newest acknowledged write, and others
// can take the key one lease after the newest record was stored.

const (
	maxMembers = 3
	maxShards  = 2
	lease      = 2 // in ticks
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
	up    bool
	gone  bool  // it has left, and does not come back
	token uint8 // of its term; 0: it has none
	valid uint8 // for how long by its clock, in ticks
	seen  shardMap
	work  [maxShards]work8
	left  bool
	sent  write
	ghost write // of which it does not wait for the reply any more
}

type work8 struct {
	since uint8
	stops bool
}

// write is a write of a member's record.
type write struct {
	way    way
	report report
	age    uint8 // since it was sent, in ticks
	stale  bool  // its condition does not hold any more
}

type way uint8

const (
	nowhere way = iota
	going
	stored
	refused
)

// key is the key of a member's election.
type key struct {
	token  uint8 // of the last term
	over   bool  // it was released, or the key was taken from it
	junk   bool  // the record was deleted
	report report
	age    uint8 // of the record, in ticks
	at     uint8 // the revision of the map when the record was stored
}

type world struct {
	members [maxMembers]member
	keys    [maxMembers]key
	old     [maxMembers]key // the record before, which a late reader may get
	now     shardMap        // the map that is stored
	before  shardMap        // the one before, which a late reader may get
	pending shardMap        // a map on its way, to be stored if revision is that of now; revision 0: none
	budget  uint8           // how many faults may still happen
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
		r.members[to], r.keys[to], r.old[to] = w.members[i], w.keys[i], w.old[i]
		p := &r.members[to]
		p.seen = o.shardMap(&p.seen)
		for s, to := range o.shards {
			p.work[to] = w.members[i].work[s]
		}
		o.report(&p.sent.report)
		o.report(&p.ghost.report)
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
	faults       string // the kinds that may happen
	broken       string // the promise that was broken
}

func name(id uint8) string { return string('a' + rune(id)) }

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
	return Standing{Over: t < k.token || t == k.token && k.over, Report: map[bool]report{true: k.report}[t == k.token].wide()}
}

func (w *model) assigner() *Assigner {
	a := &Assigner{
		Over:  func(s Session) bool { return w.standing(s).Over },
		Freed: func(s Session, shard int, since uint64) bool { return w.standing(s).Freed(shard, since) },
		Held:  func(Session) bool { return false },
	}
	for i := range w.size {
		k := &w.keys[i]
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

// put stores a record of the key of a member, which makes writes on their way stale.
func (w *model) put(i int, k key) {
	k.at = w.now.revision
	w.old[i] = w.keys[i]
	w.keys[i] = k
	w.members[i].sent.stale, w.members[i].ghost.stale = true, true
}

// works reports whether a member works on a shard, in a term that is valid by its clock.
func (w *model) works(i, shard int) bool {
	p := &w.members[i]
	return p.up && p.token != 0 && p.valid > 0 && p.work[shard].since != 0
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

// endTerm ends the term of a member. The work of the term has ended by the clock. That the process notices
// it late, or that a write of the term arrives later, are a pause and a late write.
func (p *member) endTerm() { *p = member{up: p.up, gone: p.gone, ghost: p.ghost} }

// action is something that may happen next.
type action struct {
	what string
	i, j int
}

func (a action) String() string { return fmt.Sprintf("%s %d %d", a.what, a.i, a.j) }

// actions returns what may happen next.
func (w *model) actions() (all []action) {
	add := func(ok bool, what string, i, j int) {
		if ok {
			all = append(all, action{what, i, j})
		}
	}
	fault := func(kind string) bool { return w.budget > 0 && strings.Contains(w.faults, kind) }
	add(true, "tick", 0, 0)
	for i := range w.size {
		p, k := &w.members[i], &w.keys[i]
		free := k.token == 0 || k.over || k.age >= lease
		add(!p.up && !p.gone, "restart", i, 0)
		if k.token != 0 && !k.over && k.age >= lease {
			add(true, "reap", i, 0) // by any member
		}
		if p.ghost.way == going {
			add(true, "late", i, 0)
		}
		if !p.up {
			continue
		}
		add(p.token == 0 && free, "campaign", i, 0)
		add(fault("crash"), "crash", i, 0)
		if p.token == 0 {
			continue
		}
		add(p.sent.way == nowhere && p.valid > 0 && (p.valid < lease || k.token != p.token || narrowReport(w.machine(i).Report()) != k.report), "send", i, 0)
		add(p.sent.way == going, "arrive", i, 0)
		add(p.sent.way == stored || p.sent.way == refused, "reply", i, 0)
		add(p.sent.way == going && fault("lost"), "lose request", i, 0)
		add(p.sent.way == going && fault("lost"), "delay request", i, 0)
		add(p.sent.way == stored && fault("lost"), "lose reply", i, 0)
		add(w.now.revision > p.seen.revision, "receive", i, 0)
		add(w.before.revision > p.seen.revision || w.before.revision != 0 && fault("older"), "receive late", i, 0)
		add(fault("leave") && !p.left, "leave", i, 0)
		working := false
		for s := range w.shards {
			working = working || p.work[s].since != 0
			add(p.work[s].stops, "end", i, s)
			add(p.valid > 0 && w.startable(i, s), "start", i, s)
			add(fault("move") && k.token != 0 && !k.over, "move", i, s)
		}
		add(p.left && !working && p.sent.way == nowhere && p.valid > 0 && k.token == p.token && !k.over, "release", i, 0)
		add(fault("delete") && k.token != 0, "delete", i, 0)
	}
	add(fault("wipe"), "wipe", 0, 0)
	for i := range w.size {
		k := &w.keys[i]
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

// startable reports whether a member may begin to work on a shard.
func (w *model) startable(i, shard int) bool {
	if w.members[i].seen.revision == 0 {
		return false
	}
	m := w.machine(i)
	pred, waits := m.Waits(shard)
	return waits && m.Start(shard, w.standing(pred))
}

// planned returns the map as an assigner changes it that has members and shards in that order. Its revision is 0 if
// there is nothing to change, which does not depend on the order.
func (w *model) planned(by int) shardMap {
	o := &w.orders[by]
	as := model{world: o.world(&w.world), size: w.size, shards: w.shards}
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
	case "tick":
		for i := range w.size {
			m, r := &w.members[i], &w.keys[i]
			if m.valid = max(m.valid, 1) - 1; m.valid == 0 && m.token != 0 {
				m.endTerm()
			}
			m.sent.age, r.age = min(m.sent.age+1, lease), min(r.age+1, lease)
			if m.sent.way == nowhere {
				m.sent.age = 0
			}
		}
	case "restart":
		p.up = true
	case "campaign":
		w.put(a.i, key{token: k.token + 1})
		p.endTerm()
		p.token, p.valid = w.keys[a.i].token, lease
	case "reap":
		w.put(a.i, key{token: k.token + 1, over: true, age: lease})
	case "send":
		p.sent = write{way: going, report: narrowReport(w.machine(a.i).Report()), stale: k.token != p.token || k.over || k.junk}
	case "arrive":
		w.arrive(a.i, &p.sent)
	case "late":
		w.arrive(a.i, &p.ghost)
		p.ghost = write{}
	case "reply":
		if p.sent.way == refused {
			p.endTerm()
			break
		}
		p.valid = max(p.valid, lease-p.sent.age)
		p.sent = write{}
	case "lose request", "lose reply":
		w.budget--
		p.sent = write{}
	case "delay request":
		w.budget--
		p.ghost, p.sent = p.sent, write{}
	case "crash":
		w.budget--
		p.endTerm()
		p.up = false
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
	case "start":
		m := w.machine(a.i)
		pred, _ := m.Waits(a.j)
		if p.work[a.j].since != 0 {
			w.broken = fmt.Sprintf("shard %d is worked on twice by %s", a.j, name(uint8(a.i)))
		}
		m.Start(a.j, w.standing(pred))
		w.keep(a.i, m)
	case "release":
		w.put(a.i, key{token: k.token, over: true, report: k.report, age: lease})
		p.endTerm()
		p.up, p.gone = false, true
	case "delete":
		w.budget--
		w.put(a.i, key{token: k.token, junk: true})
	case "move":
		m := w.now.wide(w.shards)
		if w.assigner().Move(a.j, &m.Grants[a.j], Session{name(uint8(a.i)), uint64(k.token)}) {
			w.budget--
			w.store(m)
		}
	case "touch":
		w.put(a.i, key{token: k.token + 1, over: true, age: lease})
	case "late view":
		w.budget--
		late := w.plannedLate(a.i, a.j)
		w.store(late.wide(w.shards))
	case "wipe":
		w.budget--
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
	w.check()
}

// arrive lets a write arrive at the key.
func (w *model) arrive(i int, by *write) {
	if by.stale {
		by.way = refused
		return
	}
	k := w.keys[i]
	k.report, k.age = by.report, 0
	w.put(i, k)
	by.way = stored
}
