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
)

// IsGroup reports whether a name without a record of an election is that of a group, as far as this connection may read it.
func (s *Inspector) IsGroup(ctx context.Context, name string) bool {
	x, err := Answer(ctx, s, func(ctx context.Context) (facts.ElectionStatus, error) { return s.One(ctx, name) })
	if err == nil && x.Entry.Revision > 0 || err != nil && !errors.Is(err, leader.ErrPermission) {
		return false
	}
	x, err = Answer(ctx, s, func(ctx context.Context) (facts.ElectionStatus, error) { return s.One(ctx, group.RegistryKey(name)) })
	if err == nil {
		if _, err = group.DecodeRegistry(x.Entry.Value); err == nil || errors.Is(err, group.ErrLaterFormat) {
			return true
		}
	}
	x, err = Answer(ctx, s, func(ctx context.Context) (facts.ElectionStatus, error) { return s.One(ctx, group.AssignerKey(name)) })
	return err == nil && x.HasGroup()
}

// IsNoElection is the error for the name of a group in the place of an election.
func IsNoElection(name string) error {
	return front.Exitf(front.ExitFailed, "%s is a group of shards, and no election: see natsleader status %s; the election of its assigner is %s", name, name, group.AssignerKey(name))
}

// WithoutGroups returns the keys that no group has, and the groups that are there.
func WithoutGroups(all []facts.ElectionStatus) (elections []facts.ElectionStatus, groups []string) {
	return facts.WithoutGroups(all, func(x facts.ElectionStatus) facts.ElectionStatus { return x })
}

// ShortList names the first elections of a list.
func ShortList(all []facts.ElectionStatus) string {
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

// GroupsIn returns the names of the groups of which a registry was read, deleted or not.
func GroupsIn(all []facts.ElectionStatus) (names []string) {
	for _, x := range all {
		if name, ok := strings.CutSuffix(x.Election, group.RegistryKey("")); ok && CheckElection(name) == nil {
			names = append(names, name)
		}
	}
	return names
}
