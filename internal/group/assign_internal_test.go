package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/natsleader/natsleader/internal/check"
)

// fleet are sessions with what the stored records show of them.
type fleet struct {
	Assigner
	name     string // begins the IDs
	standing map[Session]Standing
	held     map[Session]bool
}

// newFleet returns a fleet of equal workers that have seen every map.
func newFleet(workers int) *fleet {
	f := &fleet{standing: make(map[Session]Standing), held: make(map[Session]bool)}
	f.Over = func(s Session) bool { return f.standing[s].Over }
	f.Freed = func(s Session, shard int, since uint64) bool { return f.standing[s].Freed(shard, since) }
	f.Held = func(s Session) bool { return f.held[s] }
	f.Roll = 1 << 60
	for range workers {
		f.join(Worker{Weight: 1})
	}
	return f
}

// join adds a worker that has seen every map.
func (f *fleet) join(w Worker) {
	w.Session = Session{f.name + "w" + strconv.Itoa(len(f.standing)), 5}
	f.Workers = append(f.Workers, w)
	f.standing[w.Session] = Standing{Report: Report{Seen: 1 << 60}}
}

// newest returns a term, with what its record shows now.
func (f *fleet) newest(s Session, revision uint64) Newest {
	return Newest{s, revision, f.standing[s].Freed}
}

// shares returns how many shards each worker has.
func (f *fleet) shares(grants []Grant) []int {
	n := make([]int, len(f.Workers))
	for i, w := range f.Workers {
		for _, g := range grants {
			if g.Owner == w.Session {
				n[i]++
			}
		}
	}
	return n
}

// owned returns the shards of one worker.
func (f *fleet) owned(grants []Grant, worker int) (shards []int) {
	for i, g := range grants {
		if g.Owner == f.Workers[worker].Session {
			shards = append(shards, i)
		}
	}
	return shards
}

// leave ends the term of a worker.
func (f *fleet) leave(worker int) {
	f.standing[f.Workers[worker].Session] = Standing{Over: true}
	f.Workers = slices.Delete(f.Workers, worker, worker+1)
}

// assign assigns the shards, stores the map at a revision, and returns what moved.
func (f *fleet) assign(grants []Grant, revision uint64) []int {
	moved := f.Assign(grants)
	(&Map{Revision: revision, Grants: grants}).Resolve()
	return moved
}

// As members join and leave, shards are spread to within one, and none moves that need not: a new member gets its
// share, and no more than ceil(shards/members), and the shards of one that leaves are all that moves then.
func TestAssign_FewMoves(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		f, shards := newFleet(0), 1+rng.IntN(40)
		grants := make([]Grant, shards)
		for revision := uint64(1); revision < 20; revision++ {
			before, n := f.shares(grants), len(f.Workers)
			var want int
			switch gone := rng.IntN(max(n, 1)); {
			case n == 0 || n < 8 && rng.IntN(2) == 0:
				f.join(Worker{Weight: 1})
				if want = shards / (n + 1); n == 0 {
					want = shards
				}
				check.Must(t, n == 0 || want <= (shards+n)/(n+1), "%d moves", want)
			case rng.IntN(2) == 0: // says that it leaves
				want = before[gone]
				f.Workers[gone].Leaves = true
				if n == 1 {
					f.join(Worker{Weight: 1})
				}
			default: // its term is over
				want = before[gone]
				f.leave(gone)
			}
			moved := f.assign(grants, revision)
			f.Workers = slices.DeleteFunc(f.Workers, func(w Worker) bool { return w.Leaves })
			after := f.shares(grants)
			check.Must(t, len(moved) == want, "%d shards: from %v to %v moves %v, want %d", shards, before, after, moved, want)
			check.Must(t, len(after) == 0 || slices.Max(after)-slices.Min(after) <= 1, "%d shards: from %v to %v", shards, before, after)
		}
	}
}

