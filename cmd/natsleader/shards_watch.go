package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// shardsWatcher follows a group.
type shardsWatcher struct {
	s        *inspector
	newest   sharing
	out      renderer
	views    <-chan shard.View
	end      context.CancelFunc
	reported any                      // the summary of what was reported
	members  map[string]memberSummary // that were reported, by ID; nil: none were
	recent   []memberChange           // the newest last
}

// memberChange is a change of the state of a member.
type memberChange struct {
	ID    string    `json:"id"`
	Was   string    `json:"was,omitempty"` // empty: it was no member
	State string    `json:"state"`
	Had   int       `json:"had,omitempty"` // how many shards, of a member that is gone
	at    time.Time // the server's
}

// text describes the change, without the ID.
func (c memberChange) text() string {
	switch {
	case c.State == memberLeft:
		return "has left"
	case c.State == memberGone:
		return fmt.Sprintf("is gone (it had %s)", plural(c.Had, "shard"))
	case c.Was == "":
		return "has joined"
	case isPast(c.Was):
		return "is back"
	case c.Was == memberDrained && c.State == memberLives:
		return "is no longer drained"
	case c.State == memberDrained:
		return "is drained"
	}
	return c.State
}

// open reports the group as it is. It fails if a permission is missing.
func (w *shardsWatcher) open(ctx context.Context) error {
	ctx, w.end = context.WithCancel(ctx)
	err := w.newest.read(ctx, w.s)
	if err != nil && !errors.Is(err, shard.ErrNoGroup) {
		return err
	}
	w.newest.now = time.Time{} // renewals are not observed
	if w.views, err = shard.Observe(ctx, w.s.bucket, w.newest.group); err != nil {
		return err
	}
	return w.ticked(ctx)
}

func (w *shardsWatcher) close() { w.end() }

func (w *shardsWatcher) updates() <-chan shard.View { return w.views }

func (w *shardsWatcher) update(v shard.View, more bool) error {
	if !more {
		return leader.ErrConnectionClosed
	}
	return w.newest.take(v)
}

// changed returns the changes of members since the last report.
func (w *shardsWatcher) changed(ctx context.Context, now time.Time) (changes []memberChange) {
	is := make(map[string]memberSummary)
	for _, m := range w.newest.members() {
		is[m.ID] = m
	}
	of := maps.Clone(is)
	for id := range w.members {
		if _, still := is[id]; !still { // the group has removed it
			of[id] = memberSummary{ID: id, State: memberGone}
			e, err := answer(ctx, w.s, func(ctx context.Context) (electionStatus, error) {
				return w.s.one(ctx, group.MemberKey(w.newest.group, id))
			})
			if err == nil && e.member() == memberLeft {
				of[id] = memberSummary{ID: id, State: memberLeft}
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(of)) {
		if was, m := w.members[id], of[id]; w.members != nil && was.State != m.State {
			c := memberChange{ID: id, Was: was.State, State: m.State, at: now}
			if m.State == memberGone {
				c.Had = len(was.Shards)
			}
			changes = append(changes, c)
		}
	}
	w.members = is
	return changes
}

// ticked reports a change: what happens at almost one time is one change.
func (w *shardsWatcher) ticked(ctx context.Context) error {
	now := w.newest.summary()
	if reflect.DeepEqual(now, w.reported) {
		return nil
	}
	w.reported = now
	c := sharingChange{sharing: w.newest, at: w.s.clock.now()}
	if w.newest.only < 0 {
		c.members = w.changed(ctx, c.at)
		w.recent = append(w.recent, c.members...)
		w.recent = w.recent[max(0, len(w.recent)-mostRecent):]
	}
	return w.out.changed(c)
}

func (w *shardsWatcher) connection(err error) { w.out.trouble(err) }

func (w *shardsWatcher) view(now time.Time, trouble error, filter string) view {
	x := w.newest
	v := view{title: x.line(), at: now}
	if len(x.view.Owners) > 0 && x.only < 0 {
		v.title = fmt.Sprintf("Group %s, %d shards, assigner %s", x.group, len(x.view.Owners), x.assigner())
		rows, facts := x.table(), x.details()
		v.head, v.total = rows[0], len(rows)-1
		v.summary = line{{"no owner: " + facts[2][1], styleGood}, {", moving: " + facts[3][1], stylePlain}}
		if len(x.unowned()) > 0 {
			v.summary[0].style = styleBad
		}
		for _, row := range x.troubles() {
			v.summary = append(v.summary, styled{", " + strings.ToLower(row[0]) + " " + row[1], styleWarn})
		}
		for _, cells := range rows[1:] {
			r := tableRow{cells: cells, marked: 1, mark: styleGood}
			if cells[1] != memberLives {
				r.mark = styleWarn
			}
			if matches(filter, cells) {
				v.rows = append(v.rows, r)
			}
		}
		v.narrow = []narrowing{{7, 13}, {6, 12}, {5, 0}, {4, 0}, {3, 0}, {0, 20}, {7, 0}, {6, 0}, {0, 8}}
	}
	for _, c := range slices.Backward(w.recent) {
		if line := []string{formatRecent(c.at, now), printable(c.ID), c.text()}; matches(filter, line) {
			v.recent = append(v.recent, line)
		}
	}
	if trouble != nil {
		v.trouble, v.why = "NOT UP TO DATE", errorText(trouble)
	}
	return v
}

// sharingChange is a group that has changed.
type sharingChange struct {
	sharing
	at      time.Time // the server's
	members []memberChange
}

func (c sharingChange) time() time.Time { return c.at }

func (c sharingChange) text() string {
	var texts []string
	for _, m := range c.members {
		texts = append(texts, printable(m.ID)+" "+m.text())
	}
	if len(texts) == 0 {
		return c.line()
	}
	return strings.Join(texts, ", ") + "; " + c.line()
}

func (c sharingChange) object() any {
	of := c.summaryAt(c.at.UTC())
	if s, all := of.(sharingSummary); all {
		s.Changes = c.members
		return s
	}
	return of
}
