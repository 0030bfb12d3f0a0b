package judge

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/plain"
	"github.com/natsleader/natsleader/shard"
)

// groups judges the groups whose registries were read.
func (x *exam) groups(names []string) (found []Finding) {
	if f, missing := x.missing("Groups", "elections"); missing {
		f.Text = "groups of shards: " + f.Text
		return []Finding{f}
	}
	all, _ := x.Groups.Get()
	for _, name := range names {
		title := "group " + facts.Text(name).String()
		if ttl := x.settings.TTL; ttl > 0 {
			found = append(found, Warning.of("%s: the bucket drops records after %v, also the map of the group, and no member joins it: a group needs a bucket without a TTL", title, ttl).
				advise(x.addLine("--adopt")))
		}
		i := slices.IndexFunc(all, func(g facts.Group) bool { return string(g.Name) == name })
		key := x.key(group.RegistryKey(name))
		registry, err := group.DecodeRegistry([]byte(key.Value))
		var view shard.View
		known := false
		if i >= 0 {
			view, known = all[i].View.Get()
		}
		switch {
		case !key.There():
			v := facts.ViewAt(shard.View{Assigner: x.key(group.AssignerKey(name)).Status().Holder}, x.Elections.From().At)
			f := Worst(Group(name, v, Around{}))
			f.Text = title + ": " + f.Text
			found = append(found, f)
		case err != nil:
			found = append(found, badValue(title, group.RegistryKey(name), err))
		case i < 0:
			found = append(found, unanswered("%s was not read", title))
		case !known:
			g := x.gaps[fmt.Sprintf("Groups[%d].View", i)]
			g.Text = title + ": " + g.Words()
			f := x.gap(g, "elections")
			f.Code = GroupUnread
			found = append(found, f)
		default:
			found = append(found, x.group(title, name, registry, view)...)
		}
	}
	return found
}

// key returns the newest revision of a key.
func (x *exam) key(name string) facts.Election {
	all, _ := x.Elections.Get()
	if i := slices.IndexFunc(all, func(e facts.Election) bool { return string(e.Name) == name }); i >= 0 {
		return all[i]
	}
	return facts.Election{}
}

// group returns what is wrong with a group, or that it is well.
func (x *exam) group(title, name string, registry group.Registry, view shard.View) (found []Finding) {
	for i := range registry.Pages() {
		e := x.key(group.PageKey(name, i))
		if !e.There() { // its shards are judged below
			continue
		}
		if _, err := registry.DecodePage(i, []byte(e.Value), e.Revision); err != nil {
			found = append(found, badValue(title, group.PageKey(name, i), err))
		}
	}
	for _, m := range view.Members {
		if _, err := registry.DecodeMember(m.Holder.Value, m.Holder.Revision); err != nil && !facts.MemberPast(facts.MemberState(m)) {
			found = append(found, badValue(title, group.MemberKey(name, m.ID), err))
		}
	}
	for _, f := range Group(name, view, Around{}) {
		f.Text = title + ": " + f.Text
		found = append(found, f)
	}
	switch lives := Living(view); {
	case len(found) > 0:
	case lives == 0:
		found = append(found, fine("%s: %d shards, all members have left", title, len(view.Owners)))
	default:
		found = append(found, fine("%s: %d shards, each with an owner; %d members", title, len(view.Owners), lives))
	}
	return found
}

func worksText(works []facts.Work) string {
	texts := make([]string, len(works))
	for i, w := range works {
		texts[i] = w.String()
	}
	return Some(texts)
}

// cut cuts the numbers of shards.
func cut(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return s[:most-1] + "…"
}

// badValue returns the finding about a value that cannot be used.
func badValue(title, key string, err error) Finding {
	f := Warning.of("%s: the key %v cannot be used: %s", title, facts.Text(key), plain.Text(err.Error()))
	if errors.Is(err, group.ErrLaterFormat) {
		return f.advise("update natsleader and the members: they change nothing there")
	}
	return f.advise("let no other program write keys of groups; the members write it anew")
}

// join is some names as arguments of a command.
func join(names []facts.Text) string {
	texts := make([]string, min(len(names), mostNames))
	for i := range texts {
		texts[i] = names[i].String()
	}
	return strings.Join(texts, " ")
}

// remedy says what gives an owner to the shards of a group that have none.
func remedy(view shard.View) string {
	var drained, bounded []facts.Text
	takes := false
	for _, p := range view.Members {
		switch st := facts.MemberState(p); {
		case st == facts.MemberDrained:
			drained = append(drained, facts.Text(p.ID))
		case st == facts.MemberLives && p.Most > 0:
			bounded = append(bounded, facts.Text(p.ID))
		case st == facts.MemberLives:
			takes = true
		}
	}
	if takes {
		return "look again after the lease and the Hold of the members; if it stays, see their logs"
	}
	var ways []string
	if len(drained) > 0 {
		ways = append(ways, "let drained members take shards again (natsleader undrain "+join(drained)+")")
	}
	if len(bounded) > 0 {
		ways = append(ways, "raise Most of "+Some(bounded))
	}
	return strings.Join(append(ways, "start members"), ", or ")
}
