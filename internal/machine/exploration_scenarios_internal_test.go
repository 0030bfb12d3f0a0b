package machine

import (
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
)

// limited is a kind of action that may happen only so often.
type limited uint8

const (
	loseRequest limited = iota
	loseReply
	applyLate // a write arrives after its sender has given it up
	refuse    // a write although its condition holds
	readPast
	giveUpEarly // the connection fails while a request is in flight
	loseFeed    // one message of the feed
	reorderFeed
	endFeed
	reconnect
	late     // a tick although something is due or on its way
	freeze   // a process stands still for any time
	cutOff   // a process is cut off for any time
	forge    // the feed delivers a stranger's release
	forgeAny // or anything else that was never stored
	crash
	restart
	remove // the operator deletes, or a record expires early
	purge  // without a marker
	overwrite
	rollBack
	remake     // the bucket, empty
	force      // the operator replaces the record by a marker that carries it
	junkRecord // the adversary writes any record
	resign
	stop
	closeConnection
	release  // of a term
	breakOff // the loop over the terms
	stall    // the work hangs
	transfer
	guardRemove // the operator deletes the guard
	guardOverwrite
	guardJunk  // the adversary writes any token to the guard
	guardPurge // without a marker
	guardUnfit // a check finds the guard not fit
	double     // a write arrives twice
	setTime    // of day
	pause      // a virtual machine stands still with its clock, for any time
	maxKinds
)

// unlimited is the limit of an action that may happen any number of times.
const unlimited = 255

// scenario is one world to explore.
type scenario struct {
	name       string
	settings   backend.Settings
	belief     [maxParties]backend.Settings // the settings that a candidate is given, if not these
	times      []Durations                  // of each candidate
	minToken   uint64
	limits     map[limited]uint8
	total      uint8
	from       string // the actions before the exploration begins
	skew       int8   // by how many ticks more than one the clocks may deviate over any time
	void       bool   // the store may forget: nothing is promised but a leader in the end
	tidy       bool   // nothing keeps a candidate from releasing what it holds
	drains     bool   // nothing goes wrong, so no candidate may lead while another drains
	whole      bool   // it is explored to the end in every run
	guarded    bool   // there is a guard
	raised     uint64 // the token at which the guard stands at the start
	listed     bool   // there is a roster
	fair       bool   // and nothing goes wrong, so that no candidate is overtaken twice
	preempt    bool   // a candidate of a higher priority wants to lead
	orders     [maxParties]Order
	priorities [maxParties]int
	named      bool // refusals always name the revision: the bucket has one replica
	gated      bool // gates are closed and opened at any time
	works      bool // the applications begin work with each term
	gos        bool // the applications begin work of a term at any time, and end it at any time
	loops      bool // the applications take their terms in loops, and work for any time
	window     bool // a candidate waits for a slot for any time
	observes   bool // the last of them is an observer
	remembers  bool // processes outlive their candidates, and the next ones begin with what was seen
	foresees   bool // the same, and the next ones may begin with what they have left at the key
	spreads    bool // a candidate whose tries are refused waits for as long as it may
	old        oldWorld
}

// employs reports whether the application of a candidate without a loop begins work with each term. That with a GracePeriod
// does, unless it begins work at any time.
func (sc *scenario) employs(i int) bool {
	return sc.works || !sc.loops && !sc.gos && sc.times[i].GracePeriod > 0
}

// ticks returns the times of a candidate, in ticks. Clocks may deviate by the margin
// between the renew deadline and the lease, which is one tick.
func ticks(lease, renewDeadline, pendingPeriod, gracePeriod time.Duration) Durations {
	return Durations{
		Lease: lease * tick, RenewDeadline: renewDeadline * tick, RenewInterval: tick,
		PendingPeriod: pendingPeriod * tick, GracePeriod: gracePeriod * tick,
	}
}

