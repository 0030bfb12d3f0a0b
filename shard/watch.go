package shard

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/group"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/leader"
)

// watch follows the records of members. One goroutine uses it.
type watch struct {
	*Member
	ctx   context.Context //nolint:containedctx // until which it follows
	bell  bell
	known map[string]*sight
}

// sight is the newest record of the election of a member.
type sight struct {
	cancel   context.CancelFunc
	ctx      context.Context //nolint:containedctx // until which the record is followed
	follower *follower
	known    bool   // the record was read before the rest was taken from it
	revision uint64 // that the rest is of
	term
	peer  group.Peer
	taker chan struct{} // closed when the candidate that stands in the election, to take the key, has ended; nil: there is none
}

func (m *Member) watch(ctx context.Context, rings bell) *watch {
	return &watch{Member: m, ctx: ctx, bell: rings, known: make(map[string]*sight)}
}

// see returns what the newest record of a member showed at the last refresh, and begins to follow it.
func (w *watch) see(id string) *sight {
	s := w.known[id]
	if s == nil {
		s = new(sight)
		w.known[id] = s
		s.ctx, s.cancel = context.WithCancel(w.ctx)
		if group.CheckKeys(w.name, id) != nil { // no process can have this ID
			s.known, s.revision, s.term = true, math.MaxUint64, term{Last: record.Last{Token: math.MaxUint64, Released: true}}
			return s
		}
		s.follower = follow(s.ctx, w.port, group.MemberKey(w.name, id), cmp.Or(w.assign.Stats().LeaseDuration/2, rollAgain), w.bell)
	}
	return s
}

// refresh takes the newest records, and reports whether they show more than renewals, or whether a candidate has ended
// that was to take a key. An heir needs no records of members in whose elections it has a candidate.
func (w *watch) refresh(heir bool) (changed bool) {
	for id, s := range w.known {
		select {
		case <-s.taker:
			s.taker, changed = nil, true
		default:
		}
		if s.follower == nil || heir && s.taker != nil {
			continue
		}
		known, e := s.follower.known(), s.follower.entry() // in this order: the record may be read meanwhile
		changed = changed || known != s.known
		if s.known = known; e.Revision != s.revision {
			changed = s.take(id, e, w.layout) || changed
		}
	}
	return changed
}

// take takes a record, and reports whether it is more than a renewal.
func (s *sight) take(id string, e backend.Entry, l group.Layout) bool {
	s.revision = e.Revision
	o := record.DecodeEntry(e)
	last, leads := o.Leader(0).Unpack(), o.Held() && o.Rec.Phase != record.PhasePending
	last.Until = 0
	if s.valid && last == s.Last && leads == s.leads {
		return false
	}
	s.term = termOf(l, last, leads, e.Revision)
	s.peer.Seen(s.Token, leads && s.ID == id, time.Now())
	return true
}

// forget forgets what the records have shown, and reads them.
func (w *watch) forget() {
	for id, s := range w.known {
		if s.follower == nil {
			continue
		}
		w.known[id] = &sight{cancel: s.cancel, ctx: s.ctx, follower: s.follower, taker: s.taker}
		s.follower.forget()
	}
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
	return group.Newest{Session: group.Session{ID: id, Token: s.Token}, Revision: s.revision}
}

// term is the newest term of a member that the record of its election shows.
type term struct {
	record.Last
	leads     bool            // it is not over, as far as the record shows
	published group.Published // by the term
	valid     bool            // published could be decoded
}

func termOf(l group.Layout, last record.Last, leads bool, revision uint64) term {
	p, err := l.DecodeMember([]byte(last.Value), revision)
	return term{last, leads, p, err == nil}
}

// standing is what the record of a member shows of a term.
type standing struct {
	over    bool           // the record was released, or a later term has begun
	reports []group.Report // by the page; nil: none is known
}

// about returns what it shows about a page.
func (s standing) about(page int) group.Standing {
	if s.reports == nil {
		return group.Standing{Over: s.over}
	}
	return group.Standing{Report: s.reports[page]}
}

// standing returns what the record shows of a term.
func (t *term) standing(of group.Session) standing {
	switch {
	case t.Token > of.Token || t.Token == of.Token && t.Released:
		return standing{over: true}
	case t.Token == of.Token && t.leads && t.valid:
		return standing{reports: t.published.Reports}
	default:
		return standing{}
	}
}

// take takes the key of a member one lease after its last renewal, and gives it up at once, so that a record shows that
// the term is over. A key that was given up is left alone, unless that record is older than a revision.
func (w *watch) take(id string, least uint64) {
	s := w.see(id)
	if s.Released && s.revision >= least || !s.known || s.taker != nil || id == w.work.ID() { // its own the member takes by itself
		return
	}
	cfg := w.cfg.election()
	cfg.Inherit, cfg.Logger = true, slog.New(slog.DiscardHandler) // the record still shows Hold, and names this member, as no record of the other does
	c, err := leader.Campaign(w.live, w.store, group.MemberKey(w.name, id), cfg)
	if err != nil {
		return
	}
	s.taker = make(chan struct{})
	w.takers.Add(1)
	go func(ended chan struct{}) {
		defer w.takers.Done()
		stop := context.AfterFunc(s.ctx, func() { _ = c.Stop() })
		defer stop()
		for range c.Terms() {
			break // which gives the key up
		}
		_ = c.Stop() // the error does not matter: another member holds the key
		s.follower.look()
		sleep(s.ctx, openAgain)
		close(ended)
		w.bell.ring()
	}(s.taker)
}
