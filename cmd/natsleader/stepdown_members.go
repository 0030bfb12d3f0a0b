package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	records "github.com/natsleader/natsleader/internal/record"
)

// membersOf are the members of one group that an act on a host means.
type membersOf struct {
	steer
	of     *sharing
	chosen []memberSummary
}

// onHost returns, of each group, the members with the ID, or on the host, that are wanted, and why the first group was not read.
func (g *globals) onHost(ctx context.Context, look *inspector, name string, wanted func(memberSummary) bool) (all []*membersOf, err error) {
	keys, err := answer(ctx, look, look.all)
	if err != nil {
		return nil, err
	}
	_, groups := withoutGroups(keys)
	for _, of := range groups {
		m := &membersOf{steer: steer{globals: g, group: of, host: name}, of: &sharing{group: of, only: -1}}
		if unread := m.of.read(ctx, look); unread != nil {
			err = cmp.Or(err, fmt.Errorf("group %s: %w", printable(of), unread))
			continue
		}
		for _, p := range m.of.members() {
			if records.OnHost(p.ID, name) && wanted(p) {
				m.chosen = append(m.chosen, p)
			}
		}
		if len(m.chosen) > 0 {
			all = append(all, m)
		}
	}
	return all, err
}

// drainMembers asks the members that are meant to give up their shards. One that is gone may keep some for its Hold.
func (s *stepDown) drainMembers(ctx context.Context, look *inspector) (err error) {
	s.members, err = s.onHost(ctx, look, s.name, func(p memberSummary) bool { return !isPast(p.State) || len(p.Shards) > 0 })
	for _, m := range s.members {
		err = cmp.Or(err, m.request(ctx, look, m.chosen))
		if why := m.of.shortage(m.chosen); why != "" {
			_, _ = fmt.Fprintf(s.errs(), "natsleader: %s\n", why)
		}
	}
	return err
}

// awaitMembers waits until the members that were asked have given up their shards. It looks once, however late it is.
func (s *stepDown) awaitMembers(ctx context.Context, look *inspector, by time.Time) error {
	if once := time.Now().Add(look.limit); by.Before(once) {
		by = once
	}
	ctx, cancel := context.WithDeadline(ctx, by)
	defer cancel()
	for _, m := range s.members {
		m.wait = s.wait
		done, lines, err := m.emptied(ctx, look, m.of, m.chosen)
		switch {
		case err != nil:
			return err
		case s.asJSON:
			s.listed = append(s.listed, done)
		default:
			err = printLines(s.out(), m.titled(lines))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// titled names the group in front of lines on its members.
func (m *membersOf) titled(lines []string) (titled []string) {
	for _, l := range lines {
		titled = append(titled, "group "+m.group+": "+l)
	}
	return titled
}

// owned says which groups have members that are meant and own shards, or nothing.
func (s *stepDown) owned(ctx context.Context, look *inspector) (string, error) {
	all, err := s.onHost(ctx, look, s.name, func(p memberSummary) bool { return len(p.Shards) > 0 })
	var texts []string
	for _, m := range all {
		n := 0
		for _, p := range m.chosen {
			n += len(p.Shards)
		}
		texts = append(texts, fmt.Sprintf("%s of group %s", plural(n, "shard"), m.group))
	}
	return some(texts), err
}

// undrainMembers lets the members with names that are no longer cordoned take shards again. It returns lines on them, and why the
// first was not undrained.
func (c *cordoning) undrainMembers(ctx context.Context, look *inspector) (lines []string, err error) {
	for _, name := range c.names {
		all, failed := c.onHost(ctx, look, name, func(p memberSummary) bool { return p.State == memberDrained })
		for _, m := range all {
			_, more, unreleased := m.release(ctx, look, m.chosen)
			lines, failed = append(lines, m.titled(more)...), cmp.Or(failed, unreleased)
		}
		if failed != nil && err == nil {
			err = fmt.Errorf("%s is no longer cordoned, but its members of groups may be drained still (natsleader shards undrain): %w",
				printable(name), failed)
		}
	}
	return lines, err
}
