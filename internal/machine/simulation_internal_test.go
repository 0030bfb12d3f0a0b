package machine

import (
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/contract"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/internal/record"
)

var (
	simSeeds = flag.Int("seeds", proof.Size(400, 8000)/slowdown, "how many seeds to simulate")
	simFirst = flag.Uint64("first", 1, "simulate seeds from this one on")
	simSeed  = flag.Uint64("seed", 0, "simulate this seed alone, and print what happens")
)

// node is one simulated process: a machine, its clock, and the knowledge about its terms
// that an outside observer has.
type node struct {
	w      *world
	name   string
	m      Machine
	config Params

	// The clock: rate thousandths of true time, from an offset.
	offset time.Duration
	rate   time.Duration

	life    int // counts restarts
	wakes   uint64
	gone    bool           // crashed
	asleep  time.Duration  // paused until
	mail    []func()       // mail that came meanwhile
	cut     time.Duration  // no connection until
	feed    int            // number of the feed that is open, 0 for none
	feeds   int            // counts feeds
	deaf    bool           // the feed delivers nothing
	answer  func(in Input) // answers the request in flight, once
	asked   bool           // a request is in flight
	checker checker

	post        post // of its guard
	guardAnswer func(in GuardInput)
	guardWakes  uint64
}

func (n *node) clock() time.Time {
	return time.Unix(0, 0).UTC().Add(n.offset + n.w.now*n.rate/1000)
}

// until returns how long it takes in true time until the node's clock shows t.
func (n *node) until(t time.Time) time.Duration {
	local := min(t.Sub(time.Unix(0, 0).UTC())-n.offset, 2000*time.Hour) // a lease of a year would overflow
	return max(0, (local*1000+n.rate-1)/n.rate-n.w.now)
}

// boot starts a candidate, with the same ID and another session.
func (n *node) boot() {
	n.life++
	n.config.Session = fmt.Sprintf("%s%d", n.name, n.life)
	n.m = New(n.config, "")
	n.gone, n.asleep, n.mail, n.cut = false, 0, nil, 0
	n.feed, n.deaf, n.answer, n.asked = 0, false, nil, false
	n.checker = checker{void: n.w.hostile || n.w.forges, exact: true}
	n.post = post{GuardMachine: GuardMachine{GuardParams: GuardParams{Session: n.config.Session, Election: "e"}}}
	n.guardAnswer = nil
	n.w.logf("%s starts", n.config.Session)
	n.step(Input{Kind: InTick})
	n.guideAlone(GuardInput{Kind: GuardInTick})
}

// hand gives the process mail, unless it has been started anew since.
func (n *node) hand(life int, in Input) {
	switch {
	case n.life != life || n.gone || n.m.done:
	case n.asleep > n.w.now:
		n.mail = append(n.mail, func() { n.hand(life, in) })
	default:
		n.step(in)
		switch in.Kind { //nolint:exhaustive // the guard machine is told of these
		case InTick:
			n.guideAlone(GuardInput{Kind: GuardInTick})
		case InReconnected:
			n.guideAlone(GuardInput{Kind: GuardInReconnected})
		}
	}
}

// pause stops the process for a while. Its clock goes on, its timers do not.
func (n *node) pause(d time.Duration) {
	if n.asleep > n.w.now {
		return
	}
	n.asleep = n.w.now + d
	n.w.logf("%s is paused for %v", n.config.Session, d)
	life := n.life
	n.w.after(d, func() {
		if n.life != life {
			return
		}
		mail := n.mail
		n.mail = nil
		for _, m := range mail {
			m()
		}
		n.hand(life, Input{Kind: InTick})
	})
}

// step does the work of the actor.
func (n *node) step(in Input) {
	w := n.w
	in.Dice = w.rng.Uint32()
	switch in.Kind {
	case InSettings, InFeed, InRead, InWritten:
		n.asked = false
	case InTick, InHeard, InReconnected, InFeedLost, InClosed, InGuards, InRoster, InResign, InStop, InAbandon, InDrained, InWorked, InLoop, InNoLoop, InProclaim, InSuspend, InResume, InSlot:
	}
	before, known := n.m.state, n.m.key.seen.Revision
	fx := n.m.stepAtOnce(n.clock(), in)
	if w.trace != nil && (in.Kind != InTick || fx.Request.Kind != ReqNone || len(fx.Notes) > 0) {
		w.logf("%s %s: %v->%v %s", n.config.Session, describeInput(in), before, n.m.state, describeEffects(n.clock(), fx))
	}
	n.check(known, in, fx)
	n.wakes++
	if fx.done {
		n.feed = 0
		return
	}
	if fx.Cancel && n.answer != nil {
		answer := n.answer
		w.after(w.between(time.Microsecond, 50*time.Millisecond), func() { answer(Input{Err: backend.ErrUnreachable}) })
	}
	if fx.Request.Kind != ReqNone {
		n.ask(fx.Request)
	}
	if !fx.Wake.IsZero() {
		life, wakes := n.life, n.wakes
		w.after(n.until(fx.Wake), func() {
			if n.wakes == wakes {
				n.hand(life, Input{Kind: InTick})
			}
		})
	}
	n.agree()
}

