package machine

import (
	"time"

	"github.com/natsleader/natsleader/internal/record"
)

// keyView is the candidate's knowledge of the key.
//
// seen is the newest revision known, unless the store has lost it. A revision up to
// removedUpTo is never taken for news again. readRevision is not greater than the revision
// seen, so a revision that only the feed has delivered does not count as read.
type keyView struct {
	seen         record.Observation // the newest revision known
	seenAt       time.Time          // when it was received
	removedUpTo  uint64             // revisions up to this one were removed without a marker
	readRevision uint64             // the newest revision that a read has shown, not only the feed
	absentSince  time.Time          // since when reads, which may lag, find nothing; zero: they find a message
	behind       int                // reads in a row that returned less than the feed had delivered before
	readAt       time.Time          // when the last reply to a read arrived
	own          ownEntry           // an own write as the feed delivered it
}

// ownEntry is an own write as the feed delivered it. It only dates the term.
type ownEntry struct {
	revision uint64
	created  int64
}

// see takes a revision that is not an own write.
func (k *keyView) see(s record.Observation, now time.Time) {
	k.seen, k.seenAt, k.absentSince, k.behind = s, now, time.Time{}, 0
}

// seeOwn takes an own write that is stored.
func (k *keyView) seeOwn(s record.Observation, now time.Time) { k.seen, k.seenAt = s, now }

// recall takes back the time at which the entry seen was received to when it was first
// received in this process.
func (k *keyView) recall(at time.Time) { k.seenAt = Earlier(k.seenAt, at) }

// confirm records that a read has shown the revision.
func (k *keyView) confirm(revision uint64) { k.readRevision = revision }

// found records that a read did not miss a message.
func (k *keyView) found() { k.absentSince = time.Time{} }

// notFound records that a read found no message where one was known.
func (k *keyView) notFound(now time.Time) {
	if k.absentSince.IsZero() {
		k.absentSince = now
	}
}

// removed records that the message seen was removed without a marker. It is not to be
// taken for newer than nothing, and only the store shows that nothing is there.
func (k *keyView) removed() {
	k.removedUpTo = max(k.removedUpTo, k.seen.Revision)
	k.readRevision = 0
}

// mayReturn takes back that messages after the revision were removed.
func (k *keyView) mayReturn(revision uint64) { k.removedUpTo = revision }

// void drops the knowledge of a key whose store has lost writes.
func (k *keyView) void() {
	k.seen, k.seenAt, k.removedUpTo, k.readRevision, k.behind = record.Observation{}, time.Time{}, 0, 0, 0
}

// Sighting is an entry that a candidate of this process has read, with the instant at which
// that candidate, or one before it, first received it.
type Sighting struct {
	record.Observation // the part that identifies the write
	At                 time.Time
}

// seenBefore returns when the entry that was read was first received in this process, if that
// was before, or zero. Revisions only rise. So an entry that stood then and stands now has
// stood in between, and its holder has not renewed it. Whether it is the same write is
// compared as well, because a bucket that was restored may have used a revision twice.
func (m *Machine) seenBefore(s record.Observation, before Sighting) time.Time {
	if before.Revision != s.Revision || !before.Same(s) {
		return time.Time{}
	}
	return before.At
}

// sightedAt returns when the entry seen was first received, or zero if it is not to be
// remembered. The feed may have delivered a forgery of it, so it must have been read. A key
// that the candidate holds, or that is free, needs no memory.
func (m *Machine) sightedAt() time.Time {
	if m.holds() || m.key.readRevision != m.key.seen.Revision || !m.key.keepsOut() && m.key.seen.Kind != record.EntryMarker {
		return time.Time{}
	}
	return m.key.seenAt
}

// keepsOut reports whether the entry seen keeps others out until it lapses.
func (k *keyView) keepsOut() bool {
	return k.seen.Held() || k.seen.Kind == record.EntryForeign || k.seen.Kind == record.EntryMarker && k.seen.Rec.Lease > 0
}

// disowned reports whether a read has found the entry of that revision to be another client's. The
// entry stays disowned after the write that it was compared with is forgotten. An entry that only the
// feed has delivered may be forged, so it is not disowned.
func (k *keyView) disowned(revision uint64) bool {
	return k.seen.Kind == record.EntryForeign && k.seen.Revision == revision && k.readRevision == revision
}

// lapse returns when the entry seen stops keeping others out, if it does. A record is
// believed as long as it stands, however long its lease is. It may be the record of a
// living leader from before the bucket was set to a shorter lease.
func (m *Machine) lapse() time.Time {
	if m.key.seen.Kind == record.EntryForeign {
		return m.key.seenAt.Add(m.unknownLease())
	}
	return m.key.seenAt.Add(m.key.seen.Rec.Lease)
}

// memory is what the candidate remembers of records, also of those that are gone.
//
// token is not less than that of any record that was read and could be counted up from, but
// for own pending records, whose tokens grow with each renewal. hearsay comes from the feed
// alone, which may be forged, so it counts only after the store has lost writes. notBefore
// never goes back to an earlier instant.
type memory struct {
	lease     time.Duration // the longest lease of others that was read
	leaseAt   time.Time     // when that lease was last seen
	token     uint64        // the greatest token remembered
	hearsay   uint64        // the greatest token of the feed alone, beyond that of the next term
	notBefore time.Time     // the store has lost writes, so no term begins before
}

// keepLease remembers that a lease was last seen at an instant. A lease of 0 is forgotten.
func (y *memory) keepLease(lease time.Duration, at time.Time) { y.lease, y.leaseAt = lease, at }

