// Package group has the rules of groups of shards: the grants of a map, the shards on which a member works, and the spread
// of the shards by the assigner. It is pure: no goroutine, lock, clock, context, logger or I/O.
//
// docs/groups.md has the five rules, with the reason for each. [Member] and [Term] keep rules 1 and 2, [Standing.Freed] rule 3,
// [Assigner] rules 4 and 5.
//
// Its files:
//
//	grant.go   what members read and publish: sessions, grants, maps, reports
//	member.go  Member: the shards of one page that one term of a member works on
//	term.go    Term: the works of one term of a member, with their times
//	alarm.go   alarms: when a Term is to look at which shard
//	assign.go  Assigner: an even spread with few moves
//	cold.go    the portions in which a group that starts cold is granted
//	peer.go    Peer: for how long the shards of a member wait for its next term
//	keys.go    the keys of a group
//	encode.go  the stored values of a group: registry, pages of the map, what members publish; encoding,
//	           decoding, bounds
package group

import "slices"

// Session is a term of a member. The zero Session is none.
type Session struct {
	ID    string `json:"id"`
	Token uint64 `json:"token"` // of the term in the election of the member
}

// Grant is the owner of one shard.
type Grant struct {
	Owner Session
	// Since is the revision of the map that granted the shard to Owner. It rises with each grant. 0 stands
	// for the revision of the map that has the grant.
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

// Report is that of a member about its work in a term.
type Report struct {
	Seen uint64 // the revision of the newest map that it has received
	Left bool   // it begins no work any more
	Busy []int  // shards that it must stop, and whose work goes on
}

// Standing is the status of a term, as the stored record of its election shows it.
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
