package group

import (
	"slices"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/proof"
)

// What all members receive when one of them dies or another joins, for the figures of docs/groups.md: pages as they are;
// the same only for those that have or had shards on them; only the grants that have changed. The members before have
// joined at once, or one by one, or each of these was replaced in turn.
func TestAssign_Bytes(t *testing.T) {
	n := proof.Size(10, 100) // members, each with a page of 1,000 shards
	l := Layout{Shards: 1000 * n, PageSize: 1000}
	for _, history := range []string{"at once", "one by one", "replaced"} {
		f, grants, revision := newFleet(0), make([]Grant, l.Shards), uint64(1e6)
		join := func() {
			f.join(Worker{Weight: 1})
			f.Workers[len(f.Workers)-1].Session.ID += "-7d9f8b6c5d-x2x4z" // as that of a pod
			f.standing[f.Workers[len(f.Workers)-1].Session] = Standing{Report: Report{Seen: 1 << 60}}
		}
		die := func() {
			f.standing[f.Workers[0].Session] = Standing{Over: true}
			f.Workers = slices.Delete(f.Workers, 0, 1)
		}
		assign := func() []Grant {
			before := slices.Clone(grants)
			revision += uint64(l.Pages())
			f.Assign(grants)
			for page := range l.Pages() { // each page is a write of its own
				first, size := l.Page(page)
				(&Map{Revision: revision + uint64(page), Grants: grants[first : first+size]}).Resolve()
			}
			return before
		}
		for i := range n {
			if join(); history != "at once" || i == n-1 {
				assign()
			}
		}
		for range n {
			if history == "replaced" {
				die()
				assign()
				join()
				assign()
			}
		}
		for _, event := range []func(){die, join} {
			event()
			before := assign()
			moves, pages, all, concerned, deltas := 0, 0, 0, 0, 0
			for page := range l.Pages() {
				first, _ := l.Page(page)
				on, delta := make(map[Session]bool), []Grant(nil)
				for i := first; i < first+l.PageSize; i++ {
					if grants[i] != before[i] {
						delta = append(delta, grants[i])
					}
					on[grants[i].Owner], on[before[i].Owner] = true, true
				}
				if len(delta) == 0 {
					continue
				}
				size := len(l.EncodePage(page, 1764167000000000, grants[first:first+l.PageSize]))
				moves, pages, all = moves+len(delta), pages+1, all+size*len(f.Workers)
				concerned += size * min(len(on), len(f.Workers))
				deltas += len(l.EncodePage(page, 1764167000000000, delta)) * len(f.Workers)
			}
			t.Logf("%d members that have joined %s, then %d: %d moves on %d pages, which are %.2f MB to all, %.2f MB to those concerned, %.2f MB as changes",
				n, history, len(f.Workers), moves, pages, float64(all)/1e6, float64(concerned)/1e6, float64(deltas)/1e6)
			check.Equal(t, moves, 1000, "%d moves")
		}
	}
}
