package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/choria-io/fisk"

	"github.com/natsleader/natsleader/internal/group"
	records "github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

const moveHelp = `The owner of the shard ends the work on it, and then, or after its GracePeriod, the member
with that ID begins. If that makes the spread uneven, another shard leaves this member.

The exit code is 1 if that member does not exist or takes no shards, and 124 if the shard
has not moved in time: the request stays.

  natsleader shards move orders 7 web-2`

const drainHelp = `All shards move away from the member with that ID, or from the members on a host, each
when the work on it has ended, or after its GracePeriod. The command waits for all work
of these members. A drained member takes no shards until undrain, or until its process
has ended and another joins under the ID. The ID of a member that was given none begins
with the name of its host.

If the other members do not take all shards, it asks for confirmation. Where standard
input is no terminal, nothing is done then without --yes.

The exit code is 1 if there is no such member or the answer is no, 64 if --yes is
missing, and 124 if shards have not moved in time: the request stays.

  natsleader shards drain orders web-1
  natsleader shards drain orders --host "$(hostname)"`

// steer is a command that changes which members own shards.
type steer struct {
	*globals
	group, id, host string
	shard           int
	wait            time.Duration
	yes, asJSON     bool
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
	members := func(cmd *fisk.CmdClause) {
		cmd.Arg("id", "ID of the member").HintAction(s.memberIDs).StringVar(&s.id)
		cmd.Flag("host", "All members on this host, whose name begins generated IDs").PlaceHolder("HOST").StringVar(&s.host)
	}
	move := command("move", "Move a shard to a member", moveHelp, s.move)
	move.Arg("shard", "Number of the shard").Required().IntVar(&s.shard)
	move.Arg("id", "ID of the member that is to work on it").Required().HintAction(s.memberIDs).StringVar(&s.id)
	waiting(move)
	drain := command("drain", "Move all shards away from members", drainHelp, s.drain)
	members(drain)
	waiting(drain)
	drain.Flag("yes", "Do not ask for confirmation").Short('y').UnNegatableBoolVar(&s.yes)
	members(command("undrain", "Let drained members take shards again", "It does not wait until they have some.", s.undrain))
}

