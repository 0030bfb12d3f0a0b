package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/natsleader/natsleader/examples/internal/timeline"
	"github.com/natsleader/natsleader/internal/link"
	"github.com/natsleader/natsleader/leader"
)

// worker is one candidate, with a connection of its own.
type worker struct {
	name string
	link *link.Link
	conn *nats.Conn
	*leader.Candidate
}

// crew is all the workers.
type crew struct {
	st    *stage
	opts  options
	check *electionChecker
	tl    *timeline.Timeline

	readers sync.WaitGroup // of events

	mu      sync.Mutex
	hired   int
	workers []*worker
}

func newCrew(st *stage, opts options, check *electionChecker, tl *timeline.Timeline) *crew {
	return &crew{st: st, opts: opts, check: check, tl: tl}
}

// start starts all the workers, each after a short random time unless splay is
// off.
func (cr *crew) start(ctx context.Context) error {
	var g errgroup.Group
	for range cr.opts.workers {
		g.Go(func() error {
			if cr.opts.splay {
				select {
				case <-time.After(rand.N(cr.opts.lease / 2)):
				case <-ctx.Done():
					return nil
				}
			}
			return cr.hire()
		})
	}
	return g.Wait()
}

// hire starts one more worker.
func (cr *crew) hire() error {
	cr.mu.Lock()
	cr.hired++
	w := &worker{name: fmt.Sprintf("worker-%02d", cr.hired), link: cr.st.link()}
	cr.mu.Unlock()
	if err := cr.campaign(w); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	cr.mu.Lock()
	cr.workers = append(cr.workers, w)
	cr.mu.Unlock()
	cr.readers.Go(func() { cr.follow(w) })
	return nil
}

// campaign connects a worker and makes it a candidate.
func (cr *crew) campaign(w *worker) (err error) {
	if w.conn, err = cr.st.connect(w.name, w.link); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			w.conn.Close()
		}
	}()
	js, err := cr.st.jetStream(w.conn)
	if err != nil {
		return err
	}
	bucket, err := leader.OpenBucket(js, bucketName)
	if err != nil {
		return err
	}
	// Not the context of the program: Ctrl-C should stop the leader last.
	w.Candidate, err = leader.Campaign(context.Background(), bucket, cr.opts.key, leader.Config{
		ID: w.name, LeaseDuration: cr.opts.lease, Logger: slog.New(slog.DiscardHandler), // the table shows the faults
	})
	return err
}

// follow reports the events of a worker to the checker and the timeline.
func (cr *crew) follow(w *worker) {
	checked := cr.check.watch(w)
	for ev := range w.Events(context.Background()) {
		cr.check.saw(checked, ev)
		switch ev := ev.(type) {
		case leader.Pending:
			if wait := time.Until(ev.Until); wait > time.Millisecond {
				cr.tl.Say(w.name, "pending", "token %d or more; waits %s for a lease that may be running", ev.Token, timeline.Seconds(wait))
			}
		case leader.Elected:
			vacant := cr.check.elected(w, ev.Term)
			cr.tl.Say(w.name, "elected", "token %-6d after %s without a leader", ev.Term.Token(), timeline.Seconds(vacant))
		case leader.Fenced:
			cr.tl.Say(w.name, "fenced", "token %-6d %s", ev.Term.Token(), timeline.Reason(ev.Cause))
		case leader.Deposed:
			cr.tl.Say(w.name, "deposed", "token %-6d %s", ev.Term.Token(), timeline.Reason(ev.Cause))
		case leader.Observed:
			if cr.opts.verbose {
				cr.tl.Say(w.name, "observed", "%v", ev.Holder)
			}
		case leader.Faulted:
			if cr.opts.verbose || cr.concerns(w) {
				cr.tl.Say(w.name, "faulted", "%s", cr.brief(timeline.Reason(ev.Err)))
			}
		}
	}
	cr.check.ended(checked)
	if err := w.Err(); err != nil && cr.opts.verbose {
		cr.tl.Say(w.name, "ended", "%v", err)
	}
}

// concerns reports whether w led last. Ten candidates that all lose their server
// report the same fault.
func (cr *crew) concerns(w *worker) bool {
	last, _ := cr.check.leader()
	return last.worker == w
}

// brief cuts a text to the width of a line, unless the demo is verbose.
func (cr *crew) brief(text string) string {
	const width = 70
	if cr.opts.verbose || len(text) <= width {
		return text
	}
	return text[:width-3] + "..."
}

// crash ends a worker as a power failure would: nothing is released.
func (cr *crew) crash(w *worker) {
	w.link.Set(link.Cut)
	w.conn.Close()
	cr.mu.Lock()
	defer cr.mu.Unlock()
	cr.workers = slices.DeleteFunc(cr.workers, func(o *worker) bool { return o == w })
}

// stop ends all workers, the leader last, so that the key is not handed around.
func (cr *crew) stop() {
	cr.mu.Lock()
	defer cr.mu.Unlock()
	var leaders []*worker
	var others sync.WaitGroup
	for _, w := range cr.workers {
		if w.IsLeader() {
			leaders = append(leaders, w)
			continue
		}
		others.Go(func() { cr.dismiss(w) })
	}
	others.Wait()
	for _, w := range leaders {
		cr.dismiss(w)
	}
	cr.workers = nil
	cr.readers.Wait()
}

func (cr *crew) dismiss(w *worker) {
	if err := w.Stop(); err != nil {
		cr.tl.Say(w.name, "faulted", "stopped without releasing the key: %v", err)
	}
	w.conn.Close()
	w.link.Close()
}
