package contract

// Guard checks the writes to one guarded resource, in the order in which they were
// stored. Its zero value is a resource whose guard was never raised.
type Guard struct {
	stands uint64 // 0: it is deleted
	top    uint64
	newest Term // of the writes
}

// Stands returns the token for which the guard stands; 0: for none.
func (g *Guard) Stands() uint64 { return g.stands }

// Top returns the greatest token for which the guard ever stood.
func (g *Guard) Top() uint64 { return g.top }

// Raise reports that a guard was stored for a term.
func (g *Guard) Raise(t Term) *Violation {
	top := g.top
	g.stands, g.top = t.Token, max(g.top, t.Token)
	if t.Token < top {
		return broken(GuardRises, "from %d to %d, by %s", top, t.Token, t.Who)
	}
	return nil
}

// Delete reports that the guard was deleted or overwritten by what is no guard.
func (g *Guard) Delete() { g.stands = 0 }

// Order checks a write that was stored, where the resource has no guard.
func (g *Guard) Order(t Term) *Violation {
	if t.Token < g.newest.Token {
		return broken(WritesInOrder, "%v, after %v", t, g.newest)
	}
	g.newest = t
	return nil
}

// Write checks a write that was stored. It may break two rules.
func (g *Guard) Write(t Term) (vs []*Violation) {
	if v := g.Order(t); v != nil {
		vs = append(vs, v)
	}
	if t.Token != g.stands {
		vs = append(vs, broken(GuardMatches, "%v, and the guard stood at %d", t, g.stands))
	}
	return vs
}
