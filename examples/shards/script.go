package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/natsleader/natsleader/examples/internal/child"
	"github.com/natsleader/natsleader/examples/internal/scaffold"
	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/shard"
)

// atMost is how long the group may take until its shards are spread evenly again. It takes a few leases of 3 s, and
// longer on a machine whose disk or processors are busy.
const atMost = 3 * time.Minute

// script breaks the group, and checks what follows.
func script(ctx context.Context, s *scaffold.Scaffold) (err error) {
	f, err := open(ctx, s)
	if err != nil {
		return err
	}
	s.Begin()
	faults, err := breakIt(ctx, f)
	err = errors.Join(err, f.close())
	for _, x := range faults {
		rested := f.judge.rested(x.id, x.from, x.until)
		s.Line(timeline.Bold, "%s was %s: each shard rested for %.1f s, or longer, before another process began", x.id, x.what, rested.Seconds())
	}
	return err
}

// fault is what was done to a process, and the time until others had its shards.
type fault struct {
	id, what    string
	from, until time.Time
}

// breakIt gives commands, and waits after each until the shards are spread evenly again.
func breakIt(ctx context.Context, f *fleet) (faults []fault, err error) {
	if err := f.start("a", "b", "c", "d", "e"); err != nil {
		return nil, err
	}
	if err := f.spread(ctx, "a", "b", "c", "d", "e"); err != nil {
		return nil, err
	}
	for _, step := range []struct {
		verb, id string
		owners   []string // of all shards, afterwards
	}{
		{"kill", "b", []string{"a", "c", "d", "e"}},
		{"freeze", "c", []string{"a", "d", "e"}},
		{"thaw", "c", []string{"a", "c", "d", "e"}},
		{"start", "f", []string{"a", "c", "d", "e", "f"}},
		{"stop", "a", []string{"c", "d", "e", "f"}},
	} {
		if !child.CanFreeze && (step.verb == "freeze" || step.verb == "thaw") {
			continue
		}
		f.Say(step.id, strings.ToUpper(step.verb), "")
		from := time.Now()
		if err := f.do(step.verb, step.id); err != nil {
			return faults, err
		}
		if err := f.spread(ctx, step.owners...); err != nil || ctx.Err() != nil {
			return faults, err
		}
		if state := f.row(step.id).state; state == "killed" || state == "frozen" {
			faults = append(faults, fault{step.id, state, from, time.Now()})
		}
	}
	return faults, nil
}

// spread waits until processes own all shards, none owns two more than another, and each has worked on some items.
func (f *fleet) spread(ctx context.Context, owners ...string) error {
	from, late := time.Now(), time.After(atMost)
	for !f.even(owners) {
		select {
		case f.view = <-f.views:
		case <-late:
			return fmt.Errorf("%v do not share the shards within %v:\n%s", owners, atMost, f.picture())
		case <-ctx.Done():
			return nil
		}
	}
	f.Say("group", "spread", "after %.1f s\n%s", time.Since(from).Seconds(), f.picture())
	time.Sleep(time.Second)
	return nil
}

func (f *fleet) even(owners []string) bool {
	has := make(map[string]int)
	for _, o := range f.view.Owners {
		if o.State != shard.OwnerWorks {
			return false
		}
		has[o.ID]++
	}
	for _, id := range owners {
		if has[id] != shards/len(owners) && has[id] != (shards+len(owners)-1)/len(owners) {
			return false
		}
	}
	return len(has) == len(owners)
}
