package leader

import (
	"time"

	"github.com/natsleader/natsleader/internal/record"
)

// status is what a machine shows of itself after a step. It is all that the actor knows of
// its machine, but for the effects. What it points to is the machine's, and changes with the
// next step.
type status struct {
	state State
	done  bool
	err   error  // why the machine ended by itself
	value string // published with the lease

	// The key.
	holds   bool                // the newest revision known is a record of its own that is not released
	mayHold bool                // it holds the key, or may turn out to hold it by a write that it has sent
	seen    *record.Observation // the newest revision known
	seenAt  time.Time           // when it was first received in this process; zero: not to be remembered
	shown   *shown              // the holder to report

	// The term, and how it ends.
	term          uint64 // number of the term, or of the last one
	leaseUntil    time.Time
	draining      bool // it keeps the key, for work that goes on, until it gives the key up
	leaving       leaving
	to            string    // the intended successor
	abandoned     bool      // it resigns, and its last write no longer keeps others out
	cooldownUntil time.Time // it takes no lease before then
	working       bool      // the work of the last term goes on
	offers        bool      // the application takes its terms in a loop
	idle          bool      // the application has left its loop, so the candidate takes no lease

	// Standing for election.
	suspended   bool
	taking      bool        // it waits for a slot to write to take its key now
	wantsKey    bool        // being suspended is all that keeps it from writing to take its key now
	eligible    bool        // it waits for the key, and could take it from cooldownUntil on
	deniedUntil time.Time   // a write was denied: it follows after all others until then
	line        record.Line // the order in which others follow
	ranked      bool        // its own view of the roster has reported since the last try for the key
	vain        uint32      // handovers in vain, in a row

	// Requests.
	dated   bool         // it leads, knows when its term began, and trusts its feed: an own record heard changes nothing
	queued  bool         // it waits for a slot
	settled bool         // the settings of the bucket are known since the connection was last made
	times   *durations   // zero before the settings are known
	written uint64       // counter of the last write sent
	stored  uint64       // counter of the newest write known to be stored
	writing record.Phase // of the write in flight
	guards  guardsReport
	wish    guardsWish
}

// status returns the status at an instant, which is that of the last step.
func (m *machine) status(now time.Time) status {
	return status{
		state: m.state, done: m.done, err: m.err, value: m.value,
		holds: m.holds(), mayHold: m.mayHoldKey(), seen: m.key.newest(), seenAt: m.sightedAt(), shown: &m.shown,
		term: m.term.number, leaseUntil: m.term.leaseUntil, draining: m.term.draining && m.leave.mode != staying,
		leaving: m.leave.mode, to: m.leave.to, abandoned: m.abandoned(now), cooldownUntil: m.leave.cooldownUntil,
		working: m.work.going, offers: m.work.loops && !m.work.idle, idle: m.work.idle,
		suspended: m.suspended, taking: m.isTaking(now), wantsKey: m.wantsKey(now), eligible: m.eligible(), deniedUntil: m.queue.deniedUntil,
		line: m.queue.line, ranked: m.queue.reported, vain: m.queue.vain,
		dated:   m.state == StateLeader && m.term.since != 0 && m.feed.deaf == 0,
		queued:  m.flight.slot == slotWaits,
		settled: m.bucket.known, times: m.bucket.resolved(), written: m.writes.counter, stored: m.writes.acked,
		writing: m.flight.req.rec.Phase, guards: m.guards, wish: m.wish(),
	}
}

// holder returns the holder of the key, as far as it is to be reported, on a seat.
func (s *status) holder(seat int) Holder {
	if s.shown.kind == record.EntryNothing || s.shown.kind == record.EntryUnseen {
		return Holder{Seat: seat}
	}
	return holderOf(*s.seen, seat)
}
