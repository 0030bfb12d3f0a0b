package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	for _, x := range all {
		if name, _, _ := group.NameOf(x.election); x.election == group.RegistryKey(name) && !x.entry.Marker {
			groups = append(groups, name)
		}
	}
	for _, x := range all {
		if name, _, _ := group.NameOf(x.election); !slices.Contains(groups, name) {
			elections = append(elections, x)
		}
	}
	return elections, groups
}

// judgeGroup returns what is wrong with a group, or that it is well.
func judgeGroup(ctx context.Context, s *inspector, name string, all []electionStatus) (found []finding) {
	title, byKey := "group "+printable(name), make(map[string]electionStatus)
	for _, e := range all {
		byKey[e.election] = e
	}
	registry, err := group.DecodeRegistry(byKey[group.RegistryKey(name)].entry.Value)
	if err != nil {
		return []finding{judgeValue(title, group.RegistryKey(name), err)}
	}
	x := sharing{group: name, only: -1}
	if err := x.read(ctx, s); err != nil {
		return []finding{unreadFor(err, "%s: %s", title, errorText(err))}
	}
	for i := range registry.Pages() {
		e := byKey[group.PageKey(name, i)].entry
		if _, err := registry.DecodePage(i, e.Value, e.Revision); err != nil {
			found = append(found, judgeValue(title, group.PageKey(name, i), err))
		}
	}
	states := make(map[string][]string) // the members, by state
	for _, m := range x.view.Members {
		st := memberState(m)
		states[st] = append(states[st], printable(m.ID))
		if _, err := registry.DecodeMember(m.Holder.Value, m.Holder.Revision); err != nil && !isPast(st) {
			found = append(found, judgeValue(title, group.MemberKey(name, m.ID), err))
		}
	}
	lives := len(x.view.Members) - len(states[memberGone]) - len(states[memberLeft])
	none, shards := x.unowned(), len(x.view.Owners)
	switch {
	case lives == 0 && len(states[memberGone]) == 0:
		return append(found, fine("%s: %d shards, all members have left", title, shards))
	case lives == 0:
		found = append(found, severityWarning.of("%s: no member lives; these are gone: %s", title, some(states[memberGone])).advise("start its members"))
	case len(none) > 0:
		text := fmt.Sprintf("%s: %d of %d shards have no owner: %s", title, len(none), shards, shorten(group.Ranges(none), longValue))
		if gone := states[memberGone]; len(gone) > 0 {
			text += "; these members are gone: " + some(gone)
		}
		if left := states[memberLeft]; len(left) > 0 {
			text += "; these have left: " + some(left)
		}
		found = append(found, severityWarning.of("%s", text).
			advise(x.remedy()))
	}
	if lives > 0 && x.view.Assigner.State != leader.HolderLeading {
		found = append(found, severityWarning.of("%s: no member is the assigner, so no shard moves", title).
			advise("look again after a lease; if it stays, see the logs of the members: they may not be allowed to write "+group.AssignerKey(name)))
	}
	for _, row := range x.troubles() {
		what, do := "work goes on after its GracePeriod", "see in the logs of these members what hangs, and restart them"
		if row[0] == titleNotBegun {
			do = "see in the logs of these members what hangs, or which guard cannot be raised, and restart them"
			what = "shards are granted, and their owners have not begun the work"
		}
		found = append(found, severityWarning.of("%s: %s: %s", title, what, row[1]).
			advise(do))
	}
	if drained := states[memberDrained]; len(drained) > 0 {
		found = append(found, severityNote.of("%s: these members are drained: %s", title, some(drained)).advise("natsleader undrain ID"))
	}
	if len(found) == 0 {
		found = append(found, fine("%s: %d shards, each with an owner; %d members", title, shards, lives))
	}
	return found
}

// judgeValue returns the finding about a value that cannot be used.
func judgeValue(title, key string, err error) finding {
	f := severityWarning.of("%s: the key %s cannot be used: %s", title, printable(key), errorText(err))
	if errors.Is(err, group.ErrLaterFormat) {
		return f.advise("update natsleader and the members: they change nothing there")
	}
	return f.advise("let no other program write keys of groups; the members write it anew")
}
