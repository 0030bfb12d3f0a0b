package machine

import (
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
)

// Beside the candidates, on the same key, there may be processes that run another
// algorithm: that of nats-kv-leader-elect, and of choria's election. A process creates
// the key when it is absent, with its bare name as the value. The key is also absent if
// its last message is a delete marker. The process updates the key after each interval,
// three quarters of the bucket's TTL, on the condition of the sequence that its last
// write had. It takes any update that fails for a loss. It announces that it leads one
// interval after it has created the key, if it has been able to update it. It hears
// nothing and remembers nothing.
//
// The bucket of these processes drops messages after its TTL, without a marker.

const maxOld = 2

// oldProcess is such a process. Its clock runs like those of the second candidate and the
// others, unless the scenario says otherwise.
type oldProcess struct {
	up   bool
	role oldRole
	seq  uint64 // of its last write
	next int8   // ticks until it campaigns
	op   oldOp
	cond uint64 // of a write
	took int8   // ticks since the request was sent
	way  way
	said oldReply
	// A write that it has given up, or that is doubled, and is still on its way.
	haunts    bool
	hauntCond uint64
}

type oldRole uint8

const (
	oldCandidate oldRole = iota
	oldWinner            // has created the key, and has not announced itself yet
	oldLeader
)

// oldOp is its request in flight. Creating the key takes up to three of them.
type oldOp uint8

const (
	oldIdle oldOp = iota
	oldCreate
	oldGet
	oldRecreate // over the delete marker that it has found
	oldUpdate
)

type oldReply struct {
	ok       bool
	revision uint64
}

// oldWorld describes the old processes of a scenario.
type oldWorld struct {
	processes int
	interval  int8 // in ticks
	slow      int8 // a request of theirs takes so many ticks at most
	fast      bool // their clocks run as that of the first candidate
	hasty     bool // they announce at once
	alone     bool // the candidates do not know of them
}

func (w *worldOf) startOld() {
	for k := range w.old.processes {
		w.olds[k] = oldProcess{up: true, next: int8(k)}
	}
}

// oldBusy reports whether no time may pass, because a process is about to campaign or
// its request takes as long as it may.
func (w *worldOf) oldBusy() bool {
	for k := range w.old.processes {
		o := &w.olds[k]
		if o.up && (o.op == oldIdle && o.next == 0 || o.op != oldIdle && o.took >= w.old.slow) {
			return true
		}
	}
	return false
}

// passOld lets a tick pass for the processes on clocks that go on with which.
func (w *worldOf) passOld(which uint8) {
	if w.old.processes == 0 {
		return
	}
	if which != 1 && w.current.Kind != record.EntryNothing {
		w.age = min(w.age+1, w.lasts())
	}
	if which == 1 && !w.old.fast || which == 2 && w.old.fast {
		return
	}
	for k := range w.old.processes {
		o := &w.olds[k]
		o.next = max(o.next, 1) - 1
		if o.op != oldIdle {
			o.took++
		}
	}
}

// lasts returns for how many ticks the bucket keeps a message.
func (w *worldOf) lasts() int8 { return int8(w.settings.TTL / tick) }

// expires reports whether the bucket may drop its message.
func (w *worldOf) expires() bool {
	return w.old.processes > 0 && w.current.Kind != record.EntryNothing && w.age >= w.lasts()
}

func (w *worldOf) oldActions(add adder) {
	add(w.expires(), doOldExpire, 0, 0)
	for k := range w.old.processes {
		o := &w.olds[k]
		add(o.haunts, doOldGhost, 0, k)
		if !o.up {
			for delay := range int(w.old.interval) {
				add(w.may(restart), doOldBoot, 0, k+maxOld*delay)
			}
			continue
		}
		add(o.op == oldIdle && o.next == 0, doOldCampaign, 0, k)
		goes, comes := o.way == going, o.way == answered
		writes := o.op != oldIdle && o.op != oldGet
		lingers := writes && goes && w.may(applyLate) && !o.haunts
		add(w.may(crash), doOldCrash, 0, k)
		add(w.may(crash) && lingers, doOldCrash, 0, k+maxOld)
		add(goes, doOldArrive, 0, k)
		add(goes && writes && w.may(double) && !o.haunts, doOldArrive, 0, k+maxOld)
		add(goes && writes && w.may(refuse) && w.current.Revision == o.cond, doOldRefuse, 0, k)
		add(goes && w.may(loseRequest), doOldLose, 0, k)
		add(comes, doOldDeliver, 0, k)
		add(comes && w.may(loseReply), doOldLose, 0, k)
		add(o.way == lost, doOldFail, 0, k)
		add(lingers, doOldFail, 0, k+maxOld)
	}
	for i := range w.times {
		p := &w.parties[i]
		writes := p.up && p.way == going && !p.cut && p.m.flight.req.Kind == ReqWrite
		add(w.may(double) && writes, doDouble, 0, i)
	}
}

