package leader

import (
	"time"

	"github.com/natsleader/natsleader/internal/wire"
)

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
	revision uint64 // the newest revision known when it was sent; the condition of a write
	rec      record // reqWrite
	write    write
	marker   bool // reqWrite: as a delete marker, so that every KV client takes the key for deleted
}

const (
	// longWait is the least time that a candidate waits for a reply. It has more time than
	// a holder: see wire.RenewWait.
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
	soonest := later(now, m.retryAt)
	switch {
	case m.op.kind != reqNone || m.done:
	case m.leaving != staying && !m.draining:
		if m.needRead {
			a.add(reqRead, now, soonest)
		} else if m.holds() {
			a.add(reqWrite, later(m.releaseDue(), m.ready), soonest)
		}
	case m.holds():
		if m.needRead {
			a.add(reqRead, now, soonest)
			return a
		}
		a.add(reqWrite, m.renewalDue(now), soonest)
		m.upkeep(&a, soonest)
	default:
		if !m.settled {
			a.add(reqSettings, now, soonest)
			return a
		}
		m.upkeep(&a, soonest)
		if m.needRead {
			a.add(reqRead, now, soonest)
			return a
		}
		if m.deferred {
			a.add(reqRead, m.wary, soonest)
		}
		switch try := m.mayTry(); {
		case try && !m.confirmed() && m.absent.IsZero():
			a.add(reqRead, m.tryAt(), soonest)
		case try && !m.suspended:
			a.add(reqWrite, m.tryAt(), soonest)
		}
		a.add(reqRead, later(m.seenAt, m.lookedAt).Add(m.silenceTimeout()), soonest)
	}
	return a
}

// upkeep adds the requests that the candidate needs beside those for the key.
func (m *machine) upkeep(a *agenda, soonest time.Time) {
	if !m.settled {
		a.add(reqSettings, soonest, soonest)
	}
	if !m.feedUp {
		a.add(reqFeed, m.feedAt, soonest)
	}
}

// renewalDue returns when a holder writes the key again.
func (m *machine) renewalDue(now time.Time) time.Time {
	switch {
	case m.renewNow:
		return now
	case m.state == StatePending && !m.raising() && m.ready.Before(m.renewAt):
		return m.ready
	default:
		return m.renewAt
	}
}

// tryAt returns when a candidate may try to take the key as it is seen.
func (m *machine) tryAt() time.Time {
	at := m.seenAt
	if m.keepsOut() {
		at = m.lapse()
		if !m.absent.IsZero() { // the record may be gone: a write finds out
			at = earlier(at, m.absent.Add(m.unknownLease()))
		}
	}
	if m.named() {
		return at // also where it has just resigned itself
	}
	return later(at.Add(m.turn()), m.cooldownUntil)
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
	return m.seen.kind == entryRecord && m.seen.rec.phase == phaseReleased || m.told == m.seen.revision && m.absent.IsZero()
}

// silenceTimeout returns how long a candidate hears nothing before it reads the key itself. It
// is half of the lease seen, which is three times the default renew interval. A lease
// that is longer than any known to be possible, or next to nothing, does not change how
// soon a record that is not renewed is read again.
func (m *machine) silenceTimeout() time.Duration {
	if !m.feedUp || m.deaf >= mute {
		return m.timing().renewInterval
	}
	half := m.unknownLease() / 2
	if m.seen.held() {
		half = min(half, m.seen.rec.lease/2)
	}
	return max(half, m.timing().renewInterval/4)
}

// plan ends a resignation or stop that is finished, and sends the next request if it is
// due.
func (m *machine) plan(now time.Time, fx *effects) {
	if m.leaving != staying && !m.draining && !m.done {
		m.leave(now, fx)
	}
	if a := m.next(now); a.kind != reqNone && !a.at.After(now) {
		m.send(now, a.kind, fx)
	}
}