// check checks every step of every machine, and the terms with one another.
func (n *node) check(known uint64, in Input, fx Effects) {
	w := n.w
	if broken := n.m.brokenInvariant(); broken != "" {
		w.failf("%s, after %s: %s", n.config.Session, describeInput(in), broken)
	}
	if broken := n.checker.check(&n.m, known, n.clock(), in, fx); broken != "" {
		w.failf("%s, after %s: %s", n.config.Session, describeInput(in), broken)
	}
	if fx.Cancel && !n.asked || fx.Request.Kind != ReqNone && n.asked {
		w.failf("%s gives up a request that was answered, or asks for two things at once", n.name)
	}
	for _, note := range fx.Notes {
		if note.Event != NoteElected {
			continue
		}
		now := w.election.Now()
		w.excuse(w.election.Elected(contract.Term{Who: n.config.Session, Token: note.Token}, now, now))
		w.last = note.Token
		if w.guarded {
			n.stood(note.Token)
		}
		w.elections++
	}
	w.excuse(w.election.Sample(len(w.nodes), func(i int) (contract.Term, bool) {
		if o := w.nodes[i]; o.checker.Open() {
			return contract.Term{Who: o.config.Session, Token: o.m.term.token}, o.leads()
		}
		return contract.Term{}, false
	}))
}

// excuse fails for violations, unless an adversary writes the key: then two may lead.
func (w *world) excuse(vs []*contract.Violation) {
	for _, v := range vs {
		if !w.hostile {
			w.failf("%v", v)
		}
	}
}

// leads reports whether Term.Err would return nil, also in a process that is paused.
func (n *node) leads() bool {
	return !n.gone && !n.m.done && n.m.state == StateLeader && n.clock().Before(n.m.term.leaseUntil)
}

// ask carries a request through the network.
func (n *node) ask(req Request) {
	w, life := n.w, n.life
	answered := false
	answer := func(in Input) {
		if answered {
			return
		}
		answered = true
		in.Kind = map[RequestKind]InputKind{ReqSettings: InSettings, ReqFeed: InFeed, ReqRead: InRead, ReqWrite: InWritten}[req.Kind]
		if req.Kind == ReqFeed && in.Err == nil && n.life == life {
			n.feeds++
			n.feed, n.deaf = n.feeds, w.chance(w.faults.deaf)
		}
		n.hand(life, in)
	}
	n.answer, n.asked = answer, true
	if req.Kind == ReqFeed {
		n.feed = 0
	}
	reply := func(in Input) {
		if !w.chance(w.faults.unanswered) {
			w.after(w.delay(), func() { answer(in) })
		}
	}
	if n.cut > w.now && w.rng.Uint32N(4) > 0 {
		if w.rng.Uint32N(2) == 0 {
			w.after(time.Millisecond, func() { answer(Input{Err: backend.ErrUnreachable}) })
		}
		return
	}
	if w.chance(w.faults.lost) {
		if w.rng.Uint32N(2) == 0 {
			reply(Input{Err: backend.ErrUnreachable})
		}
		return
	}
	if w.chance(w.faults.lost) { // given up early, although it is on its way
		w.after(w.delay(), func() { answer(Input{Err: backend.ErrUnreachable}) })
	}
	by, there := n.config.Session, w.delay()
	if w.purges && req.Kind == ReqWrite && req.Revision == 0 && w.chance(500) {
		there = w.between(0, 40*time.Second)
	}
	w.after(there, func() {
		switch req.Kind {
		case ReqSettings:
			reply(Input{Settings: w.bucket.settings})
		case ReqFeed:
			reply(Input{})
		case ReqRead:
			reply(Input{Observed: w.look()})
		case ReqWrite:
			if w.chance(w.faults.refused) {
				reply(Input{Err: w.refusal()})
				return
			}
			revision, err := w.compareAndSet(req, by)
			reply(Input{Revision: revision, Err: err})
		case ReqNone:
		}
	})
}

