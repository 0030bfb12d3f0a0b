package shard

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/logqueue"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
)

// Member is a member of a group.
type Member struct {
	stored
	cfg         Config
	store       leader.Store
	work        *leader.Candidate // the member's own election
	assign      *leader.Candidate // the group's
	live        context.Context   //nolint:containedctx // ends as the member begins to leave
	stop        context.CancelFunc
	logs        *logqueue.Queue
	log         *slog.Logger
	values      context.Context //nolint:containedctx // of Join, for the log
	events      *feed
	current     atomic.Pointer[memberTerm] // of the term; nil: there is none
	bell        bell
	steers      bell                 // wakes steer
	registryKey *follower            // by the goroutines of terms and of steer
	unreturned  group.Unreturned     // by the goroutine of terms
	programs    group.Programs       // that an assigner has published last, none if they do not differ; by the goroutine of terms
	serving     chan chan<- []*Shard // has the calls of Serve that can take shards
	session     string               // in guards
	done        chan struct{}
	takers      sync.WaitGroup // of watch.take

	drained atomic.Bool // by an operator, when a term of this process was last in the registry
	warm    atomic.Bool // the group does not start cold any more: this process has had shards, or has seen that others have

	mu         sync.Mutex
	released   []*Shard
	draining   map[*Shard]time.Time // shards whose work goes on, with the ends of their contexts
	err        error
	base       uint64            // of the newest registry
	granting   time.Time         // from when on this process may grant shards
	tokens     []uint64          // by the number of a page, the greatest that this process knows
	reported   map[string]string // by keys the revision, and by kinds of requests the failure, that was last reported
	faults     uint64
	counts     group.Counts // of the term
	figures    *figures
	moves      map[Reason]int
	rebalanced time.Time // when the last of the moves was
}

// bell wakes a goroutine.
type bell chan struct{}

func (b bell) ring() {
	select {
	case b <- struct{}{}:
	default: // it is going to look anyway
	}
}

// Join makes this process a member of a group, until ctx ends or [Member.Stop] is called. Either begins the
// same graceful stop, which [Config].StopTimeout bounds. The name follows the rules of KV keys.
//
// Join fails only for settings that cannot work, with [leader.ErrInvalidConfig], [leader.ErrValueTooLarge] or
// [leader.ErrIncompatibleBucket]. The member tries again after all other faults, however long it takes, but for those of
// [Member.Err].
func Join(ctx context.Context, store leader.Store, name string, cfg Config) (*Member, error) {
	if err := cfg.check(name); err != nil {
		return nil, err
	}
	port, err := openStore(store, name)
	if err != nil {
		return nil, err
	}
	m := &Member{
		stored: stored{name: name, layout: group.Layout{Shards: cfg.Shards, PageSize: pageSize}}, cfg: cfg, store: backend.Marked{Sealed: store, Uncordoned: true},
		log: slog.New(slog.DiscardHandler), bell: make(bell, 1), steers: make(bell, 1), serving: make(chan chan<- []*Shard), session: rand.Text(), done: make(chan struct{}),
		reported: make(map[string]string), moves: make(map[Reason]int), draining: make(map[*Shard]time.Time), unreturned: make(group.Unreturned), events: newFeed(), values: context.WithoutCancel(ctx),
	}
	m.tokens = make([]uint64, m.layout.Pages())
	m.cfg.Program = cmp.Or(cfg.Program, program())
	m.port = requests{port, m}
	value, err := m.publication(group.Published{})
	if err != nil {
		return nil, err
	}
	m.live, m.stop = context.WithCancel(ctx)
	if m.assign, err = leader.Campaign(m.live, m.store, group.AssignerKey(name), cfg.election()); err != nil {
		m.stop()
		return nil, err
	}
	m.cfg.ID = m.assign.ID() // the default, if it was empty
	works := m.cfg.election()
	works.Value = value
	if m.work, err = leader.Campaign(m.live, m.store, group.MemberKey(name, m.cfg.ID), works); err != nil {
		m.stop()
		return nil, err
	}
	m.logs, m.log = logqueue.New(cfg.Logger, maxEvents)
	m.log = m.log.With(slog.String("group", name), slog.String("id", m.cfg.ID))
	go m.run()
	return m, nil
}

// publication returns what the member publishes, of which p has what changes.
func (m *Member) publication(p group.Published) ([]byte, error) {
	p.Weight, p.Most, p.Hold, p.Program, p.Value = max(m.cfg.Weight, 1), m.cfg.Most, m.cfg.Hold, m.cfg.Program, string(m.cfg.Value)
	return m.layout.EncodeMember(p)
}

