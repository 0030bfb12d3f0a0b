package doctor

import (
	"context"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
)

// readElections reads all records of the bucket, its cordon and its groups.
func (e *Environment) readElections(ctx context.Context) {
	if err := e.Try(e.CreateNothing(e.Name, "$KV."+e.Name+".>")); err != nil {
		e.lose(&e.Elections, err)
		return
	}
	s := &inspect.Inspector{Bucket: e.OwnBucket, Js: e.Js, Name: e.Name, Limit: e.Wait} // the permission was tried above
	all, err := inspect.Answer(ctx, s, s.All)
	if err != nil {
		e.lose(&e.Elections, err)
		return
	}
	elections := make([]facts.Election, len(all))
	for i, x := range all {
		elections[i] = facts.Election{
			Name: facts.Text(x.Election), Revision: x.Entry.Revision, Value: facts.Text(x.Entry.Value), Marker: x.Entry.Marker, Created: x.Entry.Created, OneShot: x.Note.OneShot, NoteWhy: x.Note.Unread,
		}
	}
	e.Elections.Set(elections, e.from())
	names, err := inspect.CordonOf(s.Cordoned)
	cordon := facts.Cordon{}
	for _, name := range names {
		cordon.Names = append(cordon.Names, facts.Text(name))
	}
	if err != nil {
		cordon.Fault = front.ErrorText(err)
	}
	e.Cordon.Set(cordon, e.from())
	_, groups := inspect.WithoutGroups(all)
	found := make([]facts.Group, len(groups))
	s.Clock = inspect.NewServerClock(e.Elections.From().At, 0)
	for i, name := range groups {
		found[i].Name = facts.Text(name)
		x := view.Sharing{Group: name, Only: -1}
		if err := x.Read(ctx, s); err != nil {
			e.lose(&found[i].View, err)
			continue
		}
		found[i].View.Set(x.View, e.from())
	}
	e.Groups.Set(found, e.from())
}