// state is a fleet in any situation, with the grants of some shards.
func state(rng *rand.Rand) (f *fleet, grants []Grant) {
	f = newFleet(0)
	for range rng.IntN(6) {
		w := Worker{Weight: rng.IntN(4), Most: max(0, rng.IntN(10)-4), Leaves: rng.IntN(5) == 0}
		for range rng.IntN(3) * rng.IntN(2) {
			w.Late = append(w.Late, rng.IntN(8))
		}
		f.join(w)
	}
	all := []Session{{}, {"over", 1}, {"held", 1}, {"silent", 1}}
	f.standing[all[1]], f.standing[all[2]], f.held[all[2]] = Standing{Over: true}, Standing{Over: true}, true
	for i, w := range f.Workers {
		all = append(all, w.Session)
		f.standing[w.Session] = Standing{Report: Report{Seen: uint64(5 + i), Busy: []int{rng.IntN(8)}}}
		f.Everyone = append(f.Everyone, f.newest(w.Session, uint64(5+i)))
		before := Session{w.Session.ID, 4}
		f.standing[before], all = Standing{Over: true}, append(all, before)
	}
	for range rng.IntN(25) {
		g := Grant{Owner: all[rng.IntN(len(all))], Since: uint64(1 + rng.IntN(9))}
		if rng.IntN(2) == 0 {
			g.Pred = all[rng.IntN(len(all))]
		}
		grants = append(grants, g)
	}
	return f, grants
}

// In any situation: what moved could be moved, and had to be. Who may still work on it is its predecessor. No worker
// has more than it takes, a shard is without an owner only if there is no room or any member may work on it, or if it waits
// for a portion, and the next run moves nothing.
func TestAssign_AnySituation(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		f, before := state(rng)
		f.Portion = rng.IntN(20) * rng.IntN(2)
		grants := slices.Clone(before)
		moved := f.Assign(grants)
		say := func(what string) { t.Fatalf("%s: %+v of %+v became %+v", what, before, f.Workers, grants) }
		var changed []int
		anyLate := slices.ContainsFunc(f.Workers, func(w Worker) bool { return w.Late != nil })
		room := func(i int) bool {
			return slices.ContainsFunc(f.Workers, func(w Worker) bool {
				n := len(slices.DeleteFunc(slices.Clone(grants), func(g Grant) bool { return g.Owner != w.Session }))
				return takes(w) && (w.Most == 0 || n < w.Most) && !slices.Contains(w.Late, i)
			})
		}
		late := func(i int, s Session) bool {
			return slices.ContainsFunc(f.Workers, func(w Worker) bool { return w.Session == s && slices.Contains(w.Late, i) })
		}
		settled := func(i int, g Grant) bool {
			preds := []Session{g.Pred}
			if g.Pred == (Session{}) {
				if preds = nil; g.Owner == (Session{}) {
					for _, n := range f.Everyone {
						if preds = append(preds, n.Session); n.Revision < g.Since {
							return false
						}
					}
				}
			}
			return !slices.ContainsFunc(preds, func(s Session) bool { return !f.standing[s].Freed(i, g.Since) })
		}
		got, found := make(map[Session]int), Found{Uneven: f.Found.Uneven}
		for i, g := range grants {
			was := before[i]
			over := f.standing[was.Owner].Over
			switch {
			case was.Owner == (Session{}) || over:
				found.Unowned++
			case !settled(i, was):
				found.Moving++
			}
			if g.Owner == (Session{}) && f.Portion == 0 && room(i) && (was.Owner != (Session{}) || settled(i, was)) {
				say("no owner in spite of room")
			}
			if late(i, g.Owner) && (g != was || settled(i, was)) {
				say("is granted to who is late")
			}
			if g == was {
				if over && !f.held[was.Owner] && f.Portion == 0 {
					say("stays with an owner that is over")
				}
				continue
			}
			changed = append(changed, i)
			got[g.Owner]++
			want := Grant{Owner: g.Owner}
			switch {
			case !settled(i, was):
				want.Pred = was.Pred
			case !over: // perhaps none
				want.Pred = was.Owner
			}
			if g != want || g.Owner == was.Owner || f.held[was.Owner] || was.Owner.ID == "silent" || !over && !settled(i, was) {
				say("must not move so")
			}
		}
		if !slices.Equal(moved, changed) {
			say(fmt.Sprint(moved, " named as moved"))
		}
		check.Equal(t, f.Found, found, "%v found")
		shares, had := f.shares(grants), f.shares(before)
		for i, w := range f.Workers {
			if got[w.Session] > 0 && (!takes(w) || w.Most > 0 && shares[i] > w.Most || shares[i] < had[i] && !anyLate) {
				say("gets what it does not take")
			}
		}
		for n := 0; anyLate && n < 5 && f.Assign(grants) != nil; n++ { // a shard that only full workers take leaves room elsewhere
		}
		if f.Assign(grants) != nil {
			say("moves again")
		}
	}
}

