package main

import (
	"context"
	"errors"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
)

// isGroup reports whether a name without a record of an election is that of a group, as far as this connection may read it.
func (s *inspector) isGroup(ctx context.Context, name string) bool {
	x, err := answer(ctx, s, func(ctx context.Context) (electionStatus, error) { return s.one(ctx, name) })
	if err == nil && x.entry.Revision > 0 || err != nil && !errors.Is(err, leader.ErrPermission) {
		return false
	}
	x, err = answer(ctx, s, func(ctx context.Context) (electionStatus, error) { return s.one(ctx, group.RegistryKey(name)) })
	if err == nil {
		_, err = group.DecodeRegistry(x.entry.Value)
	}
	return err == nil || errors.Is(err, group.ErrLaterFormat)
}

// isNoElection is the error for the name of a group in the place of an election.
func isNoElection(name string) error {
	return exitf(exitFailed, "%s is a group of shards, and no election: see natsleader status %s; the election of its assigner is %s", name, name, group.AssignerKey(name))
}

// withoutGroups returns the keys that no group has, and the groups of which a registry is there.
func withoutGroups(all []electionStatus) (elections []electionStatus, groups []string) {
	return facts.WithoutGroups(all, func(x electionStatus) (string, bool) { return x.election, x.entry.Marker })
}
