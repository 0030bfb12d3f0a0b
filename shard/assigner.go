package shard

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
)

// assigner spreads the shards in one term of the group's election. Only efficiency needs it to be one.
type assigner struct {
	*Member
	term     *leader.Term
	from     time.Time       // when the term began
	ctx      context.Context //nolint:containedctx // of the term
	registry *decoded[group.Registry]
	pages    []*decoded[group.Map]
	stand    *watch

	programs group.Programs // of the members
	knows    bool           // the records of all members were read, and with them the programs

	published    []byte
	publishing   chan error // has the outcome of the publication in flight; nil: none is
	publishAgain time.Time  // when the pause after a publication that failed is over
	due          time.Time  // when the plan is to be made again if nothing changes before; zero: not
	began        time.Time  // when the group started cold; zero: it did not, or the last portion was granted
}

// spread spreads the shards while this process leads the group's election.
func (m *Member) spread(term *leader.Term, stand *watch, registry *decoded[group.Registry]) {
	ctx, cancel := context.WithCancel(term.Context())
	defer cancel()
	a := &assigner{Member: m, term: term, ctx: ctx, stand: stand, registry: registry, from: time.Now(), due: time.Now()}
	stand.forget()
	for i := range m.layout.Pages() {
		a.pages = append(a.pages, m.page(ctx, i, m.steers))
	}
	defer m.survey(nil)
	for ctx.Err() == nil {
		a.step()
		a.publish()
		var due <-chan time.Time
		if !a.due.IsZero() {
			due = time.After(max(time.Until(a.due), time.Nanosecond))
		}
		select {
		case <-ctx.Done():
		case <-m.steers:
		case <-due:
		case err := <-a.publishing:
			if a.publishing = nil; err != nil {
				a.published, a.publishAgain = nil, time.Now().Add(openAgain)
			}
		}
	}
}

// publish publishes which revisions the pages have, and the programs of the members if they differ. For a lease nothing is
// published before these are known: it would say that they do not differ. A record that cannot be read holds up no longer what
// the members need.
func (a *assigner) publish() {
	from := a.publishAgain
	if known := a.from.Add(a.assign.Stats().LeaseDuration); !a.knows && known.After(from) {
		from = known
	}
	if time.Now().Before(from) {
		a.planAt(from)
		return
	}
	revisions := make([]uint64, len(a.pages))
	for i, p := range a.pages {
		revisions[i] = p.entry().Revision
	}
	value := group.EncodeAssigner(revisions, a.programs)
	if a.publishing != nil || bytes.Equal(value, a.published) {
		return
	}
	a.published, a.publishing = value, make(chan error, 1)
	result := a.publishing
	go func() {
		result <- a.term.Proclaim(a.ctx, value)
		a.bell.ring() // of the member, which is no observer of its own election
	}()
}

// step assigns the shards, if something has changed on which the plan depends, or if it is time. A plan that has failed is
// made again after a pause, and before if there is news.
func (a *assigner) step() {
	changed := a.registry.refresh()
	for _, p := range a.pages {
		changed = p.refresh() || changed
	}
	changed = a.stand.refresh(false) || changed
	if !changed && (a.due.IsZero() || time.Now().Before(a.due)) {
		return
	}
	if !a.plan() {
		a.planAt(time.Now().Add(openAgain))
	}
}