// What is uneven is what has to move, also what cannot move yet.
func TestAssign_Uneven(t *testing.T) {
	for _, c := range []struct {
		workers               []Worker
		pred                  Session
		uneven, moving, moves int
	}{
		{[]Worker{{Weight: 1}}, Session{}, 0, 0, 0},
		{[]Worker{{Weight: 1}, {Weight: 1}}, Session{}, 3, 0, 3},
		{[]Worker{{Weight: 1}, {Weight: 1}}, Session{"silent", 1}, 3, 6, 0},
		{[]Worker{{Weight: 1, Leaves: true}, {Weight: 1}, {Weight: 1}}, Session{}, 6, 0, 6},
	} {
		f, grants := newFleet(0), make([]Grant, 6)
		for _, w := range c.workers {
			f.join(w)
		}
		for i := range grants {
			grants[i] = Grant{Owner: f.Workers[0].Session, Since: 3, Pred: c.pred}
		}
		moved := f.Assign(grants)
		check.Equal(t, f.Found, Found{Uneven: c.uneven, Moving: c.moving}, "%v found")
		check.Equal(t, len(moved), c.moves, "%d moves")
		f.Assign(grants) // moved, and not seen yet
		check.Equal(t, f.Found.Uneven, c.uneven-c.moves, "%d uneven")
	}
}

func takes(w Worker) bool { return w.Weight > 0 && !w.Leaves }

// Shards are spread by weight, up to what a worker takes. Where the shares leave a choice, the last worker has more.
func TestAssign_Shares(t *testing.T) {
	for _, c := range []struct {
		shards  int
		workers []Worker
		want    []int
	}{
		{7, []Worker{{Weight: 1}, {Weight: 1}, {Weight: 1}}, []int{2, 2, 3}},
		{12, []Worker{{Weight: 2}, {Weight: 1}, {Weight: 3}}, []int{4, 2, 6}},
		{12, []Worker{{Weight: 1, Most: 2}, {Weight: 1}, {Weight: 1}}, []int{2, 5, 5}},
		{12, []Worker{{Weight: 9, Most: 2}, {Weight: 1, Most: 3}}, []int{2, 3}},
		{12, []Worker{{Weight: 1, Leaves: true}, {Weight: 0}, {Weight: 1}}, []int{0, 0, 12}},
		{3, []Worker{{Weight: 0}}, []int{0}},
		{3, nil, []int{}},
		{1, []Worker{{Weight: 2}, {Weight: 1}}, []int{1, 0}},
	} {
		f, grants := newFleet(0), make([]Grant, c.shards)
		for _, w := range c.workers {
			f.join(w)
		}
		f.Assign(grants)
		check.Deep(t, f.shares(grants), c.want)
	}
}

// The shards of a term that is over wait for the member, if its place is held. Each member that is back gets those that
// it had, also one more than others. If it does not come back, they are spread.
func TestAssign_Held(t *testing.T) {
	f, grants := newFleet(3), make([]Grant, 10)
	f.assign(grants, 1)
	before, old := slices.Clone(grants), slices.Clone(f.Workers)
	gone := append(f.owned(grants, 1), f.owned(grants, 2)...)
	slices.Sort(gone)
	for _, w := range old[1:] {
		f.standing[w.Session], f.held[w.Session] = Standing{Over: true}, true
	}
	f.Workers = f.Workers[:1]
	check.That(t, f.assign(grants, 2) == nil, "a held shard moves: %+v", grants)

	f.held = nil
	back := slices.Clone(grants)
	for _, w := range old[1:] {
		w.Session.Token++
		f.Workers = append(f.Workers, w)
	}
	check.Deep(t, f.assign(back, 3), gone)
	for i, g := range before {
		if slices.Contains(gone, i) {
			g = Grant{Owner: Session{g.Owner.ID, 6}, Since: 3}
		}
		check.Equal(t, back[i], g, "%+v")
	}

	f.Workers = old[:1]
	f.join(Worker{Weight: 1})
	check.Deep(t, f.assign(grants, 3), gone)
	check.Deep(t, f.shares(grants), []int{5, 5})
}

