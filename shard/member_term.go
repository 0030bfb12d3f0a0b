package shard

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/leader"
)

// restart is the pause before work begins again that has ended although the shard is still granted.
const restart = 5 * time.Second

// shift is the work of one term of a member.
type shift struct {
	*Member
	term    *leader.Term
	lead    context.Context //nolint:containedctx // of the term
	ctx     context.Context //nolint:containedctx // until the work has ended
	self    group.Session
	roll    *decoded[group.Registry]
	base    uint64
	pages   []*page
	works   map[int]*Shard
	lease   time.Duration
	patient time.Duration // how long work may go on after the end of its context
	watched *watch
	heard   []byte        // what the assigner has published
	left    bool          // the term has ended
	pulse   chan struct{} // answers Ping
	said    []byte
	saying  chan error // has the outcome of the publication in flight; nil: none is
	sayings sync.WaitGroup
	again   <-chan time.Time
	joining bool              // a goroutine registers the member
	joined  chan struct{}     // receives when that has ended
	since   map[int]time.Time // from when on the work on shards could have begun that may not have
	rests   map[int]time.Time // until when work is not begun again that has ended early
	hasty   map[int]int       // by shard, how often in a row its work has ended at once
}

// page is a page of the map.
type page struct {
	*decoded[group.Map]
	first  int
	member *group.Member
	// What follows is of the member, until it changes.
	changed bool
	waits   []int // shards that are granted to it, and whose work has not begun
	report  group.Report
	granted int
}

// serve works on the shards that are granted to one term.
func (m *Member) serve(term *leader.Term) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(term.Context())) // also while the work drains
	s := &shift{
		Member: m, term: term, lead: term.Context(), ctx: ctx, self: group.Session{ID: m.work.ID(), Token: term.Token()},
		lease: m.work.Stats().LeaseDuration, works: make(map[int]*Shard), joined: make(chan struct{}, 1), since: make(map[int]time.Time), rests: make(map[int]time.Time), hasty: make(map[int]int), pulse: make(chan struct{}),
		watched: m.watch(ctx, m.bell),
	}
	s.patient = cmp.Or(m.cfg.GracePeriod, s.lease)
	m.registry.forget()
	s.roll = m.roll()
	for i := range m.layout.Pages() {
		first, _ := m.layout.Page(i)
		s.pages = append(s.pages, &page{decoded: m.page(ctx, i, m.bell), first: first, member: group.NewMember(s.self), changed: true})
	}
	m.shift.Store(s)
	defer s.sayings.Wait() // or the next term publishes what this one has sent
	defer cancel()
	defer m.count(tally{})
	defer m.shift.Store(nil)
	ends := s.lead.Done()
	for {
		if s.step() {
			return
		}
		select {
		case <-ends:
			ends = nil
		case <-m.bell:
		case s.pulse <- struct{}{}:
		case err := <-s.saying:
			if s.saying = nil; err != nil {
				s.said = nil
				s.again = time.After(openAgain)
			}
		case <-s.again:
			s.again = nil
		case <-s.joined:
			s.joining = false
		case <-m.work.Done():
			s.leave()
			s.takeEnded()
			s.giveUpAll(s.numbers())
			return
		}
	}
}

// step does what is due. It returns true when the term has ended, and its work.
func (s *shift) step() (over bool) {
	s.leave()
	s.takeEnded()
	s.join()
	s.hear()
	s.watched.refresh(false)
	for _, p := range s.pages {
		s.receive(p)
	}
	t, reports, awaited := s.watchWorks(), make([]group.Report, len(s.pages)), make(map[string]bool)
	for i, p := range s.pages {
		if p.changed {
			p.changed, p.report, p.granted = false, p.member.Report(), p.member.Granted()
			p.waits = p.waits[:0]
			_, n := s.layout.Page(i)
			for shard := range n {
				if _, waits := p.member.Waits(shard); waits {
					p.waits = append(p.waits, shard)
				}
			}
		}
		if s.lead.Err() == nil && s.base != 0 {
			s.start(i, p, awaited)
		}
		reports[i] = p.report
		t.granted += p.granted
	}
	s.count(t)
	s.watched.only(awaited)
	value, err := s.publication(reports, s.unbegun())
	s.outcome("the publication", err)
	if s.left && len(s.works) == 0 {
		if err == nil {
			s.sayLast(value)
		}
		return true
	}
	if err != nil || s.saying != nil || s.again != nil || slices.Equal(value, s.said) {
		return false
	}
	s.said, s.saying = value, make(chan error, 1)
	saying := s.saying
	s.sayings.Go(func() { saying <- s.term.Proclaim(s.ctx, value) })
	return false
}

