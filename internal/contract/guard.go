package contract

// Guard checks the writes to one guarded resource, in the order in which they were
// stored. Its zero value is a resource whose guard was never raised.
type Guard struct {
	stands uint64 // the token; 0: none
	top    uint64 // to which a candidate has raised it
	newest Term   // of the writes
}

// Stands returns the token for which the guard stands; 0: for none.
func (g *Guard) Stands() uint64 { return g.stands }

// Top returns the greatest token to which a candidate has raised the guard.
func (g *Guard) Top() uint64 { return g.top }

// Raise checks a guard that a candidate has stored for its term.
func (g *Guard) Raise(t Term) *Violation {
	was := max(g.top, g.stands)
	g.stands, g.top = t.Token, max(g.top, t.Token)
	if t.Token < was {
		return broken(GuardRises, "from %d to %d, by %s", was, t.Token, t.Who)
	}
	return nil
}

// Overwrite reports that a client that is no candidate has stored a guard with a token; 0:
// that it deleted the guard, or stored no guard in its place.
func (g *Guard) Overwrite(token uint64) { g.stands = token }

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
