package leader

import (
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/wire"

	"github.com/natsleader/natsleader/internal/record"
)

// inflight is the one request in flight, and the failures of those before it.
//
// late is set only while there is a request, and so is slot, slotHas. retryAt holds back
// requests of every kind. rank, slotSince and slow say how a candidate waits for a slot, and
// are zero in any other.
type inflight struct {
	slot      slot
	rank      backend.Rank // with which it waits
	slotSince time.Time    // when it began to wait
	slow      bool         // it was reported that a leader waits for too long

	req      request
	sentAt   time.Time
	deadline time.Time // when it is given up
	late     bool      // it was given up; its reply is still to come

	fails        int       // in a row
	writeFailing bool      // the last write failed; reads that succeed do not end the row
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

// slotWish is the effect of asking for a slot.
type slotWish struct {
	wanted bool
	rank   backend.Rank
}

// want asks for a slot, or for another rank than that with which the candidate waits.
func (f *inflight) want(now time.Time, r backend.Rank) slotWish {
	if f.slot == slotWaits && r == f.rank {
		return slotWish{}
	}
	if f.slot == slotNone {
		f.slotSince = now
	}
	f.slot, f.rank = slotWaits, r
	return slotWish{wanted: true, rank: r}
}

// granted records that the candidate has a slot.
func (f *inflight) granted() {
	f.slot, f.rank, f.slotSince, f.slow = slotHas, 0, time.Time{}, false
}

// unused gives a slot back for which there is no request any more.
func (f *inflight) unused() { f.slot = slotNone }

// tooSlow records that it was reported that a leader waits for too long.
func (f *inflight) tooSlow() { f.slow = true }

// send records a request.
func (f *inflight) send(req request, now, deadline time.Time) {
	f.req, f.sentAt, f.deadline = req, now, deadline
}

// waits reports whether the candidate waits for a reply that it has not given up.
func (f *inflight) waits() bool { return f.req.kind != reqNone && !f.late }

// giveUp stops waiting for the reply, and reports whether the candidate was waiting.
func (f *inflight) giveUp() bool {
	waited := f.waits()
	f.late = f.late || waited
	return waited
}

// land ends the request, whose reply has arrived, and returns it.
func (f *inflight) land() request {
	req := f.req
	f.req, f.late, f.slot = request{}, false, slotNone
	return req
}

// failed counts a failure, and returns the number in a row.
func (f *inflight) failed() int {
	f.fails++
	return f.fails
}

// writeFailed records that the last write failed.
func (f *inflight) writeFailed() { f.writeFailing = true }

// succeeded ends the row of failures.
func (f *inflight) succeeded() { f.fails = 0 }

// recovered ends the row of failures, also that of writes.
func (f *inflight) recovered() { f.fails, f.writeFailing = 0, false }

// retryFrom sets when the next request may be sent.
func (f *inflight) retryFrom(at time.Time) { f.retryAt = at }

// startAnew ends the row of failures on a new connection.
func (f *inflight) startAnew(now time.Time) { f.fails, f.retryAt = 0, now }

// requestKind is the kind of a request to the store.
type requestKind uint8

const (
	reqNone     requestKind = iota
	reqSettings             // ask for the settings of the bucket
	reqFeed                 // open a feed, in place of one that may be there
	reqRead                 // read the key
	reqWrite                // write the key
)

// request is the one request to the store at a time.
type request struct {
	kind     requestKind
	revision uint64        // the newest revision known when it was sent; the condition of a write
	rec      record.Record // reqWrite
	write    write
	marker   bool // reqWrite: as a delete marker, so that every KV client takes the key for deleted
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
	kind requestKind
	at   time.Time
}

func (a *agenda) add(kind requestKind, at, notBefore time.Time) {
	if at = later(at, notBefore); a.kind == reqNone || at.Before(a.at) {
		a.kind, a.at = kind, at
	}
}

// next returns the request that is due next, and when.
func (m *machine) next(now time.Time) agenda {
	var a agenda
	soonest := later(now, m.flight.retryAt)
	switch {
	case m.flight.req.kind != reqNone || m.done:
	case m.leave.mode != staying && !m.term.draining:
		if m.reads.needed {
			a.add(reqRead, now, soonest)
		} else if m.holds() {
			a.add(reqWrite, later(m.releaseDue(), m.renew.electFrom), soonest)
		}
	case m.holds():
		if m.reads.needed {
			a.add(reqRead, now, soonest)
			return a
		}
		a.add(reqWrite, m.renewalDue(now), soonest)
		m.upkeep(&a, soonest)
	default:
		if !m.bucket.known {
			a.add(reqSettings, now, soonest)
			return a
		}
		m.upkeep(&a, soonest)
		if m.reads.needed {
			a.add(reqRead, now, soonest)
			return a
		}
		if m.reads.deferred {
			a.add(reqRead, m.reads.calmUntil, soonest)
		}
		switch try := m.mayTry(); {
		case try && !m.confirmed() && m.key.absentSince.IsZero():
			a.add(reqRead, m.tryAt(), soonest)
		case try && !m.shut():
			a.add(reqWrite, m.tryAt(), soonest)
		}
		a.add(reqRead, later(m.key.seenAt, m.key.readAt).Add(m.silenceTimeout()), soonest)
	}
	return a
}

// upkeep adds the requests that the candidate needs beside those for the key.
func (m *machine) upkeep(a *agenda, soonest time.Time) {
	if !m.bucket.known {
		a.add(reqSettings, soonest, soonest)
	}
	if !m.feed.up {
		a.add(reqFeed, m.feed.retryAt, soonest)
	}
}

// renewalDue returns when a holder writes the key again.
func (m *machine) renewalDue(now time.Time) time.Time {
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
func (m *machine) tryAt() time.Time {
	at := m.key.seenAt
	if m.key.keepsOut() {
		at = m.lapse()
		if !m.key.absentSince.IsZero() { // the record may be gone: a write finds out
			at = earlier(at, m.key.absentSince.Add(m.unknownLease()))
		}
	}
	if m.named() {
		return at // also where it has just resigned itself
	}
	return later(at.Add(m.turn()), m.leave.cooldownUntil)
}

// mayTry reports whether the candidate may try for its key when its time has come.
func (m *machine) mayTry() bool {
	return !m.observe && (!m.guarded || m.guards.fit) && !m.exhausted()
}

// confirmed reports whether the candidate may write on its knowledge of the key. A
// release that the feed delivered is enough, so that one write takes a free key. Any
// other entry must have been read at that revision. A lease that runs out has been read,
// because the candidate reads when it has heard nothing for half of it. In a bucket where
// keys are emptied without a trace, only a rejected write proves that this key was
// emptied. See earliestLead for a write that is not rejected.
func (m *machine) confirmed() bool {
	return m.key.seen.Kind == record.EntryRecord && m.key.seen.Rec.Phase == record.PhaseReleased || m.key.readRevision == m.key.seen.Revision && m.key.absentSince.IsZero()
}

// silenceTimeout returns how long a candidate hears nothing before it reads the key itself. It
// is half of the lease seen, which is three times the default renew interval. A lease
// that is longer than any known to be possible, or next to nothing, does not change how
// soon a record that is not renewed is read again.
func (m *machine) silenceTimeout() time.Duration {
	if !m.feed.trusted() {
		return m.bucket.timing().renewInterval
	}
	half := m.unknownLease() / 2
	if m.key.seen.Held() {
		half = min(half, m.key.seen.Rec.Lease/2)
	}
	return max(half, m.bucket.timing().renewInterval/4)
}

// plan ends a resignation or stop that is finished. If a request is due, plan sends it, or asks
// for a slot.
func (m *machine) plan(now time.Time, fx *effects) {
	if m.leave.mode != staying && !m.term.draining && !m.done {
		m.finishLeaving(now, fx)
	}
	switch a := m.next(now); {
	case a.kind == reqNone || a.at.After(now):
		if m.flight.req.kind == reqNone && m.flight.slot == slotHas {
			m.flight.unused()
		}
	case m.flight.slot == slotHas:
		m.send(now, a.kind, fx)
	default:
		fx.slot = m.flight.want(now, m.rank(now, a.kind))
	}
}

// rank returns the importance of a request. A leader that has missed a renewal has the highest
// while there is time to renew its lease: after a request that was not answered, it would
// else wait in line once more for each of the two that must follow. A leader that waits in line
// rises to that rank with its next step: to wake it for that would cost more than it gains. If
// there are not slots enough for all leaders, those that are too late do not make others late.
func (m *machine) rank(now time.Time, kind requestKind) backend.Rank {
	switch {
	case kind == reqSettings:
		return backend.RankShared
	case m.state == StateLeader && !now.Before(m.overdueAt()) && now.Before(m.tooLateAt()):
		return backend.RankOverdue
	case m.state == StateLeader && now.Before(m.tooLateAt()), m.term.draining:
		return backend.RankHolder
	case m.holds() && (m.leave.mode != staying || m.raising()): // a release, or the renewal of a claim
		return backend.RankHolder
	case kind == reqWrite || m.holds():
		return backend.RankTake
	default:
		return backend.RankRead
	}
}

// overdueAt returns when the leader has missed a renewal.
func (m *machine) overdueAt() time.Time {
	t := m.bucket.times
	return m.term.leaseUntil.Add(2*t.renewInterval - t.renewDeadline)
}

// tooLateAt returns when a renewal that is sent then may not be answered before the end of the
// lease.
func (m *machine) tooLateAt() time.Time {
	return m.term.leaseUntil.Add(-wire.RenewWait(m.bucket.times.renewInterval))
}

// congestedAt returns from when on a leader reports that it waits for a slot for too long. It does
// so in its next step, at the latest when it is too late to renew the lease: to wake thousands
// of leaders for it would take what the connection is short of.
func (m *machine) congestedAt() time.Time {
	return m.flight.slotSince.Add(m.bucket.times.renewDeadline / 2)
}

// isCongested reports whether a leader waits for a slot and has not reported it.
func (m *machine) isCongested() bool {
	return m.state == StateLeader && m.flight.slot == slotWaits && !m.flight.slow
}

// finishLeaving checks whether the key is given up, or was never held.
func (m *machine) finishLeaving(now time.Time, fx *effects) {
	// A pending candidate releases nothing, so it need not find out whether its
	// last write has arrived.
	silent := (m.holds() || m.writes.sent[0].phase == record.PhasePending) && now.Before(later(m.renew.electFrom, m.writes.sent[0].ready))
	over := !now.Before(m.writes.releaseDeadline())
	given := !m.holds() && (over || m.flight.req.kind == reqNone && !m.reads.needed)
	switch {
	case m.leave.mode == resigning && given:
		m.leave.coolDown(now.Add(m.sitsOut()))
		m.leave.stay()
	case m.leave.mode == stopping && (given || silent || m.writes.counter == 0 || over):
		m.quit(now, fx)
	}
}

// abandoned reports whether the last write of a candidate that resigns no longer keeps
// others out, although the candidate may not know the outcome of that write. For example,
// it may be cut off.
func (m *machine) abandoned(now time.Time) bool {
	return m.leave.mode == resigning && !m.term.draining && !now.Before(m.writes.releaseDeadline())
}

// send sends a request.
func (m *machine) send(now time.Time, kind requestKind, fx *effects) {
	req := request{kind: kind, revision: m.key.seen.Revision}
	switch kind {
	case reqRead:
		m.reads.sent()
	case reqWrite:
		req.rec, req.write = m.compose(now)
		req.marker = m.kvElect && req.rec.Phase == record.PhaseReleased // they wait until the key is absent
		m.writes.add(now, req, m.bucket.times)
		if req.write.win {
			m.queue.stale()
		}
		m.renew.served()
	case reqNone, reqSettings, reqFeed:
	}
	m.flight.send(req, now, now.Add(m.wait(now)))
	fx.request = req
}

// wait returns how long a request may take before it is given up. A candidate waits longer after each
// failure. A fenced candidate waits for as long as it has been fenced after a failure. On a slow link
// they would otherwise give up each reply before it can arrive, and never learn which candidate leads. A leader
// has a lease to save, and a fenced candidate that drains has a key to keep: they try again soon.
func (m *machine) wait(now time.Time) time.Duration {
	t := m.bucket.timing()
	if !m.holds() {
		return min(t.renewInterval<<min(m.flight.fails, 8), max(t.lease, longWait))
	}
	wait := wire.RenewWait(t.renewInterval) << min(m.flight.fails, 1)
	if m.state == StateFenced && !m.term.draining && m.flight.fails > 0 {
		wait = max(wait, min(now.Sub(m.term.leaseUntil), longWait))
	}
	return wait
}

// pace counts a failure and delays the next request. The pause counts from when the
// failed request was sent, so time spent waiting for its reply counts.
func (m *machine) pace(now time.Time, dice uint32) {
	m.flight.retryFrom(later(now, m.flight.sentAt.Add(m.pause(m.flight.failed(), dice))))
}

// pause returns how long to wait after so many failures in a row, see [backOff]. A holder
// waits less.
func (m *machine) pause(fails int, dice uint32) time.Duration {
	t := m.bucket.timing()
	base, most := t.renewInterval/4, min(t.lease, longPause)
	if m.holds() {
		base, most = t.renewInterval/16, t.renewInterval/4
	}
	return backOff(base, most, fails, dice)
}

// wakeAt returns the first deadline after now, or zero.
func (m *machine) wakeAt(now time.Time) time.Time {
	var wake time.Time
	at := func(t time.Time, relevant bool) {
		if relevant && t.After(now) && (wake.IsZero() || t.Before(wake)) {
			wake = t
		}
	}
	a := m.next(now)
	at(a.at, a.kind != reqNone)
	if m.suspended {
		try := m.ifResumed(now)
		at(try.at, try.kind == reqWrite)
	}
	at(m.term.leaseUntil, m.state == StateLeader)
	at(m.term.drainBy, m.term.draining)
	at(m.term.guardDeadline, m.raising())
	at(m.flight.deadline, m.flight.waits())
	at(m.tooLateAt(), m.state == StateLeader && m.flight.slot == slotWaits)
	at(m.lapse(), m.shown.kind != record.EntryNothing && !m.holds() && m.key.seen.Kind != record.EntryUnseen)
	at(m.writes.releaseDeadline(), m.leave.mode != staying && !m.term.draining)
	return wake
}

// backOff returns how long to wait after so many failures in a row: base, doubled with each
// further failure, up to most. The dice spread it over a quarter to either side.
func backOff(base, most time.Duration, failures int, dice uint32) time.Duration {
	d := min(base<<min(failures-1, 8), most)
	return d - d/4 + time.Duration(uint64(d/2)*uint64(dice>>16)>>16)
}