// sayLast publishes that the member leaves, if it still leads its key: when another has taken the key, only the value shows
// that. An outage ends the wait.
func (s *shift) sayLast(value []byte) {
	if errors.Is(context.Cause(s.lead), leader.ErrLeaseExpired) {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, openAgain)
	defer cancel()
	if s.saying != nil { // or it replaces this value
		select {
		case <-s.saying: //nolint:errcheck // this value replaces that one in any case
		case <-ctx.Done():
			return
		}
	}
	_ = s.term.Proclaim(ctx, value)
}

// leave stops all work when the term has ended.
func (s *shift) leave() {
	if s.left || s.lead.Err() == nil {
		return
	}
	s.left = true
	for _, p := range s.pages {
		p.member.Leave()
		p.changed = true
	}
	for _, n := range s.numbers() {
		s.end(s.works[n])
	}
}

// numbers returns the numbers of the shards that have work, in order.
func (s *shift) numbers() []int { return slices.Sorted(maps.Keys(s.works)) }

// takeEnded takes the work that has ended.
func (s *shift) takeEnded() {
	for _, done := range s.takeReleased() {
		if s.works[done.number] == done {
			delete(s.works, done.number)
			if s.ended(done.number) {
				s.rests[done.number] = time.Now().Add(restart)
				time.AfterFunc(restart, s.bell.ring)
				if done.begun.Load() {
					s.noticeReturn(done)
				}
			}
			if done.begun.Load() {
				s.emit(Released{Shard: done})
			}
		}
	}
}

// noticeReturn reports, once, work on a shard that has returned sooner than it rests then, some times in a row.
func (s *shift) noticeReturn(done *Shard) {
	const most = 3 // as in package leader
	n := done.number
	if s.hasty[n]++; time.Since(done.began) >= restart {
		delete(s.hasty, n)
	}
	if s.hasty[n] == most {
		s.fault(fmt.Errorf("the work on shard %d has returned within %v, %d times in a row: it begins again after each return, so it has to wait where there is nothing to do", n, restart, most))
	}
}

// end gives the work on a shard, whose context has ended, some time.
func (s *shift) end(w *Shard) {
	if !w.ended.IsZero() {
		return
	}
	s.drain(w)
	time.AfterFunc(s.patient, s.bell.ring)
	if !w.begun.Load() {
		return
	}
	cause := cmp.Or(context.Cause(w.Context()), context.Cause(s.lead)) // the end of the term reaches w a moment later
	if ended := errors.Is(cause, context.Canceled); !ended {
		s.emit(Revoked{w, cause})
	}
}

// watchWorks gives up the work that has not ended in time, and counts the shards that are worked on.
func (s *shift) watchWorks() (t tally) {
	var late []int
	for n, w := range s.works {
		begun := w.begun.Load()
		if begun && s.cfg.Guards != nil && errors.Is(context.Cause(w.Context()), leader.ErrFenced) { // a guard has ended it, not the map
			s.end(w)
		}
		switch {
		case !w.ended.IsZero():
			if time.Since(w.ended) >= s.patient {
				late = append(late, n)
			}
		case begun:
			t.owned++
		}
	}
	slices.Sort(late)
	s.giveUpAll(late)
	return t
}

// unbegun returns the shards whose work could have begun a lease ago, and has not.
func (s *shift) unbegun() (shards []int) {
	for n, since := range s.since {
		p := s.pages[n/s.layout.PageSize]
		_, rests := slices.BinarySearch(p.waits, n-p.first) // a guard has ended it before its work began
		switch w := s.works[n]; {
		case w == nil && !rests, w != nil && w.begun.Load():
			delete(s.since, n)
		case time.Since(since) >= s.lease:
			shards = append(shards, n)
		}
	}
	slices.Sort(shards)
	return shards
}

// giveUpAll gives up work that goes on.
func (s *shift) giveUpAll(shards []int) {
	for _, n := range shards {
		w := s.works[n]
		delete(s.works, n)
		s.ended(n)
		if late := s.giveUp(w); w.begun.Load() {
			backend.GiveUp(w.term)
			s.emit(Released{w, late})
		}
	}
}

// ended notes that the work on a shard has ended, and reports whether it has ended by itself.
func (s *shift) ended(n int) (early bool) {
	p := s.pages[n/s.layout.PageSize]
	p.changed = true
	return p.member.Ended(n - p.first)
}

