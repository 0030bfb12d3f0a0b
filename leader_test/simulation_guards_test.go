package leader_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/contract"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
)

// resource is a guarded bucket of the test kit, with the checker's knowledge of it.
type resource struct {
	vault
	number int
	delay  time.Duration // of a new link

	// Guarded by sim.mu.
	guard   contract.Guard
	by      *life             // the life that has raised it
	raisers map[uint64]*life  // the lives that have ever raised it, by token
	most    uint64            // the greatest token that it ever had
	taken   bool              // it is another election's
	forged  bool              // also written by a client that is no candidate
	last    uint64            // revision of the guarded key
	stored  map[string]uint64 // all values that were written there
	forgets bool              // it has lost something: nothing is promised
}

// guarded is the key that the workers write.
const guarded = "k"

// guard draws the resources that the candidates guard. Their links take time and their
// stores take none, so the checker learns of a write when it is stored.
func (m *memory) guard() {
	s := m.s
	for i := range 1 + s.rng.IntN(5)/4 {
		r := &resource{
			vault:   vault{store: leadertest.NewStore(m.time), settings: backend.Settings{PurgeProtected: s.chance(2)}},
			number:  i,
			raisers: make(map[uint64]*life), stored: make(map[string]uint64),
		}
		r.store.Configure(options(r.settings)...)
		if s.chance(2) {
			r.delay = s.between(0, s.lease/50)
		}
		opened := func(backend.Feed, error) {}
		r.store.Backend().Watch(s.Context(), fence.DefaultGuardKey, nil, func(e backend.FeedEvent) { s.guardStored(r, e.Entry) }, opened)
		r.store.Backend().Watch(s.Context(), guarded, nil, func(e backend.FeedEvent) { s.guardedStored(r, e.Entry) }, opened)
		s.resources = append(s.resources, r)
	}
}

// link returns the connection of a process to the resource.
func (r *resource) link(l *life) *leadertest.Link { return r.store.Link(l.name) }

// guards returns the guards of a new candidate.
func (s *simulation) guards(l *life) (guards []leader.Guard) {
	for _, r := range s.resources {
		r.link(l).Delay(r.delay)
		guards = append(guards, r.link(l).Guard())
	}
	return guards
}

// links returns all links of a process.
func (m *memory) links(l *life) []*leadertest.Link {
	links := []*leadertest.Link{l.link.(kitLink).Link}
	for _, r := range m.s.resources {
		links = append(links, r.link(l))
	}
	return links
}

// guardFaults returns the faults of the kit that can strike a guard.
func (m *memory) guardFaults() []fault {
	s := m.s
	if len(s.resources) == 0 {
		return nil
	}
	some := func() *resource { return s.resources[s.rng.IntN(len(s.resources))] }
	link := func(l *life) *leadertest.Link { return some().link(l) }
	all := slices.DeleteFunc(append(m.connections(link), m.scripts(link)...), func(p fault) bool {
		return slices.Contains(ofFeeds, strings.TrimPrefix(p.name, "Link."))
	})
	on := func(name string, weight int, strike func(r *resource) bool) {
		all = append(all, fault{name, weight, false, func(*life) bool { return strike(some()) }})
	}
	on("Store.Delete", 2, func(r *resource) bool { r.store.Delete(fence.DefaultGuardKey); return true })
	on("Store.Purge", 4, func(r *resource) bool { return r.store.Purge(fence.DefaultGuardKey) == nil })
	on("Store.Put", 2, func(r *resource) bool { s.forge(r); return true })
	on("Store.Configure", 1, func(r *resource) bool {
		changed := r.settings
		changed.MaxValue = 64 // no guard fits
		r.store.Configure(options(changed)...)
		s.later(s.between(0, 3*s.lease), func() { r.store.Configure(options(r.settings)...) })
		return true
	})
	if !s.amnesia {
		return named(all)
	}
	for _, how := range []string{"Erase", "Expire", "Wipe", "Recreate", "Drop", "Rollback"} {
		on("Store."+how, 1, func(r *resource) bool {
			s.mu.Lock()
			r.forgets = true
			s.mu.Unlock()
			return s.forgets(&r.vault, how, fence.DefaultGuardKey)
		})
	}
	return named(all)
}

// ofFeeds are the faults of feeds and rosters, which guards do not have.
var ofFeeds = append([]string{"Forge", "DelayFeed", "LoseFeed", "DeafFeeds", "EndFeeds", "FailWatches"}, ofRoster...)

// ofRoster are the faults of the roster.
var ofRoster = []string{"LoseAnnouncements", "AnnounceLate", "FailAnnouncements", "FailViews", "EndViews", "DropRoster"}

// named marks faults as those of guards, and not of the election's bucket.
func named(faults []fault) []fault {
	for i := range faults {
		faults[i].name = "guard: " + faults[i].name
		faults[i].remote = false // observers have no guards
	}
	return faults
}

// forge overwrites a guard.
func (s *simulation) forge(r *resource) {
	s.mu.Lock()
	most := r.most
	s.mu.Unlock()
	election, token := "e", uint64(s.rng.Int64N(int64(most)+4)) // lesser, equal or greater
	switch s.rng.IntN(6) {
	case 0:
		if s.least > 0 || s.amnesia { // else only a record that was removed may have remembered such a token
			token += 1 << 20 // far ahead of all revisions
		}
	case 1:
		r.store.Put(fence.DefaultGuardKey, []byte("junk"))
		return
	case 2: // another election's, until it is deleted
		election = "other"
		s.later(s.between(0, 3*s.lease), func() { s.unforge(r) })
	}
	r.store.Put(fence.DefaultGuardKey, fmt.Appendf(nil, `{"v":1,"election":%q,"token":%d,"id":"nobody","session":"NONE"}`, election, token))
}

// unforge deletes a guard of another election.
func (s *simulation) unforge(r *resource) {
	if field(r.store.Entry(fence.DefaultGuardKey).Value, "election") == "other" {
		r.store.Delete(fence.DefaultGuardKey)
	}
}

// calmGuards ends all faults of guards.
func (m *memory) calmGuards() {
	for _, r := range m.s.resources {
		if r.forgets { // maybe it does not exist
			r.store.Recreate()
		}
		r.store.Configure(options(r.settings)...)
		m.s.unforge(r)
	}
}
