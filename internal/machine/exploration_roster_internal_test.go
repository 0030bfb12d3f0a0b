package machine

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/record"
)

// The roster of the exploration: the candidates that have announced themselves, in order.
// A holder's view of it may be of the past, like everything else.

// roster has the candidates that stand.
type roster struct {
	stands    [maxParties + 1]string // sessions in order, with nobody in place of each dead one
	behind    [maxParties]bool       // has not announced this stand yet
	overtaken [maxParties]uint8      // how often, since it began to wait
}

// nobody stands for each session of a process that has ended.
const nobody = "-"

func (r *roster) drop(session string) {
	left := slices.DeleteFunc(r.stands[:], func(s string) bool { return s == "" || s == session })
	clear(r.stands[len(left):])
}

// announce puts the candidate behind those of the same or a higher priority.
func (w *worldOf) announce(i int) {
	r := &w.roster
	session := w.parties[i].m.Session
	r.drop(session)
	r.behind[i], r.overtaken[i] = false, 0
	if r.stands[maxParties] != "" {
		r.drop(nobody)
	}
	at := slices.Index(r.stands[:], "")
	for at > 0 && w.priorityOf(r.stands[at-1]) < w.priorities[i] {
		r.stands[at] = r.stands[at-1]
		at--
	}
	r.stands[at] = session
}

// priorityOf returns the priority of a session. The dead have the highest, so that they
// are in the way of all.
func (w *worldOf) priorityOf(session string) int {
	for i := range w.times {
		if w.parties[i].m.Session == session {
			return w.priorities[i]
		}
	}
	return 1 << 10
}

// toldTo returns the report of the roster to a holder.
func (w *worldOf) toldTo(i int) RosterReport {
	var stands []string
	for _, s := range w.roster.stands {
		if s != "" && s != w.parties[i].m.Session {
			stands = append(stands, s)
		}
	}
	return RosterReport{Line: record.LineOf(stands)}
}

// rivalOf returns the candidate that may push a leader out: that of the highest priority.
func (w *worldOf) rivalOf(i int) (session string) {
	least := w.priorities[i]
	for j := range w.times {
		s := w.parties[j].m.Session
		if w.preempt && w.parties[j].up && w.priorities[j] > least && slices.Contains(w.roster.stands[:], s) {
			session, least = s, w.priorities[j]
		}
	}
	return session
}

// toAnnounce and toRank report whether a candidate is about to use the roster.
func (w *worldOf) toAnnounce(i int) bool {
	p := &w.parties[i]
	return p.up && !p.frozen && !p.cut && p.m.competes(p.now) && w.roster.behind[i]
}

// toWithdraw reports whether a candidate is about to withdraw its announcement. No
// candidate is to wait for one that has held the key and may not take a lease yet.
func (w *worldOf) toWithdraw(i int) bool {
	p := &w.parties[i]
	return p.up && !p.frozen && !p.cut && !p.m.holds() && !p.m.competes(p.now) && w.roster.behind[i] && slices.Contains(w.roster.stands[:], p.m.Session)
}

func (w *worldOf) toRank(i int) bool {
	p := &w.parties[i]
	if !p.up || p.frozen || p.cut || !p.m.Listed || !p.m.holds() {
		return false
	}
	r := w.toldTo(i)
	return !p.m.queue.reported || p.m.queue.line != r.Line
}

func (w *worldOf) rosterActions(i int, add adder) {
	p := &w.parties[i]
	add(w.toAnnounce(i), doAnnounce, i, 0)
	add(w.toWithdraw(i), doAnnounce, i, 1)
	add(w.toRank(i), doRank, i, 0)
	// A rival that has stood for long shows that it is alive.
	add(p.up && !p.frozen && !p.cut && p.m.holds() && w.rivalOf(i) != "", doRank, i, 1)
	if w.may(transfer) && p.m.state == StateLeader && p.m.leave.mode == Staying {
		for j := range w.times {
			add(j != i, doHandOver, i, j)
		}
		add(true, doHandOver, i, maxParties) // to the next
	}
}

// lapseActions adds that the roster forgets a candidate that is dead, or holds the key.
// This may happen at any time.
func (w *worldOf) lapseActions(add adder) {
	for n, s := range w.roster.stands {
		for i := range w.times {
			if p := &w.parties[i]; s == nobody || s == p.m.Session && p.m.holds() {
				add(true, doLapse, 0, n)
				break
			}
		}
	}
}

