package view

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// shardsWatcher follows a group.
type shardsWatcher struct {
	pulse
	newest   Sharing
	views    <-chan shard.View
	end      context.CancelFunc
	reported any                      // the summary of what was reported
	members  map[string]MemberSummary // that were reported, by ID; nil: none were
	recent   []MemberChange           // the newest last
}

// MemberChange is a change of the state of a member.
type MemberChange struct {
	ID    string    `json:"id"`
	Was   string    `json:"was,omitempty"` // empty: it was no member
	State string    `json:"state"`
	Had   int       `json:"had,omitempty"` // how many shards, of a member that is gone
	at    time.Time // the server's
}

// Text describes the change, without the ID.
func (c MemberChange) Text() string {
	switch {
	case c.State == facts.MemberLeft:
		return "has left"
	case c.State == facts.MemberGone:
		return fmt.Sprintf("is gone (it had %s)", front.Plural(c.Had, "shard"))
	case c.Was == "":
		return "has joined"
	case facts.MemberPast(c.Was):
		return "is back"
	case c.Was == facts.MemberDrained && c.State == facts.MemberLives:
		return "is no longer drained"
	case c.State == facts.MemberDrained:
		return "is drained"
	}
	return c.State
}

// open reports the group as it is. It fails if a permission is missing.
func (w *shardsWatcher) open(ctx context.Context) error {
	if err := w.observe(ctx); err != nil {
		return err
	}
	w.looked = time.Now()
	return w.ticked(ctx)
}

// observe reads the group, and observes it from then on.
func (w *shardsWatcher) observe(ctx context.Context) error {
	w.end()
	w.views = nil // it closes
	ctx, w.end = context.WithCancel(ctx)
	err := w.newest.Read(ctx, w.s)
	if err != nil && !errors.Is(err, shard.ErrNoGroup) {
		return err
	}
	w.newest.now = time.Time{} // renewals are not observed
	w.views, err = shard.Observe(ctx, w.s.Bucket, w.newest.Group)
	return err
}

func (w *shardsWatcher) close() {
	w.abandon()
	w.end()
}

func (w *shardsWatcher) updates() <-chan shard.View { return w.views }

func (w *shardsWatcher) update(v shard.View, more bool) error {
	if !more {
		return leader.ErrConnectionClosed
	}
	return w.newest.take(v)
}