// plan assigns the shards once. It returns false if it is to be tried again.
func (a *assigner) plan() bool {
	a.due = time.Time{} // also if there is no plan: a time that has passed would wake the assigner without end
	registry := a.registry.value
	if a.registry.err != nil || registry.Layout != a.layout {
		return true
	}
	needed := make(map[string]bool) // members, and others that the plan asks for
	terms := make(map[group.Session]standing)
	standing := func(s group.Session) standing {
		t, ok := terms[s]
		if !ok {
			needed[s.ID] = true
			t = a.stand.see(s.ID).standing(s)
			terms[s] = t
		}
		return t
	}
	lease := a.assign.Stats().LeaseDuration
	plan := &group.Assigner{
		Over: func(s group.Session) bool { return standing(s).over },
		Freed: func(s group.Session, shard int, since uint64) bool {
			return a.freed(standing(s), shard, since)
		},
		Held:  func(s group.Session) bool { return a.held(s, lease) },
		Asked: registry.Asked,
		Roll:  a.registry.at.Revision,
	}
	var all []group.Grant
	base := registry.Base
	for i, p := range a.pages {
		if p.err != nil { // there is none, or it was lost
			if !p.isRead {
				return true
			}
			if errors.Is(p.err, group.ErrLaterFormat) {
				a.damaged(group.PageKey(a.name, i), p.at.Revision, "moves no shards: upgrade this program", p.err)
				return true
			}
			if len(p.at.Value) > 0 {
				a.damaged(group.PageKey(a.name, i), p.at.Revision, "replaces a value that is no page of a group", p.err)
			}
			_, n := a.layout.Page(i)
			return a.write(i, registry.Base, make([]group.Grant, n))
		}
		a.least(i, p.value.Revision, p.value.Base)
		all, base = append(all, p.value.Grants...), max(base, p.value.Base)
	}
	defer func() { a.stand.only(needed) }()
	ready := true
	var lost uint64 // the newest revision of a page that was made anew
	for _, g := range all {
		for _, id := range []string{g.Owner.ID, g.Pred.ID} { // also of members that a new registry does not know
			if id != "" && !needed[id] && (id == g.Owner.ID || !plan.Over(g.Pred)) {
				needed[id] = true
				a.stand.take(id, 0)
			}
		}
		if g.Owner == (group.Session{}) && g.Pred == (group.Session{}) {
			lost = max(lost, g.Since)
		}
	}
	var programs group.Programs
	for _, m := range registry.Members {
		s := a.stand.see(m.ID)
		if needed[m.ID] = true; !s.known { // or its share would go to others, and come back
			ready = false
			continue
		}
		a.stand.take(m.ID, lost)
		newest := s.newest(m.ID)
		t := standing(newest.Session)
		newest.Freed = func(shard int, since uint64) bool { return a.freed(t, shard, since) }
		plan.Everyone = append(plan.Everyone, newest)
		if s.leads && s.valid && newest.Session == m && s.ID == m.ID { // the registry is not pruned of a term that has shards
			p := s.published
			programs.Add(p.Program, m.ID)
			plan.Workers = append(plan.Workers, group.Worker{Session: newest.Session, Weight: p.Weight, Most: p.Most, Leaves: p.Reports[0].Left && p.Hold == 0 || slices.Contains(registry.Drained, m.ID), Late: p.Late})
		}
	}
	if ready {
		a.programs, a.knows = programs, true
	}
	if from := a.mayGrant(registry.Base); time.Now().Before(from) {
		a.planAt(from)
		return true
	}
	if lost > a.registry.at.Revision { // it may lack a member that works under the page which was lost, unless the write succeeds
		return a.enroll(registry)
	}
	if !ready {
		return true
	}
	plan.Portion = a.portion(plan, all)
	moved := plan.Assign(all)
	a.survey(&figures{plan.Found, len(plan.Workers)})
	if len(moved) == 0 {
		return a.prune(plan, all)
	}
	forget(all, plan)
	var writes sync.WaitGroup
	written := make([]bool, len(moved))
	for i := range a.pages {
		first, n := a.layout.Page(i)
		from, _ := slices.BinarySearch(moved, first)
		to, _ := slices.BinarySearch(moved, first+n)
		if from < to {
			writes.Go(func() {
				if a.write(i, base, all[first:first+n]) {
					for at := range written[from:to] {
						written[from+at] = true
					}
				}
			})
		}
	}
	writes.Wait()
	moves := make(map[Reason]int)
	for at, shard := range moved {
		if to := all[shard].Owner; written[at] && to != (group.Session{}) {
			moves[a.reason(shard, plan, &registry, to)]++
		}
	}
	a.rebalance(moves)
	return !slices.Contains(written, false)
}

// reason returns why a shard was granted to a term.
func (a *assigner) reason(shard int, plan *group.Assigner, registry *group.Registry, to group.Session) Reason {
	was := plan.Before[shard]
	switch {
	case was == (group.Session{}):
		return ReasonUnowned
	case registry.Asked[shard] == to.ID, slices.Contains(registry.Drained, was.ID):
		return ReasonAsked
	case was.ID == to.ID:
		return ReasonReturned
	}
	switch s := a.stand.see(was.ID); {
	case s.Token == was.Token && (s.Released || s.valid && s.published.Reports[0].Left):
		return ReasonLeft
	case plan.Over(was):
		return ReasonDied
	default:
		return ReasonUneven
	}
}

// rebalance reports and counts what the assigner has granted anew.
func (m *Member) rebalance(moves map[Reason]int) {
	if len(moves) == 0 {
		return
	}
	m.mu.Lock()
	m.rebalanced = time.Now()
	for r, n := range moves {
		m.moves[r] += n
	}
	m.mu.Unlock()
	m.emit(Rebalanced{moves})
}

