package leader_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/proof"
	"github.com/natsleader/natsleader/leader"
)

// crowd makes n candidates at once that wait behind a leader.
func (k kit) crowd(n int, cfg leader.Config) (first *leader.Candidate, rest []*leader.Candidate) {
	k.Helper()
	first, _ = k.stand("first", cfg)
	k.clock.Advance(time.Second)
	for i := range n {
		c, _ := k.stand(fmt.Sprint("c", i), cfg)
		rest = append(rest, c)
	}
	k.clock.Advance(time.Minute)
	return first, rest
}

// One write takes a free key, however many candidates wait for it.
func TestQueue_OneWritePerVacancy(t *testing.T) {
	k := newKit(t)
	cfg := leader.Config{Queue: &leader.Queue{}, LeaseDuration: 10 * time.Second}
	first, rest := k.crowd(200, cfg)
	for round := range 10 { // more than are in line
		at, before := k.clock.Elapsed(), k.store.Requests().Writes
		check.OK(k, leadertest.Resign(t.Context(), first))
		k.clock.Advance(0)
		writes := k.store.Requests().Writes - before
		h := check.Got(leader.Lookup(t.Context(), k.store, "e"))(k)
		for _, c := range rest {
			if c.ID() == h.ID {
				first = c
			}
		}
		k.leads(first, at)
		if refused := first.Stats().Refused; writes != 2 || refused != 0 {
			t.Errorf("vacancy %d took %d writes, want the release and one more, and %d of %s were refused", round, writes, refused, h.ID)
		}
		k.clock.Advance(time.Second) // in which the new leader publishes the line
	}
}

// A waiting candidate with a roster announces itself once in each lease, and sends no
// other request. The announcements of all are spread over the lease.
func TestAnnouncements_FewAndSpread(t *testing.T) {
	proof.NotRaced(t)
	const (
		waiting = 200
		lease   = 10 * time.Second
		leases  = 10
	)
	for _, s := range []leader.Queue{{AtOnce: true}, {}} {
		t.Run(fmt.Sprintf("%+v", s), func(t *testing.T) {
			k := newKit(t)
			_, rest := k.crowd(waiting, leader.Config{Queue: &s, LeaseDuration: lease})
			before := make(map[string]int, waiting)
			for _, c := range rest {
				r := k.store.Link(c.ID()).Requests()
				before[c.ID()] = r.Announcements
				if r.Announcements > 7 { // one at once, and the minute is of six leases
					t.Errorf("%s announced itself %d times at first", c.ID(), r.Announcements)
				}
			}
			others := func() (n int) {
				for _, c := range rest {
					r := k.store.Link(c.ID()).Requests()
					n += r.Total() - r.Announcements
				}
				return n
			}
			asked := others()
			for tenth := range 10 * leases {
				all := k.store.Requests().Announcements
				k.clock.Advance(lease / 10)
				n := k.store.Requests().Announcements - all
				check.That(t, n >= waiting/20 && n <= waiting/5,
					"%d announcements in tenth %d of a lease, want about %d", n, tenth, waiting/10)
			}
			for _, c := range rest {
				n := k.store.Link(c.ID()).Requests().Announcements - before[c.ID()]
				check.That(t, n == leases, "%s announced itself %d times in %d leases", c.ID(), n, leases)
			}
			check.Equal(t, others()-asked, 0, "%d requests that are no announcements")
		})
	}
}
