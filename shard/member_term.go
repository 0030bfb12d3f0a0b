package shard

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
)

// restart is the pause before work begins again that has ended although the shard is still granted.
const restart = 5 * time.Second

// memberTerm is the work of one term of a member.
type memberTerm struct {
	*Member
	term          *leader.Term
	lead          context.Context //nolint:containedctx // of the term
	ctx           context.Context //nolint:containedctx // until the work has ended
	self          group.Session
	registry      *decoded[group.Registry]
	base          uint64 // of the registry; 0: it was not read
	pages         []*page
	machine       *group.Term            // decides which works begin and end
	works         map[*group.Work]*Shard // that the machine has not let go of
	raised        []*Shard               // whose guards stand, and of which the machine does not know yet; under the lock of the member
	over          bool                   // the term takes no more of these; also under the lock
	fenced        atomic.Bool            // guards have ended contexts since the machine was told
	alarm         *time.Timer            // rings the bell when the machine is to be asked again
	lease         time.Duration
	peers         *watch           // the members for whose work shards wait
	assignerValue []byte           // what the assigner has published
	left          bool             // the term has ended
	offers        bool             // there are shards that Serve could take
	pings         chan struct{}    // answers Ping
	published     []byte           // last; nil: it is to be published again
	publishing    chan error       // has the outcome of the publication in flight; nil: none is
	publications  sync.WaitGroup   // in flight
	publishAgain  <-chan time.Time // receives when the pause after a failure is over
	registering   bool             // a goroutine registers the member
	registered    chan struct{}    // receives when that has ended
}

// page is a page of the map.
type page struct {
	*decoded[group.Map]
	number int
}

// serve works on the shards that are granted to one term.
func (m *Member) serve(term *leader.Term) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(term.Context())) // also while the work drains
	s := &memberTerm{
		Member: m, term: term, lead: term.Context(), ctx: ctx, self: group.Session{ID: m.work.ID(), Token: term.Token()},
		lease: m.work.Stats().LeaseDuration, works: make(map[*group.Work]*Shard), registered: make(chan struct{}, 1), pings: make(chan struct{}),
		peers: m.watch(ctx, m.bell),
	}
	s.machine = group.NewTerm(s.self, m.layout, group.Limits{Drain: cmp.Or(m.cfg.GracePeriod, s.lease), Pause: restart, Begin: s.lease}, m.unreturned)
	s.alarm = time.AfterFunc(time.Hour, m.bell.ring)
	defer s.alarm.Stop()
	m.registryKey.forget()
	s.registry = m.decodeRegistry()
	for i := range m.layout.Pages() {
		s.pages = append(s.pages, &page{m.page(ctx, i, m.bell), i})
	}
	m.current.Store(s)
	defer s.publications.Wait() // or the next term publishes what this one has sent
	defer cancel()
	defer m.count(group.Counts{})
	defer s.close()
	defer m.current.Store(nil)
	ends := s.lead.Done()
	for {
		if s.step() {
			return
		}
		serving := m.serving
		if !s.offers {
			serving = nil
		}
		select {
		case <-ends:
			ends = nil
		case <-m.bell:
		case s.pings <- struct{}{}:
		case err := <-s.publishing:
			if s.publishing = nil; err != nil {
				s.published = nil
				s.publishAgain = time.After(openAgain)
			}
		case shards := <-serving:
			shards <- s.take()
		case <-s.publishAgain:
			s.publishAgain = nil
		case <-s.registered:
			s.registering = false
		case <-m.work.Done():
			s.leave()
			s.takeEnded()
			s.machine.Abandon()
			s.carryOut()
			return
		}
	}
}