// upTo allows each kind so often.
func upTo(n uint8, kinds ...limited) map[limited]uint8 {
	limits := make(map[limited]uint8)
	for _, k := range kinds {
		limits[k] = n
	}
	return limits
}

// promised are all kinds of faults and calls under which everything is promised,
// in a sealed bucket. In any other the key may also be purged.
var promised = []limited{
	loseRequest, loseReply, applyLate, refuse, readPast, giveUpEarly, loseFeed, reorderFeed, endFeed, reconnect, late,
	freeze, cutOff, forge, crash, restart, remove, overwrite, resign, stop, closeConnection, release, setTime,
}

var (
	tight    = backend.Settings{PurgeProtected: true, MaxLease: 3 * tick}
	roomy    = backend.Settings{PurgeProtected: true, MaxLease: 5 * tick}
	expiring = backend.Settings{TTL: 4 * tick}
	equal    = []Durations{ticks(3, 2, 0, 0), ticks(3, 2, 0, 0)}
	alone    = []Durations{ticks(3, 2, 0, 0)}
	lasting  = []Durations{ticks(5, 4, 0, 0), ticks(5, 4, 0, 0)}
	unequal  = []Durations{ticks(4, 3, 0, 0), ticks(3, 2, 0, 0)}
)

// aLeads begins where A leads and B knows it.
const aLeads = "tick.1 A.arrive A.deliver A.arrive A.deliver B.arrive B.deliver"

// bLost begins where C leads and B has lost two races for A's release, each of which took one tick.
const bLost = aLeads + " C.arrive C.deliver A.resign A.arrive A.deliver B.hear B.refuse tick B.deliver tick B.wake B.arrive B.deliver" +
	" B.refuse tick B.deliver C.hear C.arrive C.deliver B.hear A.hear"

// aFreed begins where A led and has stopped, and B knows that A led.
const aFreed = aLeads + " A.stop A.arrive A.deliver"

// inTurn returns the times of candidates with turns of so many ticks.
func inTurn(turn time.Duration, times ...Durations) []Durations {
	for i := range times {
		times[i].Turn = turn * tick
	}
	return times
}

// aQueued begins where A leads, B and C stand in this order, and A has published it.
const aQueued = "A.arrive A.deliver A.arrive A.deliver B.arrive B.deliver C.arrive C.deliver " +
	"B.announce A.rank A.arrive A.deliver B.hear C.hear C.announce A.rank"

var (
	queued = Order{Listed: true, Orders: true}
	lined  = [maxParties]Order{queued, queued, queued}
	short  = ticks(3, 2, 0, 0)
)

// stored has the kinds of promised, except forgeries of the feed. A forgery of a session
// that junk has made a holder would be believed.
var stored = slices.DeleteFunc(slices.Clone(promised), func(k limited) bool { return k == forge })

// troubled has the kinds for a candidate with a guard.
var troubled = append(promised[:len(promised):len(promised)], guardRemove, guardOverwrite)

// keyKept has those without what removes the record of the key. A token that a forged guard has caused
// is greater than all revisions, so nothing but the record remembers it.
var keyKept = slices.DeleteFunc(slices.Clone(troubled), func(k limited) bool { return k == remove || k == overwrite })

// aRaised begins where A leads, having raised the guard.
const aRaised = "tick.1 A.arrive A.deliver A.guard-arrive A.guard-deliver A.arrive A.deliver A.guard-arrive A.guard-deliver B.arrive B.deliver"

