package leader

import "time"

// batch remembers own writes that differ only in when they were sent, so that one of them
// can be recognised when it turns up. All of them count as sent when the first was sent.
// That can only make a lease shorter.
type batch struct {
	first, last uint64 // counters
	write
	at    time.Time
	times durations // the durations promised to others
}

// write is the part of a write that matters when its outcome becomes known. It is fixed
// when the write is sent.
type write struct {
	phase phase
	cond  uint64    // the revision that it replaces, 0 for nothing
	win   bool      // it replaces something that is not a record of its own
	blind bool      // of a win: the entry that it replaces was not read, see confirmed
	ready time.Time // of a win: when the winner may be elected at the earliest; zero: at once
}

// writeLog is the candidate's own writes.
//
// counter numbers them without a gap, and no number is used twice. The batches are in the
// order of sending, newest first, and the newest batch ends with counter. acked is not
// greater than counter.
type writeLog struct {
	counter uint64        // of the last write sent
	acked   uint64        // of the newest write known to be stored
	sent    [4]batch      // the last few, newest first
	lastAt  time.Time     // of the last write sent
	lastFor time.Duration // how long others wait after the last write
}

// add keeps a write that is being sent.
func (l *writeLog) add(now time.Time, req request, times durations) {
	l.counter++
	l.lastAt, l.lastFor = now, req.rec.lease
	if b := &l.sent[0]; b.last+1 == l.counter && b.write == req.write && b.times == times {
		b.last = l.counter
		return
	}
	copy(l.sent[1:], l.sent[:])
	l.sent[0] = batch{first: l.counter, last: l.counter, write: req.write, at: now, times: times}
}

// acknowledge records that the write with the counter is stored.
func (l *writeLog) acknowledge(counter uint64) { l.acked = max(l.acked, counter) }

// recall returns the write with the counter, and whether it is still known.
func (l *writeLog) recall(counter uint64) (batch, bool) {
	for _, b := range l.sent {
		if b.first <= counter && counter <= b.last && counter != 0 {
			return b, true
		}
	}
	return batch{}, false
}

// releaseDeadline returns when the last write no longer keeps others out, whether it was
// stored or not. From then on a candidate that leaves gains nothing by looking for it.
func (l *writeLog) releaseDeadline() time.Time { return l.lastAt.Add(l.lastFor) }

// renewal is when a holder writes the key again.
//
// electFrom is set only while the candidate holds the key and does not lead. In a candidate
// that leaves, it is when the key may be released.
type renewal struct {
	electFrom time.Time // when a write that elects may be sent at the earliest
	at        time.Time // when the next renewal is due
	soon      bool      // a renewal is wanted without waiting for at
}

// due sets when the next renewal is due.
func (r *renewal) due(at time.Time) { r.at = at }

// want asks for a renewal without waiting.
func (r *renewal) want() { r.soon = true }

// wantOnlyIf asks for a renewal without waiting, or withdraws an earlier wish for one.
func (r *renewal) wantOnlyIf(wanted bool) { r.soon = wanted }

// served records that a write is on its way.
func (r *renewal) served() { r.soon = false }

// waitUntil sets when a write that elects may be sent at the earliest.
func (r *renewal) waitUntil(at time.Time) { r.electFrom = at }

// waitNoLonger clears the instant of waitUntil.
func (r *renewal) waitNoLonger() { r.electFrom = time.Time{} }
