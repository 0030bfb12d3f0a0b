package facts

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// State is the state of an election at one moment.
type State string

// The states.
const (
	Leading  State = "leading"
	Pending  State = "pending"  // a candidate holds the key and does not lead yet
	Released State = "released" // given up in order
	Expired  State = "expired"  // the lease has run out, and no candidate has taken the key
	Deleted  State = "deleted"  // the key was deleted, purged or has expired
	Foreign  State = "foreign"  // the key holds something else
	Never    State = "never"    // no candidate has ever stood, as far as the bucket knows
)

// Held reports whether a candidate of natsleader holds the key.
func (s State) Held() bool { return s == Leading || s == Pending }

// Taken reports whether the key is held, by a candidate or by something else.
func (s State) Taken() bool { return s.Held() || s == Foreign }

// StateOf returns the state at a moment of the server's time of an entry, and its holder. gone is when a key that had a
// record was found without one; zero: it was not.
func StateOf(e backend.Entry, h leader.Holder, gone, now time.Time) State {
	switch {
	case !gone.IsZero():
		return Deleted
	case e.Revision == 0:
		return Never
	case h.State == leader.HolderReleased: // perhaps according to a marker
		return Released
	case e.Marker:
		return Deleted
	case h.State == leader.HolderForeign:
		return Foreign
	case !h.Renewed.Add(h.Lease).After(now):
		return Expired
	case h.State == leader.HolderPending:
		return Pending
	}
	return Leading
}

// WithoutGroups returns the keys that no group has, and the groups that are there.
func WithoutGroups[T any](all []T, key func(T) ElectionStatus) (elections []T, groups []string) {
	in := func(x T) string {
		name, _, _ := group.NameOf(key(x).Election)
		return name
	}
	for _, x := range all {
		if name := in(x); key(x).HasGroup() && !slices.Contains(groups, name) {
			groups = append(groups, name)
		}
	}
	for _, x := range all {
		if !slices.Contains(groups, in(x)) {
			elections = append(elections, x)
		}
	}
	return elections, groups
}

// HasGroup reports whether a key shows that there is a group: it has a registry, or its assigner holds a key, and the registry
// is lost or not made yet.
func (s ElectionStatus) HasGroup() bool {
	switch name, _, inGroup := group.NameOf(s.Election); {
	case !inGroup || s.Entry.Marker || s.Entry.Revision == 0:
		return false
	case s.Election == group.AssignerKey(name):
		return s.Holder.State == leader.HolderLeading || s.Holder.State == leader.HolderPending
	default:
		return s.Election == group.RegistryKey(name)
	}
}

// The states of a member.
const (
	MemberLives   = "lives"
	MemberDrained = "drained" // by an operator
	MemberLeaves  = "leaves"  // it stops
	MemberLeft    = "left"    // it has stopped
	MemberGone    = "gone"    // its lease is over
)

// MemberPast reports whether the term of a member is over.
func MemberPast(state string) bool { return state == MemberLeft || state == MemberGone }

// MemberState is the state of a member.
func MemberState(p shard.Peer) string {
	switch over := p.Holder.State != leader.HolderLeading || p.Holder.ID != p.ID; {
	case over && (p.Leaves || p.Holder.Last != nil && p.Holder.Last.State == leader.HolderReleased && p.Holder.Last.ID == p.ID):
		return MemberLeft
	case over:
		return MemberGone
	case p.Leaves:
		return MemberLeaves
	case p.Drained:
		return MemberDrained
	}
	return MemberLives
}

// ViewAt returns a view of a group in which no lease that is over by then counts: one read of the members cannot show
// that.
func ViewAt(v shard.View, now time.Time) shard.View {
	over := func(h leader.Holder) leader.Holder {
		if (h.State == leader.HolderLeading || h.State == leader.HolderPending) && !h.Renewed.Add(h.Lease).After(now) {
			h.State = leader.HolderExpired
		}
		return h
	}
	v.Assigner, v.Members, v.Owners = over(v.Assigner), slices.Clone(v.Members), slices.Clone(v.Owners)
	gone := make(map[string]bool)
	for i := range v.Members {
		m := &v.Members[i]
		m.Holder = over(m.Holder)
		gone[m.ID] = MemberPast(MemberState(*m))
	}
	for i := range v.Owners {
		if o := &v.Owners[i]; gone[o.ID] {
			o.State, o.Value = shard.OwnerIsGone, nil
		}
	}
	return v
}

// Owned reports whether a shard has an owner that lives.
func Owned(o shard.Owner) bool { return o.State != shard.OwnerNone && o.State != shard.OwnerIsGone }

// Unowned returns the shards that have no owner that lives. Those whose part of the map is lost may have one.
func Unowned(v shard.View) (shards []int) {
	for i, o := range v.Owners {
		if _, lost := slices.BinarySearch(v.Lost, i); !lost && !Owned(o) {
			shards = append(shards, i)
		}
	}
	return shards
}

// Work are some shards of a member that lives.
type Work struct {
	Shards []int  `json:"shards"`
	ID     string `json:"id"`
}

func (w Work) String() string { return fmt.Sprintf("%s of %s", group.Ranges(w.Shards), Text(w.ID)) }

// NotBegun returns the shards that are granted and whose work has not begun.
func NotBegun(v shard.View) (all []Work) {
	has := make(map[string][]int)
	for i, o := range v.Owners {
		if o.State == shard.OwnerGranted {
			has[o.ID] = append(has[o.ID], i)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(has)) {
		all = append(all, Work{has[id], id})
	}
	return all
}

// LateWork returns the work that goes on after its GracePeriod: of one shard, or of all if only is less than 0.
func LateWork(v shard.View, only int) (all []Work) {
	for _, m := range v.Members {
		switch {
		case MemberPast(MemberState(m)): // its process may have ended
		case only < 0 && len(m.Late) > 0:
			all = append(all, Work{m.Late, m.ID})
		case slices.Contains(m.Late, only):
			all = append(all, Work{[]int{only}, m.ID})
		}
	}
	return all
}

// LongSilence is too long a silence for a server that is alive. The leader of a stream hears of each one every second.
// Servers that were killed count as online for much longer, and as current while nothing is written.
const LongSilence = 5 * time.Second

// Looks are two looks at the servers of a stream that the same server leads.
type Looks struct {
	First    *jetstream.ClusterInfo `json:"first,omitempty"`
	Last     *jetstream.ClusterInfo `json:"last,omitempty"`
	Apart    time.Duration          `json:"apart_ns,omitempty"`
	CaughtUp []string               `json:"caught_up,omitempty"` // servers that were less behind in a look than in the first one
}

// NewLooks begins with a look.
func NewLooks(c *jetstream.ClusterInfo) Looks { return Looks{First: c, Last: c} }

// Take adds a look.
func (l *Looks) Take(c *jetstream.ClusterInfo, apart time.Duration) {
	l.Last, l.Apart = c, apart
	for _, r := range c.Replicas {
		was := slices.IndexFunc(l.First.Replicas, func(p *jetstream.PeerInfo) bool { return p.Name == r.Name })
		if was >= 0 && (r.Current && r.Active < LongSilence || r.Active > 0 && r.Lag < l.First.Replicas[was].Lag) {
			l.CaughtUp = append(l.CaughtUp, r.Name)
		}
	}
}

// Settled reports whether another look would change nothing.
func (l *Looks) Settled() bool {
	for _, r := range l.Last.Replicas {
		if !r.Offline && r.Active <= LongSilence && !r.Current && !slices.Contains(l.CaughtUp, r.Name) {
			return false
		}
	}
	return true
}