// leaseOver reports whether the remembered lease has run out.
func (y *memory) leaseOver(now time.Time) bool {
	return y.lease > 0 && !now.Before(y.leaseAt.Add(y.lease))
}

// count remembers a token that the store has confirmed, or that is not beyond the next one.
func (y *memory) count(token uint64) { y.token = max(y.token, token) }

// hear remembers a token that only the feed has delivered.
func (y *memory) hear(token uint64) { y.hearsay = max(y.hearsay, token) }

// void records that the store has lost writes. Any session may hold a lease until the
// instant, and the feed may have delivered what the store has lost.
func (y *memory) void(until time.Time) {
	y.notBefore = Later(y.notBefore, until)
	y.token = max(y.token, y.hearsay)
}

// unknownLease returns the longest lease that could be running without being known. Where
// the bucket bounds leases, no record can make it longer than the greatest bound that was
// ever known. The greatest bound counts, because a holder that has heard of no other
// bound may still keep to it.
func (m *Machine) unknownLease() time.Duration {
	d := max(m.bucket.bound, m.bucket.times.Lease)
	if m.bucket.settings.MaxLease == 0 && m.bucket.settings.TTL == 0 {
		d = max(d, m.memory.lease)
	}
	return d
}

// note remembers the lease and the token of another session's record that was read,
// however old the record is, and of one that was deleted.
func (m *Machine) note(now time.Time, s record.Observation) {
	if s.Kind == record.EntryRecord && s.Rec.Session == m.Session {
		return
	}
	if s.Rec.Lease > 0 && s.Rec.Lease >= m.memory.lease {
		m.memory.keepLease(s.Rec.Lease, now)
	}
	m.count(s, true)
}

// count remembers the token of a record. If the record was only heard of, its token is no
// greater than that of the next term, or than its own revision (see dubious). In the
// second case the next write has a greater revision and so a greater token, unless the
// store forgets.
func (m *Machine) count(s record.Observation, read bool) {
	token := record.KnownToken(s.Rec.TermToken(s.Revision))
	if read || token <= m.least() {
		m.memory.count(token)
	} else {
		m.memory.hear(token)
	}
}

// forget drops the remembered lease when it has run out and was not seen again. The
// record that stands counts as seen as long as it is renewed, even if only the feed
// delivers the renewals. Such a renewal prolongs the memory of a lease and adds nothing
// to it. A pending candidate forgets nothing, because it has promised other candidates to
// wait for the lease that it remembered.
func (m *Machine) forget(now time.Time) {
	if m.state == StatePending {
		return
	}
	if m.memory.leaseOver(now) && m.key.seen.Held() && !m.holds() {
		m.memory.keepLease(min(m.memory.lease, m.key.seen.Rec.Lease), m.key.seenAt)
	}
	if m.memory.leaseOver(now) {
		m.memory.keepLease(0, time.Time{})
	}
}

// holderReport is the holder as it was last reported. It has the parts of an observation that make a
// difference to an application.
type holderReport struct {
	Kind    record.EntryKind // EntryRecord: held; EntryNothing: not held; EntryForeign
	pending bool
	id      string
	session string
	token   uint64
	value   string            // published; of a foreign record its name
	last    record.PackedLast // the last leader, while the holder does not lead
}

// currentReport returns the holder of the key to report.
func (m *Machine) currentReport(now time.Time) holderReport {
	switch {
	case m.key.seen.Kind == record.EntryUnseen && m.reported.Kind == record.EntryUnseen:
		return m.reported
	case m.key.seen.Kind == record.EntryForeign && now.Before(m.lapse()):
		if m.KVElect || m.Observe { // each value names a holder
			return holderReport{Kind: record.EntryForeign, value: m.key.seen.Rec.Value}
		}
		return holderReport{Kind: record.EntryForeign}
	case m.key.seen.Held() && (m.holds() || now.Before(m.lapse())):
		r := &m.key.seen.Rec
		s := holderReport{Kind: record.EntryRecord, id: r.ID, session: r.Session, value: r.Value}
		if s.pending = r.Phase == record.PhasePending; s.pending {
			s.last = m.key.seen.Leader(m.key.seen.Created)
		} else { // a pending holder's token grows with every renewal, and is no news
			s.token = r.TermToken(m.key.seen.Revision)
		}
		return s
	default:
		return holderReport{Kind: record.EntryNothing, last: m.key.seen.Leader(m.key.seen.Created)}
	}
}

// show reports another holder, or none, unless that was reported before. At first, only
// an observer is notified that there is no leader, and a candidate that does not wait, if the
// key is not free all the same. Only an observer is notified of another last leader alone.
func (m *Machine) show(now time.Time, fx *Effects) {
	s, was := m.currentReport(now), m.reported
	m.reported = s
	if !m.Observe {
		was.last = s.last // Candidate.Leader shows it, and no candidate acts on it
	}
	if s == was {
		return
	}
	first := was.Kind == record.EntryUnseen
	kept := m.Tries && m.key.keepsOut() && now.Before(m.lapse())
	if m.holds() || m.leave.mode == Stopping || first && s.Kind == record.EntryNothing && !m.Observe && !kept {
		return
	}
	fx.Notes = append(fx.Notes, Note{Event: NoteObserved})
}

// SeenAs returns the part of an observation that identifies the write.
func SeenAs(o record.Observation, at time.Time) Sighting {
	rec := record.Record{ID: o.Rec.ID, Session: o.Rec.Session, Counter: o.Rec.Counter}
	return Sighting{record.Observation{Revision: o.Revision, Kind: o.Kind, Rec: rec}, at}
}