// trouble applies the faults of one second to a process.
func (n *node) trouble() {
	w := n.w
	life := n.life
	if n.gone || n.m.done {
		if w.calm || w.rng.Uint32N(4) == 0 {
			n.boot()
		}
		return
	}
	if w.forges && w.chance(100) {
		n.forge()
	}
	if w.calm && n.m.work.going && n.m.state != StateLeader {
		n.hand(life, Input{Kind: InDrained, Term: n.m.term.number})
	}
	if w.calm && n.m.work.idle {
		n.hand(life, Input{Kind: InLoop})
	}
	if w.chance(w.faults.pauses) {
		n.pause(w.between(0, 30*time.Second))
	}
	if w.chance(w.faults.crashes) {
		n.gone = true
		w.logf("%s crashes", n.config.Session)
	}
	if w.chance(w.faults.cuts) {
		n.cut = w.now + w.between(0, 20*time.Second)
		n.deaf = true
		w.logf("%s is cut off until %v", n.config.Session, n.cut)
		w.after(n.cut-w.now, func() {
			if n.life != life || n.cut > w.now {
				return
			}
			if w.rng.Uint32N(4) > 0 && n.feed != 0 {
				n.deaf = false
				n.hand(life, Input{Kind: InReconnected})
			}
		})
	}
	if w.chance(w.faults.deaf) {
		n.deaf = true
	}
	if w.chance(w.faults.deaf) && n.feed != 0 {
		n.feed = 0
		n.hand(life, Input{Kind: InFeedLost, Err: backend.ErrUnreachable})
	}
	if !w.chance(w.faults.calls) {
		return
	}
	if n.m.Listed && w.rng.Uint32N(2) == 0 {
		n.hand(life, n.anyOrder())
		return
	}
	switch w.rng.Uint32N(12) {
	case 0:
		n.hand(life, Input{Kind: InStop})
	case 1:
		n.hand(life, Input{Kind: InAbandon})
	case 2:
		n.hand(life, Input{Kind: InClosed})
	case 3:
		n.hand(life, Input{Kind: InDrained, Term: n.m.term.number})
	case 8, 9:
		n.hand(life, Input{Kind: InLoop})
	case 10:
		n.hand(life, Input{Kind: InNoLoop})
	case 11:
		n.hand(life, Input{Kind: InWorked, Term: n.m.term.number})
	case 4:
		n.hand(life, Input{Kind: InProclaim, Value: fmt.Sprint(w.now)})
	default:
		n.hand(life, Input{Kind: InResign})
	}
}

// anyOrder returns a report of a roster, or a call that depends on one. Nothing rests on
// its truth, so it need not be true here.
func (n *node) anyOrder() Input {
	r := n.w.rng
	var sessions []string
	for _, o := range n.w.nodes {
		if r.Uint32N(3) > 0 {
			sessions = append(sessions, o.config.Session)
		}
	}
	r.Shuffle(len(sessions), func(i, j int) { sessions[i], sessions[j] = sessions[j], sessions[i] })
	other := n.w.nodes[r.IntN(len(n.w.nodes))]
	switch r.Uint32N(4) {
	case 0:
		return Input{Kind: InResign, To: other.name}
	case 1:
		return Input{Kind: InResign, Next: true}
	}
	in := Input{Kind: InRoster, Roster: RosterReport{Line: record.LineOf(sessions)}}
	if r.Uint32N(2) == 0 {
		in.Roster.Preemptor = Preemptor{Session: other.config.Session}
	}
	return in
}

