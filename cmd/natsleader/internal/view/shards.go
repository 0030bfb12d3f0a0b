package view

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/choria-io/fisk"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/cmd/natsleader/internal/facts"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/front"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/inspect"
	"github.com/natsleader/natsleader/cmd/natsleader/internal/judge"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/shard"
)

// register adds the flags for one shard of a group.
func (x *Sharing) register(cmd *fisk.CmdClause) {
	x.Only = -1
	cmd.Flag("shard", "Only this shard of a group, and its owner").PlaceHolder("NUMBER").IsSetByUser(&x.byNumber).IntVar(&x.Only)
	cmd.Flag("key", "Only the shard of this key").IsSetByUser(&x.byKey).StringVar(&x.key)
}

// asked reports whether one shard is asked for.
func (x *Sharing) asked() bool { return x.byNumber || x.byKey }

// check rejects flags that contradict each other.
func (x *Sharing) check() error {
	switch {
	case x.byNumber && x.byKey:
		return front.Usagef("--shard and --key exclude each other")
	case x.byNumber && x.Only < 0:
		return front.Usagef("--shard %d is negative", x.Only)
	case x.asked() && (x.Group == "" || strings.Contains(x.Group, "*")):
		return front.Usagef("--shard and --key need the name of a group")
	}
	return nil
}

// show prints the group, or one shard of it.
func (x *Sharing) show(ctx context.Context, g *front.Globals, s *inspect.Inspector, asJSON bool) error {
	if x.Only < 0 {
		if err := x.readPast(ctx, s); err != nil {
			return err
		}
	}
	code := x.exitCode()
	return front.ExitIf(code != 0, code, front.PrintResult(g.Out(), asJSON, x.summary(), x.lines()))
}

// exitCode is that of the trouble of a group, and of one shard whether it has an owner.
func (x *Sharing) exitCode() int {
	switch is := x.judged(); {
	case x.Only >= 0 && len(x.lost()) > 0:
		return front.ExitUnreachable
	case x.Only >= 0 && len(x.unowned()) > 0:
		return front.ExitFailed
	case x.Only >= 0, is == nil:
		return 0
	default:
		return is.Severity.ExitCode()
	}
}

// Sharing is how a group shares its shards, or which member owns one of them.
type Sharing struct {
	Group    string
	key      string // asked for by --key
	byKey    bool
	byNumber bool // asked for by --shard
	Only     int  // the shard that is shown; -1: all
	View     shard.View
	now      time.Time    // by the server's clock, of a view that was read; zero: it was observed, which shows no renewals
	past     []pastMember // the newest first
	in       judge.Around // of the bucket
}

// pastMember was a member until some time ago.
type pastMember struct {
	ID    string    `json:"id"`
	State string    `json:"state"` // facts.MemberLeft or facts.MemberGone
	Ended time.Time `json:"ended"` // when others saw the end of its term
}

// longPast is how long a member that has left or is gone is shown.
const longPast = 24 * time.Hour

// MostPast is how many records are read for that.
const MostPast = 500

// readPast reads the records of those that are no members any more. The key of each ID stays in the bucket.
func (x *Sharing) readPast(ctx context.Context, s *inspect.Inspector) error {
	keys, err := inspect.Answer(ctx, s, func(ctx context.Context) (keys map[string]uint64, err error) {
		stream, err := s.Js.Stream(ctx, "KV_"+s.Name)
		if err == nil {
			var info *jetstream.StreamInfo
			if info, err = stream.Info(ctx, jetstream.WithSubjectFilter("$KV."+s.Name+"."+group.MemberKey(x.Group, "")+">")); err == nil {
				keys = info.State.Subjects
			}
		}
		return keys, err
	})
	if err != nil {
		return err
	}
	for _, m := range x.View.Members {
		delete(keys, "$KV."+s.Name+"."+group.MemberKey(x.Group, m.ID))
	}
	if len(keys) > MostPast {
		return nil
	}
	var mu sync.Mutex
	var reads errgroup.Group
	reads.SetLimit(16)
	for subject := range keys {
		reads.Go(func() error {
			key := strings.TrimPrefix(subject, "$KV."+s.Name+".")
			e, unread := s.One(ctx, key)
			if at := e.Entry.Created; unread == nil && x.now.Sub(at) < longPast && e.At(x.now) != facts.Leading {
				mu.Lock()
				defer mu.Unlock()
				x.past = append(x.past, pastMember{group.MemberOf(key), e.Member(), at})
			}
			return unread
		})
	}
	_, err = inspect.Answer(ctx, s, func(context.Context) (struct{}, error) { return struct{}{}, reads.Wait() })
	slices.SortFunc(x.past, func(a, b pastMember) int { return cmp.Or(b.Ended.Compare(a.Ended), strings.Compare(a.ID, b.ID)) })
	return err
}

