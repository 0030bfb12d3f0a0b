package leader

import "time"

// inflight is the one request in flight, and the failures of those before it.
//
// late is set only while there is a request. retryAt holds back requests of every kind.
type inflight struct {
	req      request
	sentAt   time.Time
	deadline time.Time // when it is given up
	late     bool      // it was given up; its reply is still to come

	fails        int       // in a row
	writeFailing bool      // the last write failed; reads that succeed do not end the row
	retryAt      time.Time // no request before then
}

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
	f.req, f.late = request{}, false
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
