package judge

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/plain"
	"github.com/natsleader/natsleader/leader"
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
		i := slices.IndexFunc(all, func(g facts.Group) bool { return string(g.Name) == name })
		registry, err := group.DecodeRegistry([]byte(x.key(group.RegistryKey(name)).Value))
		var view shard.View
		known := false
		if i >= 0 {
			view, known = all[i].View.Get()
		}
		switch {
		case err != nil:
			found = append(found, badValue(title, group.RegistryKey(name), err))
		case i < 0:
			found = append(found, unanswered("%s was not read", title))
		case !known:
			g := x.gaps[fmt.Sprintf("Groups[%d].View", i)]
			g.Text = title + ": " + g.Words()
			found = append(found, x.gap(g, "elections"))
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
		if _, err := registry.DecodePage(i, []byte(e.Value), e.Revision); err != nil {
			found = append(found, badValue(title, group.PageKey(name, i), err))
		}
	}
	states := make(map[string][]facts.Text) // the members, by state
	for _, m := range view.Members {
		st := facts.MemberState(m)
		states[st] = append(states[st], facts.Text(m.ID))
		if _, err := registry.DecodeMember(m.Holder.Value, m.Holder.Revision); err != nil && !facts.MemberPast(st) {
			found = append(found, badValue(title, group.MemberKey(name, m.ID), err))
		}
	}
	lives := len(view.Members) - len(states[facts.MemberGone]) - len(states[facts.MemberLeft])
	var none []int
	for i, o := range view.Owners {
		if !facts.Owned(o) {
			none = append(none, i)
		}
	}
	shards := len(view.Owners)
	switch {
	case lives == 0 && len(states[facts.MemberGone]) == 0:
		return append(found, fine("%s: %d shards, all members have left", title, shards))
	case lives == 0:
		found = append(found, Warning.of("%s: no member lives; these are gone: %s", title, Some(states[facts.MemberGone])).advise("start its members"))
	case len(none) > 0:
		text := fmt.Sprintf("%s: %d of %d shards have no owner: %s", title, len(none), shards, cut(group.Ranges(none)))
		if gone := states[facts.MemberGone]; len(gone) > 0 {
			text += "; these members are gone: " + Some(gone)
		}
		if left := states[facts.MemberLeft]; len(left) > 0 {
			text += "; these have left: " + Some(left)
		}
		found = append(found, Warning.of("%s", text).advise(Remedy(view)))
	}
	if lives > 0 && view.Assigner.State != leader.HolderLeading {
		found = append(found, Warning.of("%s: no member is the assigner, so no shard moves", title).
			advise("look again after a lease; if it stays, see the logs of the members: they may not be allowed to write "+group.AssignerKey(name)))
	}
	if works := facts.NotBegun(view); len(works) > 0 {
		found = append(found, Warning.of("%s: shards are granted, and their owners have not begun the work: %s", title, worksText(works)).
			advise("see in the logs of these members what hangs, or which guard cannot be raised, and restart them"))
	}
	if works := facts.LateWork(view, -1); len(works) > 0 {
		found = append(found, Warning.of("%s: work goes on after its GracePeriod: %s", title, worksText(works)).
			advise("see in the logs of these members what hangs, and restart them"))
	}
	if drained := states[facts.MemberDrained]; len(drained) > 0 {
		found = append(found, Note.of("%s: these members are drained: %s", title, Some(drained)).advise("natsleader undrain ID"))
	}
	if len(found) == 0 {
		found = append(found, fine("%s: %d shards, each with an owner; %d members", title, shards, lives))
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

// Remedy says what gives an owner to the shards of a group that have none.
func Remedy(view shard.View) string {
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
		ids := make([]string, min(len(drained), mostNames))
		for i := range ids {
			ids[i] = drained[i].String()
		}
		ways = append(ways, "let drained members take shards again (natsleader undrain "+strings.Join(ids, " ")+")")
	}
	if len(bounded) > 0 {
		ways = append(ways, "raise Most of "+Some(bounded))
	}
	return strings.Join(append(ways, "start members"), ", or ")
}