// freed reports whether a term does not work on a shard, and never will under a page before that revision.
func (a *assigner) freed(t standing, shard int, since uint64) bool {
	return t.about(shard/a.layout.PageSize).Freed(shard%a.layout.PageSize, since)
}

// forget forgets the predecessors whose terms are over.
func forget(grants []group.Grant, plan *group.Assigner) {
	for i := range grants {
		if g := &grants[i]; g.Pred != (group.Session{}) && plan.Over(g.Pred) {
			g.Pred = group.Session{}
		}
	}
}

// write writes a page, on the condition that the newest is the one which the grants were made from.
func (a *assigner) write(i int, base uint64, grants []group.Grant) bool {
	value, p := a.layout.EncodePage(i, a.least(i, a.pages[i].at.Revision, base), grants), a.pages[i]
	revision, err := update(a.ctx, a.port, group.PageKey(a.name, i), value, p.at.Revision)
	if err != nil {
		p.look() // it was perhaps written by another
		return false
	}
	p.take(backend.Entry{Revision: revision, Value: value})
	return true
}

// held reports whether the shards of a term that is over wait for its member, and notes when they do not any more.
func (a *assigner) held(of group.Session, lease time.Duration) bool {
	s := a.stand.see(of.ID)
	registered := s.leads && slices.Contains(a.registry.value.Members, s.newest(of.ID).Session)
	until := s.peer.Held(s.published.Hold, lease, registered, time.Now())
	if until.IsZero() || slices.Contains(a.registry.value.Drained, of.ID) {
		return false
	}
	a.planAt(until)
	return true
}

// planAt lets the plan be made again at a time.
func (a *assigner) planAt(t time.Time) {
	if a.due.IsZero() || t.Before(a.due) {
		a.due = t
	}
}

// portion returns how many shards may have a worker now, or 0 for any number. A group whose map was lost does not start
// cold: its members are there already, and their shards wait for a grant. A process has a shard or has granted some in
// such a group.
func (a *assigner) portion(plan *group.Assigner, all []group.Grant) int {
	if len(plan.Workers) == 0 { // or all shards lose the members to which they may come back in a moment
		return 1
	}
	if !slices.ContainsFunc(plan.Workers, func(w group.Worker) bool { return !slices.Contains(a.registry.value.Drained, w.Session.ID) }) {
		a.began = time.Time{}
		a.warm.Store(false) // the group starts cold when one takes shards
		return 0
	}
	if a.began.IsZero() && !a.warm.Load() {
		if a.began = time.Now(); !plan.Cold(all) {
			a.began = time.Time{}
			a.warm.Store(true)
		}
	}
	if a.began.IsZero() {
		return 0
	}
	portion, next := group.ColdPortion(time.Since(a.began), len(all))
	if portion == 0 {
		a.began = time.Time{}
		a.warm.Store(true)
		return 0
	}
	a.planAt(a.began.Add(next))
	return portion
}

// prune removes from the registry the members that are gone, and have no shards, and what operators have asked for and is
// done.
func (a *assigner) prune(plan *group.Assigner, grants []group.Grant) bool {
	registry := a.registry.value
	owns := make(map[string]bool)
	for _, g := range grants {
		owns[g.Owner.ID] = true
	}
	members, asked, drained := len(registry.Members), len(registry.Asked), len(registry.Drained)
	isMember := make(map[string]bool)
	registry.Members = slices.DeleteFunc(slices.Clone(registry.Members), func(m group.Session) bool {
		gone := !owns[m.ID] && plan.Over(m)
		isMember[m.ID] = !gone
		return gone
	})
	registry.Drained = slices.DeleteFunc(slices.Clone(registry.Drained), func(id string) bool { return !isMember[id] })
	registry.Asked = maps.Clone(registry.Asked)
	maps.DeleteFunc(registry.Asked, func(shard int, _ string) bool { return !plan.Pending(shard, grants[shard]) })
	if len(registry.Members) == members && len(registry.Asked) == asked && len(registry.Drained) == drained {
		return true
	}
	return a.enroll(registry)
}

// enroll writes the registry, on the condition that the newest is the one that was read. It returns false if it is to be tried again.
func (a *assigner) enroll(registry group.Registry) bool {
	value := registry.Encode()
	revision, err := update(a.ctx, a.port, group.RegistryKey(a.name), value, a.registry.at.Revision)
	if err != nil {
		a.registry.look()
		refused := new(backend.RefusedError)
		return errors.As(err, &refused) // the plan is made again with the newer one
	}
	a.registry.take(backend.Entry{Revision: revision, Value: value})
	return true
}