// step does what is due. It returns true when the term has ended, and its work.
func (s *memberTerm) step() (over bool) {
	now := time.Now()
	s.leave()
	s.takeRaised()
	s.takeEnded()
	s.register()
	s.takeAssigner()
	s.peers.refresh(false)
	for _, p := range s.pages {
		s.receive(p)
	}
	s.takeFenced()
	s.machine.Tick(now)
	s.carryOut()
	var awaited map[string]bool
	if s.lead.Err() == nil && s.base != 0 {
		awaited = s.machine.Start(now, func(pred group.Session, page int) group.Standing {
			return s.peers.see(pred.ID).standing(pred).about(page)
		})
		s.carryOut()
	}
	reports := s.machine.Reports()
	counts := s.machine.Count()
	if next := s.machine.Wake(); !next.IsZero() {
		s.alarm.Reset(time.Until(next))
	}
	s.count(counts)
	s.offers = counts.Waiting > 0
	s.peers.only(awaited)
	value, err := s.publication(group.Published{Reports: reports, Late: s.machine.Late(), Idle: counts.Idle > 0, Unbegun: s.machine.Unbegun()})
	s.outcome("the publication", err)
	if s.machine.Done() {
		if err == nil {
			s.publishLast(value)
		}
		return true
	}
	if err != nil || s.publishing != nil || s.publishAgain != nil || slices.Equal(value, s.published) {
		return false
	}
	s.published, s.publishing = value, make(chan error, 1)
	result := s.publishing
	s.publications.Go(func() { result <- s.term.Proclaim(s.ctx, value) })
	return false
}

// publishLast publishes that the member leaves, if it still leads its key: when another has taken the key, only the value shows
// that. An outage ends the wait.
func (s *memberTerm) publishLast(value []byte) {
	if errors.Is(context.Cause(s.lead), leader.ErrLeaseExpired) {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, openAgain)
	defer cancel()
	if s.publishing != nil { // or it replaces this value
		select {
		case <-s.publishing: //nolint:errcheck // this value replaces that one in any case
		case <-ctx.Done():
			return
		}
	}
	_ = s.term.Proclaim(ctx, value)
}

// leave stops all work when the term has ended.
func (s *memberTerm) leave() {
	if s.left || s.lead.Err() == nil {
		return
	}
	s.left = true
	s.machine.Over(time.Now())
	s.carryOut()
}

// takeEnded takes the work that has ended.
func (s *memberTerm) takeEnded() {
	for _, done := range s.takeReleased() {
		s.machine.Returned(done.work, time.Now())
	}
	s.carryOut()
}

// takeRaised takes the shards whose guards stand.
func (s *memberTerm) takeRaised() {
	s.mu.Lock()
	raised := s.raised
	s.raised = nil
	s.mu.Unlock()
	for _, w := range raised {
		if s.works[w.work] == nil { // it was given up
			w.release()
			continue
		}
		s.machine.Raised(w.work, time.Now())
	}
	s.carryOut()
}

// offer lets Serve take a shard whose guards stand.
func (s *memberTerm) offer(w *Shard) {
	s.mu.Lock()
	closed := s.over
	if !closed {
		s.raised = append(s.raised, w)
	}
	s.mu.Unlock()
	if s.bell.ring(); closed {
		w.release()
	}
}

// close releases the shards that are raised after the end of the term.
func (s *memberTerm) close() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.takeRaised()
}

// take lets Serve begin the work on all shards that wait for it, but for those whose contexts have ended meanwhile.
func (s *memberTerm) take() (shards []*Shard) {
	s.leave()
	s.takeFenced()
	for _, work := range s.machine.Take(time.Now()) {
		w := s.works[work]
		s.emit(Started{w})
		shards = append(shards, w)
	}
	return shards
}

// takeFenced takes the works whose contexts guards have ended.
func (s *memberTerm) takeFenced() {
	if !s.fenced.Swap(false) {
		return
	}
	s.takeRaised() // perhaps of the same works
	for _, w := range s.works {
		if w.work.Raised() && isFenced(w.Context()) {
			s.machine.Fenced(w.work, time.Now())
		}
	}
	s.carryOut()
}

func isFenced(ctx context.Context) bool { return errors.Is(context.Cause(ctx), leader.ErrFenced) }

