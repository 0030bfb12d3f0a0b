package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

const moveHelp = `The owner of the shard ends the work on it, and then, or after its GracePeriod, the member
with that ID begins. If that makes the spread uneven, another shard leaves this member.

The exit code is 1 if that member does not exist or takes no shards, and 124 if the shard
has not moved in time: the request stays.

  natsleader shards move orders 7 web-2`

// steer is a command that changes which members own shards.
type steer struct {
	*globals
	group, id string
	shard     int
	wait      time.Duration
	asJSON    bool
}

func registerSteer(top *fisk.CmdClause, g *globals) {
	s := &steer{globals: g}
	command := func(name, what, long string, do func(context.Context, *inspector, *sharing) error) *fisk.CmdClause {
		cmd := top.Command(name, what).HelpLong(long)
		cmd.Arg("group", "Group of the shards").Required().HintAction(g.groupNames).StringVar(&s.group)
		cmd.Flag("json", "Print the outcome as JSON").Short('j').UnNegatableBoolVar(&s.asJSON)
		cmd.Action(func(*fisk.ParseContext) error {
			return g.inspectBucket(func(ctx context.Context, look *inspector) error {
				x := &sharing{group: s.group, only: -1}
				if err := x.read(ctx, look); err != nil {
					return err
				}
				return do(ctx, look, x)
			})
		})
		return cmd
	}
	waiting := func(cmd *fisk.CmdClause) {
		cmd.Flag("wait", "Longest time to wait until all have moved").Default("30s").DurationVar(&s.wait)
	}
	move := command("move", "Move a shard to a member", moveHelp, s.move)
	move.Arg("shard", "Number of the shard").Required().IntVar(&s.shard)
	move.Arg("id", "ID of the member that is to work on it").Required().HintAction(s.memberIDs).StringVar(&s.id)
	waiting(move)
}

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
	Group string `json:"group"`
	Shard int    `json:"shard"`
	From  string `json:"from,omitempty"` // empty: the shard had no owner
	To    string `json:"to"`
	Token uint64 `json:"token"`
}

func (s *steer) move(ctx context.Context, look *inspector, x *sharing) error {
	x.only = s.shard
	if err := x.take(x.view); err != nil {
		return err
	}
	if s.shard < 0 {
		return usagef("shard %d is negative", s.shard)
	}
	was := x.view.Owners[s.shard]
	id := printable(s.id)
	takes := func() error {
		i := slices.IndexFunc(x.view.Members, func(p shard.Peer) bool { return p.ID == s.id })
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
	if err := look.within(ctx, func(ctx context.Context) error {
		return shard.Move(ctx, look.bucket, s.group, s.shard, s.id)
	}); err != nil {
		return err
	}
	err := x.until(ctx, look, s.wait, func() (bool, error) {
		o := x.view.Owners[s.shard]
		return o.ID == s.id && o.State == shard.OwnerWorks, takes()
	}, func() (what, why string) {
		return fmt.Sprintf("shard %d has not moved to %s", s.shard, id), "its owner is " + ownerText(x.view.Owners[s.shard])
	})
	if err != nil {
		return err
	}
	now := x.view.Owners[s.shard]
	done := moved{Group: s.group, Shard: s.shard, From: was.ID, To: now.ID, Token: now.Token}
	text := fmt.Sprintf("shard %d has moved from %s to %s, with token %d", s.shard, printable(was.ID), id, now.Token)
	switch was.ID {
	case now.ID:
		text = fmt.Sprintf("%s works on shard %d already, with token %d", id, s.shard, now.Token)
	case "":
		text = fmt.Sprintf("shard %d had no owner and is with %s now, with token %d", s.shard, id, now.Token)
	}
	return printResult(s.out(), s.asJSON, done, []string{text})
}

// memberIDs completes the ID of a member.
func (s *steer) memberIDs() []string {
	return s.complete("members", func(ctx context.Context, look *inspector) ([]string, error) {
		v, err := shard.Lookup(ctx, look.bucket, s.group)
		var ids []string
		for _, p := range v.Members {
			if unquoted(p.ID) {
				ids = append(ids, p.ID)
			}
		}
		return ids, err
	})
}
