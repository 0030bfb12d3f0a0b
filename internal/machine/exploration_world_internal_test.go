package machine

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
)

// The world of the exploration: candidates, each with its own clock, one key of one
// bucket, and a network between them that may do anything to a message. The world is one
// plain value, so that two of them can be compared. Time goes by ticks. All else happens
// between two ticks, in any order.

const (
	tick       = time.Second
	maxParties = 3
)

// epoch is the time that every clock shows after renumbering.
var epoch = time.Unix(1<<30, 0).UTC()

// situation is the whole world at one instant.
type situation struct {
	parties [maxParties]party
	posts   [maxParties]post
	guard   guardKey
	surroundings
}

// surroundings are the parts of a situation that belong to no candidate.
type surroundings struct {
	current record.Observation    // of the key
	past    [2]record.Observation // the entries that were stored before, newest first
	last    uint64                // revision of the bucket
	ghosts  [2]ghost              // writes whose senders have given up, and that may still arrive
	top     uint64                // the greatest token so far
	ahead   int8                  // by how many ticks the first clock has run ahead of the others, since the start
	roster  roster
	left    [maxKinds]uint8
	budget  uint8 // how many faults may still happen, of all kinds together
	olds    [maxOld]oldProcess
	vacant  bool // every KV client takes the key for absent
	age     int8 // of the newest message, in ticks
	junked  bool // the entry of the key is the adversary's
	bogus   bool // and so is that of the guard
	ledLast string
}

// party is a candidate with its clock, its connection and its feed.
type party struct {
	up        bool
	m         Machine
	checker   checker
	now       time.Time
	wake      time.Time
	way       way
	reply     response
	listening bool                  // a feed is open
	told      [2]record.Observation // by the feed: its messages, oldest first, that were not heard yet
	frozen    bool                  // the process stands still
	paused    bool                  // it is frozen, and its clock stands still
	asleep    int8                  // for so many ticks
	excused   time.Time             // it was paused, and may be wrong about its lease before then
	cut       bool                  // nothing reaches the store, nor comes from it
	robbed    bool                  // another writer has replaced a record of this session
	before    Sighting              // what the process has read before its candidate began
	freed     record.Observation    // what the process has left at the key for a candidate with foresight; unseen: it does not know
	begun     bool                  // work of the term has begun that no step has found yet
	heirOf    string                // who led last before its next term
	patient   time.Time             // it has seen a handover in vain, and gives way to no rival before then
}

// way is how far the request in flight has come.
type way uint8

const (
	nowhere way = iota
	going
	answered
	lost
)

// response is the store's reply to the request in flight.
type response struct {
	sight    record.Observation
	revision uint64
	refused  bool
	named    bool
	last     uint64
}

// ghost is a write on its way.
type ghost struct {
	cond   uint64
	rec    record.Record
	marker bool
}

func (p *party) leads() bool {
	return p.up && !p.paused && p.m.state == StateLeader && p.now.Before(p.m.term.leaseUntil) && !p.now.Before(p.excused)
}

// due reports whether a timer has fired that was not served.
func (w *worldOf) due(i int) bool {
	p := &w.parties[i]
	passed := func(wake time.Time) bool { return !wake.IsZero() && !wake.After(p.now) }
	return p.up && (passed(p.wake) || passed(w.posts[i].wake))
}

// waits reports whether something is due or on its way, and only chance holds it up.
func (w *worldOf) waits(i int) bool {
	p := &w.parties[i]
	under := func(way way) bool { return !p.cut && (way == going || way == answered) }
	return p.up && !p.frozen && (w.due(i) || under(p.way) || under(w.posts[i].way) || p.told[0].Kind != record.EntryUnseen || w.listed && (w.toAnnounce(i) || w.toWithdraw(i) || w.toRank(i)))
}

// worldOf is a situation with the rules that hold in it, and with the findings.
type worldOf struct {
	*scenario
	situation
	broken    string                    // the promise that was broken
	withholds bool                      // slots are not free at once
	filled    []*record.Record          // those of the situation that have anything to renumber
	paces     [maxParties]time.Duration // how long a tick is by each clock; 0: a tick
	say       func(format string, args ...any)
	// These are called with the effects of every step.
	did      func(now time.Time, fx Effects)
	didRaise func(now time.Time, fx guardEffects)
}

