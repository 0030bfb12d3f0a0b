package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/internal/link"
	"github.com/natsleader/natsleader/leader"
)

// polling is how often chaos looks whether the leader goes on.
const polling = 5 * time.Millisecond

// fault is one kind of fault of a leader.
type fault struct {
	name string
	// strike causes the fault in the worker that leads.
	strike func(ctx context.Context, w *worker) error
	// heal repairs the damage of strike, some time later. It may be nil.
	heal func(w *worker) error
	// harmless means that the leader is expected to go on, or at least may.
	harmless bool
	// takes is the approximate time until there is a leader and all is healed.
	takes time.Duration
}

// repair is how long something stays broken: longer than a lease.
func repair(lease time.Duration) time.Duration { return lease + lease/4 }

// faults returns the faults of the demo, in the order in which they happen.
func faults(st *stage, cr *crew) []fault {
	lease := cr.opts.lease
	fs := []fault{
		{
			name: "resign",
			strike: func(ctx context.Context, w *worker) error {
				cr.tl.Say(actorOperator, "RESIGN", "%s is asked to resign", w.name)
				term, ok := w.Term()
				if !ok {
					return leader.ErrNotLeader
				}
				return term.Resign(ctx)
			},
		},
		{
			name: "crash", takes: repair(lease),
			strike: func(_ context.Context, w *worker) error {
				cr.tl.Say(actorOperator, "CRASH", "%s crashes, nothing is released", w.name)
				cr.crash(w)
				return nil
			},
			heal: func(*worker) error { return cr.hire() },
		},
		{
			name: "black hole", takes: repair(lease),
			strike: func(_ context.Context, w *worker) error {
				cr.tl.Say(actorOperator, "BLACKHOLE", "the link of %s swallows everything, both ways", w.name)
				w.link.Set(link.Held)
				return nil
			},
			heal: func(w *worker) error {
				cr.tl.Say(actorOperator, "RESTORE", "the link of %s works again, what was sent arrives late", w.name)
				w.link.Set(link.Works)
				return nil
			},
		},
		{
			name: "key deleted", takes: repair(lease),
			strike: func(ctx context.Context, _ *worker) error {
				cr.tl.Say(actorOperator, "DELETE", "nats kv del %s %s", bucketName, cr.opts.key)
				return st.kv.Delete(ctx, cr.opts.key)
			},
		},
	}
	if st.server == nil {
		return fs
	}
	return append(fs,
		fault{
			name: "server restart", takes: lease / 2, harmless: true,
			strike: func(context.Context, *worker) error {
				cr.tl.Say(actorOperator, "RESTART", "the server restarts on the same store")
				st.server.Down()
				return st.server.Up()
			},
		},
		fault{
			name: "server outage", takes: repair(lease),
			strike: func(context.Context, *worker) error {
				cr.tl.Say(actorOperator, "OUTAGE", "the server goes down for longer than a lease")
				st.server.Down()
				return nil
			},
			heal: func(*worker) error {
				cr.tl.Say(actorOperator, "RESTORE", "the server is up again on the same store")
				return st.server.Up()
			},
		},
	)
}

// torment causes one fault after the other until the time is up or ctx ends, and
// leaves nothing broken.
func torment(ctx context.Context, st *stage, cr *crew, opts options) (tally, error) {
	var t tally
	deadline := cr.check.began.Add(opts.duration)
	playing, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	seen := 1 // no fault has caused the first election
	for {
		for _, f := range faults(st, cr) {
			victim, ok := quietReign(playing, cr, func() time.Duration {
				// Not in step with the renewals: a crash may come at any time
				// between two of them.
				pause := opts.pause + rand.N(opts.lease/6)
				if time.Now().Add(pause + f.takes).After(deadline) {
					return -1
				}
				return pause
			})
			if !ok {
				return t, nil
			}
			reigns, _ := cr.check.since(seen)
			t.unprovoked(reigns[:max(0, victim.number-seen+1)])
			seen = victim.number + 1

			cr.tl.Line(timeline.Plain, "")
			out, err := suffer(ctx, playing, cr, f, victim)
			if err != nil {
				return t, fmt.Errorf("%s: %w", f.name, err)
			}
			if ctx.Err() != nil {
				return t, nil
			}
			t.add(f, out)
			if out.led {
				seen++
			}
		}
	}
}

// quietReign waits until one of the crew has led for a pause. It returns false
// when there is no time for that any more. With a server of our own, there must be
// a leader before long.
func quietReign(playing context.Context, cr *crew, pause func() time.Duration) (reign, bool) {
	late := cr.patience()
	for {
		_, news := cr.check.since(0)
		if r, ok := cr.check.leader(); ok {
			d := pause()
			if d < 0 {
				return reign{}, false
			}
			select {
			case <-time.After(d):
				if leader.Err(r.term.Context()) == nil {
					return r, true
				}
			case <-playing.Done():
				return reign{}, false
			}
			continue
		}
		select {
		case <-news:
		case <-playing.Done():
			return reign{}, false
		case <-late:
			cr.check.fail("nobody leads for too long")
			late = nil
		}
	}
}

// patience returns a channel that delivers when there should have been a leader. On
// an existing server the channel is nil, because others may lead.
func (cr *crew) patience() <-chan time.Time {
	if cr.st.server == nil {
		return nil
	}
	return time.After(10*cr.opts.lease + 10*time.Second)
}

// outcome is the outcome of a fault.
type outcome struct {
	led    bool          // there is a new term
	vacant time.Duration // before it
	kept   bool          // the old term went on

	struck, healed, elected time.Time // zero: it did not happen
}

// suffer causes the fault in a leader, and waits until it is healed and there is a
// leader, even if the time is up meanwhile.
func suffer(ctx, playing context.Context, cr *crew, f fault, victim reign) (out outcome, err error) {
	out.struck = time.Now()
	until := out.struck.Add(victim.term.Remaining())
	if err = f.strike(ctx, victim.worker); err != nil && ctx.Err() == nil {
		cr.tl.Say(actorOperator, "faulted", "%s: %v", f.name, err)
	}
	struck := time.Now()
	err = nil // only the leadership counts

	var heal <-chan time.Time
	if f.heal != nil {
		heal = time.After(repair(cr.opts.lease))
		defer func() {
			if heal != nil { // interrupted: leave nothing broken
				err = f.heal(victim.worker)
			}
		}()
	}
	ticker := time.NewTicker(polling)
	defer ticker.Stop()
	late := cr.patience()
	over := playing.Done()
	if late != nil {
		over = nil
	}
	for {
		reigns, news := cr.check.since(victim.number + 1)
		if len(reigns) > 0 {
			out.led, out.vacant, out.elected = true, reigns[0].vacant, reigns[0].began
		}
		if f.harmless && !out.led && !out.kept {
			// A deadline that has moved is a renewal that was acknowledged.
			now, left := time.Now(), victim.term.Remaining()
			if out.kept = left > 0 && now.Add(left).Sub(until) > 2*polling; out.kept {
				cr.tl.Say(victim.worker.name, "goes on", "token %-6d renewed %s after the server was back",
					victim.term.Token(), timeline.Seconds(now.Sub(struck)))
			}
		}
		if (out.led || out.kept) && heal == nil {
			return out, nil
		}
		select {
		case <-news:
		case <-ticker.C:
		case <-heal:
			heal, out.healed = nil, time.Now()
			if err = f.heal(victim.worker); err != nil {
				return out, err
			}
		case <-late:
			cr.check.fail("nobody has led since: %s", f.name)
			return out, nil
		case <-over: // others may lead
			return out, nil
		case <-ctx.Done():
			return out, nil
		}
	}
}
