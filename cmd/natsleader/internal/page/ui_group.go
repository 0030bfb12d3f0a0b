package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/act"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	"github.com/natsleader/natsleader/internal/group"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/shard"
)

// sharing is a group as pages show it.
type sharing struct {
	seen    int // how often it had changed then
	members []view.MemberSummary
	owners  []shard.Owner // that are shown
	shown   *webpage.Sharing
	brief   string
	is      judge.Finding // the worst; without a code all is well
}

// mostSteps is how many of the newest changes of a group pages show.
const mostSteps = 50

// share takes the groups that have changed. The watcher is up to date: while it is not, what was shown last stays, because a
// lease that is over by what was read last may have been renewed.
func (u *State) share(w *view.Watcher, in judge.Around) {
	for name, changed := range w.Groups {
		g := u.groups[name]
		if g == nil {
			g = new(sharing)
			u.groups[name] = g
		}
		if g.seen != changed {
			g.seen = changed
			g.take(view.Sharing{Group: name, Only: -1, View: w.Group(name)}, in)
		}
	}
}

// take shows the newest view of a group.
func (g *sharing) take(x view.Sharing, in judge.Around) {
	brief, now := x.Brief(), in.Now
	worst := judge.Worst(judge.Group(x.Group, x.View, in))
	if worst.Since = g.is.Since; worst.Code != g.is.Code || worst.Since.IsZero() { // a finding with the same code keeps its time
		worst.Since = now
	}
	g.is = worst
	if g.is.Code == judge.GroupEmpty {
		brief.Error = g.is.Text
	}
	g.brief = brief.Text()
	if brief.Shards == 0 {
		g.members, g.owners, g.shown = nil, nil, nil
		return
	}
	is := webpage.Sharing{Shards: brief.Shards, Since: webpage.Milliseconds(now)}
	if g.shown != nil {
		is.Since = g.shown.Since
		is.Steps = append(slices.Clone(g.shown.Steps), g.steps(x, webpage.Milliseconds(now))...)
		if left := len(is.Steps) - mostSteps; left > 0 {
			is.Since, is.Steps = is.Steps[left-1].At, is.Steps[left:]
		}
	}
	owners := slices.Clone(x.View.Owners)
	for _, i := range x.View.Lost { // the owner of before works on
		if owners[i] = (shard.Owner{}); i < len(g.owners) {
			owners[i].ID = g.owners[i].ID
		}
	}
	g.members, g.owners = x.Members(), owners
	for i, m := range g.members {
		is.Add(forPage(&x, m, x.View.Members[i]))
	}
	for i, o := range x.View.Owners {
		if o.State == shard.OwnerNone && !slices.Contains(x.View.Lost, i) {
			is.NoOwner++
		}
	}
	g.shown = &is
}

// forPage returns a member as pages show it.
func forPage(x *view.Sharing, m view.MemberSummary, p shard.Peer) webpage.Member {
	is := webpage.Member{ID: m.ID, State: m.State, Numbers: front.Shorten(group.Ranges(m.Shards), front.LongValue)}
	if host := records.HostOf(m.ID); host != m.ID {
		is.Host = host
	}
	for _, o := range x.View.Owners {
		if o.From == m.ID {
			is.Leaving++
		}
		if o.ID != m.ID {
			continue
		}
		switch o.State {
		case shard.OwnerWorks:
			is.Works++
		case shard.OwnerGranted:
			is.NotBegun++
		case shard.OwnerWaits:
			is.Waits++
		case shard.OwnerIsGone:
			is.Gone++
		case shard.OwnerNone:
		}
	}
	var more []string
	if m.Weight > 1 {
		more = append(more, fmt.Sprintf("weight %d", m.Weight))
	}
	if m.Most > 0 {
		more = append(more, fmt.Sprintf("at most %d", m.Most))
	}
	if m.Hold > 0 {
		more = append(more, fmt.Sprintf("holds them for %v", p.Hold))
	}
	if len(p.Late) > 0 && !facts.MemberPast(m.State) {
		more = append(more, "late work on "+front.Shorten(group.Ranges(p.Late), front.LongValue))
	}
	if len(p.Value) > 0 {
		more = append(more, front.Shorten(front.Printable(string(p.Value)), front.LongValue))
	}
	is.More = strings.Join(more, ", ")
	if m.State == facts.MemberLives {
		_, is.Shortage = act.Shortage(x, []view.MemberSummary{m})
	}
	return is
}

// steps returns the shards that have got another owner since the view before, and the members whose state has changed.
func (g *sharing) steps(x view.Sharing, at int64) (all []webpage.Step) {
	type way struct{ from, to string }
	moved := make(map[way][]int)
	var ways []way
	for i, o := range x.View.Owners {
		if i < len(g.owners) && g.owners[i].ID != o.ID && !slices.Contains(x.View.Lost, i) {
			w := way{g.owners[i].ID, o.ID}
			if moved[w] == nil {
				ways = append(ways, w)
			}
			moved[w] = append(moved[w], i)
		}
	}
	name := func(id string) string {
		if id == "" {
			return "no owner"
		}
		return front.Shorten(front.Printable(id), front.LongID)
	}
	now := x.Members()
	state := func(of []view.MemberSummary, id string) string {
		i := slices.IndexFunc(of, func(m view.MemberSummary) bool { return m.ID == id })
		if i < 0 {
			return ""
		}
		return of[i].State
	}
	for _, m := range now {
		if was := state(g.members, m.ID); was != m.State {
			c := view.MemberChange{ID: m.ID, Was: was, State: m.State, Had: len(m.Shards)}
			all = append(all, webpage.Step{At: at, Text: name(m.ID) + " " + c.Text(), Trouble: m.State == facts.MemberGone})
		}
	}
	for _, m := range g.members {
		if state(now, m.ID) == "" && !facts.MemberPast(m.State) { // the group has removed it
			all = append(all, webpage.Step{At: at, Text: name(m.ID) + " is no member any more"})
		}
	}
	for _, w := range ways {
		all = append(all, webpage.Step{
			At: at, From: w.from, To: w.to, Moved: len(moved[w]),
			Text:    fmt.Sprintf("%s → %s: %s, %s", name(w.from), name(w.to), front.Plural(len(moved[w]), "shard"), front.Shorten(group.Ranges(moved[w]), front.LongValue)),
			Trouble: w.to == "",
		})
	}
	return all
}