// The promises hold in these scenarios, whatever happens. Every run explores the first to
// the end, and the others to a bound. Those with one fault have an end as well.
var scenarios = slices.Concat([]*scenario{
	{
		name: "core", settings: tight, times: equal, total: 1, whole: true,
		limits: upTo(1, loseRequest, loseReply, refuse, crash, restart, resign, stop),
	},
	{name: "sealed", settings: tight, times: equal, limits: upTo(1, promised...), total: 1},
	{name: "ordinary", settings: expiring, times: equal, limits: upTo(1, append(promised, purge)...), total: 1},
	{name: "leases", settings: roomy, times: unequal, limits: upTo(1, promised...), total: 1},
	{
		name: "observed", observes: true, settings: expiring, times: equal, total: 1,
		limits: upTo(1, append(promised, purge)...),
	},
	// B is deaf while A gives the key up and takes it again.
	{
		name: "observed, deaf", observes: true, settings: tight, times: equal, total: 4, from: aLeads,
		limits: upTo(3, resign, cutOff, loseFeed, endFeed, crash, restart, remove),
	},
	{name: "pending", settings: tight, times: []Durations{ticks(3, 2, 2, 0), ticks(3, 2, 0, 0)}, limits: upTo(1, promised...), total: 1},
	{name: "drain", settings: tight, times: []Durations{ticks(3, 2, 0, 4), ticks(3, 2, 0, 0)}, limits: upTo(1, promised...), total: 1},
	{name: "handover", settings: tight, drains: true, times: []Durations{ticks(3, 2, 0, 4), ticks(3, 2, 0, 3)}, limits: upTo(2, resign, stop, release)},
	{name: "late", settings: tight, times: equal, limits: upTo(2, late), total: 2},
	{name: "writes", settings: expiring, times: equal, limits: upTo(2, loseReply, applyLate, remove, purge), total: 2},
	{name: "tidy", settings: tight, tidy: true, times: equal, limits: upTo(2, resign, stop, loseReply, loseRequest, late), total: 3},
	{name: "purged", settings: expiring, times: equal, limits: upTo(2, purge, applyLate, giveUpEarly, readPast), total: 4},
	{name: "frozen", settings: tight, times: equal, limits: upTo(2, freeze, cutOff, loseFeed, applyLate, loseReply), total: 3, from: aLeads},
	// The machine of A is paused until B leads: while A waits for its renewal, for the answer to it, or for that to a read. A may
	// lead beside B until its renewal is answered, or one interval.
	{name: "paused", settings: roomy, times: lasting, limits: upTo(1, pause, cutOff, loseReply, setTime), total: 2, from: aLeads + " A.pause tick tick tick B.wake B.arrive B.deliver tick tick B.wake B.arrive B.deliver"},
	{
		name: "paused, answered", settings: roomy, times: lasting, limits: upTo(1, pause, cutOff, loseReply, setTime), total: 2,
		from: aLeads + " tick A.wake A.arrive B.hear A.pause tick tick tick B.wake B.arrive B.deliver tick tick B.wake B.arrive B.deliver",
	},
	{
		name: "paused, read", settings: roomy, times: lasting, limits: upTo(1, pause, cutOff, loseReply, setTime), total: 2,
		from: aLeads + " tick A.wake A.arrive B.hear A.fail tick A.wake A.arrive A.pause tick tick B.wake B.arrive B.deliver tick tick B.wake B.arrive B.deliver",
	},
	{name: "leaving", settings: tight, times: equal, limits: upTo(2, resign, stop, loseReply, loseRequest, applyLate, freeze), total: 3, from: aLeads},
	{name: "forged", settings: tight, times: equal, limits: upTo(2, forge, loseFeed, freeze, cutOff), total: 3},
	// The adversary; see exploration_junk_internal_test.go.
	{name: "forged, anything", settings: tight, times: equal, limits: upTo(1, append(promised, forgeAny)...), total: 1},
	{name: "forged, ordinary", settings: expiring, times: equal, limits: upTo(1, forgeAny, freeze, cutOff, loseFeed, remove, purge, resign), total: 2},
	{name: "forged, twice", settings: tight, times: equal, limits: upTo(2, forgeAny, freeze, cutOff, resign), total: 3, from: aLeads},
	{name: "forced", settings: roomy, times: unequal, limits: upTo(1, append(promised, force)...), total: 2},
	// A leads with a lease that B's bucket does not allow any more.
	{
		name: "forced, lowered", settings: tight, belief: [maxParties]backend.Settings{roomy}, times: []Durations{ticks(5, 4, 0, 0), ticks(3, 2, 0, 0)},
		limits: upTo(1, force, freeze, cutOff, crash, restart, loseFeed), from: "tick.1 A.arrive A.deliver A.arrive A.deliver",
	},
	{
		name: "held, lowered", settings: tight, belief: [maxParties]backend.Settings{roomy}, times: []Durations{ticks(5, 4, 0, 0), ticks(3, 2, 0, 0)},
		limits: upTo(1, freeze, cutOff, crash, restart, loseFeed, forgeAny), total: 3, from: "tick.1 A.arrive A.deliver A.arrive A.deliver",
	},
	{name: "junk", void: true, settings: tight, times: equal, limits: upTo(1, junkRecord, remove, freeze, cutOff, loseFeed, crash, restart, resign, stop), total: 2},
	{name: "junk, led", void: true, settings: tight, times: equal, limits: upTo(2, junkRecord, remove, loseFeed, late), total: 3, from: aLeads},
	{name: "junk, purged", void: true, settings: expiring, times: equal, limits: upTo(1, junkRecord, purge, readPast, crash, restart), total: 3, from: aLeads},
	{name: "junk, unbounded", void: true, settings: backend.Settings{PurgeProtected: true}, times: equal, limits: upTo(1, junkRecord, remove, crash, restart), total: 2, from: aLeads},
	// A's first write is on its way, and so its outcome is not known when the junk is read.
	{name: "junk, unanswered", void: true, settings: tight, times: alone, limits: upTo(1, junkRecord, loseReply, loseRequest), total: 2, from: "A.arrive A.deliver"},
	// Above the revisions, a copy of an old record has an old token.
	{name: "junk, copied", void: true, settings: tight, times: alone, minToken: above, limits: upTo(1, junkRecord, resign, loseRequest), total: 2, from: "A.arrive A.deliver A.arrive A.deliver"},
	{name: "outage", settings: roomy, times: []Durations{ticks(5, 4, 0, 0), ticks(5, 4, 0, 0)}, limits: upTo(2, loseReply, loseRequest, giveUpEarly), total: 4, from: aLeads},
	// Succession.
	{name: "queue", listed: true, fair: true, orders: lined, settings: tight, times: inTurn(2, short, short, short), limits: upTo(unlimited, resign), from: aQueued},
	{name: "queue, drain", listed: true, fair: true, orders: lined, settings: tight, times: inTurn(2, ticks(3, 2, 0, 2), short, short), limits: upTo(4, resign, release, stop, restart)},
	{name: "queue, troubled", listed: true, orders: lined, settings: tight, times: inTurn(1, short, short), limits: upTo(1, append(promised, transfer)...), total: 1},
	{name: "queue, ordinary", listed: true, orders: lined, settings: expiring, times: inTurn(1, short, short), limits: upTo(1, append(promised, purge, transfer)...), total: 1},
	{name: "queue and race", listed: true, orders: [maxParties]Order{queued, {}, {Listed: true}}, settings: tight, times: inTurn(1, short, short, short), limits: upTo(1, append(promised, transfer)...), total: 1},
	{name: "transfer", listed: true, orders: [maxParties]Order{queued, {}, queued}, settings: tight, times: inTurn(1, ticks(3, 2, 0, 2), short, short), limits: upTo(2, transfer, resign, stop, crash, release), total: 3},
	{name: "preempt", listed: true, preempt: true, priorities: [maxParties]int{0, 1, 2}, orders: lined, settings: tight, times: inTurn(1, short, short, short), limits: upTo(1, append(promised, transfer)...), total: 1},
	// A gives way to C, and B takes the key.
	{
		name: "preempt in vain", listed: true, preempt: true, priorities: [maxParties]int{0, 1, 2}, orders: lined, settings: tight, times: inTurn(1, short, short, short), limits: upTo(1, resign, restart), total: 1,
		from: aQueued + strings.Repeat(" tick A.wake A.arrive A.deliver B.hear C.hear", 3) +
			" A.rank.1 A.arrive A.deliver C.hear B.hear tick tick B.wake B.arrive B.deliver" + strings.Repeat(" tick B.wake B.arrive B.deliver", 3),
	},
	// A is frozen while it leads with a lease that B has seen, or not, and the key is deleted.
	{name: "deleted, lease seen", settings: backend.Settings{PurgeProtected: true}, times: unequal, limits: upTo(1, crash, restart, remove, freeze), from: "tick.1 A.arrive A.deliver A.arrive A.deliver B.crash B.boot B.arrive B.deliver remove A.freeze B.hear B.arrive B.deliver tick"},
	{name: "deleted, lease unseen", settings: roomy, times: unequal, limits: upTo(1, crash, restart, remove, freeze, loseFeed), from: "tick.1 A.arrive A.deliver A.arrive A.deliver B.mute remove A.freeze B.hear"},
	{
		name: "deleted, then pending and gone", settings: roomy, times: unequal, limits: upTo(1, crash, restart, remove, freeze, loseFeed),
		from: "tick.1 A.arrive A.deliver A.arrive A.deliver B.mute remove A.freeze B.hear B.arrive B.deliver B.arrive B.crash B.boot",
	},
	// A is frozen while it leads with a lease that B has not seen, and the key is overwritten.
	{
		name: "overwritten", settings: roomy, times: unequal, limits: upTo(1, freeze),
		from: "tick.1 A.arrive A.deliver A.arrive A.deliver B.mute overwrite A.freeze B.hear B.arrive B.deliver",
	},
	// A's first write is on its way while B comes to lead.
	{
		name: "gap", settings: expiring, times: equal, limits: upTo(2, purge, cutOff, readPast, applyLate), total: 3,
		from: "tick.1 A.arrive A.deliver A.cut B.arrive B.deliver B.arrive B.deliver" + strings.Repeat(" tick B.wake B.arrive B.deliver", 4),
	},
	// A's renewal is stored, and found only after it was sent once more.
	{
		name: "retried", settings: backend.Settings{PurgeProtected: true, MaxLease: 7 * tick}, times: []Durations{ticks(7, 6, 0, 0), ticks(7, 6, 0, 0)}, limits: upTo(1, freeze, cutOff, loseReply, late), total: 2,
		from: aLeads + " tick A.wake A.arrive A.lose B.hear tick A.wake A.fail A.lose tick A.wake A.fail A.arrive A.deliver tick A.wake A.arrive A.deliver A.cut tick tick tick",
	},
	// A resigned, B leads, the key was purged, and A's very first write arrives.
	{
		name: "haunted", settings: expiring, times: append(equal, equal[0]), limits: upTo(1, loseReply, applyLate), total: 1,
		from: "A.arrive A.deliver A.fail.1 tick A.wake A.arrive A.deliver A.arrive A.deliver" + strings.Repeat(" tick A.wake A.arrive A.deliver", 4) +
			" B.arrive B.deliver C.arrive C.deliver A.resign A.arrive A.lose B.hear B.arrive B.deliver B.freeze purge ghost tick A.wake A.fail",
	},
	// B's process tries again and again.
	{name: "remembered", remembers: true, settings: tight, times: equal, limits: upTo(1, promised...), total: 1},
	{name: "remembered, tries", remembers: true, settings: tight, times: equal, limits: upTo(3, stop, restart, freeze, cutOff, readPast), total: 5, from: aLeads},
	{name: "remembered, deleted", remembers: true, settings: tight, times: equal, limits: upTo(2, crash, restart, remove, freeze), total: 5, from: aLeads},
	// It has found the key empty.
	{
		name: "remembered, ordinary", remembers: true, settings: expiring, times: equal, limits: upTo(1, restart, purge, crash, freeze), total: 3,
		from: "B.arrive B.deliver B.crash A.arrive A.deliver A.arrive A.deliver" + strings.Repeat(" tick A.wake A.arrive A.deliver", 4),
	},
	// A's write is on its way on its own release, which still stands, or on which B has come to lead. Or no process has ever written.
	{name: "foreseen, freed", remembers: true, foresees: true, settings: tight, times: equal, limits: upTo(1, promised...), total: 1, from: aFreed + " A.boot.1"},
	{name: "foreseen, taken", remembers: true, foresees: true, settings: tight, times: equal, limits: upTo(1, promised...), total: 1, from: aFreed + " B.hear B.arrive B.deliver A.boot.1"},
	{name: "foreseen, new", remembers: true, foresees: true, settings: tight, times: equal, limits: upTo(1, promised...), total: 1, from: "A.crash A.boot.1"},
	{name: "foreseen, tries", remembers: true, foresees: true, settings: tight, times: equal, limits: upTo(3, stop, restart, freeze, cutOff, readPast), total: 5, from: aFreed},
	{name: "foreseen, crashes", remembers: true, foresees: true, settings: tight, times: equal, limits: upTo(3, crash, stop, restart, applyLate, loseReply), total: 5, from: aFreed},
	{name: "foreseen, tokens", remembers: true, foresees: true, settings: tight, minToken: above, times: equal, limits: upTo(2, restart, stop, crash, resign, late), total: 4, from: aFreed},
	{name: "foreseen, roomy", remembers: true, foresees: true, settings: roomy, times: unequal, limits: upTo(2, restart, stop, crash, freeze, remove, overwrite), total: 4, from: aFreed},
	{name: "forgetful", settings: tight, void: true, times: equal, limits: upTo(1, rollBack, resign, stop, cutOff, freeze, late), total: 3, from: aLeads + " tick A.wake A.arrive A.deliver"},
	{name: "made anew", settings: tight, void: true, times: equal, limits: upTo(1, remake, crash, restart, loseReply, cutOff, freeze, late), total: 3, from: aLeads + " tick A.wake A.arrive A.deliver"},
	{name: "tokens", settings: tight, minToken: above, times: equal, limits: upTo(2, late, loseReply, crash, restart, resign), total: 2},
	{name: "three", settings: tight, times: append(equal, equal[0]), limits: upTo(1, promised...), total: 1},
	// B waits for one tick when the key is free again.
	{name: "raced", spreads: true, settings: tight, times: append(equal, equal[0]), limits: upTo(2, append(promised, double)...), total: 2, from: bLost},
	{name: "raced, tidy", spreads: true, tidy: true, settings: tight, times: append(equal, equal[0]), limits: upTo(3, resign, stop, late, loseReply, loseRequest), total: 4, from: bLost},
	{name: "gated", gated: true, settings: tight, times: equal, limits: upTo(1, promised...), total: 1},
	{name: "gated, ordinary", gated: true, settings: expiring, times: equal, limits: upTo(1, append(promised, purge)...), total: 1},
	{name: "gated, late", gated: true, settings: expiring, times: []Durations{ticks(3, 2, 2, 0), ticks(3, 2, 0, 0)}, limits: upTo(2, loseReply, applyLate, purge, resign), total: 2},
	{name: "guarded core", guarded: true, settings: tight, times: equal, limits: upTo(1, crash), total: 1, whole: true},
	{name: "guarded", guarded: true, settings: tight, times: equal, limits: upTo(1, troubled...), total: 1},
	{name: "guarded, ordinary", guarded: true, settings: expiring, times: equal, limits: upTo(1, append(troubled, purge)...), total: 1},
	{name: "guard junk", guarded: true, settings: tight, times: equal, limits: upTo(1, guardJunk, guardRemove, freeze, late), total: 2, from: aRaised},
	{name: "guard unfit", guarded: true, settings: tight, times: equal, limits: upTo(1, guardUnfit, guardRemove, cutOff, freeze, loseReply), total: 2, from: aRaised},
	{name: "guard ahead", guarded: true, raised: above, settings: tight, times: equal, limits: upTo(1, guardRemove), total: 1},
	// A raises its guard while B comes to lead, or almost.
	{
		name: "guard overtaken", guarded: true, settings: tight, times: equal, limits: upTo(1, remove), total: 1,
		from: "tick.1 A.arrive A.deliver A.guard-arrive A.guard-deliver A.arrive A.deliver B.arrive B.deliver A.freeze",
	},
	// A raises its guard again that was deleted.
	{
		name: "guard deleted", guarded: true, settings: tight, times: equal, limits: upTo(1, guardRemove, cutOff, freeze, loseReply), total: 2,
		from: aRaised + " guard-remove A.guard-write A.guard-arrive A.guard-deliver",
	},
	{
		name: "guarded, forgetful", guarded: true, void: true, settings: tight, times: equal, limits: upTo(1, rollBack, freeze, late), total: 2,
		from: aRaised + " tick A.wake A.arrive A.deliver",
	},
}, loopScenarios, goScenarios, windowScenarios, kvElectScenarios)

