package leader

import "time"

// readNeed is whether the candidate must read its key, and why.
//
// lostRace and silence are reasons for one read, and the reply to a read clears them.
// While calmUntil is ahead, strange messages of the feed cause no read, but they postpone
// one to then, so that none of them goes unread.
type readNeed struct {
	needed    bool      // a read is needed before anything is concluded
	atLeast   uint64    // another read is needed if the one in flight returns less than this
	lostRace  bool      // that read is only to find the winner; the feed may be faster
	silence   bool      // the read that is due is made because the feed is silent
	strange   bool      // the read or renewal that is due follows a strange message of the feed
	calmUntil time.Time // before this, strange messages are no reason to read
	deferred  bool      // there was one before calmUntil, so a read is due then
}

// need asks for a read.
func (r *readNeed) need() { r.needed = true }

// needOnlyIf asks for a read, or withdraws that a read is needed.
func (r *readNeed) needOnlyIf(needed bool) { r.needed = needed }

// needAll asks for a read of what was stored before the feed was open.
func (r *readNeed) needAll() { r.needed, r.silence = true, false }

// needInFull asks for a read that the feed cannot replace.
func (r *readNeed) needInFull() { r.needed, r.lostRace = true, false }

// needWinner asks for a read that the feed can replace by delivering the winner's record.
func (r *readNeed) needWinner() {
	r.lostRace = r.lostRace || !r.needed
	r.needed = true
}

// doubt records that a renewal which is wanted follows a strange message.
func (r *readNeed) doubt() { r.strange = true }

// needToClear asks for a read because of a strange message.
func (r *readNeed) needToClear() { r.needed, r.strange = true, true }

// postpone puts off the read because of a strange message until calmUntil.
func (r *readNeed) postpone() { r.deferred = true }

// require asks for another read if the one in flight returns less than the revision.
func (r *readNeed) require(revision uint64) { r.atLeast = max(r.atLeast, revision) }

// satisfied records that no read is needed any more.
func (r *readNeed) satisfied() { r.needed = false }

// sent records that a read is on its way. It may be one that was put off, or one that is
// due because the feed is silent.
func (r *readNeed) sent() {
	if r.deferred && !r.needed {
		r.needed, r.strange = true, true
	}
	r.deferred = false
	r.silence = r.silence || !r.needed
	r.atLeast = 0
}

// answered records the reply to a read, which returned the revision.
func (r *readNeed) answered(revision uint64) {
	r.needed, r.lostRace, r.silence = r.atLeast > revision, false, false
	r.atLeast = 0
}

// calm makes strange messages no reason to read until an instant.
func (r *readNeed) calm(until time.Time) { r.calmUntil = until }

// cleared records that the store has answered after a strange message.
func (r *readNeed) cleared() { r.strange = false }
