package machine

import (
	"time"

	"github.com/natsleader/natsleader/internal/record"
)

// Status is what a machine shows of itself after a step. It is all that the actor knows of
// its machine, but for the effects. What it points to is the machine's, and changes with the
// next step.
type Status struct {
	State     State
	Done      bool
	MayKeep   bool // it may keep others out of the key: Holds, or a write may have taken it
	Holds     bool // the newest revision known is a record of its own that is not released
	MayHold   bool // it holds the key, or may turn out to hold it by a write that it has sent
	Suspended bool
	Taking    bool   // it waits for a slot to write to take its key now
	WantsKey  bool   // being suspended is all that keeps it from writing to take its key now
	Eligible  bool   // it waits for the key, and could take it from cooldownUntil on
	Hears     bool   // it relies on its feed
	Reads     bool   // it is to read the key before it concludes anything
	Spent     bool   // no greater token is left
	Err       error  // why the machine ended by itself
	Value     string // published with the lease

	// The key.
	Seen     *record.Observation // the newest revision known
	SeenAt   time.Time           // when it was first received in this process; zero: not to be remembered
	Reported *holderReport       // the holder to report

	// The term, and how it ends.
	Term          uint64 // number of the term, or of the last one
	LeaseUntil    time.Time
	To            string    // the intended successor
	CooldownUntil time.Time // it takes no lease before then
	Draining      bool      // it keeps the key, for work that goes on, until it gives the key up
	Leaving       leaving
	Working       bool // the work of the last term goes on
	Offers        bool // the application takes its terms in a loop
	Idle          bool // the application has left its loop, so the candidate takes no lease

	// Standing for election.
	Ranked          bool        // its own view of the roster has reported since the last try for the key
	DeniedUntil     time.Time   // a write was denied: it follows after all others until then
	Line            record.Line // the order in which others follow
	FailedHandovers uint32      // in a row

	// Requests.
	Dated   bool         // it leads, knows when its term began, the time of the server and its pace, and trusts its feed: an own record heard changes nothing
	Queued  bool         // it waits for a slot
	Settled bool         // the settings of the bucket are known since the connection was last made
	Writing record.Phase // of the write in flight
	Times   *Durations   // zero before the settings are known
	Written uint64       // counter of the last write sent
	Stored  uint64       // counter of the newest write known to be stored
	Server  int64        // the server's time, in Unix nanoseconds; 0: not known
	Guards  GuardsReport
	Desired DesiredGuards
}

// Status returns the status at an instant, which is that of the last step.
func (m *Machine) Status(now time.Time) Status {
	return Status{
		State: m.state, Done: m.done, Err: m.err, Value: m.value,
		Holds: m.holds(), MayKeep: m.mayKeep(), MayHold: m.mayHoldKey(), Seen: &m.key.seen, SeenAt: m.sightedAt(), Reported: &m.reported,
		Term: m.term.number, LeaseUntil: m.term.leaseUntil, Draining: m.givesUp(),
		Leaving: m.leave.mode, To: m.leave.to, CooldownUntil: m.leave.cooldownUntil,
		Working: m.work.going, Offers: m.work.loops && !m.work.idle, Idle: m.work.idle,
		Suspended: m.suspended, Taking: m.isTaking(now), WantsKey: m.wantsKey(now), Eligible: m.eligible(), DeniedUntil: m.queue.deniedUntil,
		Line: m.queue.line, Ranked: m.queue.reported, FailedHandovers: m.queue.failedHandovers,
		Dated:  m.state == StateLeader && m.term.since != 0 && m.clock.fresh(now) && !m.compared.due(now, m.bucket.times.Lease) && m.feed.deaf == 0,
		Queued: m.flight.slot == slotWaits,
		Hears:  m.feed.trusted(), Reads: m.reads.needed, Spent: m.spent, Settled: m.bucket.known, Times: &m.bucket.times, Written: m.writes.counter, Stored: m.writes.acked,
		Server: m.clock.reckon(now), Writing: m.flight.req.Rec.Phase, Guards: m.guards, Desired: m.desiredGuards(),
	}
}
