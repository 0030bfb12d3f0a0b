package keys

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/keyset"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/shard"
)

const (
	// followAgain is the pause before the bucket is followed again after an error.
	followAgain = time.Second
	// readLimit bounds a read, and mostReads how many are under way.
	readLimit = 5 * time.Second
	mostReads = 64
)

// guard is the guard of a slot, and its writers.
type guard struct {
	guard  leader.Guard
	writer func(*leader.Term) fence.KVWriter
}

// openGuards makes the guards of all slots, if there are to be any.
func (s *Set) openGuards() error {
	if s.cfg.Guards == "" {
		return nil
	}
	s.guards = make([]guard, max(s.cfg.Member.Shards, 0))
	for n := range s.guards {
		g, writer, err := s.bucket.Guard(s.cfg.Guards + "." + strconv.Itoa(n))
		if err != nil {
			return err
		}
		s.guards[n] = guard{g, writer}
	}
	s.cfg.Member.Guards = func(n int) []leader.Guard { return []leader.Guard{s.guards[n].guard} }
	return nil
}

// actor is the state of the goroutine of a [Set]. It owns the machine.
type actor struct {
	*Set
	machine *machine
	keys    map[uint64]*Key // whose work has not returned, by the id of the work
	slots   map[int]*slot
	ctx     context.Context //nolint:containedctx // of the reads, until the goroutine ends
	places  chan struct{}   // has a value for each read under way
	reads   sync.WaitGroup
	relist  chan struct{} // receives when the set is to be read again
	failure failure       // of a read, which was logged last
	ended   bool          // the loop has
}

// failure is a read of a key that has failed.
type failure struct{ name, text string }

// slot is a slot that this process owns.
type slot struct {
	shard    *shard.Shard
	work     func(lead context.Context, k *Key)
	released chan struct{}
}

// run owns the machine until the member has left and all work has returned.
func (s *Set) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	a := &actor{
		Set: s, machine: newMachine(s.cfg.Member.Shards, s.guards == nil), keys: make(map[uint64]*Key),
		slots: make(map[int]*slot), ctx: ctx, places: make(chan struct{}, mostReads), relist: make(chan struct{}, 1),
	}
	a.machine.wants, a.machine.ready = s.cfg.Wants, s.cfg.Ready
	var follower sync.WaitGroup
	follower.Go(func() { s.follow(ctx, a.relist) })
	defer func() {
		if !a.ended {
			panic("keys: Wants or Ready of the Config has panicked, or has called runtime.Goexit")
		}
		cancel()
		close(s.over) // a sender may wait
		follower.Wait()
		a.reads.Wait()
		close(s.done)
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for left := s.member.Done(); left != nil || len(a.slots) > 0; {
		select {
		case input := <-s.inputs:
			input(a, time.Now())
		case now := <-timer.C:
			a.machine.tick(now)
		case <-left:
			left = nil
		}
		for _, e := range a.machine.effects() {
			a.carryOut(e)
		}
		if at := a.machine.wake(); !at.IsZero() {
			timer.Reset(time.Until(at))
		}
	}
	a.ended = true
}

// send passes an input on to the goroutine of the set. It returns false if that has ended.
func (s *Set) send(input func(a *actor, now time.Time)) bool {
	select {
	case s.inputs <- input:
		return true
	case <-s.over:
		return false
	}
}

// serveSlot works on the keys of a slot until all work on them has returned.
func (s *Set) serveSlot(lead context.Context, sh *shard.Shard, work func(context.Context, *Key)) {
	own := &slot{shard: sh, work: work, released: make(chan struct{})}
	var barrier uint64
	if s.guards != nil {
		barrier = s.guards[sh.Number()].writer(sh.Term()).GuardRevision()
	}
	granted := s.send(func(a *actor, now time.Time) {
		a.slots[sh.Number()] = own
		a.machine.granted(sh.Number(), barrier, now)
	})
	if !granted {
		return // the member has left
	}
	<-lead.Done()
	s.send(func(a *actor, _ time.Time) { a.machine.ended(sh.Number()) })
	<-own.released
}

