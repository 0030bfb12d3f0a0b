package machine

import (
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

// inflight is the one request in flight, and the failures of those before it.
//
// late is set only while there is a request. slot is slotHas exactly while there is one. retryAt holds back
// requests of every kind. rank, slotSince and slow say how a candidate waits for a slot, and
// are zero in any other.
type inflight struct {
	slot      slot
	rank      backend.Rank // with which it waits
	slow      bool         // it was reported that a leader waits for too long
	slotSince time.Time    // when it began to wait

	req      Request
	sentAt   time.Time
	deadline time.Time // when it is given up
	late     bool      // it was given up; its reply is still to come

	writeFailing bool      // the last write failed; reads that succeed do not end the row
	fails        int32     // in a row
	retryAt      time.Time // no request before then
}

// slot is the right to have one request in flight. The connection has a number of slots. No
// request is composed before there is a slot for it, so neither its time nor the lease that it
// asks for begins while it waits.
type slot uint8

const (
	slotNone  slot = iota
	slotWaits      // it has asked for a slot
	slotHas        // and has it
)

// slotRequest is the effect of asking for a slot.
type slotRequest struct {
	Wanted bool
	Rank   backend.Rank
}

// want asks for a slot, or for another rank than that with which the candidate waits.
func (f *inflight) want(now time.Time, r backend.Rank) slotRequest {
	if f.slot == slotWaits && r == f.rank {
		return slotRequest{}
	}
	if f.slot == slotNone {
		f.slotSince = now
	}
	f.slot, f.rank = slotWaits, r
	return slotRequest{Wanted: true, Rank: r}
}

// granted records that the candidate has a slot.
func (f *inflight) granted() {
	f.slot, f.rank, f.slotSince, f.slow = slotHas, 0, time.Time{}, false
}

// send records a request.
func (f *inflight) send(req Request, now, deadline time.Time) {
	f.req, f.sentAt, f.deadline = req, now, deadline
}

// sentEarlier counts the request as sent so much earlier.
func (f *inflight) sentEarlier(by time.Duration) { f.sentAt = f.sentAt.Add(-by) }

// waits reports whether the candidate waits for a reply that it has not given up.
func (f *inflight) waits() bool { return f.req.Kind != ReqNone && !f.late }

// giveUp stops waiting for the reply, and reports whether the candidate was waiting.
func (f *inflight) giveUp() bool {
	waited := f.waits()
	f.late = f.late || waited
	return waited
}

// land ends the request, whose reply has arrived, and returns it.
func (f *inflight) land() Request {
	req := f.req
	f.req, f.late, f.slot = Request{}, false, slotNone
	return req
}

// failed counts a failure, and returns the number in a row.
func (f *inflight) failed() int {
	f.fails++
	return int(f.fails)
}

// writeFailed records that the last write failed.
func (f *inflight) writeFailed() { f.writeFailing = true }

// succeeded ends the row of failures.
func (f *inflight) succeeded() { f.fails = 0 }

// recovered ends the row of failures, also that of writes.
func (f *inflight) recovered() { f.fails, f.writeFailing = 0, false }

// retryFrom sets when the next request may be sent.
func (f *inflight) retryFrom(at time.Time) { f.retryAt = at }

// RequestKind is the kind of a request to the store.
type RequestKind uint8

// Kinds of requests.
const (
	ReqNone     RequestKind = iota
	ReqSettings             // ask for the settings of the bucket
	ReqFeed                 // open a feed, in place of one that may be there
	ReqRead                 // read the key
	ReqWrite                // write the key
)

// Request is the one request to the store at a time.
type Request struct {
	Kind     RequestKind
	Marker   bool          // ReqWrite: as a delete marker, so that every KV client takes the key for deleted
	Revision uint64        // the newest revision known when it was sent; the condition of a write
	Rec      record.Record // ReqWrite
	write    write
}

const (
	// longWait is how long a candidate waits for a reply after many failures, at least. A fenced
	// candidate waits no longer. A leader has less time: see wire.RenewWait.
	longWait = 5 * time.Second
	// A pause is no longer than this, give or take a quarter (see pause), so a candidate
	// that is not notified when the store is back is not late by much.
	longPause = 5 * time.Second
)

// agenda finds the first of the requests that are due some time. Of those due at the same
// time, the one added first counts.
type agenda struct {
	kind RequestKind
	at   time.Time
}

func (a *agenda) add(kind RequestKind, at, notBefore time.Time) {
	if at = Later(at, notBefore); a.kind == ReqNone || at.Before(a.at) {
		a.kind, a.at = kind, at
	}
}

// next returns the request that is due next, and when.
func (m *Machine) next(now time.Time) agenda {
	var a agenda
	soonest := Later(now, m.flight.retryAt)
	switch {
	case m.flight.req.Kind != ReqNone || m.done:
	case m.leave.mode != Staying && !m.term.draining:
		if m.reads.needed {
			a.add(ReqRead, now, soonest)
		} else if m.holds() {
			a.add(ReqWrite, Later(m.releaseDue(), m.renew.electFrom), soonest)
		}
	case m.holds():
		if m.reads.needed {
			a.add(ReqRead, now, soonest)
			return a
		}
		a.add(ReqWrite, m.renewalDue(now), soonest)
		m.upkeep(&a, soonest)
	default:
		if !m.bucket.known {
			a.add(ReqSettings, now, soonest)
			return a
		}
		m.upkeep(&a, soonest)
		if m.reads.needed {
			a.add(ReqRead, now, soonest)
			return a
		}
		if m.reads.deferred {
			a.add(ReqRead, m.reads.calmUntil, soonest)
		}
		switch try := m.mayTry(); {
		case try && !m.confirmed() && m.key.absentSince.IsZero():
			a.add(ReqRead, m.tryAt(), soonest)
		case try && !m.shut():
			a.add(ReqWrite, m.tryAt(), soonest)
		}
		a.add(ReqRead, Later(m.key.seenAt, m.key.readAt).Add(m.silenceTimeout()), soonest)
	}
	return a
}

// upkeep adds the requests that the candidate needs beside those for the key.
func (m *Machine) upkeep(a *agenda, soonest time.Time) {
	if !m.bucket.known {
		a.add(ReqSettings, soonest, soonest)
	}
	if !m.feed.up {
		a.add(ReqFeed, m.feed.retryAt, soonest)
	}
}

// renewalDue returns when a holder writes the key again.
func (m *Machine) renewalDue(now time.Time) time.Time {
	switch {
	case m.renew.soon:
		return now
	case m.state == StatePending && !m.raising() && m.renew.electFrom.Before(m.renew.at):
		return m.renew.electFrom
	default:
		return m.renew.at
	}
}

// tryAt returns when a candidate may try to take the key as it is seen.
func (m *Machine) tryAt() time.Time {
	at := m.key.seenAt
	if m.key.keepsOut() {
		at = m.lapse()
		if !m.key.absentSince.IsZero() { // the record may be gone: a write finds out
			at = Earlier(at, m.key.absentSince.Add(m.unknownLease()))
		}
	}
	switch {
	case m.named():
		return at // also where it has just resigned itself
	case !m.key.keepsOut() && !m.Orders:
		at = at.Add(m.race.wait())
	}
	return Later(at.Add(m.turn()), m.leave.cooldownUntil)
}

// mayTry reports whether the candidate may try for its key when its time has come.
func (m *Machine) mayTry() bool {
	return !m.Observe && (!m.Guarded || m.guards.Fit) && !m.exhausted()
}

// confirmed reports whether the candidate may write on its knowledge of the key. A
// release that the feed delivered is enough, so that one write takes a free key. Any
// other entry must have been read at that revision. A lease that runs out has been read,
// because the candidate reads when it has heard nothing for half of it. In a bucket where
// keys are emptied without a trace, only a rejected write proves that this key was
// emptied. See earliestLead for a write that is not rejected.
func (m *Machine) confirmed() bool {
	return m.key.seen.Kind == record.EntryRecord && m.key.seen.Rec.Phase == record.PhaseReleased || m.key.readRevision == m.key.seen.Revision && m.key.absentSince.IsZero()
}

// silenceTimeout returns how long a candidate hears nothing before it reads the key itself. It
// is half of the lease seen, which is three times the default renew interval. A lease
// that is longer than any known to be possible, or next to nothing, does not change how
// soon a record that is not renewed is read again.
func (m *Machine) silenceTimeout() time.Duration {
	if !m.feed.trusted() {
		return m.bucket.timing().RenewInterval
	}
	half := m.unknownLease() / 2
	if m.key.seen.Held() {
		half = min(half, m.key.seen.Rec.Lease/2)
	}
	return max(half, m.bucket.timing().RenewInterval/4)
}

// plan ends a resignation or stop that is finished. If a request is due, plan sends it, or asks
// for a slot.
func (m *Machine) plan(now time.Time, fx *Effects) {
	if m.leave.mode != Staying && !m.term.draining && !m.done {
		m.finishLeaving(now, fx)
	}
	switch a := m.next(now); {
	case a.kind == ReqNone || a.at.After(now):
		if m.flight.req.Kind == ReqNone && m.flight.slot == slotHas {
			m.flight.slot = slotNone
		}
	case m.flight.slot == slotHas:
		m.send(now, a.kind, fx)
	default:
		fx.Slot = m.flight.want(now, m.rank(now, a.kind))
	}
}

// rank returns the importance of a request. A leader that has missed a renewal has the highest
// while there is time to renew its lease: after a request that was not answered, it would
// else wait in line once more for each of the two that must follow. A leader that waits in line
// rises to that rank with its next step: to wake it for that would cost more than it gains. If
// there are not slots enough for all leaders, those that are too late do not make others late.
func (m *Machine) rank(now time.Time, kind RequestKind) backend.Rank {
	switch {
	case kind == ReqSettings:
		return backend.RankShared
	case m.state == StateLeader && !now.Before(m.overdueAt()) && now.Before(m.tooLateAt()):
		return backend.RankOverdue
	case m.state == StateLeader && now.Before(m.tooLateAt()), m.term.draining:
		return backend.RankHolder
	case m.holds() && (m.leave.mode != Staying || m.raising()): // a release, or a renewal while it raises its guards
		return backend.RankHolder
	case kind == ReqWrite || m.holds():
		return backend.RankTake
	default:
		return backend.RankRead
	}
}

// overdueAt returns when the leader has missed a renewal.
func (m *Machine) overdueAt() time.Time {
	t := m.bucket.times
	return m.term.leaseUntil.Add(2*t.RenewInterval - t.RenewDeadline)
}

// tooLateAt returns when a renewal that is sent then may not be answered before the end of the
// lease.
func (m *Machine) tooLateAt() time.Time {
	return m.term.leaseUntil.Add(-wire.RenewWait(m.bucket.times.RenewInterval))
}

// congestedAt returns from when on a leader reports that it waits for a slot for too long. It does
// so in its next step, at the latest when it is too late to renew the lease: to wake thousands
// of leaders for it would take what the connection is short of.
func (m *Machine) congestedAt() time.Time {
	return m.flight.slotSince.Add(m.bucket.times.RenewDeadline / 2)
}

// isCongested reports whether a leader waits for a slot and has not reported it.
func (m *Machine) isCongested() bool {
	return m.state == StateLeader && m.flight.slot == slotWaits && !m.flight.slow
}

// finishLeaving checks whether the key is given up, or was never held.
func (m *Machine) finishLeaving(now time.Time, fx *Effects) {
	// A pending candidate releases nothing, so it need not find out whether its
	// last write has arrived.
	silent := (m.holds() || m.writes.sent[0].phase == record.PhasePending) && now.Before(Later(m.renew.electFrom, m.writes.sent[0].ready))
	over := !now.Before(m.writes.releaseDeadline())
	given := !m.holds() && (over || m.flight.req.Kind == ReqNone && !m.reads.needed)
	switch {
	case m.leave.mode == resigning && given:
		m.leave.coolDown(now.Add(m.sitsOut()))
		m.leave.stay()
	case m.leave.mode == Stopping && (given || silent || m.writes.counter == 0 || over):
		m.quit(now, fx)
	}
}

// send sends a request.
func (m *Machine) send(now time.Time, kind RequestKind, fx *Effects) {
	req := Request{Kind: kind, Revision: m.key.seen.Revision}
	switch kind {
	case ReqRead:
		m.reads.sent(req.Revision)
	case ReqWrite:
		req.Rec, req.write = m.compose(now)
		req.Marker = m.KVElect && req.Rec.Phase == record.PhaseReleased // processes of nats-kv-leader-elect wait until the key is absent
		m.writes.add(now, req, m.bucket.times)
		if req.write.win {
			m.queue.stale()
		}
		m.renew.served()
	case ReqNone, ReqSettings, ReqFeed:
	}
	m.flight.send(req, now, now.Add(m.wait(now)))
	fx.Request = req
}

// wait returns how long a request may take before it is given up. A candidate waits longer after each
// failure. After a failure a fenced candidate waits as long as it has been fenced so far. On a slow link
// both would otherwise give up each reply before it can arrive, and never learn which candidate leads. A leader
// has a lease to save, and a fenced candidate that drains has a key to keep: they try again soon.
func (m *Machine) wait(now time.Time) time.Duration {
	t := m.bucket.timing()
	if !m.holds() {
		return min(t.RenewInterval<<min(m.flight.fails, 8), max(t.Lease, longWait))
	}
	wait := wire.RenewWait(t.RenewInterval) << min(m.flight.fails, 1)
	if m.state == StateFenced && !m.term.draining && m.flight.fails > 0 {
		wait = max(wait, min(now.Sub(m.term.leaseUntil), longWait))
	}
	return wait
}

// pace counts a failure and delays the next request. The pause counts from when the
// failed request was sent, so time spent waiting for its reply counts.
func (m *Machine) pace(now time.Time, jitter uint32) {
	m.flight.retryFrom(Later(now, m.flight.sentAt.Add(m.pause(m.flight.failed(), jitter))))
}

// pause returns how long to wait after so many failures in a row, see [backOff]. A holder
// waits less.
func (m *Machine) pause(fails int, jitter uint32) time.Duration {
	t := m.bucket.timing()
	base, most := t.RenewInterval/4, min(t.Lease, longPause)
	if m.holds() {
		base, most = t.RenewInterval/16, t.RenewInterval/4
	}
	return backOff(base, most, fails, jitter)
}

// wakeAt returns the first deadline after now, or zero.
func (m *Machine) wakeAt(now time.Time) time.Time {
	var wake time.Time
	at := func(t time.Time, relevant bool) {
		if relevant && t.After(now) && (wake.IsZero() || t.Before(wake)) {
			wake = t
		}
	}
	a := m.next(now)
	at(a.at, a.kind != ReqNone)
	if m.suspended {
		try := m.ifResumed(now)
		at(try.at, try.kind == ReqWrite)
	}
	at(m.term.leaseUntil, m.state == StateLeader)
	at(m.term.drainBy, m.term.draining)
	at(m.term.guardDeadline, m.raising())
	at(m.flight.deadline, m.flight.waits())
	at(m.tooLateAt(), m.state == StateLeader && m.flight.slot == slotWaits)
	at(m.lapse(), m.reported.Kind != record.EntryNothing && !m.holds() && m.key.seen.Kind != record.EntryUnseen)
	at(m.writes.releaseDeadline(), m.leave.mode != Staying && !m.term.draining)
	return wake
}

// backOff returns how long to wait after so many failures in a row: base, doubled with each
// further failure, up to most. The jitter spread it over a quarter to either side.
func backOff(base, most time.Duration, failures int, jitter uint32) time.Duration {
	d := min(base<<min(failures-1, 8), most)
	return d - d/4 + time.Duration(uint64(d/2)*uint64(jitter>>16)>>16)
}

// readNeed is whether the candidate must read its key, and why.
//
// lostRace and silence are reasons for one read, and the reply to a read clears them. While
// calmUntil is ahead, strange messages of the feed cause no read in a candidate that stays
// and does not hold the key, but they postpone one to then. So none of them goes unread
// there. A holder asks the store with its next renewal in any case.
type readNeed struct {
	needed    bool      // a read is needed before anything is concluded
	lostRace  bool      // that read is only to find the winner; the feed may be faster
	silence   bool      // the read that is due is made because the feed is silent
	strange   bool      // the read or renewal that is due, or in flight, follows a strange message of the feed
	behind    bool      // one came while a read was in flight, so the next read follows it
	deferred  bool      // there was one before calmUntil, so a read is due then
	atLeast   uint64    // another read is needed if the one in flight returns less than this
	from      uint64    // the revision that was known before the first of those messages
	calmUntil time.Time // before this, strange messages are no reason to read
}

// need asks for a read.
func (r *readNeed) need() { r.needed = true }

// needOnlyIf asks for a read, or withdraws that a read is needed.
func (r *readNeed) needOnlyIf(needed bool) { r.needed = needed }

// needInFull asks for a read that the feed cannot replace.
func (r *readNeed) needInFull() { r.needed, r.lostRace = true, false }

// needWinner asks for a read that the feed can replace by delivering the winner's record.
func (r *readNeed) needWinner() {
	r.lostRace = r.lostRace || !r.needed
	r.needed = true
}

// needToClear asks for a read because of a strange message, which came when a revision was known.
func (r *readNeed) needToClear(known uint64, inFlight bool) {
	r.needed = true
	r.puzzle(known, inFlight)
}

// puzzle records a strange message. A read in flight may have been answered before it came, so it is the next one that follows it.
func (r *readNeed) puzzle(known uint64, inFlight bool) {
	if !r.strange && !r.behind {
		r.from = known
	}
	r.strange, r.behind = r.strange || !inFlight, r.behind || inFlight
}

// postpone puts off the read because of a strange message until calmUntil.
func (r *readNeed) postpone() { r.deferred = true }

// cleared records that what was read at a revision, or written, follows the strange messages that were known then.
func (r *readNeed) cleared(revision uint64) {
	r.strange, r.from = false, 0
	if r.behind {
		r.from = revision
	}
}

// satisfied records that no read is needed any more.
func (r *readNeed) satisfied() { r.needed = false }

// sent records that a read is on its way. It may be one that was put off, or one that is
// due because the feed is silent.
func (r *readNeed) sent(known uint64) {
	if r.deferred && !r.needed {
		r.needToClear(known, false)
	}
	r.deferred = false
	r.strange, r.behind = r.strange || r.behind, false
	r.silence = r.silence || !r.needed
	r.atLeast = 0
}

// answered records the reply to a read, which returned the revision.
func (r *readNeed) answered(revision uint64) {
	r.needed, r.lostRace, r.silence = r.atLeast > revision, false, false
	r.behind = r.behind && r.needed
	r.atLeast = 0
}

// calm makes strange messages no reason to read until an instant.
func (r *readNeed) calm(until time.Time) { r.calmUntil = until }
