package shard

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
)

// assigner spreads the shards in one term of the group's election. Only efficiency needs it to be one.
type assigner struct {
	*Member
	ctx   context.Context //nolint:containedctx // of the term
	roll  *follower
	pages []*follower
	stand *watch

	registered []group.Session
	due        time.Time // when the plan is to be made again, because shards wait for their member no longer; zero: not
}

// spread spreads the shards while this process leads the group's election.
func (m *Member) spread(term *leader.Term) {
	ctx, cancel := context.WithCancel(term.Context())
	defer cancel()
	rings := make(bell, 1)
	a := &assigner{Member: m, ctx: ctx, stand: m.watch(ctx, rings, m.assign.Stats().LeaseDuration/2), roll: followMap(ctx, m.port, group.RegistryKey(m.name), rings, 15*time.Second)}
	for i := range m.layout.Pages() {
		a.pages = append(a.pages, followMap(ctx, m.port, group.PageKey(m.name, i), rings, m.pageAgain()))
	}
	for ctx.Err() == nil {
		if !a.step() {
			sleep(ctx, openAgain)
			continue
		}
		var due <-chan time.Time
		if !a.due.IsZero() {
			due = time.After(time.Until(a.due))
		}
		select {
		case <-ctx.Done():
		case <-rings:
		case <-due:
		}
	}
}

// step assigns the shards once. It returns false if it is to be tried again.
func (a *assigner) step() bool {
	rolls := a.roll.entry()
	roll, err := group.DecodeRegistry(rolls.Value)
	if err != nil || roll.Layout != a.layout {
		return true
	}
	a.registered, a.due = roll.Members, time.Time{}
	needed := make(map[string]bool) // members, and others that the plan asks for
	defer func() { a.stand.only(needed) }()
	standing := func(s group.Session, page int) group.Standing {
		needed[s.ID] = true
		return a.stand.standing(s, page)
	}
	plan := &group.Assigner{
		Over: func(s group.Session) bool { return standing(s, 0).Over },
		Freed: func(s group.Session, shard int, since uint64) bool {
			return standing(s, shard/a.layout.PageSize).Freed(shard%a.layout.PageSize, since)
		},
		Held:  a.held,
		Asked: roll.Asked,
	}
	var all []group.Grant
	base := roll.Base
	read := make([]uint64, len(a.pages)) // the revisions that the plan is made from
	for i, f := range a.pages {
		_, n := a.layout.Page(i)
		isKnown, e := f.known(), f.entry() // in this order: the key may be read meanwhile
		read[i] = e.Revision
		m, err := a.layout.DecodePage(i, e.Value, e.Revision)
		if err != nil { // there is none, or it was lost
			if !isKnown {
				return true
			}
			if errors.Is(err, group.ErrLaterFormat) {
				a.warn(group.PageKey(a.name, i), e.Revision, "moves no shards: upgrade this program", err)
				return true
			}
			if len(e.Value) > 0 {
				a.warn(group.PageKey(a.name, i), e.Revision, "replaces a value that is no page of a group", err)
			}
			return a.write(i, read[i], roll.Base, make([]group.Grant, n))
		}
		a.least(i, m.Revision, m.Base)
		all, base = append(all, m.Grants...), max(base, m.Base)
	}
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
	for _, m := range roll.Members {
		s := a.stand.see(m.ID)
		if needed[m.ID] = true; !s.known { // or its share would go to others, and come back
			ready = false
			continue
		}
		a.stand.take(m.ID, lost)
		newest := s.newest(m.ID)
		plan.Everyone = append(plan.Everyone, newest)
		if s.leads && s.valid && newest.Session == m && s.last.ID == m.ID { // the registry is not pruned of a term that has shards
			p := s.published
			plan.Workers = append(plan.Workers, group.Worker{Session: newest.Session, Weight: p.Weight, Most: p.Most, Leaves: p.Reports[0].Left && p.Hold == 0 || slices.Contains(roll.Drained, m.ID)})
		}
	}
	if time.Now().Before(a.mayGrant(roll.Base)) {
		return false
	}
	if !ready {
		return true
	}
	moved := plan.Assign(all)
	if len(moved) == 0 {
		return lost != 0 || a.prune(roll, rolls.Revision, plan, all)
	}
	ok := true
	for i := range a.pages {
		first, n := a.layout.Page(i)
		for _, shard := range moved {
			if shard >= first && shard < first+n {
				ok = a.write(i, read[i], base, forget(all[first:first+n], plan)) && ok
				break
			}
		}
	}
	return ok
}

// forget forgets the predecessors whose terms are over.
func forget(grants []group.Grant, plan *group.Assigner) []group.Grant {
	for i := range grants {
		if g := &grants[i]; g.Pred != (group.Session{}) && plan.Over(g.Pred) {
			g.Pred = group.Session{}
		}
	}
	return grants
}

// write writes a page, on the condition that the newest is the one at a revision, which the grants were made from.
func (a *assigner) write(i int, read, base uint64, grants []group.Grant) bool {
	value, f := a.layout.EncodePage(i, a.least(i, read, base), grants), a.pages[i]
	revision, err := update(a.ctx, a.port, group.PageKey(a.name, i), value, read)
	if err != nil {
		f.look() // it was perhaps written by another
		return false
	}
	f.take(backend.Entry{Revision: revision, Value: value})
	return true
}

// held reports whether the shards of a term that is over wait for its member, and notes when they do not any more.
func (a *assigner) held(of group.Session) bool {
	s := a.stand.see(of.ID)
	if s.leads && s.last.ID == of.ID { // it is back, and gets them when it has registered
		return s.published.Hold > 0 && !slices.Contains(a.registered, s.newest(of.ID).Session)
	}
	until := s.ended.Add(s.published.Hold)
	if !time.Now().Before(until) {
		return false
	}
	if a.due.IsZero() || until.Before(a.due) {
		a.due = until
	}
	return true
}

// prune removes from the registry the members that are gone, and have no shards, and what operators have asked for and is
// done.
func (a *assigner) prune(roll group.Registry, read uint64, plan *group.Assigner, grants []group.Grant) bool {
	owns := make(map[string]bool)
	for _, g := range grants {
		owns[g.Owner.ID] = true
	}
	members, asked, drained := len(roll.Members), len(roll.Asked), len(roll.Drained)
	isMember := make(map[string]bool)
	roll.Members = slices.DeleteFunc(slices.Clone(roll.Members), func(m group.Session) bool {
		gone := !owns[m.ID] && plan.Over(m)
		isMember[m.ID] = !gone
		return gone
	})
	roll.Drained = slices.DeleteFunc(slices.Clone(roll.Drained), func(id string) bool { return !isMember[id] })
	roll.Asked = maps.Clone(roll.Asked)
	maps.DeleteFunc(roll.Asked, func(shard int, _ string) bool { return !plan.Pending(shard, grants[shard]) })
	if len(roll.Members) == members && len(roll.Asked) == asked && len(roll.Drained) == drained {
		return true
	}
	value := roll.Encode()
	revision, err := update(a.ctx, a.port, group.RegistryKey(a.name), value, read)
	if err != nil {
		a.roll.look()
		return false
	}
	a.roll.take(backend.Entry{Revision: revision, Value: value})
	return true
}
