package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

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
	reported any // the summary of what was reported
}

// open reports the group as it is. It fails if a permission is missing.
func (w *shardsWatcher) open(ctx context.Context) error {
	ctx, w.end = context.WithCancel(ctx)
	err := w.newest.read(ctx, w.s)
	if err != nil && !errors.Is(err, shard.ErrNoGroup) {
		return err
	}
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

// ticked reports a change: what happens at almost one time is one change.
func (w *shardsWatcher) ticked(context.Context) error {
	now := w.newest.summary()
	if reflect.DeepEqual(now, w.reported) {
		return nil
	}
	w.reported = now
	return w.out.changed(sharingChange{w.newest, w.s.clock.now()})
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
	if trouble != nil {
		v.trouble, v.why = "NOT UP TO DATE", errorText(trouble)
	}
	return v
}

// sharingChange is a group that has changed.
type sharingChange struct {
	sharing
	at time.Time // the server's
}

func (c sharingChange) time() time.Time { return c.at }

func (c sharingChange) text() string { return c.line() }

func (c sharingChange) object() any { return c.summaryAt(c.at.UTC()) }