// newWorld draws a bucket, candidates, and the faults to come.
func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 1))}
	r := w.rng
	w.bucket.current = record.Observation{Kind: record.EntryNothing}
	w.bucket.past = []record.Observation{w.bucket.current}
	w.guarded = seed%4 == 3
	w.forges, w.hostile = seed%5 == 1, seed%16 == 9
	phase := int(seed % (backend.Phases + 1))
	w.guard = modelGuard{at: record.GuardObservation{Kind: record.EntryNothing}, past: []record.GuardObservation{{Kind: record.EntryNothing}}, term: make(map[guardTerm]bool)}
	s := &w.bucket.settings
	s.LastRevision = uint64(r.Uint32N(3))
	s.PurgeProtected = r.Uint32N(2) == 0
	if s.PurgeProtected || r.Uint32N(2) == 0 {
		s.MaxLease = 10 * time.Second
	}
	if !s.PurgeProtected && r.Uint32N(2) == 0 {
		s.TTL = 15 * time.Second
	}
	w.hostile = w.hostile && (s.MaxLease > 0 || s.TTL > 0) // elsewhere junk is remembered for its lease
	some := func(most uint32) uint32 {                     // often none, seldom much
		if r.Uint32N(3) == 0 {
			return 0
		}
		return r.Uint32N(r.Uint32N(most) + 1)
	}
	w.faults = faultRates{
		lost: some(300), late: some(150), slow: some(300), refused: some(200), stale: some(500), unanswered: some(300), deaf: some(100),
		operator: some(400), pauses: some(80), crashes: some(60), calls: some(100), cuts: some(60),
	}
	if !s.PurgeProtected && r.Uint32N(2) == 0 {
		// Here an old write may find the key empty again, after another candidate has
		// led.
		w.purges = true
		w.faults.late, w.faults.slow, w.faults.operator, w.faults.pauses, w.faults.crashes = 50, 200, 50, 20, 5
	}
	minToken := uint64(0)
	if s.TTL == 0 && r.Uint32N(4) == 0 {
		// Above the revisions, tokens are remembered by the record alone.
		minToken, w.faults.operator = 50, 0
	}
	for i := range 2 + r.IntN(2) {
		want := Durations{Lease: 8 * time.Second}
		if s.MaxLease > 0 { // settings may differ
			want.Lease -= time.Duration(r.IntN(4)) * time.Second
		}
		if r.Uint32N(4) == 0 {
			want.PendingPeriod = 3 * time.Second
		}
		if r.Uint32N(3) == 0 {
			want.DrainTimeout = 5 * time.Second
		}
		var in Order
		switch r.Uint32N(3) {
		case 0:
			in = Order{Listed: true, Orders: true, Lot: r.Uint32()}
		case 1:
			in = Order{Listed: r.Uint32N(2) == 0}
		}
		name := string(rune('A' + i))
		n := &node{
			w: w, name: name, config: Params{ID: name, Phase: phase, Want: want, MinToken: minToken, Guarded: w.guarded, Order: in},
			offset: time.Duration(r.IntN(1000)) * time.Hour, rate: []time.Duration{900, 950, 1000, 1050, 1100}[r.IntN(5)],
		}
		w.nodes = append(w.nodes, n)
	}
	return w
}

// run lets things go wrong for a while, and then lets the candidates recover.
func (w *world) run() {
	const troubled, second = 120 * time.Second, time.Second
	var tick func()
	tick = func() {
		for _, n := range w.nodes {
			n.trouble()
		}
		if w.chance(w.faults.operator) {
			w.after(w.between(0, second), w.operate)
		}
		if w.guarded && w.chance(w.faults.operator) {
			w.after(w.between(0, second), func() {
				w.putGuard(record.GuardObservation{Kind: record.EntryMarker + record.EntryKind(w.rng.Uint32N(2))}, "operator")
			})
		}
		w.after(second, tick)
	}
	for _, n := range w.nodes {
		w.after(w.between(0, second), n.boot)
	}
	w.after(second, tick)
	// One lease to forget the faults, three times the longest wait: a write that
	// lands late, a marker, a pending candidate that has died.
	const end = troubled + 130*time.Second
	for len(w.queue) > 0 && w.failure == "" && w.now < end {
		h := heap.Pop(&w.queue).(happening)
		if !w.calm && h.at >= troubled {
			w.calm = true
			w.cleanUp()
			for _, n := range w.nodes {
				n.cut = 0
				if n.deaf {
					w.logf("%s has a deaf feed", n.name)
				}
			}
			w.logf("faults have ceased")
		}
		w.now = h.at
		h.do()
	}
	if w.failure != "" {
		return
	}
	for _, n := range w.nodes {
		if n.leads() && n.mayWrite() {
			return
		}
	}
	w.failf("nobody leads %v after the last fault", end-troubled)
}

// "At any instant at most one leadership context per election is alive", "every
// term has a fencing token greater than that of every earlier term", "cancelled
// before the event that reports the loss is offered": whatever happens.
func TestWhateverHappens_OneLeader(t *testing.T) {
	t.Parallel()
	if *simSeed != 0 {
		w := newWorld(*simSeed)
		w.trace = t.Logf
		if w.run(); w.failure != "" {
			t.Fatal(w.failure)
		}
		return
	}
	elections, failed := 0, 0
	for seed := *simFirst; seed < *simFirst+uint64(*simSeeds); seed++ {
		w := newWorld(seed)
		w.run()
		elections += w.elections
		if w.failure != "" {
			t.Errorf("%s; repeat with -seed %d -v", w.failure, seed)
			if failed++; failed >= 10 {
				t.FailNow()
			}
		}
	}
	proof.Ran(*simSeeds, "simulated seeds")
	if elections < 2**simSeeds && *simSeeds >= 20 {
		t.Errorf("only %d elections in %d worlds: the simulation has lost its subject", elections, *simSeeds)
	}
	t.Logf("%d elections in %d seeds", elections, *simSeeds)
}