// receive takes the newest revision of a page. One that is lost an assigner makes anew.
func (s *shift) receive(p *page) {
	if !p.refresh() || p.err != nil {
		return
	}
	p.changed = true
	s.least(p.first/s.layout.PageSize, p.value.Revision, p.value.Base)
	granted, stop := p.member.Receive(p.value)
	p.value = group.Map{} // the member has what it needs
	for _, n := range granted {
		if s.warm.Store(true); !s.left {
			s.emit(Granted{p.first + n, p.member.Token(n)})
		}
	}
	for _, n := range stop {
		w := s.works[p.first+n]
		w.cancel(ErrMoved)
		s.end(w)
	}
}

// hear takes note of what the assigner has published: the revisions of the pages, so that a page whose message was lost is
// read, and the programs of the members if they differ.
func (s *shift) hear() {
	h := s.assign.Leader()
	if bytes.Equal(h.Value, s.heard) {
		return
	}
	s.heard = h.Value
	for i, revision := range published(s.layout, h) {
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

// published returns the revisions of the pages that an assigner has published, if it has.
func published(l group.Layout, assigner leader.Holder) []uint64 {
	revisions, err := l.DecodeAssigner(assigner.Value, assigner.Revision)
	if err != nil || assigner.State != leader.HolderLeading {
		return nil
	}
	return revisions
}

// start begins the work on the shards of a page that may begin, and notes for which members the others wait.
func (s *shift) start(n int, p *page, awaited map[string]bool) {
	begins := false
	for _, i := range p.waits {
		pred, waits := p.member.Waits(i)
		if !waits || time.Now().Before(s.rests[p.first+i]) || s.drains(p.first+i) {
			continue
		}
		var stands group.Standing
		if pred != (group.Session{}) {
			stands = s.watched.see(pred.ID).standing(pred).about(n)
		}
		if !p.member.Start(i, stands) {
			awaited[pred.ID] = true
			continue
		}
		w := newShard(s.lead, p.first+i, p.member.Token(i))
		s.works[w.number] = w
		if s.since[w.number].IsZero() {
			s.since[w.number], begins = time.Now(), true
		}
		go s.prepare(w)
	}
	if begins {
		time.AfterFunc(s.lease, s.bell.ring) // to publish those that have not begun
	}
}

// prepare raises the guards of a shard, and passes it on to Serve.
func (s *shift) prepare(w *Shard) {
	var guards []leader.Guard
	if s.cfg.Guards != nil {
		guards = s.cfg.Guards(w.number)
		defer func() { context.AfterFunc(w.Context(), s.bell.ring) }() // a guard can end the work
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
		err := context.Cause(w.Context())
		if errors.Is(err, leader.ErrFenced) && s.isNews(group.ShardName(s.name, w.number), w.token) { // not each time it begins again
			s.fault(fmt.Errorf("the work on shard %d does not begin: a guard stands at a later token than %d: %w", w.number, w.token, err))
		}
		w.release()
		return
	}
	if !s.offer(w) {
		w.release()
	}
}

// offer waits until a call of Serve takes a shard, or its context ends. After a lease it reports that none does, once for
// all shards: a call takes them for as long as the member lives. Until then the member publishes that
// it is idle.
func (s *shift) offer(w *Shard) (taken bool) {
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	late := time.NewTimer(s.lease)
	defer late.Stop()
	select {
	case s.grants <- w:
		return true
	case <-w.Context().Done():
		return false
	case <-late.C:
	}
	s.outcome("the beginning of work", fmt.Errorf("%w for %v: shard %d: call Member.Serve", ErrNotBegun, s.lease, w.number))
	s.idle.Add(1)
	s.bell.ring()
	defer s.bell.ring()
	defer s.idle.Add(-1)
	select {
	case s.grants <- w:
		return true
	case <-w.Context().Done():
		return false
	}
}

// join sees to it that the member is in the registry, while its term lasts.
func (s *shift) join() {
	s.roll.refresh()
	r := s.roll.value
	if s.roll.err == nil {
		s.base = r.Base
		s.mayGrant(r.Base)
	}
	isMember := slices.Contains(r.Members, s.self) // with its token, so that a prune on its way for an earlier term fails
	if isMember {
		s.drained.Store(slices.Contains(r.Drained, s.self.ID))
	}
	if isMember || s.joining || s.lead.Err() != nil || !s.roll.isRead {
		return
	}
	s.joining = true
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
		s.joined <- struct{}{}
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
		m.registry.take(e)
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
	m.registry.take(backend.Entry{Revision: revision, Value: value})
	return true, nil
}
