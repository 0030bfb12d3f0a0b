package leader

import "time"

// termState is the term that the candidate has claimed or leads.
//
// token, elected and leaseUntil are all zero, or none is. They are not zero in a leader, in
// a fenced candidate, and in a pending one that waits for its guards. The token does not
// change while it is not zero. leaseUntil only moves on. Only a fenced candidate drains.
type termState struct {
	number        uint64    // counts the terms of this machine
	token         uint64    // of the term, also while its guards are still to be raised; 0: none
	leaseUntil    time.Time // the lease is valid until then
	guardDeadline time.Time // when a candidate gives up the key if its guards are not raised
	elected       uint64    // revision of the write that began it
	since         int64     // server's time of that write; 0: not known
	began         time.Time // when the last term began
	cause         error     // of its end; a sentinel, so a plain value
	drained       bool      // the application has released the term
	draining      bool      // its application may go on until drainBy
	drainBy       time.Time
}

// claim records the write that elects, with a lease that is valid until an instant. The
// term begins as soon as its guards stand.
func (t *termState) claim(elected, token uint64, leaseUntil, guardDeadline time.Time) {
	t.token, t.elected, t.since = token, elected, 0
	t.leaseUntil, t.guardDeadline = leaseUntil, guardDeadline
}

// unclaim forgets a claim that did not become a term, or a term that has ended.
func (t *termState) unclaim() {
	t.token, t.elected, t.since = 0, 0, 0
	t.leaseUntil, t.guardDeadline = time.Time{}, time.Time{}
}

// begin begins the term that was claimed.
func (t *termState) begin(now time.Time) {
	t.number++
	t.began = now
	t.guardDeadline = time.Time{}
}

// date sets when the term began, if the echo is that of the write that elected.
func (t *termState) date(e echo) {
	if e.revision == t.elected {
		t.since = e.created
	}
}

// extend makes the lease valid until an instant, unless it is valid for longer.
func (t *termState) extend(until time.Time) { t.leaseUntil = later(t.leaseUntil, until) }

// fence sets the cause of the term's end.
func (t *termState) fence(cause error) { t.cause = cause }

// drain gives the application time to release the term.
func (t *termState) drain(until time.Time) { t.draining, t.drainBy = true, until }

// release records that the application has released the term.
func (t *termState) release() { t.drained = true }

// end clears what belongs to a term, but for its number.
func (t *termState) end() {
	t.unclaim()
	t.cause, t.drained, t.draining, t.drainBy = nil, false, false, time.Time{}
}

// departure is how far the candidate is in giving up the key.
//
// A candidate that stays has no intended successor.
type departure struct {
	mode          leaving
	since         time.Time // when it began to leave
	to            string    // the intended successor: an ID or a session
	cooldownUntil time.Time // the candidate takes no lease before then
}

// leaving states whether the candidate is giving up the key, and how it goes on.
type leaving uint8

const (
	staying   leaving = iota
	resigning         // hand over and stay a candidate
	stopping          // hand over and end
)

// resign begins to hand over, perhaps in favour of a candidate.
func (d *departure) resign(now time.Time, to string) { d.mode, d.since, d.to = resigning, now, to }

// stop begins to hand over and to end. An intended successor remains.
func (d *departure) stop(now time.Time) { d.mode, d.since = stopping, now }

// stay ends a resignation.
func (d *departure) stay() { d.mode, d.to = staying, "" }

// coolDown keeps the candidate from taking a lease before an instant.
func (d *departure) coolDown(until time.Time) { d.cooldownUntil = until }