func (w *worldOf) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

func (w *worldOf) tell(format string, args ...any) {
	if w.say != nil {
		w.say(format, args...)
	}
}

// may reports whether such an action may happen once more.
func (w *worldOf) may(k limited) bool { return w.left[k] > 0 && w.budget > 0 }

// spend counts such an action. Several kinds in one action count once: a write that is
// given up, and is still on its way.
func (w *worldOf) spend(k limited) {
	if w.left[k] == unlimited {
		return
	}
	w.left[k] = max(w.left[k], 1) - 1
	if w.budget != unlimited {
		w.budget = max(w.budget, 1) - 1
	}
}

// start is a world in which all candidates have just been started.
func (sc *scenario) start(say func(format string, args ...any)) *worldOf {
	w := &worldOf{scenario: sc, say: say}
	w.budget = unlimited
	w.current = record.Observation{Kind: record.EntryNothing}
	if w.guarded {
		w.guard.at = record.GuardObservation{Kind: record.EntryNothing}
	}
	if w.raised > 0 {
		w.putGuard(record.GuardObservation{Kind: record.EntryRecord, Rec: record.Guard{Election: "e", Token: w.raised, Session: stranger}}, false)
	}
	w.vacant = true
	w.startOld()
	for i := range sc.times {
		w.parties[i].m.MinToken = sc.minToken
		w.boot(i, false)
		if sc.foresees {
			w.parties[i].freed = nothing
		}
	}
	before, err := parseTrace(sc.from)
	if err != nil {
		panic(err)
	}
	for _, a := range before {
		for k := range w.left {
			w.left[k] = unlimited
		}
		if !slices.Contains(w.actions(nil), a) {
			panic(fmt.Sprintf("scenario %s: %v cannot happen", sc.name, a))
		}
		w.apply(a)
		w.renumber()
	}
	w.left = [maxKinds]uint8{}
	for k, n := range sc.limits {
		w.left[k] = n
	}
	if sc.total > 0 {
		w.budget = sc.total
	}
	w.withholds = sc.window
	w.renumber()
	return w
}

// boot starts a process. Its first requests, for the settings, for a feed and to its
// guard, are answered at once. A reconnection repeats them. With foresight, so is the first read, by what the process has left at the
// key. The true answer to that read follows, as a message of the feed. There is no mercy for a false one: the lock counts as held
// before the true answer is there.
func (w *worldOf) boot(i int, foresees bool) {
	defer func(was bool) { w.withholds = was }(w.withholds)
	w.withholds = false
	p := &w.parties[i]
	name := partyNames[i]
	w.posts[i] = post{}
	*p = party{up: true, now: p.now, before: p.before, freed: p.freed, checker: checker{void: w.void, forged: w.limits[forgeAny] > 0, exact: w.paces[i] > 0}, m: New(Params{
		ID: name, Session: name + "+", Want: w.times[i], MinToken: p.m.MinToken, Guarded: w.guarded, KVElect: w.old.processes > 0 && !w.old.alone, Order: w.orders[i],
		Observe: w.observes && i == len(w.times)-1,
	}, "")}
	if p.now.IsZero() {
		p.now = epoch
	}
	w.roster.behind[i] = w.orders[i].Listed
	w.post(i)
	if w.loops {
		w.step(i, Input{Kind: InLoop})
	} else {
		w.step(i, Input{Kind: InTick})
	}
	w.guideAlone(i, GuardInput{Kind: GuardInTick})
	for w.posts[i].way == going {
		w.guardArrive(i, false)
		w.guardDeliver(i)
	}
	for p.m.flight.req.Kind != ReqRead {
		if p.m.flight.req.Kind == ReqNone {
			panic(fmt.Sprintf("%s cannot use the bucket", name))
		}
		w.arrive(i, false)
		w.deliver(i)
	}
	if foresees {
		p.way, p.reply = answered, response{sight: p.freed}
		if w.current.Revision > p.freed.Revision {
			p.told[0] = w.current
		}
		w.deliver(i)
	}
}