// leave checks whether the key is given up, or was never held.
func (m *machine) leave(now time.Time, fx *effects) {
	// A pending candidate releases nothing, so it need not find out whether its
	// last write has arrived.
	silent := (m.holds() || m.sent[0].phase == phasePending) && now.Before(later(m.ready, m.sent[0].ready))
	over := !now.Before(m.releaseDeadline())
	given := !m.holds() && (over || m.op.kind == reqNone && !m.needRead)
	switch {
	case m.leaving == resigning && given:
		m.leaving = staying
		m.cooldownUntil = now.Add(m.sitsOut())
		m.to = ""
	case m.leaving == stopping && (given || silent || m.counter == 0 || over):
		m.quit(now, fx)
	}
}

// abandoned reports whether the last write of a candidate that resigns no longer keeps
// others out, although the candidate may not know the outcome of that write. For example,
// it may be cut off.
func (m *machine) abandoned(now time.Time) bool {
	return m.leaving == resigning && !m.draining && !now.Before(m.releaseDeadline())
}

// releaseDeadline returns when a candidate that leaves gains nothing any more by looking for its
// writes. From then on, its last write no longer keeps others out.
func (m *machine) releaseDeadline() time.Time { return m.lastAt.Add(m.lastFor) }

// send sends a request.
func (m *machine) send(now time.Time, kind requestKind, fx *effects) {
	req := request{kind: kind, revision: m.seen.revision}
	switch kind {
	case reqRead:
		if m.deferred && !m.needRead {
			m.needRead, m.strange = true, true
		}
		m.deferred = false
		m.feedSilent = m.feedSilent || !m.needRead
		m.again = 0
	case reqWrite:
		req.rec, req.write = m.compose(now)
		req.marker = m.kvElect && req.rec.phase == phaseReleased // they wait until the key is absent
		m.counter++
		m.remember(now, req.write)
		if req.write.win {
			m.ranks = false
		}
		m.renewNow = false
		m.lastAt, m.lastFor = now, req.rec.lease
	case reqNone, reqSettings, reqFeed:
	}
	m.op, m.opAt, m.opBy = req, now, now.Add(m.wait())
	fx.request = req
}

// wait returns how long a request may take before it is given up.
func (m *machine) wait() time.Duration {
	t := m.timing()
	if m.holds() {
		return wire.RenewWait(t.renewInterval) << min(m.fails, 1)
	}
	return min(t.renewInterval<<min(m.fails, 8), max(t.lease, longWait))
}

// pace counts a failure and delays the next request. The pause counts from when the
// failed request was sent, so time spent waiting for its reply counts.
func (m *machine) pace(now time.Time, dice uint32) {
	m.fails++
	m.retryAt = later(now, m.opAt.Add(m.pause(m.fails, dice)))
}

// pause returns how long to wait after so many failures in a row. It grows, and the dice
// spread it over a quarter to either side.
func (m *machine) pause(fails int, dice uint32) time.Duration {
	t := m.timing()
	base, most := t.renewInterval/4, min(t.lease, longPause)
	if m.holds() {
		base, most = t.renewInterval/16, t.renewInterval/4
	}
	d := min(base<<min(fails-1, 8), most)
	return d - d/4 + time.Duration(uint64(d/2)*uint64(dice>>16)>>16)
}

// timing returns the durations of the candidate, also before it knows the bucket.
func (m *machine) timing() durations {
	if m.times.lease == 0 {
		return durations{lease: wire.DefaultLease, renewInterval: wire.RenewInterval(wire.DefaultLease), turn: wire.DefaultTurnTimeout}
	}
	return m.times
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
	at(m.leaseUntil, m.state == StateLeader)
	at(m.drainBy, m.draining)
	at(m.guardDeadline, m.raising())
	at(m.opBy, m.op.kind != reqNone && !m.opLate)
	at(m.lapse(), m.shown.kind != entryNothing && !m.holds() && m.seen.kind != entryUnseen)
	at(m.releaseDeadline(), m.leaving != staying && !m.draining)
	return wake
}