// groupAnswers is how many answers a read of a group takes, one after the other: the registry, the pages, the members.
const groupAnswers = 3

// Read reads the group. A lease that is over by the server's clock ends the ownership: one read cannot show that.
func (x *Sharing) Read(ctx context.Context, s *inspect.Inspector) error {
	v, err := inspect.Answer(ctx, s.For(groupAnswers), func(ctx context.Context) (shard.View, error) {
		return shard.Lookup(ctx, s.Patient(), x.Group)
	})
	if errors.Is(err, shard.ErrNoGroup) {
		err = x.withoutMap(ctx, s, err)
	}
	if err != nil {
		return err
	}
	now := s.Clock.Now()
	err = x.take(facts.ViewAt(v, now))
	x.now = now
	return err
}

// noMapError is the error for a group that is there without a map.
type noMapError struct{ judge.Finding }

func (n noMapError) Error() string { return n.Text + "; " + n.Advice }

// Unwrap makes it the error for a group that does not exist: there is nothing to show, nor to change.
func (n noMapError) Unwrap() error { return shard.ErrNoGroup }

// withoutMap returns the error for a group of which there is no map: it is not known which members it has, unless there is no
// group.
func (x *Sharing) withoutMap(ctx context.Context, s *inspect.Inspector, none error) error {
	a, err := inspect.Answer(ctx, s, func(ctx context.Context) (facts.ElectionStatus, error) {
		return s.One(ctx, group.AssignerKey(x.Group))
	})
	switch {
	case err != nil:
		return err
	case !a.At(s.Clock.Now()).Held():
		return none
	}
	return front.ExitError{Code: front.ExitUnreachable, Err: noMapError{judge.Worst(judge.Group(x.Group, shard.View{Assigner: a.Holder}, x.in))}}
}

// take takes a view of the group, and returns an error if it has no such shard.
func (x *Sharing) take(v shard.View) error {
	x.View = v
	switch n := len(v.Owners); {
	case n == 0:
		return nil
	case x.byKey:
		h := fnv.New64a()
		_, _ = h.Write([]byte(x.key))
		x.Only = int(h.Sum64() % uint64(n)) //nolint:gosec // less than n
	case x.Only >= n:
		return front.Usagef("group %s has no shard %d: choose one from 0 to %d", x.Group, x.Only, n-1)
	}
	return nil
}

// unowned returns the shards that have no owner, of those that are shown.
func (x *Sharing) unowned() (shards []int) {
	return x.shown(facts.Unowned(x.View))
}

// Known returns an error if the owners of some shards are not known.
func (x *Sharing) Known() error {
	lost := x.lost()
	if len(lost) == 0 {
		return nil
	}
	return front.Exitf(front.ExitUnreachable, "the owners of %d of %d shards are not known: their part of the map is not there or cannot be read: %s", len(lost), len(x.View.Owners), front.Shorten(group.Ranges(lost), front.LongValue))
}

// lost returns the shards of which no owner is known, of those that are shown.
func (x *Sharing) lost() []int { return x.shown(x.View.Lost) }

// shown returns those of some shards that are shown.
func (x *Sharing) shown(shards []int) []int {
	if x.Only < 0 {
		return shards
	}
	return slices.DeleteFunc(slices.Clone(shards), func(i int) bool { return i != x.Only })
}

// moves returns the shards whose owner waits, in the order of the shards.
func (x *Sharing) moves() (all []shardMove) {
	of := make(map[[2]string]int)
	for i, o := range x.View.Owners {
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

// GroupNames completes the name of a group.
func GroupNames(g *front.Globals) []string {
	return inspect.Complete(g, "groups", func(ctx context.Context, s *inspect.Inspector) ([]string, error) {
		all, err := s.All(ctx)
		return inspect.GroupsIn(all), err
	})
}