// carryOut does what the machine has decided.
func (s *memberTerm) carryOut() {
	for _, e := range s.machine.Effects() {
		w := s.works[e.Work]
		switch e.Kind {
		case group.Granted:
			if s.warm.Store(true); !s.left {
				s.emit(Granted{e.Work.Shard, e.Work.Token})
			}
		case group.Begin:
			w = newShard(s.lead, e.Work.Shard, e.Work.Token)
			w.work = e.Work
			s.works[e.Work] = w
			go s.prepare(w)
		case group.Cancel:
			w.cancel(ErrMoved)
		case group.Drain:
			if s.drain(w); w.work.Began() {
				s.revoked(w)
			}
		case group.Release:
			w.release()
		case group.Idle:
			s.outcome("the beginning of work", fmt.Errorf("%w for %v: shard %d: call Member.Serve", ErrNotBegun, s.lease, w.number))
		case group.Quick:
			s.fault(fmt.Errorf("the work on shard %d has returned within %v, %d times in a row: it begins again after each return, so it has to wait where there is nothing to do", w.number, restart, group.MostQuick))
		case group.Ended:
			if delete(s.works, e.Work); w.work.Began() {
				s.emit(Released{Shard: w})
			}
		case group.GiveUp:
			delete(s.works, e.Work)
			late := s.drains(w)
			if !late { // it has returned since the machine was told, and is not to be published as late
				s.machine.Returned(e.Work, time.Now())
			}
			if w.work.Began() {
				backend.GiveUp(w.term)
				s.emit(Released{w, late})
			}
		}
	}
}

// revoked reports that the context of a shard has ended while its work goes on.
func (s *memberTerm) revoked(w *Shard) {
	cause := cmp.Or(context.Cause(w.Context()), context.Cause(s.lead)) // the end of the term reaches w a moment later
	if ended := errors.Is(cause, context.Canceled); !ended {
		s.emit(Revoked{w, cause})
	}
}

// receive takes the newest revision of a page. One that is lost an assigner makes anew.
func (s *memberTerm) receive(p *page) {
	if !p.refresh() || p.err != nil {
		return
	}
	s.least(p.number, p.value.Revision, p.value.Base)
	s.machine.Received(p.number, p.value, time.Now())
	p.value = group.Map{} // the machine has what it needs
	s.carryOut()
}

// takeAssigner takes note of what the assigner has published: the revisions of the pages, so that a page whose message was lost is
// read, and the programs of the members if they differ.
func (s *memberTerm) takeAssigner() {
	h := s.assign.Leader()
	if bytes.Equal(h.Value, s.assignerValue) {
		return
	}
	s.assignerValue = h.Value
	for i, revision := range publishedRevisions(s.layout, h) {
		s.pages[i].expect(revision)
	}
	if h.State != leader.HolderLeading || len(h.Value) == 0 {
		return // a new assigner does not know them yet
	}
	was := s.programs
	if s.programs = group.DecodePrograms(h.Value); s.programs.Within(was) {
		return
	}
	s.fault(fmt.Errorf("the members: %w: %v: give each application a group of its own, or all the same Config.Program", ErrProgramsDiffer, s.programs))
}

// publishedRevisions returns the revisions of the pages that an assigner has published, if it has.
func publishedRevisions(l group.Layout, assigner leader.Holder) []uint64 {
	revisions, err := l.DecodeAssigner(assigner.Value, assigner.Revision)
	if err != nil || assigner.State != leader.HolderLeading {
		return nil
	}
	return revisions
}

// prepare raises the guards of a shard, and passes it on to Serve.
func (s *memberTerm) prepare(w *Shard) {
	var guards []leader.Guard
	if s.cfg.Guards != nil {
		guards = s.cfg.Guards(w.number)
		defer func() { // after the work was offered
			context.AfterFunc(w.Context(), func() {
				if isFenced(w.Context()) {
					s.fenced.Store(true)
					s.bell.ring()
				}
			})
		}()
	}
	raised, cancel := make(chan struct{}), w.cancel
	term, _ := backend.NewSubterm(w.over, backend.Subterm{
		Token: w.token, Owner: group.ShardName(s.name, w.number), ID: s.self.ID, Session: s.session, Guards: guards, Lease: s.lease,
		Raised: func() { close(raised) },
		Fault: func(err error) {
			s.fault(fmt.Errorf("shard %d, whose work does not begin before its guards stand: %w", w.number, err))
		},
		Released: func() {
			cancel(nil)
			s.release(w)
			w.served()
		},
	})
	w.term = term.(*leader.Term) //nolint:forcetypeassert // package leader has made it
	select {
	case <-raised:
	case <-w.Context().Done():
		if isFenced(w.Context()) && s.isNews(group.ShardName(s.name, w.number), w.token) { // not each time it begins again
			s.fault(fmt.Errorf("the work on shard %d does not begin: a guard stands at a later token than %d: %w", w.number, w.token, context.Cause(w.Context())))
		}
		w.release()
		return
	}
	s.offer(w)
}