// endless has worlds in which everything is promised, and in which faults never end. They
// are for random walks and the fuzzer.
var endless = slices.Concat([]*scenario{
	{name: "sealed", settings: tight, times: equal, limits: upTo(unlimited, promised...)},
	{name: "leases", settings: roomy, times: unequal, limits: upTo(unlimited, promised...)},
	{name: "ordinary", settings: expiring, times: equal, limits: upTo(unlimited, append(promised, purge)...)},
	{name: "pending and drain", settings: tight, times: []Durations{ticks(3, 2, 2, 4), ticks(3, 2, 0, 2)}, limits: upTo(unlimited, promised...)},
	{name: "tokens", settings: tight, minToken: above, times: equal, limits: upTo(unlimited, late, freeze, cutOff, loseReply, crash, resign, stop, release)},
	{name: "three", settings: tight, times: append(equal, equal[0]), limits: upTo(unlimited, promised...)},
	{
		name: "observed", observes: true, settings: expiring, times: append(equal, equal[0]),
		limits: upTo(unlimited, append(promised, purge)...),
	},
	{name: "queue", listed: true, orders: lined, settings: tight, times: inTurn(1, short, short, short), limits: upTo(unlimited, append(promised, transfer)...)},
	{name: "preempt", listed: true, preempt: true, priorities: [maxParties]int{1, 0, 2}, orders: lined, settings: expiring, times: inTurn(1, short, ticks(3, 2, 0, 2)), limits: upTo(unlimited, append(promised, purge, transfer)...)},
	{name: "forged", settings: tight, times: equal, limits: upTo(unlimited, append(promised, forgeAny, force)...)},
	{name: "forged, ordinary", settings: expiring, times: unequal, limits: upTo(unlimited, append(promised, forgeAny, force, purge)...)},
	{name: "junk", void: true, settings: roomy, times: unequal, limits: upTo(unlimited, append(stored, junkRecord, force)...)},
	{name: "guard junk", guarded: true, settings: tight, times: equal, limits: upTo(unlimited, append(keyKept, guardJunk)...)},
	{name: "gated", gated: true, settings: tight, times: equal, limits: upTo(unlimited, promised...)},
	{name: "gated, ordinary", gated: true, settings: expiring, times: []Durations{ticks(3, 2, 2, 4), ticks(3, 2, 0, 2)}, limits: upTo(unlimited, append(promised, purge)...)},
	{name: "guarded", guarded: true, settings: tight, times: equal, limits: upTo(unlimited, troubled...)},
	{name: "guarded, ordinary", guarded: true, settings: expiring, times: unequal, limits: upTo(unlimited, append(troubled, purge)...)},
}, loopEndless, windowEndless, kvElectEndless)