func (w *worldOf) applyOld(a action) {
	k, more := int(a.arg)%maxOld, int(a.arg)/maxOld
	o := &w.olds[k]
	switch a.do { //nolint:exhaustive // the others have nothing to do with such processes
	case doOldExpire:
		w.put(record.Observation{Kind: record.EntryNothing})
	case doOldBoot:
		*o = oldProcess{up: true, next: int8(more), haunts: o.haunts, hauntCond: o.hauntCond}
	case doOldCampaign:
		o.next = w.old.interval
		if o.role == oldCandidate {
			o.ask(oldCreate, 0)
		} else {
			o.ask(oldUpdate, o.seq)
		}
	case doOldCrash:
		if more > 0 {
			w.spend(applyLate)
			o.haunt()
		}
		*o = oldProcess{haunts: o.haunts, hauntCond: o.hauntCond}
	case doOldArrive:
		if more > 0 {
			w.spend(double)
			o.haunt()
		}
		w.oldArrive(o)
	case doOldRefuse:
		o.way, o.said = answered, oldReply{}
	case doOldLose:
		w.lose(&o.way)
		o.said = oldReply{}
	case doOldDeliver:
		w.oldAnswered(k, o.said)
	case doOldFail:
		if more > 0 {
			w.spend(applyLate)
			o.haunt()
		}
		w.oldAnswered(k, oldReply{})
	case doOldGhost:
		o.haunts = false
		if w.current.Revision == o.hauntCond {
			w.put(record.Observation{Kind: record.EntryForeign})
		}
		o.hauntCond = 0
	case doDouble:
		w.linger(int(a.arg))
		w.arrive(int(a.arg), false)
	}
}

func (o *oldProcess) ask(op oldOp, cond uint64) {
	o.op, o.cond, o.took, o.way, o.said = op, cond, 0, going, oldReply{}
}

func (o *oldProcess) haunt() { o.haunts, o.hauntCond = true, o.cond }

// oldArrive lets the store answer.
func (w *worldOf) oldArrive(o *oldProcess) {
	o.way = answered
	switch c := w.current; {
	case o.op == oldGet:
		o.said = oldReply{ok: w.vacant, revision: c.Revision}
		if c.Kind == record.EntryRecord && c.Rec.Phase == record.PhaseReleased && !w.vacant && !w.old.alone {
			w.fail("what %s has released keeps others out", c.Rec.Session)
		}
	case c.Revision == o.cond:
		w.put(record.Observation{Kind: record.EntryForeign})
		o.said = oldReply{ok: true, revision: w.last}
	default:
		o.said = oldReply{}
	}
}

// oldAnswered hands the reply to a process, or an empty one.
func (w *worldOf) oldAnswered(k int, said oldReply) {
	o := &w.olds[k]
	op := o.op
	o.ask(oldIdle, 0)
	o.way = nowhere
	switch {
	case op == oldCreate && !said.ok:
		o.ask(oldGet, 0)
	case op == oldGet && said.ok:
		o.ask(oldRecreate, said.revision)
	case op == oldGet, op == oldRecreate && !said.ok:
	case op == oldUpdate && !said.ok:
		o.role, o.seq = oldCandidate, 0
	case op == oldUpdate:
		o.role, o.seq = oldLeader, said.revision
	default:
		o.role, o.seq = oldWinner, said.revision
		if w.old.hasty {
			o.role = oldLeader
		}
	}
	w.besideOld()
}

// besideOld checks that no candidate leads while such a process does. It does not check
// such processes against each other: after a delete, a successor announces itself at the
// same moment at which its predecessor finds out.
func (w *worldOf) besideOld() {
	for k := range w.old.processes {
		for i := range w.times {
			if w.olds[k].leads() && w.parties[i].leads() {
				w.fail("two leaders: %s and old process %d", w.parties[i].m.Session, k)
			}
		}
	}
}

func (o *oldProcess) leads() bool { return o.up && o.role == oldLeader }