// carryOut carries out an effect of the machine. It does not wait.
func (a *actor) carryOut(e effect) {
	switch e := e.(type) {
	case read:
		a.reads.Go(func() { a.confirm(e) })
	case begin:
		a.begin(e)
	case update:
		a.keys[e.id].update(e.entry)
	case cancel:
		a.keys[e.id].cancel(e.cause)
	case release:
		close(a.slots[e.slot].released)
		delete(a.slots, e.slot)
	case unfit:
		a.log.Warn("a key is not worked on", "key", e.name, "err", e.err)
	case overflow:
		a.log.Warn("the set has too many keys: no work begins until some are deleted; use a narrower Filter", "most", a.machine.limit)
	case lost:
		a.log.Warn("the bucket of the keys was made again, or has lost writes: all work ends, and the set is read again")
	case relist:
		select {
		case a.relist <- struct{}{}:
		default:
		}
	}
}

// begin begins the work on a key.
func (a *actor) begin(e begin) {
	own := a.slots[e.slot]
	ctx, cancel := context.WithCancelCause(own.shard.Context())
	k := &Key{set: a.Set, life: e.life, shard: own.shard, ctx: leader.Exact(ctx), cancel: cancel, changed: make(chan struct{}, 1)}
	k.newest.Store(&e.entry)
	k.known.Store(e.entry.Revision)
	a.keys[e.id] = k
	go func() {
		defer func() {
			early := k.ctx.Err() == nil
			cancel(nil)
			a.send(func(a *actor, now time.Time) {
				delete(a.keys, e.id)
				a.machine.returned(e.entry.Name, early, now)
			})
		}()
		if k.ctx.Err() == nil {
			own.work(k.ctx, k)
		}
	}()
}

// confirm reads a key before its work begins.
func (a *actor) confirm(e read) {
	select {
	case a.places <- struct{}{}:
		defer func() { <-a.places }()
	case <-a.ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(a.ctx, readLimit)
	defer cancel()
	got, err := a.bucket.Get(ctx, e.name)
	got.Name = e.name // also without a value
	a.send(func(a *actor, now time.Time) {
		if err != nil {
			a.unread(failure{e.name, err.Error()})
		}
		a.machine.answer(e.id, Entry(got), err == nil, now)
	})
}

// unread logs a read that has failed, unless the failure that was logged last has the same text, and still goes on.
func (a *actor) unread(f failure) {
	if k := a.machine.keys[a.failure.name]; f.text == a.failure.text && k != nil && k.failed > 0 {
		return
	}
	a.failure = f
	a.log.Warn("a key cannot be read: its work does not begin until it can", "key", f.name, "err", f.text)
}

// follow follows the bucket until ctx ends.
func (s *Set) follow(ctx context.Context, relist <-chan struct{}) {
	filters := []string{s.cfg.Filter}
	if s.guards != nil {
		filters = append(filters, s.cfg.Guards+".*")
	}
	logged := ""
	deliver := func(c keyset.Change) {
		s.send(func(a *actor, now time.Time) { a.take(c, now) })
		if c.Kind == keyset.Listed {
			logged = ""
		}
	}
	for ctx.Err() == nil {
		until, end := context.WithCancel(ctx)
		var waits sync.WaitGroup
		waits.Go(func() {
			select {
			case <-relist:
				end()
			case <-until.Done():
			}
		})
		err := s.bucket.Follow(until, filters, deliver)
		again := until.Err() != nil || err == nil
		end()
		waits.Wait()
		s.send(func(a *actor, _ time.Time) {
			select {
			case <-a.relist: // the set is read again now; a later request is kept
			default:
			}
			a.machine.breaks()
		})
		if again {
			continue
		}
		if errors.Is(err, leader.ErrConnectionClosed) {
			s.failed.Store(&err)
			go func() { _ = s.member.Stop() }() // Serve reports how that ends
			return
		}
		if text := err.Error(); text != logged {
			s.log.Warn("the keys are not followed: no work begins until they are", "filter", s.cfg.Filter, "err", err)
			logged = text
		}
		_ = deadline.Sleep(ctx, followAgain)
	}
}

// take takes what the bucket reports.
func (a *actor) take(c keyset.Change, now time.Time) {
	switch c.Kind {
	case keyset.Listed:
		a.machine.listedAll(c.Revision, now)
		return
	case keyset.Remade:
		a.machine.remade()
		return
	case keyset.Away:
		a.machine.breaks()
		return
	case keyset.Put, keyset.Gone:
	}
	switch isGuard := a.guards != nil && jsapi.Covers(a.cfg.Guards+".*", c.Name); {
	case isGuard:
	case c.Kind == keyset.Put:
		a.machine.put(Entry(c.Entry), now)
	default:
		a.machine.gone(c.Name, c.Revision, now)
	}
	a.machine.delivered(c.Revision, now)
}