// A shard on whose earlier grant a worker still works goes to another one, in exchange for a shard of that one. It stays
// there until that work has ended, and has no owner if there is no other worker with room.
func TestAssign_Late(t *testing.T) {
	f, grants := newFleet(2), make([]Grant, 4)
	f.assign(grants, 1)
	a, b := &f.Workers[0], &f.Workers[1]
	check.That(t, grants[0].Owner == a.Session && grants[1].Owner == a.Session, "%+v", grants)
	moves := func(revision uint64, want []int, shares ...int) {
		t.Helper()
		slices.Sort(want)
		check.Equal(t, fmt.Sprint(f.assign(grants, revision)), fmt.Sprint(want), "%s moved")
		check.Deep(t, f.shares(grants), shares)
	}
	a.Late = []int{0}
	f.standing[a.Session] = Standing{}
	grants[0].Pred = a.Session // a shard in motion stays
	moves(2, nil, 2, 2)
	f.standing[a.Session] = Standing{Report: Report{Seen: 1 << 60}}
	moves(3, []int{0}, 1, 3)
	moved := f.assign(grants, 4)
	check.That(t, len(moved) == 1 && moved[0] >= 2, "%v moved", moved)
	check.Deep(t, f.shares(grants), []int{2, 2})
	f.Asked = map[int]string{0: a.Session.ID}
	moves(5, nil, 2, 2)
	f.Asked = nil
	b.Leaves = true
	moves(6, f.owned(grants, 1), 3, 0)
	moves(7, nil, 3, 0)
	back := f.Workers[1]
	f.standing[back.Session] = Standing{Over: true}
	back.Session.Token++
	back.Leaves, back.Most = false, 1
	f.Workers[1] = back
	moves(8, []int{0}, 3, 1)
	a.Late = nil
	moves(9, nil, 3, 1)

	f, grants = newFleet(3), make([]Grant, 6) // it goes to who has the fewest, and others are spread in its place
	for i, w := range []int{0, 1, 1, 1, 2, 0} {
		grants[i] = Grant{Owner: f.Workers[w].Session, Since: 1}
	}
	f.Workers[0].Late = []int{5}
	was := f.owned(grants, 1)
	moved = f.assign(grants, 2)
	check.That(t, len(moved) == 2 && slices.Contains(was, moved[0]) && moved[1] == 5, "%v moved, of %v and 5", moved, was)
	check.Deep(t, f.shares(grants), []int{2, 2, 2})
	check.Equal(t, grants[5].Owner, f.Workers[2].Session, "%v has it")
	f.Asked = map[int]string{0: f.Workers[2].Session.ID}
	grants[4].Since, grants[5].Since = 2, 1
	moves(3, []int{0, 4}, 2, 2, 2) // 4 moves back, although 5 was granted longer ago
}

// Shards that are granted together are beside each other, so that a page has few entries.
func TestAssign_Large(t *testing.T) {
	for _, size := range []struct{ shards, workers int }{{10_000, 10}, {100_000, 100}} {
		f, grants := newFleet(size.workers), make([]Grant, size.shards)
		check.Equal(t, len(f.assign(grants, 1)), size.shards, "%d moved")
		l := Layout{Shards: size.shards, PageSize: 1000}
		for i, n := range f.shares(grants) {
			check.Equal(t, n, 1000, "%d shards of a worker")
			check.That(t, len(l.EncodePage(i, 0, grants[1000*i:1000*i+1000])) < 200, "page %d is long", i)
		}
		f.join(Worker{Weight: 1})
		check.Equal(t, len(f.assign(grants, 2)), size.shards/(size.workers+1), "%d moved")
	}
}