func (w *worldOf) applyRoster(a action) {
	i := int(a.party)
	p := &w.parties[i]
	switch a.do { //nolint:exhaustive // apply has the others
	case doAnnounce:
		if a.arg == 1 {
			w.roster.drop(p.m.Session)
			return
		}
		w.announce(i)
	case doRank:
		r := w.toldTo(i)
		if a.arg == 1 {
			r.Preemptor = Preemptor{Session: w.rivalOf(i)} // since long ago
		}
		w.step(i, Input{Kind: InRoster, Roster: r})
	case doHandOver:
		in := Input{Kind: InResign, Next: a.arg == maxParties}
		if !in.Next {
			in.To = partyNames[a.arg]
		}
		w.step(i, in)
	case doLapse:
		left := slices.Delete(w.roster.stands[:], int(a.arg), int(a.arg)+1)
		w.roster.stands[len(left)] = ""
	}
}

// bury replaces the session of a process that has ended by nobody.
func (w *worldOf) bury(i int) {
	was := w.parties[i].m.Session
	for n, s := range w.roster.stands {
		if s == was {
			w.roster.stands[n] = nobody
		}
	}
	w.eachLine(func(l *record.Line) { *l = record.Line(strings.ReplaceAll(string(*l), was, nobody)) })
	w.roster.behind[i], w.roster.overtaken[i] = false, 0
}

func (w *worldOf) eachLine(visit func(l *record.Line)) {
	text := func(s *string) {
		l := record.Line(*s)
		visit(&l)
		*s = string(l)
	}
	w.eachRecord(func(r *record.Record) {
		visit(&r.Next)
		text(&r.To)
	})
	for i := range w.times {
		m := &w.parties[i].m
		visit(&m.queue.line)
		text(&m.leave.to)
	}
}

// queues updates the roster after a step of a candidate, and checks the promise of the
// line: in the absence of faults no candidate that stays is overtaken twice.
func (w *worldOf) queues(i int, held, led bool) {
	p, r := &w.parties[i], &w.roster
	if held && !p.m.holds() {
		r.behind[i] = true
	}
	if led || p.m.state != StateLeader || !w.fair {
		return
	}
	r.overtaken[i] = 0
	for _, s := range r.stands {
		if s == p.m.Session {
			return // candidates after it have not waited as long
		}
		j := slices.IndexFunc(w.parties[:], func(o party) bool { return o.up && o.m.Session == s })
		if j < 0 {
			continue
		}
		if o := &w.parties[j]; o.m.competes(o.now) && !r.behind[j] {
			if r.overtaken[j]++; r.overtaken[j] > 1 {
				w.fail("%s was overtaken twice, last by %s", s, p.m.Session)
			}
		}
	}
}

// yields checks the patience of a leader: after it has seen a handover in vain it gives
// way to no rival for two leases.
func (w *worldOf) yields(i int, was record.Observation, in Input, fx Effects) {
	p := &w.parties[i]
	if in.Kind == InRoster && errors.Is(fx.End, backend.ErrResigned) && p.now.Before(p.patient) {
		w.fail("%s hands over to %s soon after a handover in vain", p.m.Session, p.m.leave.to)
	}
	given := was.Kind == record.EntryRecord && was.Rec.Phase == record.PhaseReleased && was.Rec.To != ""
	if given && p.m.key.seen.Held() && !was.Rec.Names(p.m.key.seen.Rec.ID, p.m.key.seen.Rec.Session) {
		p.patient = p.now.Add(2 * p.m.bucket.times.Lease)
	}
}

// forgetOrder drops the state that no machine looks at.
func (m *Machine) forgetOrder() {
	m.key.seen.Rec.Next = "" // only the line of a record on its way matters
	if !m.Listed && !m.Orders {
		m.queue.line = ""
	}
	if !m.holds() {
		m.queue.reported = false
	}
	if m.state != StateLeader || !m.Listed {
		m.term.began = time.Time{} // set with the next term
	}
	if m.leave.mode == Staying {
		m.leave.since = time.Time{}
	}
	// The number of handovers in vain is capped where it is used.
	if m.queue.failedHandovers = min(m.queue.failedHandovers, PatienceDoubles); !m.Listed {
		m.queue.failedHandovers, m.queue.yieldsFrom = 0, time.Time{} // it hears of no rival
	}
}
