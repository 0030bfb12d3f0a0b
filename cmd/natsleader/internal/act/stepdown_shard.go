package act

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/view"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

// until observes the group until it is as wanted. Without an error, that is so before the time of --wait is over.
func until(ctx context.Context, x *view.Sharing, look *inspect.Inspector, wait time.Duration, done func() (bool, error), open func() (what, why string)) error {
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	views, err := shard.Observe(limited, look.Bucket, x.Group)
	if err != nil {
		return err
	}
	for v := range views {
		if x.View = v; len(v.Owners) == 0 {
			return fmt.Errorf("%w: %s", shard.ErrNoGroup, x.Group)
		}
		if ok, err := done(); ok || err != nil {
			return err
		}
	}
	if limited.Err() == nil {
		return leader.ErrConnectionClosed
	}
	what, why := open()
	if x.View.Assigner.State != leader.HolderLeading {
		why = "no member is the assigner; the request stays"
	}
	return front.Exitf(front.ExitWaited, "%s within %v: %s", what, wait, why)
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
func (s *StepDown) move(ctx context.Context, look *inspect.Inspector) error {
	x := &view.Sharing{Group: s.Election, Only: s.shard}
	if err := cmp.Or(x.Read(ctx, look), x.Known()); err != nil {
		return err
	}
	was := x.View.Owners[s.shard]
	id := front.Printable(s.to)
	takes := func() error {
		i := slices.IndexFunc(x.View.Members, func(p shard.Peer) bool { return p.ID == s.to })
		if i < 0 {
			return noMember(ctx, look, x.Group, s.to)
		}
		switch facts.MemberState(x.View.Members[i]) {
		case facts.MemberGone:
			return front.Exitf(front.ExitFailed, "%s takes no shards: it is gone", id)
		case facts.MemberLeft:
			return front.Exitf(front.ExitFailed, "%s takes no shards: it has left the group", id)
		case facts.MemberLeaves:
			return front.Exitf(front.ExitFailed, "%s takes no shards: it leaves the group", id)
		case facts.MemberDrained:
			return front.Exitf(front.ExitFailed, "%s takes no shards: it is drained (natsleader undrain %s)", id, id)
		}
		return nil
	}
	if err := takes(); err != nil {
		return err
	}
	if s.dryRun {
		return front.PrintResult(s.Out(), s.asJSON, moved{Group: x.Group, DryRun: true, Shard: s.shard, From: was.ID, To: s.to},
			[]string{fmt.Sprintf("would move shard %d of group %s to %s; its owner is %s", s.shard, x.Group, id, view.OwnerText(was))})
	}
	if err := look.Within(ctx, func(ctx context.Context) error {
		return shard.Move(ctx, look.Bucket, x.Group, s.shard, s.to)
	}); err != nil {
		return err
	}
	err := until(ctx, x, look, s.Wait, func() (bool, error) {
		o := x.View.Owners[s.shard]
		return o.ID == s.to && o.State == shard.OwnerWorks, takes()
	}, func() (what, why string) {
		return fmt.Sprintf("shard %d has not moved to %s", s.shard, id), "its owner is " + view.OwnerText(x.View.Owners[s.shard]) + "; the request stays"
	})
	if err != nil {
		return err
	}
	now := x.View.Owners[s.shard]
	done := moved{Group: x.Group, Shard: s.shard, From: was.ID, To: now.ID, Token: now.Token}
	text := fmt.Sprintf("shard %d has moved from %s to %s, with token %d", s.shard, front.Printable(was.ID), id, now.Token)
	switch was.ID {
	case now.ID:
		text = fmt.Sprintf("%s works on shard %d already, with token %d", id, s.shard, now.Token)
	case "":
		text = fmt.Sprintf("shard %d had no owner and is granted to %s now, with token %d", s.shard, id, now.Token)
	}
	return front.PrintResult(s.Out(), s.asJSON, done, []string{text})
}
