package main

import (
	"context"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
)

// readElections reads all records of the bucket, its cordon and its groups.
func (e *environment) readElections(ctx context.Context) {
	if err := e.try(e.createNothing(e.name, "$KV."+e.name+".>")); err != nil {
		e.lose(&e.Elections, err)
		return
	}
	s := &inspector{bucket: e.bucket, js: e.js, name: e.name, limit: e.wait} // the permission was tried above
	all, err := answer(ctx, s, s.all)
	if err != nil {
		e.lose(&e.Elections, err)
		return
	}
	elections := make([]facts.Election, len(all))
	for i, x := range all {
		elections[i] = facts.Election{
			Name: facts.Text(x.election), Revision: x.entry.Revision, Value: facts.Text(x.entry.Value), Marker: x.entry.Marker, Created: x.entry.Created, OneShot: x.note.OneShot,
		}
	}
	e.Elections.Set(elections, e.from())
	names, err := cordonOf(s.cordoned)
	cordon := facts.Cordon{}
	for _, name := range names {
		cordon.Names = append(cordon.Names, facts.Text(name))
	}
	if err != nil {
		cordon.Fault = errorText(err)
	}
	e.Cordon.Set(cordon, e.from())
	_, groups := withoutGroups(all)
	found := make([]facts.Group, len(groups))
	s.clock = newServerClock(e.Elections.From().At, 0)
	for i, name := range groups {
		found[i].Name = facts.Text(name)
		x := sharing{group: name, only: -1}
		if err := x.read(ctx, s); err != nil {
			e.lose(&found[i].View, err)
			continue
		}
		found[i].View.Set(x.view, e.from())
	}
	e.Groups.Set(found, e.from())
}

// some joins names, but not too many of them.
func some(names []string) string { return judge.Some(names) }
