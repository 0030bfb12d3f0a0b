package group

import "time"

// Peer has when the terms of a member began and ended, as its records show.
type Peer struct {
	token uint64    // of the newest term
	leads bool      // that is one of the member, and is not over
	began time.Time // when it was first seen
	ended time.Time // when it was first seen that no term of the member goes on; zero: one does
}

// Seen takes a record of the member. leads says that the record shows a term of its own that is not over.
func (p *Peer) Seen(token uint64, leads bool, now time.Time) {
	if token != p.token {
		p.token, p.began = token, now
	}
	switch p.leads = leads; {
	case leads:
		p.ended = time.Time{}
	case p.ended.IsZero():
		p.ended = now
	}
}

// Held returns until when the shards of a term that is over wait for a later term of the member, or zero if they do not: for
// as long as it asked for, or, if it is back, for one lease until it has registered, when it gets them.
func (p *Peer) Held(hold, lease time.Duration, registered bool, now time.Time) (until time.Time) {
	switch {
	case hold == 0 || p.leads && registered:
		return time.Time{}
	case p.leads:
		until = p.began.Add(lease)
	default:
		until = p.ended.Add(hold)
	}
	if !now.Before(until) {
		return time.Time{}
	}
	return until
}