// until observes the group until it is as wanted. Without an error, that is so before the time of --wait is over.
func (s *steer) until(ctx context.Context, look *inspector, x *sharing, done func() (bool, error), open func() (what, why string)) error {
	limited, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	views, err := shard.Observe(limited, look.bucket, s.group)
	if err != nil {
		return err
	}
	for v := range views {
		if x.view = v; len(v.Owners) == 0 {
			return fmt.Errorf("%w: %s", shard.ErrNoGroup, s.group)
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
	return exitf(exitWaited, "%s within %v: %s; the request stays", what, s.wait, why)
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
			return exitf(exitFailed, "%s takes no shards: it is drained (natsleader shards undrain %s %s)", id, s.group, id)
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
	err := s.until(ctx, look, x, func() (bool, error) {
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

// chosen returns the members that are meant.
func (s *steer) chosen(x *sharing) ([]memberSummary, error) {
	if (s.id == "") == (s.host == "") {
		return nil, usagef("name a member, or --host")
	}
	var all []memberSummary
	for _, m := range x.members() {
		if s.host != "" && records.OnHost(m.ID, s.host) || s.id != "" && m.ID == s.id {
			all = append(all, m)
		}
	}
	switch {
	case len(all) > 0:
		return all, nil
	case s.host != "":
		return nil, exitf(exitFailed, "no member of group %s is on host %s", s.group, printable(s.host))
	}
	return nil, fmt.Errorf("%w: %s in group %s", shard.ErrNoMember, printable(s.id), s.group)
}

// drained is the outcome of drain and undrain.
type drained struct {
	Group   string          `json:"group"`
	Members []drainedMember `json:"members"`
}

type drainedMember struct {
	ID     string `json:"id"`
	Shards int    `json:"shards,omitempty"` // that it had
	State  string `json:"state,omitempty"`  // memberDrained: it has given them up; memberLeft or memberGone: others have got them
}

func (s *steer) drain(ctx context.Context, look *inspector, x *sharing) error {
	chosen, err := s.chosen(x)
	if err != nil {
		return err
	}
	if err = s.confirmDrain(x, chosen); err != nil {
		return err
	}
	if err = s.request(ctx, look, chosen); err != nil {
		return err
	}
	done, lines, err := s.emptied(ctx, look, x, chosen)
	if err != nil {
		return err
	}
	return printResult(s.out(), s.asJSON, done, lines)
}

// request asks members to give up their shards.
func (s *steer) request(ctx context.Context, look *inspector, chosen []memberSummary) error {
	for _, m := range chosen {
		if err := look.within(ctx, func(ctx context.Context) error { return shard.Drain(ctx, look.bucket, s.group, m.ID) }); err != nil {
			return err
		}
	}
	return nil
}

// emptied waits until the members that were asked have given up their shards. It returns the outcome, also in words.
func (s *steer) emptied(ctx context.Context, look *inspector, x *sharing, chosen []memberSummary) (done drained, lines []string, err error) {
	ids := make(map[string]bool)
	for _, m := range chosen {
		ids[m.ID] = true
	}
	var left []int
	if err := s.until(ctx, look, x, func() (bool, error) {
		left = left[:0]
		for i, o := range x.view.Owners {
			if ids[o.ID] || ids[o.From] {
				left = append(left, i)
			}
		}
		for _, w := range x.late() {
			if ids[w.ID] {
				left = append(left, w.Shards...)
			}
		}
		slices.Sort(left)
		left = slices.Compact(left)
		return len(left) == 0, nil
	}, func() (what, why string) {
		return fmt.Sprintf("%d shards have not left %s", len(left), printable(cmp.Or(s.id, s.host))), "the work on " + group.Ranges(left) + " has not ended"
	}); err != nil {
		return done, nil, err
	}
	done.Group = s.group
	now := x.members()
	for _, m := range chosen {
		id, n, state := printable(m.ID), len(m.Shards), memberGone // if it is no member any more
		if i := slices.IndexFunc(now, func(p memberSummary) bool { return p.ID == m.ID }); i >= 0 {
			state = now[i].State
		}
		line := fmt.Sprintf("%s is drained: it has given up %s", id, plural(n, "shard"))
		if isPast(state) {
			line = fmt.Sprintf("%s is no member any more: others take its %d shards, as far as they have room", id, n)
		} else {
			state = memberDrained
		}
		done.Members = append(done.Members, drainedMember{m.ID, n, state})
		lines = append(lines, line)
	}
	return done, lines, nil
}

// shortage says how many shards would have no owner without the chosen members, or nothing.
func (x *sharing) shortage(chosen []memberSummary) string {
	room, all := 0, len(x.view.Owners)
	for _, m := range x.members() {
		switch {
		case m.State != memberLives || slices.ContainsFunc(chosen, func(c memberSummary) bool { return c.ID == m.ID }):
		case m.Most == 0:
			room = all
		default:
			room += m.Most
		}
	}
	if room >= all {
		return ""
	}
	return fmt.Sprintf("the other members of group %s take %d of %d shards, so %d would have no owner", x.group, room, all, all-room)
}

// confirmDrain asks for confirmation if the other members do not take all shards.
func (s *steer) confirmDrain(x *sharing, chosen []memberSummary) error {
	why := x.shortage(chosen)
	if why == "" || s.yes {
		return nil
	}
	if !s.canAsk() {
		return usagef("%s, and standard input is no terminal: --yes drains all the same; nothing was done", why)
	}
	out := s.wordsOf(s.asJSON)
	out.say("%s.", strings.ToUpper(why[:1])+why[1:])
	return out.confirm(s.yes, "Drain?", "nothing was done")
}

func (s *steer) undrain(ctx context.Context, look *inspector, x *sharing) error {
	chosen, err := s.chosen(x)
	if err != nil {
		return err
	}
	done, lines, err := s.release(ctx, look, chosen)
	if err != nil {
		return err
	}
	return printResult(s.out(), s.asJSON, done, lines)
}

// release lets members take shards again.
func (s *steer) release(ctx context.Context, look *inspector, chosen []memberSummary) (done drained, lines []string, err error) {
	done.Group = s.group
	for _, m := range chosen {
		if err := look.within(ctx, func(ctx context.Context) error { return shard.Undrain(ctx, look.bucket, s.group, m.ID) }); err != nil {
			return done, lines, err
		}
		done.Members = append(done.Members, drainedMember{ID: m.ID})
		lines = append(lines, printable(m.ID)+" may take shards")
	}
	return done, lines, nil
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