// changed returns the changes of members since the last report.
func (w *shardsWatcher) changed(ctx context.Context, now time.Time) (changes []MemberChange) {
	is := make(map[string]MemberSummary)
	for _, m := range w.newest.Members() {
		is[m.ID] = m
	}
	of := maps.Clone(is)
	for id := range w.members {
		if _, still := is[id]; !still { // the group has removed it
			e, err := inspect.Answer(ctx, w.s, func(ctx context.Context) (facts.ElectionStatus, error) {
				return w.s.One(ctx, group.MemberKey(w.newest.Group, id))
			})
			m, member := w.members[id].unnamed(e, err, now)
			if of[id] = m; member {
				is[id] = m
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(of)) {
		if was, m := w.members[id], of[id]; w.members != nil && was.State != m.State {
			c := MemberChange{ID: id, Was: was.State, State: m.State, at: now}
			if m.State == facts.MemberGone {
				c.Had = len(was.Shards)
			}
			changes = append(changes, c)
		}
	}
	w.members = is
	return changes
}

// unnamed returns what became of a member that the map does not name any more, by its key, and whether it is a member still: it
// may live while the map is lost, and a key that cannot be read shows no change.
func (m MemberSummary) unnamed(e facts.ElectionStatus, unread error, now time.Time) (is MemberSummary, member bool) {
	switch {
	case unread != nil || e.At(now).Held() && !facts.Takes(e.Election, e.Holder.ID):
		return m, true
	case e.Member() == facts.MemberLeft:
		return MemberSummary{ID: m.ID, State: facts.MemberLeft}, false
	}
	return MemberSummary{ID: m.ID, State: facts.MemberGone}, false
}

// ticked reports a change: what happens at almost one time is one change. While the bucket is silent none is known.
func (w *shardsWatcher) ticked(ctx context.Context) error {
	w.beat(ctx, w.observe)
	if w.judge(); w.newest.in.Silent && !w.newest.in.Gone {
		return nil
	}
	now := w.newest.summary()
	if reflect.DeepEqual(now, w.reported) {
		return nil
	}
	if w.newest.judged() != nil { // a lease that is over by what was heard last may have been renewed
		w.heard(ctx, w.look(ctx), w.observe)
		if w.judge(); w.newest.in.Silent && !w.newest.in.Gone {
			return nil
		}
		now = w.newest.summary()
	}
	w.reported = now
	c := sharingChange{Sharing: w.newest, at: w.s.Clock.Now()}
	if w.newest.Only < 0 {
		c.members = w.changed(ctx, c.at)
		w.recent = append(w.recent, c.members...)
		w.recent = w.recent[max(0, len(w.recent)-mostRecent):]
	}
	return w.out.Changed(c)
}

// judge lets the group be judged by what is known of the bucket.
func (w *shardsWatcher) judge() {
	var failure error
	if w.Troubled {
		failure = w.said
	}
	w.newest.in = Around(w.s.Clock.Now(), failure)
}

func (w *shardsWatcher) view(now time.Time, trouble error, filter string) view {
	x := w.newest
	v := view{title: x.line(), at: now}
	if len(x.View.Owners) > 0 && x.Only < 0 {
		v.title = fmt.Sprintf("Group %s, %d shards, assigner %s", x.Group, len(x.View.Owners), x.assigner())
		rows, known := x.table(), x.details()
		v.head, v.total = rows[0], len(rows)-1
		v.summary = front.Line{{Text: "no owner: " + known[2][1], Style: front.StyleGood}, {Text: ", moving: " + known[3][1], Style: front.StylePlain}}
		if len(x.unowned()) > 0 {
			v.summary[0].Style = front.StyleBad
		}
		for _, row := range x.troubles() {
			v.summary = append(v.summary, front.Styled{Text: ", " + strings.ToLower(row[0]) + " " + row[1], Style: front.StyleWarn})
		}
		for _, cells := range rows[1:] {
			r := front.TableRow{Cells: cells, Marked: 1, Mark: front.StyleGood}
			if cells[1] != facts.MemberLives {
				r.Mark = front.StyleWarn
			}
			if matches(filter, cells) {
				v.rows = append(v.rows, r)
			}
		}
		v.narrow = []narrowing{{7, 13}, {6, 12}, {5, 0}, {4, 0}, {3, 0}, {0, 20}, {7, 0}, {6, 0}, {0, 8}}
	}
	for _, c := range slices.Backward(w.recent) {
		if line := []string{front.FormatRecent(c.at, now), front.Printable(c.ID), c.Text()}; matches(filter, line) {
			v.recent = append(v.recent, line)
		}
	}
	if trouble != nil {
		v.trouble, v.why = "NOT UP TO DATE", front.ErrorText(trouble)
	}
	return v
}

// sharingChange is a group that has changed.
type sharingChange struct {
	Sharing
	at      time.Time // the server's
	members []MemberChange
}

func (c sharingChange) time() time.Time { return c.at }

func (c sharingChange) text() string {
	var texts []string
	for _, m := range c.members {
		texts = append(texts, front.Printable(m.ID)+" "+m.Text())
	}
	if len(texts) == 0 {
		return c.line()
	}
	return strings.Join(texts, ", ") + "; " + c.line()
}

func (c sharingChange) object() any {
	of := c.summaryAt(c.at.UTC())
	if s, all := of.(SharingSummary); all {
		s.Changes = c.members
		return s
	}
	return of
}