// run runs the terms of both elections.
func (m *Member) run() {
	follows, cancel := context.WithCancel(m.values)
	defer cancel()
	m.registryKey = followMap(follows, m.port, group.RegistryKey(m.name), rollAgain, m.bell, m.steers)
	terms := make(chan *leader.Term)
	var all sync.WaitGroup
	all.Go(func() {
		for term := range m.work.Terms() {
			m.serve(term)
		}
	})
	all.Go(func() {
		for term := range m.assign.Terms() {
			select {
			case terms <- term:
			case <-term.Context().Done():
			}
			<-term.Context().Done()
		}
	})
	all.Go(func() { m.steer(terms) })
	all.Go(func() {
		for e := range m.assign.Events(context.Background()) {
			m.faultOf(e)
			m.bell.ring() // the assigner perhaps names newer pages
		}
	})
	all.Go(m.watchWork)
	checks, end := context.WithCancel(context.Background())
	all.Go(func() { m.checkBucket(checks) })
	<-m.work.Done()
	end()
	<-m.assign.Done()
	all.Wait()
	m.takers.Wait()
	cancel()
	m.stop()
	m.events.close()
	m.logs.Flush()
	close(m.done)
}

// checkBucket ends the member if the bucket drops values, and so the map, which is not written at rest.
func (m *Member) checkBucket(ctx context.Context) {
	for ctx.Err() == nil {
		settings, err := await(ctx, m.port.Settings)
		if err == nil && settings.TTL > 0 {
			m.fail(fmt.Errorf("%w: a group needs a bucket without a TTL, and this one has %v", leader.ErrIncompatibleBucket, settings.TTL))
		}
		if err == nil {
			return
		}
		sleep(ctx, openAgain)
	}
}

// watchWork reports the faults of the member's own election and, after two leases and then each minute, that its key is
// held under its own ID.
func (m *Member) watchWork() {
	each := time.NewTicker(cmp.Or(2*m.cfg.LeaseDuration, time.Minute))
	defer each.Stop()
	for events := m.work.Events(context.Background()); ; {
		select {
		case <-each.C:
			each.Reset(time.Minute)
		case e, ok := <-events:
			if !ok {
				return
			}
			m.faultOf(e)
			continue
		}
		if h := m.work.Leader(); h.State == leader.HolderLeading && h.ID == m.work.ID() && !m.work.IsLeader() {
			m.fault(fmt.Errorf("waits for another member of the same ID, whose token is %d: give each an ID of its own, or, after a crash, "+
				"wait for the lease of %v to expire", h.Token, h.Lease))
		}
	}
}

// faultOf hands a fault of an election, which has logged and counted it, to the readers of the events.
func (m *Member) faultOf(e leader.Event) {
	if f, ok := e.(leader.Faulted); ok {
		m.events.add(Faulted{f.Err})
	}
}

// heirs is how many members stand in the elections of all members, beside the assigner.
const heirs = 3

// steer spreads the shards in the terms of this process as the assigner. Before and after, it is perhaps an heir.
func (m *Member) steer(terms <-chan *leader.Term) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w, registry := m.watch(ctx, m.steers), m.decodeRegistry()
	for {
		select {
		case term := <-terms:
			m.spread(term, w, registry)
			m.inherit(w, registry)
		case <-m.steers:
			if changed := registry.refresh(); w.refresh(true) || changed {
				m.inherit(w, registry)
			}
		case <-m.assign.Done():
			return
		}
	}
}

// inherit stands in the elections of all members, if this is one of the first. So if some die together with the assigner,
// their terms are over one lease after their last renewals, and not one lease after the next assigner has begun.
func (m *Member) inherit(w *watch, registry *decoded[group.Registry]) {
	if registry.err != nil { // a new term reads it again
		return
	}
	needed, all := make(map[string]bool), registry.value.Members
	if slices.ContainsFunc(all[:min(heirs, len(all))], func(s group.Session) bool { return s.ID == m.work.ID() }) {
		for _, s := range all {
			needed[s.ID] = true
			w.take(s.ID, 0)
		}
	}
	w.only(needed)
}

