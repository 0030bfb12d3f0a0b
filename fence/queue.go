package fence

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

const (
	// A batch of atomic publishing takes up to 1,000 messages (nats-server,
	// streamMaxAtomicBatchSize). One is left for the guard.
	maxBatchMessages = 999
	maxBatchBytes    = 4 << 20
	// The server finds the guard's last message by a walk through the block of its store
	// that has the message. So the guard is written again, with the token that it has,
	// before it is too far behind the newest message.
	guardLag      = 4096
	guardLagBytes = 1 << 20
)

// writeQueue is the write queue of one term for one guarded stream.
//
// If the stream has one replica, single messages are sent side by side. If it has more,
// two conditions on one subject reject one another while the first is being agreed on. So
// one request is in flight at a time: an atomic batch of all changes that have come up
// meanwhile. On any stream, a change that needs a batch of its own, or moves the guard,
// waits until nothing else is in flight.
type writeQueue struct {
	s *guardedStream
	f backend.Fence
	t *leader.Term

	mu             sync.Mutex
	queue          []*writeSet
	busy           bool          // a goroutine drains the queue
	direct         int           // number of changes that are being sent by themselves
	directDone     chan struct{} // closed when direct is 0; nil: nothing waits for that
	unknownOutcome bool          // the outcome of a write is unknown: the guard has to move
	head           uint64        // the greatest sequence acknowledged
	bytes          int           // written since the guard moved
}

// queueOf returns the write queue of a term at a guard, or nil if the term does not know the
// guard.
func queueOf(t *leader.Term, g leader.Guard, s *guardedStream) *writeQueue {
	f := backend.FenceOf(t, g)
	if f == nil {
		return nil
	}
	return f.Shared(func() any { return &writeQueue{s: s, f: f, t: t} }).(*writeQueue)
}

// guardRevision returns the revision at which the guard stands for the term, or 0.
func (l *writeQueue) guardRevision() uint64 {
	if l == nil {
		return 0
	}
	revision, _ := l.f.Current()
	return revision
}

// submit writes the change and returns when its outcome is known.
func (l *writeQueue) submit(ctx context.Context, c *writeSet) error {
	_, patient := ctx.Deadline() // the caller has set how long
	ctx, cancel := deadline.Limit(ctx)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return unwritten(err)
	}
	l.mu.Lock()
	if !l.busy && l.free(c) {
		l.direct++
		l.mu.Unlock()
		return l.sendDirect(ctx, patient, c)
	}
	c.turn, c.done = make(chan struct{}), make(chan struct{})
	c.detach()
	l.queue = append(l.queue, c)
	if !l.busy {
		l.busy = true
		go l.drain()
	}
	l.mu.Unlock()
	select {
	case <-c.turn:
		return l.sendDirect(ctx, patient, c)
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-c.turn:
		l.sent()
		return unwritten(ctx.Err())
	case <-c.done:
		return c.err
	default:
	}
	c.left = true
	if c.sent {
		return unknown(ctx.Err())
	}
	return gaveUp(ctx.Err(), c.why)
}

// free reports whether the change may be sent beside others.
func (l *writeQueue) free(c *writeSet) bool {
	return !l.s.replicated() && len(c.messages) == 1 && !c.messages[0].conditioned && !l.overdue()
}

// overdue reports whether the guard has to move before anything else is written.
func (l *writeQueue) overdue() bool {
	revision, _ := l.f.Current()
	return l.unknownOutcome || l.head > revision+guardLag || l.bytes > guardLagBytes
}