// register sees to it that the member is in the registry, while its term lasts.
func (s *memberTerm) register() {
	s.registry.refresh()
	r := s.registry.value
	if s.registry.err == nil {
		s.base = r.Base
		s.mayGrant(r.Base)
	}
	isMember := slices.Contains(r.Members, s.self) // with its token, so that a prune on its way for an earlier term fails
	if isMember {
		s.drained.Store(slices.Contains(r.Drained, s.self.ID))
	}
	if isMember || s.registering || s.lead.Err() != nil || !s.registry.isRead {
		return
	}
	s.registering = true
	go func() {
		for s.lead.Err() == nil {
			done, err := s.registerOnce(s.ctx, s.self)
			if errors.Is(err, ErrShardsDiffer) {
				s.fail(err)
			}
			if done {
				break
			}
			if refused := new(backend.RefusedError); !errors.As(err, &refused) { // else another was first: try again at once
				sleep(s.lead, openAgain)
			}
		}
		s.registered <- struct{}{}
	}()
}

// registerOnce adds a member to the registry, and makes the registry if there is none.
func (m *Member) registerOnce(ctx context.Context, self group.Session) (done bool, err error) {
	e, err := get(ctx, m.port, group.RegistryKey(m.name))
	if err != nil {
		return false, err
	}
	r := group.Registry{Layout: m.layout, Base: m.nextBase()}
	switch was, junk := group.DecodeRegistry(e.Value); {
	case junk == nil:
		r = was
	case errors.Is(junk, group.ErrLaterFormat):
		m.damaged(group.RegistryKey(m.name), e.Revision, "does not join the group: upgrade this program", junk)
		return false, junk
	default:
		if e.Revision != 0 && !e.Marker {
			m.damaged(group.RegistryKey(m.name), e.Revision, "replaces a value that is no registry of a group", junk)
		}
		var page backend.Entry
		if page, err = get(ctx, m.port, group.PageKey(m.name, 0)); err != nil {
			return false, err
		}
		shards, junk := r.ShardsOf(page.Value, page.Revision)
		if errors.Is(junk, group.ErrLaterFormat) {
			m.damaged(group.PageKey(m.name, 0), page.Revision, "does not join the group: upgrade this program", junk)
			return false, junk
		}
		r.Shards = cmp.Or(shards, r.Shards)
	}
	if r.PageSize != m.layout.PageSize {
		err = fmt.Errorf("pages of %d shards, not %d", r.PageSize, m.layout.PageSize)
		m.damaged(group.RegistryKey(m.name), e.Revision, "does not join the group: upgrade this program", err)
		return false, err
	}
	if r.Shards != m.layout.Shards {
		return false, fmt.Errorf("%w: Shards is %d, and group %s has %d: set the same, or use another group",
			ErrShardsDiffer, m.layout.Shards, m.name, r.Shards)
	}
	if slices.Contains(r.Members, self) {
		m.registryKey.take(e)
		return true, nil
	}
	drained := m.drained.Load()
	r.Members = slices.DeleteFunc(r.Members, func(s group.Session) bool {
		if s.ID != self.ID {
			return false
		}
		drained = drained && slices.Contains(r.Drained, s.ID) // of an earlier term: it may have been undrained meanwhile
		return true
	})
	if len(r.Members) >= group.MaxMembers {
		full := fmt.Errorf("group %s has %d members, which is the most", m.name, len(r.Members))
		m.damaged(group.RegistryKey(m.name), e.Revision, "waits until another member has left", full)
		return false, full
	}
	r.Members = append(r.Members, self)
	r.Drained = slices.DeleteFunc(r.Drained, func(id string) bool { return id == self.ID }) // perhaps the process before this one
	if drained {
		r.Drained = append(r.Drained, self.ID)
	}
	value := r.Encode()
	revision, err := update(ctx, m.port, group.RegistryKey(m.name), value, e.Revision)
	if err != nil {
		return false, err
	}
	m.registryKey.take(backend.Entry{Revision: revision, Value: value})
	return true, nil
}