// Serve calls work for each shard that is granted to this process, on a goroutine of its own, with the context of the shard.
// The context ends when work has returned, and the shard is released when the functions of its [leader.Term.Go] have, too.
// If it is still granted to this process then, Serve calls work again after 5 s, with the same token. Serve returns
// [Member.Err] when the member has left and all work has ended.
//
// A member takes shards from the group whether or not Serve runs. A shard for which work could be called, and is not within
// a lease, is the fault [ErrNotBegun], and others see it as [OwnerGranted]. Of several calls of Serve each shard goes to one.
// A panic of work is one of the process. [runtime.Goexit] ends work as a return does.
func (m *Member) Serve(work func(lead context.Context, s *Shard)) error {
	var all sync.WaitGroup
	for {
		shards := make(chan []*Shard, 1)
		select {
		case m.serving <- shards:
			for _, s := range <-shards {
				all.Add(1)
				s.served = all.Done
				go func() {
					defer s.release()
					work(s.Context(), s)
				}()
			}
		case <-m.done:
			all.Wait()
			return m.Err()
		}
	}
}

// ErrNotBegun is the fault that shards are granted to this process, and that it has not called [Member.Serve] within a lease.
var ErrNotBegun = errors.New("shard: granted and not begun")

// Stop leaves the group: the contexts of all shards end with [leader.ErrStopped], and each shard moves when its work has
// ended. Stop returns when the member has left, in the time of [leader.Candidate.Stop], and with its errors: after
// [leader.ErrNotReleased] others work on the shards beside it, after the others when the lease of this member is over. The
// work must not wait for Stop.
func (m *Member) Stop() error {
	m.stop()
	<-m.done
	m.mu.Lock()
	n := len(m.draining)
	m.mu.Unlock()
	if n > 0 {
		return fmt.Errorf("%w: the work on %d shards goes on", leader.ErrNotReleased, n)
	}
	return cmp.Or(m.work.Stop(), m.assign.Stop())
}

// Group returns the name of the group.
func (m *Member) Group() string { return m.name }

// ID returns Config.ID or its default.
func (m *Member) ID() string { return m.cfg.ID }

// Done is closed when the member has left.
func (m *Member) Done() <-chan struct{} { return m.done }

// Err returns why the member has left: [ErrShardsDiffer], [leader.ErrIncompatibleBucket] because the bucket has a TTL, or
// [leader.ErrConnectionClosed] because the application closed the connection. It returns nil while the member has not ended by itself, and if it was stopped.
func (m *Member) Err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	return m.work.Err()
}

// fail ends the member with an error.
func (m *Member) fail(err error) {
	m.mu.Lock()
	if m.err == nil {
		m.err = err
	}
	m.mu.Unlock()
	m.stop()
}

func (m *Member) release(s *Shard) {
	m.mu.Lock()
	m.released = append(m.released, s)
	delete(m.draining, s)
	m.mu.Unlock()
	m.bell.ring()
}

// takeReleased returns the shards whose work has ended.
func (m *Member) takeReleased() []*Shard {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.released
	m.released = nil
	return s
}

// drain notes that the context of a shard has ended, unless its work has, too.
func (m *Member) drain(s *Shard) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.released, s) {
		m.draining[s] = time.Now()
	}
}

// drains reports whether the work on a shard goes on although its context has ended.
func (m *Member) drains(s *Shard) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return !m.draining[s].IsZero()
}

// hearing is how long, beside a lease, the message of a lost page may take to a member.
const hearing = 20 * time.Second

// mayGrant takes the base of a registry, and returns from when on shards may be granted. If the registry is another
// than before, as in a bucket that was made anew, that is when every member has lost its term, or received the
// revisions of the assigner and read its map again. Until then members that the registry does not know may work under
// a map that is lost.
func (m *Member) mayGrant(base uint64) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.base != base && m.base != 0 {
		m.granting = time.Now().Add(max(m.work.Leader().Lease, m.assign.Leader().Lease) + hearing)
	}
	m.base = base
	return m.granting
}

// least returns the base for a page in place of one with a revision and a base. It is greater than that one if the page was
// newer once, as in a bucket that was restored from a backup, so that tokens rise all the same.
func (m *Member) least(page int, revision, base uint64) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := &m.tokens[page]
	*known = max(*known, base+revision)
	if next := *known - revision; next <= record.MaxMinToken {
		return next
	}
	return base
}

// nextBase returns the base of a registry that is made anew. It is greater than that of the one before, if this process
// knows that one, also if the clock of another process was ahead.
func (m *Member) nextBase() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(uint64(time.Now().UnixMicro()), m.base+1)
}