// A shard that is asked for moves, and another one moves back for it, so that all stays even. A request that is met, or
// cannot be, is not pending.
func TestAssign_Asked(t *testing.T) {
	f, grants := newFleet(3), make([]Grant, 9)
	f.assign(grants, 1)
	a, b, c := f.Workers[0].Session, f.Workers[1].Session, f.Workers[2].Session
	check.That(t, grants[0].Owner == a && grants[8].Owner == c, "%+v", grants)
	f.Asked = map[int]string{8: a.ID, 7: "nobody", 1: a.ID}
	check.That(t, f.Pending(8, grants[8]) && !f.Pending(7, grants[7]) && !f.Pending(1, grants[1]), "what is pending")
	had := f.owned(grants, 0)
	moved := f.assign(grants, 2)
	check.Must(t, len(moved) == 2 && slices.Contains(had, moved[0]) && moved[1] == 8, "%v moved, of %v and 8", moved, had)
	back := moved[0]
	check.That(t, grants[8] == Grant{Owner: a, Pred: c, Since: 2} && grants[back] == Grant{Owner: c, Pred: a, Since: 2}, "%+v", grants)
	check.Equal(t, len(f.assign(grants, 3)), 0, "%d moved")
	check.That(t, !f.Pending(8, grants[8]), "it is pending")

	// A shard in motion waits.
	f.standing[a] = Standing{Report: Report{Seen: 3}}
	f.Asked = map[int]string{back: b.ID, 5: a.ID}
	f.assign(grants, 4)
	f.standing[a] = Standing{Report: Report{Seen: 1}}
	check.That(t, grants[back].Owner == b && grants[5].Owner == a, "%+v", grants)
	f.standing[c] = Standing{Report: Report{Seen: 3}}
	f.Asked = map[int]string{back: a.ID}
	check.That(t, f.Pending(back, grants[back]), "it is not pending")
	check.Equal(t, len(f.assign(grants, 5)), 0, "%d moved")

	// A member that leaves takes none.
	f.Workers[2].Leaves = true
	f.Asked = map[int]string{8: c.ID}
	check.That(t, grants[8].Owner == a && !f.Pending(8, grants[8]), "it is pending")
	f.assign(grants, 6)
	check.Equal(t, f.shares(grants)[2], 1, "c has %d: the shard in motion")
}

// One shard moves only if nobody works on it but its owner.
func TestMove(t *testing.T) {
	none, a, b, p := Session{}, Session{"a", 1}, Session{"b", 1}, Session{"p", 1}
	for _, c := range []struct {
		name         string
		aOver, pSeen bool
		was          Grant
		to           Session
		want         Grant // none: it does not move
	}{
		{"without an owner", false, false, Grant{Since: 7}, b, Grant{Owner: b}},
		{"without an owner, in motion", false, false, Grant{Since: 7, Pred: p}, b, Grant{}},
		{"without an owner, free", false, true, Grant{Since: 7, Pred: p}, b, Grant{Owner: b}},
		{"of a map that was lost", false, false, Grant{Since: 9}, b, Grant{}},
		{"of a map that was lost, of which no record is later", true, false, Grant{Since: 9}, b, Grant{}},
		{"of a map that was lost before a term was over", true, false, Grant{Since: 8}, b, Grant{Owner: b}},
		{"of a living owner", false, false, Grant{Owner: a, Since: 7}, b, Grant{Owner: b, Pred: a}},
		{"to nobody", false, false, Grant{Owner: a, Since: 7}, none, Grant{Pred: a}},
		{"of a living owner that has begun", false, true, Grant{Owner: a, Since: 7, Pred: p}, b, Grant{Owner: b, Pred: a}},
		{"in motion", false, false, Grant{Owner: a, Since: 7, Pred: p}, b, Grant{}},
		{"in motion, back", false, false, Grant{Owner: a, Since: 7, Pred: p}, p, Grant{}},
		{"in motion, owner over", true, false, Grant{Owner: a, Since: 7, Pred: p}, b, Grant{Owner: b, Pred: p}},
		{"owner over", true, true, Grant{Owner: a, Since: 7, Pred: p}, b, Grant{Owner: b}},
		{"to its owner", false, true, Grant{Owner: a, Since: 7, Pred: p}, a, Grant{}},
	} {
		f, g := newFleet(0), c.was
		f.standing[a] = Standing{Over: c.aOver, Report: Report{Seen: 8}}
		f.Everyone = []Newest{f.newest(a, 8)}
		if c.pSeen {
			f.standing[p] = Standing{Report: Report{Seen: 7}}
		}
		moved := f.Move(0, &g, c.to)
		if c.want == (Grant{}) {
			check.That(t, !moved && g == c.was, "%s: %+v", c.name, g)
			continue
		}
		check.That(t, moved && g == c.want, "%s: %+v, want %+v", c.name, g, c.want)
	}
}