// nothing is the entry of a key that was never written.
var nothing = record.Observation{Kind: record.EntryNothing}

var partyNames = [maxParties]string{"A", "B", "C"}

// forgets reports whether the store may lose entries that a sealed one must not lose.
func (sc *scenario) forgets() bool {
	return sc.limits[rollBack]+sc.limits[remake] > 0 || sc.settings.PurgeProtected && sc.limits[purge] > 0
}

// advance steps a machine.
func (w *worldOf) advance(p *party, in Input) Effects {
	if w.withholds {
		return p.m.Step(p.now, &in)
	}
	return p.m.stepAtOnce(p.now, in)
}

// step steps a machine and does the work of the actor.
func (w *worldOf) step(i int, in Input) {
	p := &w.parties[i]
	view, before, held, was, knows := p.m.view(), p.m.state, p.m.holds(), p.m.key.seen, w.knownTo(p)
	in.Works, p.begun = p.begun, false
	if w.spreads {
		in.Jitter = math.MaxUint32
	}
	fx := w.advance(p, in)
	if w.say != nil {
		w.tell("%s %s: %v->%v%s", p.m.Session, describeInput(in), before, p.m.state, describeEffects(p.now, fx))
	}
	if w.did != nil {
		w.did(p.now, fx)
	}
	if broken := p.checker.check(&p.m, view, p.now, in, fx); broken != "" {
		w.fail("%s: %s", p.m.Session, broken)
	}
	if has, asks := p.m.flight.slot == slotHas, p.m.flight.req.Kind != ReqNone; has != asks {
		w.fail("%s has a slot: %v, and a request in flight: %v", p.m.Session, has, asks)
	}
	if w.withholds && fx.Request.Kind != ReqNone && in.Kind != InSlot {
		w.fail("%s sends a request without a slot", p.m.Session)
	}
	for _, n := range fx.Notes {
		switch {
		case n.Event == NoteElected:
			if n.Token <= w.top && (!w.void || w.guarded) {
				w.fail("token %d of %s is not greater than %d", n.Token, p.m.Session, w.top)
			}
			if n.Token <= knows && !w.guarded {
				w.fail("%s is elected with token %d, and knows of %d", p.m.Session, n.Token, knows)
			}
			w.top = n.Token
			p.begun = w.employs(i)
			w.inherits(p, n)
			if w.guarded {
				w.stood(i, n.Token)
			}
		case n.Event == NoteFaulted && errors.Is(n.Err, backend.ErrRegressed) && !w.forgets() && w.limits[forgeAny] == 0: // a forged revision looks the same
			w.fail("%s says that the store has forgotten, and it has not", p.m.Session)
		case n.Event == NoteDeposed && n.Token < above && w.last >= above && w.limits[remake] > 0 && (errors.Is(n.Err, backend.ErrPreempted) || errors.Is(n.Err, backend.ErrDeleted)):
			w.fail("%s led in a bucket that was made anew since, and says: %v", p.m.Session, n.Err)
		case n.Event == NoteDeposed && !p.robbed && !w.void && (errors.Is(n.Err, backend.ErrPreempted) || errors.Is(n.Err, backend.ErrDeleted)):
			w.fail("%s gave up a key that was its own: %v", p.m.Session, n.Err)
		}
	}
	for j := range w.parties {
		if o := &w.parties[j]; w.drains && j != i && p.leads() && o.up && o.m.term.draining && o.now.Before(o.m.term.drainBy) {
			w.fail("%s leads while %s drains", p.m.Session, o.m.Session)
		}
		if j != i && p.leads() && w.parties[j].leads() && !w.void {
			w.fail("two leaders: %s and %s", p.m.Session, w.parties[j].m.Session)
		}
	}
	if w.preempt {
		w.yields(i, was, in, fx)
	}
	if w.listed {
		w.queues(i, held, before == StateLeader)
	}
	w.besideOld()
	p.wake = fx.Wake
	if fx.Request.Kind == ReqWrite {
		p.freed = record.Observation{}
	}
	switch fx.Request.Kind {
	case ReqFeed:
		p.listening, p.told = false, [2]record.Observation{}
		p.way = going
	case ReqSettings, ReqRead, ReqWrite:
		p.way = going
	case ReqNone:
	}
	if fx.done {
		if w.tidy && p.m.state == StateCandidate && w.current.Held() && w.current.Rec.Session == p.m.Session && w.current.Rec.Phase != record.PhasePending && p.now.Before(p.m.writes.releaseDeadline()) {
			w.fail("%s ended and left its record behind", p.m.Session)
		}
		w.down(i, true)
	} else if w.guarded {
		w.agree(i)
	}
}

