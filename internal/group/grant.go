// Package group has the rules by which the members of a group share shards: what the map of a group
// grants, what a member works on, and how the assigner spreads the shards. It is pure: no goroutine, lock,
// clock, context, logger or I/O.
//
// Each member leads an election of its own, and publishes a [Report] with its lease. The map says for each
// shard to which term of which member it is granted. Only compare-and-set writes the map, so safety does
// not rest on there being one assigner. These rules give each shard at most one owner at a time:
//
//  1. A member works on a shard while its own term is valid by its clock, the newest map that it has received
//     grants the shard to that term, and the predecessor does not work on it any more, which a stored record
//     shows ([Standing.Freed]).
//  2. What a new map takes away is stopped. The member reports that it has seen the map, with the shards whose
//     work has not ended yet.
//  3. A term is over for others only by a stored record: it was released, or another term of the same election
//     has begun. Silence and a deleted key prove nothing.
//  4. A shard whose predecessor is not known to have stopped is granted to another only if its owner's term is
//     over. The predecessor is then kept.
//  5. A map that was lost is made anew without owners. A shard without an owner and a predecessor is granted when
//     every member of a registry written after it has seen that, or a later record shows that its term is over.
package group

import "slices"

// Session is a term of a member. The zero Session is none.
type Session struct {
	ID    string
	Token uint64 // of the term in the election of the member
}

// Grant says who works on one shard.
type Grant struct {
	Owner Session
	// Since is the revision of the map that granted the shard to Owner. It rises with each grant. 0 stands
	// for the revision of the map that says it.
	Since uint64
	// Pred worked on the shard before, and perhaps still does until it has seen that map.
	Pred Session
}

// Map is one stored revision of a map, or of a page of a large one.
type Map struct {
	Revision uint64
	Base     uint64  // is added to Since for the token of a shard; it never falls
	Grants   []Grant // by the number of the shard
}

// Resolve puts the revision of the map in place of the zeros that stand for it.
func (m *Map) Resolve() {
	for i := range m.Grants {
		if g := &m.Grants[i]; g.Since == 0 {
			g.Since = m.Revision
		}
	}
}

// Report is what a member publishes about its work in a term.
type Report struct {
	Seen uint64 // the revision of the newest map that it has received
	Left bool   // it begins no work any more
	Busy []int  // shards that it has to stop, and whose work has not ended
}

// Standing is what the stored record of a member's election shows about one of its terms.
type Standing struct {
	Over   bool   // the term was released, or a later one has begun
	Report Report // of this term
}

// Freed reports whether the term does not work on a shard, and never will under a map before that revision.
func (s Standing) Freed(shard int, since uint64) bool {
	if s.Over {
		return true
	}
	return s.Report.Seen >= since && !slices.Contains(s.Report.Busy, shard)
}
