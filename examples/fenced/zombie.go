package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/leader"
)

// tenure is the time after which the first leader resigns.
const tenure = 200 * time.Millisecond

// play is the state that the processes share for the demonstration. A service has
// nothing like it.
type play struct {
	tl      *timeline.Timeline
	zombie  atomic.Bool     // the first term has begun; its worker is one
	refused context.Context // ends when the zombie was refused
	refuse  func()
	end     func() // of the run

	wrote, read string // by the zombie's successor
}

func newPlay(ctx context.Context, tl *timeline.Timeline, end func()) *play {
	p := &play{tl: tl, end: end}
	p.refused, p.refuse = context.WithCancel(ctx)
	return p
}

// writeOn writes as fast as it can until a write is refused or the run ends.
// Meanwhile its candidate hands over.
func (p *process) writeOn(ctx context.Context, term *leader.Term, put put) error {
	var resigning errgroup.Group
	resigning.Go(func() error {
		select {
		case <-time.After(tenure):
		case <-ctx.Done():
			return nil
		}
		p.tl.Say(p.name, "RESIGNS", "and its worker, which does not look, writes on")
		return term.Resign(ctx)
	})
	var last uint64
	for n := 0; ; n++ {
		revision, err := put(ctx, key, []byte(p.name))
		switch {
		case errors.Is(err, leader.ErrFenced):
			p.tl.Say(p.name, "refused", "%s: %d of its writes were accepted, the last one as revision %d", timeline.Reason(err), n, last)
			p.refuse()
			return resigning.Wait()
		case err != nil:
			return errors.Join(err, resigning.Wait())
		}
		last = revision
	}
}

// succeed writes once. It reads the key when the zombie has been refused, or has
// written over it.
func (p *process) succeed(ctx context.Context, _ *leader.Term, put put) error {
	revision, err := put(ctx, key, []byte(p.name))
	if err != nil {
		return err
	}
	p.tl.Say(p.name, "writes", "%s=%s, as revision %d", key, p.name, revision)
	if p.guarded {
		<-p.refused.Done()
	}
	for {
		e, err := p.kv.Get(ctx, key)
		switch {
		case err != nil:
			return err
		case p.guarded || e.Revision() > revision:
			p.tl.Say(p.name, "reads", "%s=%s, of revision %d", key, e.Value(), e.Revision())
			p.wrote, p.read = p.name, string(e.Value())
			p.end()
			return nil
		}
	}
}