// knownTo returns the greatest token that a candidate remembers, or that it sees in a record of
// another session. It may have the record from the feed alone. Once the store has lost writes,
// only what it remembers counts: a write under way may take the revision of a record that the
// feed delivered before it was lost.
func (w *worldOf) knownTo(p *party) uint64 {
	s := p.m.key.seen
	if w.void || s.Rec.Session == p.m.Session {
		return p.m.memory.token
	}
	return max(p.m.memory.token, record.KnownToken(s.Rec.TermToken(s.Revision)))
}

// down ends a process. Its last write may still arrive.
func (w *worldOf) down(i int, haunts bool) {
	p := &w.parties[i]
	if haunts && w.may(applyLate) {
		w.haunt(i)
	}
	if haunts && w.may(applyLate) {
		w.guardHaunt(i)
	}
	w.bury(i)
	w.posts[i] = post{}
	*p = party{now: p.now, before: w.remembered(p), freed: p.freed, m: Machine{Params: p.m.Params}}
}

// remembered returns what a process has read when its candidate ends.
func (w *worldOf) remembered(p *party) Sighting {
	at := p.m.sightedAt()
	switch {
	case !w.remembers:
		return Sighting{}
	case p.m.key.seen.Kind == record.EntryUnseen: // it has read nothing
		return p.before
	case at.IsZero():
		return Sighting{}
	}
	return SeenAs(p.m.key.seen, at)
}

// haunt keeps the write in flight on its way.
func (w *worldOf) haunt(i int) {
	p := &w.parties[i]
	if p.m.flight.req.Kind != ReqWrite || p.way != going {
		return
	}
	if w.linger(i) {
		w.spend(applyLate)
	}
}

// linger keeps the write in flight on its way, if there is room for it.
func (w *worldOf) linger(i int) bool {
	req := w.parties[i].m.flight.req
	for g := range w.ghosts {
		if w.ghosts[g].rec.Session == "" {
			w.ghosts[g] = ghost{cond: req.Revision, rec: req.Rec, marker: req.Marker}
			return true
		}
	}
	return false
}

// refusal is the error of a write whose condition does not hold.
func refusal(named bool, actual uint64) error {
	if !named {
		return &backend.RefusedError{}
	}
	return &backend.RefusedError{Named: true, Actual: actual}
}

// arrive lets the store answer the request in flight.
func (w *worldOf) arrive(i int, unnamed bool) {
	p := &w.parties[i]
	req := p.m.flight.req
	p.way, p.reply = answered, response{}
	switch req.Kind {
	case ReqSettings:
		p.reply.last = w.last
	case ReqFeed:
		p.listening = true
	case ReqRead:
		p.reply.sight = w.current
	case ReqWrite:
		if revision, ok := w.compareAndSet(req.Revision, req.Rec, req.Marker); ok {
			p.reply.revision = revision
		} else {
			p.reply = response{refused: true, named: !unnamed, revision: w.current.Revision}
		}
	case ReqNone:
	}
}

// deliver hands the answer to the machine.
func (w *worldOf) deliver(i int) {
	p := &w.parties[i]
	r, in := p.reply, Input{}
	switch p.m.flight.req.Kind {
	case ReqSettings:
		in = Input{Kind: InSettings, Settings: w.settings}
		if b := w.belief[i]; b != (backend.Settings{}) {
			in.Settings = b
		}
		in.Settings.LastRevision = r.last
	case ReqFeed:
		in.Kind = InFeed
	case ReqRead:
		in = Input{Kind: InRead, Observed: r.sight, Before: p.before}
	case ReqWrite:
		in = Input{Kind: InWritten, Revision: r.revision}
		if r.refused {
			in = Input{Kind: InWritten, Err: refusal(r.named, r.revision)}
		} else if rec := p.m.flight.req.Rec; w.foresees && rec.Phase == record.PhaseReleased {
			p.freed = record.Observation{Kind: record.EntryRecord, Revision: r.revision, Rec: rec}
		}
	case ReqNone:
	}
	p.way, p.reply = nowhere, response{}
	w.step(i, in)
}

