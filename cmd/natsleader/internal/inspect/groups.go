package inspect

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// IsGroup reports whether a name without a record of an election is that of a group, as far as this connection may read it.
func (s *Inspector) IsGroup(ctx context.Context, name string) bool {
	x, err := Answer(ctx, s, func(ctx context.Context) (ElectionStatus, error) { return s.One(ctx, name) })
	if err == nil && x.Entry.Revision > 0 || err != nil && !errors.Is(err, leader.ErrPermission) {
		return false
	}
	x, err = Answer(ctx, s, func(ctx context.Context) (ElectionStatus, error) { return s.One(ctx, group.RegistryKey(name)) })
	if err == nil {
		_, err = group.DecodeRegistry(x.Entry.Value)
	}
	return err == nil || errors.Is(err, group.ErrLaterFormat)
}

// IsNoElection is the error for the name of a group in the place of an election.
func IsNoElection(name string) error {
	return front.Exitf(front.ExitFailed, "%s is a group of shards, and no election: see natsleader status %s; the election of its assigner is %s", name, name, group.AssignerKey(name))
}

// WithoutGroups returns the keys that no group has, and the groups of which a registry is there.
func WithoutGroups(all []ElectionStatus) (elections []ElectionStatus, groups []string) {
	return facts.WithoutGroups(all, func(x ElectionStatus) (string, bool) { return x.Election, x.Entry.Marker })
}

// ShortList names the first elections of a list.
func ShortList(all []ElectionStatus) string {
	const most = 5
	var names []string
	for _, x := range all[:min(most, len(all))] {
		names = append(names, front.Printable(x.Election))
	}
	text := strings.Join(names, ", ")
	if more := len(all) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// The states of a member.
const (
	MemberLives   = facts.MemberLives
	MemberDrained = facts.MemberDrained
	MemberLeaves  = facts.MemberLeaves
	MemberLeft    = facts.MemberLeft
	MemberGone    = facts.MemberGone
)

// IsPast reports whether the term of a member is over.
func IsPast(state string) bool { return facts.MemberPast(state) }

// MemberState returns the state of a member of a group.
func MemberState(p shard.Peer) string { return facts.MemberState(p) }

// Member returns the state of the member whose key it is.
func (s ElectionStatus) Member() string {
	value := s.Holder.Value
	if s.Holder.Last != nil {
		value = s.Holder.Last.Value
	}
	return MemberState(shard.Peer{ID: group.MemberOf(s.Election), Holder: s.Holder, Leaves: group.HasLeft(value)})
}

// GroupsIn returns the names of the groups of which a registry was read, deleted or not.
func GroupsIn(all []ElectionStatus) (names []string) {
	for _, x := range all {
		if name, ok := strings.CutSuffix(x.Election, group.RegistryKey("")); ok && CheckElection(name) == nil {
			names = append(names, name)
		}
	}
	return names
}