// sendDirect sends a change by itself.
func (l *writeQueue) sendDirect(ctx context.Context, patient bool, c *writeSet) error {
	err := l.insist(ctx, func(revision uint64) error {
		try := ctx
		if patient { // but others wait for this change to end
			var cancel context.CancelFunc
			try, cancel = deadline.Within(ctx, deadline.Default)
			defer cancel()
		}
		_, err := (&publishRequest{s: l.s, f: l.f, changes: []*writeSet{c}, revision: revision}).send(try)
		return err
	}, func() error {
		// Perhaps the stream has more replicas than it had.
		try, cancel := deadline.Within(ctx, deadline.Default)
		defer cancel()
		_, _ = l.s.api.Info(try)
		return nil
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.note(c, err)
	l.sent()
	return err
}

// sent removes a write set from direct. The queue is locked.
func (l *writeQueue) sent() {
	l.direct--
	if l.direct == 0 && l.directDone != nil {
		close(l.directDone)
		l.directDone = nil
	}
}

// note records the effect of a write on the stream. The queue is locked.
func (l *writeQueue) note(c *writeSet, err error) {
	if err == nil {
		l.head = max(l.head, c.ack.Sequence)
		for _, m := range c.messages {
			l.bytes += len(m.data)
		}
	}
	l.unknownOutcome = l.unknownOutcome || errors.Is(err, ErrUnknownOutcome)
}

// drain sends the changes in the queue, and ends when it is empty.
func (l *writeQueue) drain() {
	for {
		l.mu.Lock()
		group := l.take()
		if group == nil {
			l.busy = false
			l.mu.Unlock()
			return
		}
		var landed chan struct{}
		if l.direct > 0 {
			landed = make(chan struct{})
			l.directDone = landed
		}
		l.mu.Unlock()
		if landed != nil {
			<-landed
		}
		l.deliver(group)
	}
}

// take takes from the front of the queue the changes to write next in one request.
// Changes that need not wait for that request are sent at once. The queue is locked.
func (l *writeQueue) take() []*writeSet {
	var group []*writeSet
	messages, bytes := 0, 0
	written := make(map[string]bool)
	for len(l.queue) > 0 {
		c := l.queue[0]
		switch {
		case c.left:
		case l.free(c):
			if len(group) > 0 {
				return group
			}
			l.direct++
			close(c.turn)
		default:
			messages += len(c.messages)
			for _, m := range c.messages {
				bytes += len(m.data)
			}
			joins := !c.single && l.s.batches() && messages <= maxBatchMessages && bytes <= maxBatchBytes && c.conflict(written) == ""
			if len(group) > 0 && (!joins || group[0].single) {
				return group
			}
			group = append(group, c)
		}
		l.queue[0] = nil
		l.queue = l.queue[1:]
	}
	return group
}

// deliver writes a group in one request, and the guard with it if the guard has to move.
// Nothing else is written meanwhile.
func (l *writeQueue) deliver(group []*writeSet) {
	live := group
	err := l.insist(context.Background(), func(revision uint64) error {
		if live = l.claim(group); len(live) == 0 {
			return nil
		}
		ctx, cancel := deadline.Limit(context.Background())
		defer cancel()
		err := l.post(ctx, live, revision)
		l.unclaim(live, err)
		return err
	}, func() error {
		if len(live) > 1 {
			return errApart
		}
		return l.s.compare(live[0])
	})
	switch {
	case err == nil || errors.Is(err, ErrUnknownOutcome): // the callers have the outcome
	case len(live) > 1 && !errors.Is(err, leader.ErrFenced):
		for _, c := range live { // one of them is the reason; sending each by itself shows which
			l.deliver([]*writeSet{c})
		}
	default:
		for _, c := range live {
			c.err = err
			close(c.done)
		}
	}
}

// claim returns those changes of a group that still have a waiting caller. From now on a
// caller that leaves learns that its change may be written.
func (l *writeQueue) claim(group []*writeSet) []*writeSet {
	l.mu.Lock()
	defer l.mu.Unlock()
	var live []*writeSet
	for _, c := range group {
		if !c.left {
			c.sent = true
			live = append(live, c)
		}
	}
	return live
}

// unclaim ends the try that claim began, and gives the callers the outcome unless nothing
// was written.
func (l *writeQueue) unclaim(live []*writeSet, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range live {
		l.note(c, err)
		c.why = err
		if c.sent = err == nil || errors.Is(err, ErrUnknownOutcome); c.sent {
			c.err = err
			close(c.done)
		}
	}
}

// post writes the changes with one request. It moves the guard with that request, or
// before it, if the guard has to move.
func (l *writeQueue) post(ctx context.Context, live []*writeSet, revision uint64) error {
	l.mu.Lock()
	move := l.overdue()
	l.mu.Unlock()
	one := len(live) == 1 && len(live[0].messages) == 1
	conditioned := slices.ContainsFunc(live, (*writeSet).conditioned)
	if (conditioned || !one) && !l.s.batches() {
		if _, err := l.s.settings(ctx); err != nil {
			return fmt.Errorf("%w: %w", errNotNow, err)
		}
	}
	if (conditioned || !one) && !l.s.batches() {
		return fmt.Errorf("%w: stream %s: several messages at once, or a condition beside the guard, need AllowAtomicPublish: fence.CreateOrUpdateBucket or fence.CreateOrUpdateStream sets it, on nats-server 2.12 or later", leader.ErrIncompatibleBucket, l.s.api.Name)
	}
	if move && one && !conditioned {
		moved, err := l.s.moveGuard(ctx, l.f, revision)
		if errors.Is(err, ErrUnknownOutcome) {
			return fmt.Errorf("%w: %v", errNotNow, err) //nolint:errorlint // of the change it is known
		}
		if err != nil {
			return err
		}
		l.moved(moved)
		revision, move = moved, false
	}
	p := &publishRequest{s: l.s, f: l.f, changes: live, revision: revision, move: move || conditioned, id: crand.Text()}
	moved, err := p.settle(ctx)
	if err == nil && moved != 0 {
		l.moved(moved)
	}
	return err
}

// moved records the guard's new revision. From now on no write that is still unanswered
// can be accepted.
func (l *writeQueue) moved(revision uint64) {
	l.f.Move(revision, false)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unknownOutcome, l.head, l.bytes = false, revision, 0
}

// insist sends until the outcome is known, or ctx has ended. contested returns the reason
// why a write was rejected although the guard stands as it stood when the write was sent,
// or nil if the write may be sent again.
func (l *writeQueue) insist(ctx context.Context, send func(revision uint64) error, contested func() error) error {
	for tries := 1; ; tries++ {
		if l.f.Passed() {
			return leader.ErrFenced
		}
		revision, _ := l.f.Current()
		err := send(revision)
		if errors.Is(err, backend.ErrRefused) {
			err = l.explain(ctx, revision, contested)
		} else if !errors.Is(err, errNotNow) {
			return err
		}
		if err != nil && !errors.Is(err, errNotNow) {
			return err
		}
		if ended := pause(ctx, tries); ended != nil {
			return gaveUp(ended, err)
		}
	}
}

// explain finds out from the stream's leader why a write was rejected.
func (l *writeQueue) explain(ctx context.Context, revision uint64, contested func() error) error {
	limited, cancel := deadline.Within(ctx, deadline.Default)
	defer cancel()
	e, err := l.s.api.LastOf(limited, l.s.guard)
	switch {
	case errors.Is(err, leader.ErrUnreachable):
		return fmt.Errorf("%w: %w", errNotNow, err)
	case err != nil:
		return unwritten(err)
	}
	switch l.f.Judge(e) {
	case backend.GuardLater:
		l.f.Suspect() // a candidate that goes on leading should know
		return leader.ErrFenced
	case backend.GuardNot:
		return l.raisedAgain(ctx, revision)
	case backend.GuardTaken:
		return unwritten(fmt.Errorf("%w: %s", leader.ErrIncompatibleBucket, wire.GuardTaken))
	case backend.GuardOlder:
		return nil
	case backend.GuardStill:
	}
	if now, _ := l.f.Current(); now != revision {
		return nil
	}
	return contested()
}

// raisedAgain waits until the candidate has raised the guard again, after the guard was
// found changed since revision. It returns [leader.ErrFenced] if that will not happen,
// because the term is over.
func (l *writeQueue) raisedAgain(ctx context.Context, revision uint64) error {
	now, moved := l.f.Current()
	if now != revision {
		return nil
	}
	l.f.Suspect()
	again, cancel := deadline.Within(ctx, readAgain)
	defer cancel()
	select {
	case <-moved:
	case <-l.f.Over():
		return leader.ErrFenced
	case <-again.Done(): // perhaps it has been raised before moved was taken, to the same revision
	}
	return nil
}

// readAgain is how long a write waits for the guard to be raised again before it reads
// the guard.
const readAgain = time.Second

// pause waits before another try. It hardly waits at first, since most rejections are
// over in a round trip.
func pause(ctx context.Context, tries int) error {
	if tries <= 4 {
		return ctx.Err()
	}
	return deadline.Sleep(ctx, min(time.Millisecond<<min(tries-5, 6), 50*time.Millisecond))
}

// unwritten wraps the reason why nothing was written.
func unwritten(err error) error { return fmt.Errorf("fence: nothing was written: %w", err) }

// gaveUp wraps the end of the caller's context and, if known, why the last try failed.
func gaveUp(ended, why error) error {
	if why == nil {
		return unwritten(ended)
	}
	return unwritten(fmt.Errorf("%w: %w", ended, why))
}

// unknown wraps the reason why the outcome of a write is unknown.
func unknown(err error) error { return fmt.Errorf("%w: %w", ErrUnknownOutcome, err) }