// compareAndSet stores a write if its condition holds. Nothing else decides.
func (w *worldOf) compareAndSet(cond uint64, rec record.Record, marker bool) (uint64, bool) {
	if w.current.Revision != cond {
		return 0, false
	}
	switch rec.Phase {
	case record.PhaseLeading, record.PhaseReleased:
		if c := w.current; (!c.Held() || c.Rec.Session != rec.Session) && !w.void {
			w.fail("%s wrote %s over %s", rec.Session, record.PhaseNames[rec.Phase], describe(c))
		}
	case record.PhaseElect, record.PhasePending:
	case record.PhaseNone:
		w.fail("%s wrote a record without a phase", rec.Session)
	}
	// A candidate that is not engaged has no write under way that may still be stored,
	// unless a forged revision made it believe that.
	for i := range w.times {
		if p := &w.parties[i]; p.up && p.m.Session == rec.Session && !p.m.mayHoldKey() && w.settings.PurgeProtected && !w.void && w.limits[forgeAny] == 0 {
			w.fail("%s is not engaged, and its %s was stored", rec.Session, describeRecord(rec))
		}
	}
	if w.limits[junkRecord] > 0 {
		w.chained(rec)
	}
	if marker && rec.Phase != record.PhaseReleased {
		w.fail("%s wrote %s, and the key counts as absent", rec.Session, record.PhaseNames[rec.Phase])
	}
	// A leader holds the key, or its lease is still valid. So no write that elects, or
	// renews a leader, is stored while another candidate leads. Where the key is emptied
	// without a trace, an old write may be stored. Its sender waits when it learns that.
	if (rec.Phase == record.PhaseElect || rec.Phase == record.PhaseLeading) && (cond != 0 || w.settings.PurgeProtected) && !w.void {
		for j := range w.parties {
			if p := &w.parties[j]; p.leads() && p.m.Session != rec.Session {
				w.fail("%s wrote %s while %s leads", rec.Session, record.PhaseNames[rec.Phase], p.m.Session)
			}
		}
	}
	w.put(record.Observation{Kind: record.EntryRecord, Rec: rec})
	w.vacant = marker
	return w.last, true
}

// put stores a message, or takes the last one away, and passes it to the feeds.
func (w *worldOf) put(s record.Observation) {
	if s.Kind != record.EntryNothing {
		w.last++
		s.Revision = w.last
	}
	if was := w.current.Rec; was.Session != s.Rec.Session {
		for i := range w.parties {
			w.parties[i].robbed = w.parties[i].robbed || w.parties[i].m.Session == was.Session
		}
	}
	w.bequeath(s)
	w.past[1], w.past[0] = w.past[0], w.current
	w.current, w.junked = s, false
	w.vacant, w.age = s.Kind == record.EntryMarker || s.Kind == record.EntryNothing, 0
	w.tell("    stored: %s", describe(s))
	if s.Kind == record.EntryNothing {
		return
	}
	for i := range w.parties {
		p := &w.parties[i]
		if !p.listening || p.cut {
			continue
		}
		if p.told[1].Kind != record.EntryUnseen { // no more fit: the oldest is lost
			p.told[0], p.told[1] = p.told[1], record.Observation{}
		}
		p.told[slices.IndexFunc(p.told[:], func(s record.Observation) bool { return s.Kind == record.EntryUnseen })] = s
	}
}

// hear takes a message out of the feed.
func (p *party) hear(n int) record.Observation {
	s := p.told[n]
	copy(p.told[n:], p.told[n+1:])
	p.told[len(p.told)-1] = record.Observation{}
	return s
}
