package main

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/shard"
)

// register adds the flags for one shard of a group.
func (x *sharing) register(cmd *fisk.CmdClause) {
	x.only = -1
	cmd.Flag("shard", "Only this shard of a group, and its owner").PlaceHolder("NUMBER").IsSetByUser(&x.byNumber).IntVar(&x.only)
	cmd.Flag("key", "Only the shard of this key").IsSetByUser(&x.byKey).StringVar(&x.key)
}

// asked reports whether one shard is asked for.
func (x *sharing) asked() bool { return x.byNumber || x.byKey }

// check rejects flags that contradict each other.
func (x *sharing) check() error {
	switch {
	case x.byNumber && x.byKey:
		return usagef("--shard and --key exclude each other")
	case x.byNumber && x.only < 0:
		return usagef("--shard %d is negative", x.only)
	case x.asked() && (x.group == "" || strings.Contains(x.group, "*")):
		return usagef("--shard and --key need the name of a group")
	}
	return nil
}

// show prints the group, or one shard of it.
func (x *sharing) show(ctx context.Context, g *globals, s *inspector, asJSON bool) error {
	if x.only < 0 {
		if err := x.readPast(ctx, s); err != nil {
			return err
		}
	}
	return exitIf(len(x.unowned()) > 0, exitFailed, printResult(g.out(), asJSON, x.summary(), x.lines()))
}

// sharing is how a group shares its shards, or which member owns one of them.
type sharing struct {
	group    string
	key      string // asked for by --key
	byKey    bool
	byNumber bool // asked for by --shard
	only     int  // the shard that is shown; -1: all
	view     shard.View
	now      time.Time    // by the server's clock, of a view that was read; zero: it was observed, which shows no renewals
	past     []pastMember // the newest first
}

// pastMember was a member until some time ago.
type pastMember struct {
	ID    string    `json:"id"`
	State string    `json:"state"` // memberLeft or memberGone
	Ended time.Time `json:"ended"` // when others saw the end of its term
}

// longPast is how long a member that has left or is gone is shown.
const longPast = 24 * time.Hour

// mostPast is how many records are read for that.
const mostPast = 500

// readPast reads the records of those that are no members any more. The key of each ID stays in the bucket.
func (x *sharing) readPast(ctx context.Context, s *inspector) error {
	keys, err := answer(ctx, s, func(ctx context.Context) (keys map[string]uint64, err error) {
		stream, err := s.js.Stream(ctx, "KV_"+s.name)
		if err == nil {
			var info *jetstream.StreamInfo
			if info, err = stream.Info(ctx, jetstream.WithSubjectFilter("$KV."+s.name+"."+group.MemberKey(x.group, "")+">")); err == nil {
				keys = info.State.Subjects
			}
		}
		return keys, err
	})
	if err != nil {
		return err
	}
	for _, m := range x.view.Members {
		delete(keys, "$KV."+s.name+"."+group.MemberKey(x.group, m.ID))
	}
	if len(keys) > mostPast {
		return nil
	}
	var mu sync.Mutex
	var reads errgroup.Group
	reads.SetLimit(16)
	for subject := range keys {
		reads.Go(func() error {
			key := strings.TrimPrefix(subject, "$KV."+s.name+".")
			e, unread := s.one(ctx, key)
			if at := e.entry.Created; unread == nil && x.now.Sub(at) < longPast && e.at(x.now) != stateLeading {
				mu.Lock()
				defer mu.Unlock()
				x.past = append(x.past, pastMember{group.MemberOf(key), e.member(), at})
			}
			return unread
		})
	}
	_, err = answer(ctx, s, func(context.Context) (struct{}, error) { return struct{}{}, reads.Wait() })
	slices.SortFunc(x.past, func(a, b pastMember) int { return cmp.Or(b.Ended.Compare(a.Ended), strings.Compare(a.ID, b.ID)) })
	return err
}

// read reads the group. A lease that is over by the server's clock ends the ownership: one read cannot show that.
func (x *sharing) read(ctx context.Context, s *inspector) error {
	v, err := answer(ctx, s, func(ctx context.Context) (shard.View, error) { return shard.Lookup(ctx, s.bucket, x.group) })
	if err != nil {
		return err
	}
	now := s.clock.now()
	err = x.take(facts.ViewAt(v, now))
	x.now = now
	return err
}

// take takes a view of the group, and returns an error if it has no such shard.
func (x *sharing) take(v shard.View) error {
	x.view = v
	switch n := len(v.Owners); {
	case n == 0:
		return nil
	case x.byKey:
		h := fnv.New64a()
		_, _ = h.Write([]byte(x.key))
		x.only = int(h.Sum64() % uint64(n)) //nolint:gosec // less than n
	case x.only >= n:
		return usagef("group %s has no shard %d: choose one from 0 to %d", x.group, x.only, n-1)
	}
	return nil
}

// The states of a member.
const (
	memberLives   = facts.MemberLives
	memberDrained = facts.MemberDrained
	memberLeaves  = facts.MemberLeaves
	memberLeft    = facts.MemberLeft
	memberGone    = facts.MemberGone
)

// isPast reports whether the term of a member is over.
func isPast(state string) bool { return facts.MemberPast(state) }

func memberState(p shard.Peer) string { return facts.MemberState(p) }

// member returns the state of the member whose key it is.
func (s electionStatus) member() string {
	value := s.holder.Value
	if s.holder.Last != nil {
		value = s.holder.Last.Value
	}
	return memberState(shard.Peer{ID: group.MemberOf(s.election), Holder: s.holder, Leaves: group.HasLeft(value)})
}

// unowned returns the shards that have no owner, of those that are shown.
func (x *sharing) unowned() (shards []int) {
	for i, o := range x.view.Owners {
		if (x.only < 0 || i == x.only) && !lives(o) {
			shards = append(shards, i)
		}
	}
	return shards
}

// remedy says what gives an owner to the shards that have none.
func (x *sharing) remedy() string { return judge.Remedy(x.view) }

// moves returns the shards whose owner waits, in the order of the shards.
func (x *sharing) moves() (all []shardMove) {
	of := make(map[[2]string]int)
	for i, o := range x.view.Owners {
		if o.State != shard.OwnerWaits {
			continue
		}
		n, known := of[[2]string{o.From, o.ID}]
		if !known {
			n = len(all)
			of[[2]string{o.From, o.ID}] = n
			all = append(all, shardMove{From: o.From, To: o.ID})
		}
		all[n].Shards = append(all[n].Shards, i)
	}
	return all
}

// shardMove are the shards that move from one member to another.
type shardMove struct {
	Shards []int  `json:"shards"`
	From   string `json:"from"`
	To     string `json:"to"`
}

// groupNames completes the name of a group.
func (g *globals) groupNames() []string {
	return g.complete("groups", func(ctx context.Context, s *inspector) ([]string, error) {
		all, err := s.all(ctx)
		return groupsIn(all), err
	})
}

func groupsIn(all []electionStatus) (names []string) {
	for _, x := range all {
		if name, ok := strings.CutSuffix(x.election, group.RegistryKey("")); ok && checkElection(name) == nil {
			names = append(names, name)
		}
	}
	return names
}
