package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/internal/group"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/webpage"
	"github.com/natsleader/natsleader/shard"
)

// uiGroup is a group as pages show it.
type uiGroup struct {
	news     *shard.View // that is not shown yet
	members  []memberSummary
	owners   []shard.Owner // that are shown
	sharing  *webpage.Sharing
	brief    string
	remedy   string    // if some shards are without an owner
	unowned  bool      // some shards are without an owner, or nothing is known of them
	notBegun bool      // some are granted, and their work has not begun
	since    time.Time // when one of these was first seen; zero: it was not
}

// mostGroups is how many groups are observed at once, each with a subscription for every member and page.
const mostGroups = 32

// mostSteps is how many of the newest changes of a group pages show.
const mostSteps = 50

// group returns what is known of a group at that time of the server. It is observed from the first call on.
func (u *uiState) group(name string, now time.Time) uiGroup {
	u.mu.Lock()
	defer u.mu.Unlock()
	g := u.groups[name]
	switch {
	case g != nil && g.news != nil:
		g.take(sharing{group: name, only: -1, view: *g.news}, now)
		return *g
	case g != nil:
		return *g
	case len(u.groups) >= mostGroups:
		return uiGroup{brief: fmt.Sprintf("not known: more than %d groups", mostGroups)}
	}
	g = &uiGroup{brief: "not read yet"}
	u.groups[name] = g
	views, err := shard.Observe(context.Background(), u.s.bucket, name)
	if err != nil {
		g.brief = "not known: " + errorText(err)
		return *g
	}
	go func() {
		for v := range views {
			u.mu.Lock()
			g.news = &v
			u.mu.Unlock()
		}
	}()
	return *g
}

// take shows the newest view of a group.
func (g *uiGroup) take(x sharing, now time.Time) {
	g.news = nil
	brief := x.brief()
	if brief.Shards == 0 {
		brief.Error = "no member has joined it, or its map is of another version or program"
	}
	g.brief, g.remedy, g.unowned, g.notBegun = brief.text(), x.remedy(), brief.NoOwner > 0 || brief.Error != "", brief.NotBegun > 0
	switch {
	case !g.unowned && !g.notBegun:
		g.since = time.Time{}
	case g.since.IsZero():
		g.since = now
	}
	if brief.Shards == 0 {
		g.members, g.owners, g.sharing = nil, nil, nil
		return
	}
	is := webpage.Sharing{Shards: brief.Shards, Since: webpage.Milliseconds(now)}
	if g.sharing != nil {
		is.Since = g.sharing.Since
		is.Steps = append(slices.Clone(g.sharing.Steps), g.steps(x, webpage.Milliseconds(now))...)
		if left := len(is.Steps) - mostSteps; left > 0 {
			is.Since, is.Steps = is.Steps[left-1].At, is.Steps[left:]
		}
	}
	g.members, g.owners = x.members(), x.view.Owners
	for i, m := range g.members {
		is.Add(x.forPage(m, x.view.Members[i]))
	}
	for _, o := range g.owners {
		if o.State == shard.OwnerNone {
			is.NoOwner++
		}
	}
	g.sharing = &is
}

// forPage returns a member as pages show it.
func (x *sharing) forPage(m memberSummary, p shard.Peer) webpage.Member {
	is := webpage.Member{ID: m.ID, State: m.State, Numbers: shorten(group.Ranges(m.Shards), longValue)}
	if host := records.HostOf(m.ID); host != m.ID {
		is.Host = host
	}
	for _, o := range x.view.Owners {
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
	if len(p.Late) > 0 && !isPast(m.State) {
		more = append(more, "late work on "+shorten(group.Ranges(p.Late), longValue))
	}
	if len(p.Value) > 0 {
		more = append(more, shorten(printable(string(p.Value)), longValue))
	}
	is.More = strings.Join(more, ", ")
	if m.State == memberLives {
		_, is.Shortage = x.shortage([]memberSummary{m})
	}
	return is
}

// steps returns the shards that have got another owner since the view before, and the members whose state has changed.
func (g *uiGroup) steps(x sharing, at int64) (all []webpage.Step) {
	type way struct{ from, to string }
	moved := make(map[way][]int)
	var ways []way
	for i, o := range x.view.Owners {
		if i < len(g.owners) && g.owners[i].ID != o.ID {
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
		return shorten(printable(id), longID)
	}
	now := x.members()
	state := func(of []memberSummary, id string) string {
		i := slices.IndexFunc(of, func(m memberSummary) bool { return m.ID == id })
		if i < 0 {
			return ""
		}
		return of[i].State
	}
	for _, m := range now {
		if was := state(g.members, m.ID); was != m.State {
			c := memberChange{ID: m.ID, Was: was, State: m.State, Had: len(m.Shards)}
			all = append(all, webpage.Step{At: at, Text: name(m.ID) + " " + c.text(), Trouble: m.State == memberGone})
		}
	}
	for _, m := range g.members {
		if state(now, m.ID) == "" && !isPast(m.State) { // the group has removed it
			all = append(all, webpage.Step{At: at, Text: name(m.ID) + " is no member any more"})
		}
	}
	for _, w := range ways {
		all = append(all, webpage.Step{
			At: at, From: w.from, To: w.to, Moved: len(moved[w]),
			Text:    fmt.Sprintf("%s → %s: %s, %s", name(w.from), name(w.to), plural(len(moved[w]), "shard"), shorten(group.Ranges(moved[w]), longValue)),
			Trouble: w.to == "",
		})
	}
	return all
}

// advise says in the row of a group why it is in trouble, and what to do.
func (g *uiGroup) advise(row *webpage.Row) {
	switch {
	case row.Trouble < int(troublePending): // there is no assigner
		row.Link = runbook + "natsleadershardsnoassigner"
	case (g.unowned || g.notBegun) && row.Trouble < int(troubleIdle):
		row.Trouble, row.Since, row.Why = int(troubleExpired), webpage.Milliseconds(g.since), g.brief
		row.Do, row.Link = g.remedy, runbook+"natsleadershardsunowned"
		if !g.unowned {
			row.Do, row.Link = "see in the logs of their owners what hangs, and restart them", runbook+"natsleadershardsnotbegun"
		}
	}
}
