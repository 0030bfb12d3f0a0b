package group

import "slices"

// Member is one term of a member: which shards of a map it works on.
type Member struct {
	self Session
	seen Map
	work []work // by the number of the shard
	left bool
}

// work is the work on one shard.
type work struct {
	since uint64 // under which grant; 0: none
	stops bool   // it has to end
}

// NewMember returns a term that has seen no map yet.
func NewMember(self Session) *Member { return &Member{self: self} }

// Receive takes a map that was read or delivered, with its grants resolved. It returns the shards that are granted to
// this term anew, and those whose work is to be stopped. A map that is older than another one is ignored.
func (m *Member) Receive(next Map) (granted, stop []int) {
	if next.Revision <= m.seen.Revision {
		return nil, nil
	}
	for i, g := range next.Grants {
		if g.Owner == m.self && !m.grants(i, g.Since) {
			granted = append(granted, i)
		}
	}
	if !slices.ContainsFunc(next.Grants, func(g Grant) bool { return g.Owner == m.self }) {
		next.Grants = nil // most pages of a large map are of others
	}
	m.seen = next
	for len(m.work) < len(next.Grants) {
		m.work = append(m.work, work{})
	}
	return granted, m.stop()
}

// Leave begins no work any more, and returns the shards whose work is to be stopped.
func (m *Member) Leave() (stop []int) {
	m.left = true
	return m.stop()
}

// stop marks the work that is not granted any more, and returns what was not marked before.
func (m *Member) stop() (stop []int) {
	for i := range m.work {
		if w := &m.work[i]; w.since != 0 && !w.stops && (m.left || !m.grants(i, w.since)) {
			w.stops = true
			stop = append(stop, i)
		}
	}
	return stop
}

// grants reports whether the newest map grants a shard to this term, since that revision.
func (m *Member) grants(shard int, since uint64) bool {
	return shard < len(m.seen.Grants) && m.seen.Grants[shard].Owner == m.self && m.seen.Grants[shard].Since == since
}

// Waits reports whether a shard is granted to this term and its work has not begun, and returns the predecessor
// for which it waits. The zero Session is none.
func (m *Member) Waits(shard int) (pred Session, waits bool) {
	if shard >= len(m.seen.Grants) {
		return Session{}, false
	}
	g := m.seen.Grants[shard]
	return g.Pred, g.Owner == m.self && m.work[shard].since == 0 && !m.left
}

// Start begins the work on a shard if the predecessor's standing allows it, and reports whether it does. The token
// is [Grant].Since.
func (m *Member) Start(shard int, pred Standing) bool {
	who, waits := m.Waits(shard)
	if !waits || who != (Session{}) && !pred.Freed(shard, m.seen.Grants[shard].Since) {
		return false
	}
	m.work[shard] = work{since: m.seen.Grants[shard].Since}
	return true
}

// Ended says that the work on a shard has ended, or is given up after the drain, and reports whether it has ended
// by itself.
func (m *Member) Ended(shard int) (early bool) {
	early = !m.work[shard].stops
	m.work[shard] = work{}
	return early
}

// Report returns what the member publishes.
func (m *Member) Report() Report {
	r := Report{Seen: m.seen.Revision, Left: m.left}
	for i, w := range m.work {
		if w.stops {
			r.Busy = append(r.Busy, i)
		}
	}
	return r
}

// Granted returns how many shards are granted to this term.
func (m *Member) Granted() (n int) {
	for i := range m.seen.Grants {
		if m.seen.Grants[i].Owner == m.self {
			n++
		}
	}
	return n
}

// Token returns the token of a shard that is granted to this term.
func (m *Member) Token(shard int) uint64 { return m.seen.Base + m.seen.Grants[shard].Since }
