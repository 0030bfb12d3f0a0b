package shard

import (
	"context"
	"time"

	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
)

// watch follows the records of members. One goroutine uses it.
type watch struct {
	*Member
	ctx   context.Context //nolint:containedctx // until which it follows
	bell  bell
	again time.Duration // how often each record is read
	known map[string]*sight
}

// sight is the newest record of the election of a member.
type sight struct {
	cancel    context.CancelFunc
	ctx       context.Context //nolint:containedctx // until which the record is followed
	follower  *follower
	known     bool            // the record was read before the rest was taken from it
	revision  uint64          // that the rest is of
	last      record.Last     // the newest term
	leads     bool            // that is not over, as far as the record shows
	published group.Published // by the newest term
	valid     bool            // published could be decoded
	ended     time.Time       // when the newest term of the member was first seen to be over
	taker     chan struct{}   // closed when the candidate that stands in the election, to take the key, has ended
}

func (m *Member) watch(ctx context.Context, rings bell, again time.Duration) *watch {
	return &watch{Member: m, ctx: ctx, bell: rings, again: again, known: make(map[string]*sight)}
}

// see returns what the newest record of a member shows, and begins to follow it.
func (w *watch) see(id string) *sight {
	s := w.known[id]
	if s == nil {
		s = &sight{taker: make(chan struct{})}
		close(s.taker)
		s.ctx, s.cancel = context.WithCancel(w.ctx)
		s.follower = follow(s.ctx, w.port, group.MemberKey(w.name, id), w.bell, w.again)
		w.known[id] = s
	}
	known, e := s.follower.known(), s.follower.entry() // in this order: the record may be read meanwhile
	s.known = known
	if e.Revision == s.revision {
		return s
	}
	s.revision = e.Revision
	o := record.DecodeEntry(e)
	last := o.Leader(0).Unpack()
	s.leads = o.Held() && o.Rec.Phase != record.PhasePending
	if s.last = last; s.leads && last.ID == id {
		s.ended = time.Time{}
	} else if s.ended.IsZero() {
		s.ended = time.Now()
	}
	p, err := w.layout.DecodeMember([]byte(last.Value), e.Revision)
	s.published, s.valid = p, err == nil
	return s
}

// only ends the following of all other members.
func (w *watch) only(ids map[string]bool) {
	for id, s := range w.known {
		if !ids[id] {
			s.cancel()
			delete(w.known, id)
		}
	}
}

// newest returns the newest term that is known of a member.
func (s *sight) newest(id string) group.Newest {
	return group.Newest{Session: group.Session{ID: id, Token: s.last.Token}, Revision: s.revision}
}

// standing returns what the record of a member shows of a term, about a page. The term is over when its record was
// released, or when a later term has begun.
func (w *watch) standing(of group.Session, page int) group.Standing {
	s := w.see(of.ID)
	switch {
	case s.last.Token > of.Token || s.last.Token == of.Token && s.last.Released:
		return group.Standing{Over: true}
	case s.last.Token == of.Token && s.leads && s.valid:
		return group.Standing{Report: s.published.Reports[page]}
	default:
		return group.Standing{}
	}
}

// take takes the key of a member one lease after its last renewal, and gives it up at once, so that a record shows that
// the term is over. A key that was given up is left alone, unless that record is older than a revision.
func (w *watch) take(id string, least uint64) {
	s := w.see(id)
	if s.last.Released && s.revision >= least || !s.known {
		return
	}
	select {
	case <-s.taker:
	default:
		return
	}
	cfg := w.cfg.election()
	cfg.ID, cfg.Inherit, cfg.Logger = "", true, nil // the record still shows Hold, and is no record of a member
	c, err := leader.Campaign(context.WithoutCancel(s.ctx), w.store, group.MemberKey(w.name, id), cfg)
	if err != nil {
		return
	}
	s.taker = make(chan struct{})
	w.takers.Add(1)
	go func(ended chan struct{}) {
		defer w.takers.Done()
		stop := context.AfterFunc(s.ctx, func() { _ = c.Stop(s.ctx) }) // at once: the member does not wait for it
		defer stop()
		for range c.Terms() {
			break // which gives the key up
		}
		_ = c.Stop(s.ctx) // its error is that of ctx
		<-c.Done()
		s.follower.look()
		sleep(s.ctx, openAgain)
		close(ended)
		w.bell.ring()
	}(s.taker)
}
