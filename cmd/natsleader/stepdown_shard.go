package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// until observes the group until it is as wanted. Without an error, that is so before the time of --wait is over.
func (x *sharing) until(ctx context.Context, look *inspector, wait time.Duration, done func() (bool, error), open func() (what, why string)) error {
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	views, err := shard.Observe(limited, look.bucket, x.group)
	if err != nil {
		return err
	}
	for v := range views {
		if x.view = v; len(v.Owners) == 0 {
			return fmt.Errorf("%w: %s", shard.ErrNoGroup, x.group)
		}
		if ok, err := done(); ok || err != nil {
			return err
		}
	}
	if limited.Err() == nil {
		return leader.ErrConnectionClosed
	}
	what, why := open()
	if x.view.Assigner.State != leader.HolderLeading {
		why = "no member is the assigner"
	}
	return exitf(exitWaited, "%s within %v: %s; the request stays", what, wait, why)
}

// moved is the outcome of a move.
type moved struct {
	Group  string `json:"group"`
	DryRun bool   `json:"dry_run,omitempty"`
	Shard  int    `json:"shard"`
	From   string `json:"from,omitempty"` // empty: the shard had no owner
	To     string `json:"to"`
	Token  uint64 `json:"token,omitempty"`
}

// move lets the member with the ID of --to work on the shard.
func (s *stepDown) move(ctx context.Context, look *inspector) error {
	x := &sharing{group: s.election, only: s.shard}
	if err := x.read(ctx, look); err != nil {
		return err
	}
	was := x.view.Owners[s.shard]
	id := printable(s.to)
	takes := func() error {
		i := slices.IndexFunc(x.view.Members, func(p shard.Peer) bool { return p.ID == s.to })
		if i < 0 {
			return nil // shard.Move says so
		}
		switch memberState(x.view.Members[i]) {
		case memberGone:
			return exitf(exitFailed, "%s takes no shards: it is gone", id)
		case memberLeft:
			return exitf(exitFailed, "%s takes no shards: it has left the group", id)
		case memberLeaves:
			return exitf(exitFailed, "%s takes no shards: it leaves the group", id)
		case memberDrained:
			return exitf(exitFailed, "%s takes no shards: it is drained (natsleader undrain %s)", id, id)
		}
		return nil
	}
	if err := takes(); err != nil {
		return err
	}
	if s.dryRun {
		return printResult(s.out(), s.asJSON, moved{Group: x.group, DryRun: true, Shard: s.shard, From: was.ID, To: s.to},
			[]string{fmt.Sprintf("would move shard %d of group %s to %s; its owner is %s", s.shard, x.group, id, ownerText(was))})
	}
	if err := look.within(ctx, func(ctx context.Context) error {
		return shard.Move(ctx, look.bucket, x.group, s.shard, s.to)
	}); err != nil {
		return err
	}
	err := x.until(ctx, look, s.wait, func() (bool, error) {
		o := x.view.Owners[s.shard]
		return o.ID == s.to && o.State == shard.OwnerWorks, takes()
	}, func() (what, why string) {
		return fmt.Sprintf("shard %d has not moved to %s", s.shard, id), "its owner is " + ownerText(x.view.Owners[s.shard])
	})
	if err != nil {
		return err
	}
	now := x.view.Owners[s.shard]
	done := moved{Group: x.group, Shard: s.shard, From: was.ID, To: now.ID, Token: now.Token}
	text := fmt.Sprintf("shard %d has moved from %s to %s, with token %d", s.shard, printable(was.ID), id, now.Token)
	switch was.ID {
	case now.ID:
		text = fmt.Sprintf("%s works on shard %d already, with token %d", id, s.shard, now.Token)
	case "":
		text = fmt.Sprintf("shard %d had no owner and is with %s now, with token %d", s.shard, id, now.Token)
	}
	return printResult(s.out(), s.asJSON, done, []string{text})
}