// settleOld returns the next action of such processes when all is well.
func (w *worldOf) settleOld() (a action, ok bool) {
	if w.expires() {
		return action{do: doOldExpire}, true
	}
	for k := range w.old.processes {
		o := &w.olds[k]
		a.arg = uint8(k)
		switch {
		case !o.up:
			continue
		case o.way == going:
			a.do = doOldArrive
		case o.way == answered:
			a.do = doOldDeliver
		case o.way == lost:
			a.do = doOldFail
		case o.next == 0:
			a.do = doOldCampaign
		default:
			continue
		}
		return a, true
	}
	return action{}, false
}

// oldIs reports whether so holds for one of the processes.
func (w *worldOf) oldIs(so func(o *oldProcess) bool) bool {
	for k := range w.old.processes {
		if so(&w.olds[k]) {
			return true
		}
	}
	return false
}

// forgetOld drops writes of the processes with conditions that can never hold again. A
// key may always come to be empty.
func (w *worldOf) forgetOld() {
	for k := range w.old.processes {
		if o := &w.olds[k]; o.haunts && o.hauntCond != 0 && o.hauntCond != w.current.Revision {
			o.haunts, o.hauntCond = false, 0
		}
	}
	if w.old.processes == 0 {
		w.age, w.vacant = 0, false
	}
}

func (w *worldOf) eachOldRevision(visit func(v *uint64)) {
	for k := range w.old.processes {
		o := &w.olds[k]
		visit(&o.seq)
		visit(&o.cond)
		visit(&o.said.revision)
		visit(&o.hauntCond)
	}
}

// shared is the bucket of a fleet that moves over. Its processes wait for three
// ticks, three quarters of its TTL.
var (
	shared = backend.Settings{TTL: 4 * tick}
	// Where clocks deviate there must be a margin for it.
	sharedWide = backend.Settings{TTL: 5 * tick}
)

// sharing are all kinds of faults, for a key that is shared.
var sharing = append(promised[:len(promised):len(promised)], purge, double)

// oldLeads begins where an old process leads, and all others know it.
const oldLeads = "old-campaign old-arrive old-deliver A.hear B.hear A.arrive A.deliver B.arrive B.deliver tick " +
	"old-campaign.1 old-arrive.1 old-deliver.1 old-arrive.1 old-deliver.1 tick tick old-campaign old-arrive A.hear B.hear old-deliver"

var kvElectScenarios = []*scenario{
	{
		name: "kvelect core", settings: shared, skew: -1, times: equal[:1], old: oldWorld{processes: 1, interval: 3}, total: 1, whole: true,
		limits: upTo(1, loseRequest, loseReply, refuse, crash, restart, resign, stop, applyLate, double, remove, purge),
	},
	{name: "kvelect", settings: shared, skew: -1, times: equal[:1], old: oldWorld{processes: 1, interval: 3}, limits: upTo(1, sharing...), total: 1},
	{name: "kvelect, clocks", settings: sharedWide, times: equal[:1], old: oldWorld{processes: 1, interval: 3}, limits: upTo(1, sharing...), total: 1},
	{name: "kvelect, fast clocks", settings: sharedWide, times: equal, old: oldWorld{processes: 1, interval: 3, fast: true}, limits: upTo(1, sharing...), total: 1},
	// Unless the key is emptied before its time, the processes may find out as late as
	// their own algorithm allows for: an interval after their request.
	{
		name: "kvelect, slow", settings: shared, skew: -1, times: equal[:1], old: oldWorld{processes: 1, interval: 3, slow: 3},
		limits: upTo(1, loseRequest, loseReply, applyLate, crash, restart, freeze, resign), total: 2,
		from: "old-campaign old-arrive old-deliver A.hear A.arrive A.deliver tick tick tick old-campaign old-arrive A.hear old-deliver",
	},
	{name: "kvelect, moving over", settings: shared, skew: -1, times: equal, old: oldWorld{processes: 2, interval: 3}, limits: upTo(2, crash, restart, stop, resign, remove), total: 3, from: oldLeads},
}

var kvElectEndless = []*scenario{
	{name: "kvelect", settings: shared, skew: -1, times: equal, old: oldWorld{processes: 2, interval: 3}, limits: upTo(unlimited, sharing...)},
	{name: "kvelect, clocks", settings: sharedWide, times: append(equal, equal[0]), old: oldWorld{processes: 2, interval: 3}, limits: upTo(unlimited, sharing...)},
	{name: "kvelect, guarded", guarded: true, settings: sharedWide, times: equal, old: oldWorld{processes: 1, interval: 3, fast: true}, limits: upTo(unlimited, append(sharing, guardRemove, guardOverwrite)...)},
}
