package leader_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/contract"
	"github.com/natsleader/natsleader/leader"
)

// office is one term as its worker knows it. The worker never looks at the term's
// context, and writes on long after the end.
type office struct {
	*life
	term *leader.Term
}

// work is one write of a worker.
type work struct {
	office
	*inquiry
	to       *resource
	value    string // unique
	cancel   context.CancelFunc
	judged   bool
	revision uint64
	result   error
}

// toil schedules some writes of workers.
func (s *simulation) toil() {
	if len(s.resources) == 0 {
		return
	}
	for range s.rng.IntN(4) {
		s.later(s.between(0, s.pace), func() {
			s.mu.Lock()
			n := len(s.offices)
			s.mu.Unlock()
			if n == 0 {
				return
			}
			i := n - 1 - s.rng.IntN(min(n, 2)) // the last two are of the most interest
			if s.chance(4) {
				i = s.rng.IntN(n)
			}
			o, r := s.offices[i], s.resources[s.rng.IntN(len(s.resources))]
			if o.away {
				return
			}
			if s.chance(6) { // it reads its fence now, and the write arrives later
				r.link(o.life).ApplyLate(1, s.between(0, 2*s.lease))
			}
			w := s.labour(o, r)
			if s.chance(2) {
				s.later(s.between(0, 2*s.lease), func() { s.begin(w.cancel) })
			}
		})
	}
}

// labour makes the worker of a term write.
func (s *simulation) labour(o office, r *resource) *work {
	ctx, cancel := context.WithCancel(context.Background())
	w := &work{office: o, to: r, cancel: cancel, value: fmt.Sprintf("%d of %s, %d", o.term.Token(), o.name, len(s.works))}
	writer := r.link(o.life).Guard().Writer(o.term)
	write := func() (uint64, error) { return writer.Put(ctx, guarded, []byte(w.value)) }
	if s.chance(4) {
		s.mu.Lock()
		last := r.last
		s.mu.Unlock()
		write = func() (uint64, error) { return writer.Update(ctx, guarded, []byte(w.value), last) }
	}
	s.mu.Lock()
	s.works = append(s.works, w)
	s.mu.Unlock()
	w.inquiry = s.call("write of "+w.value, func() error {
		w.revision, w.result = write()
		return nil
	})
	return w
}

// rest ends the writes and the requests that are under way.
func (s *simulation) rest() {
	for _, w := range s.works {
		s.begin(w.cancel)
	}
	for _, cancel := range s.petitions {
		s.begin(cancel)
	}
	s.pass(0)
}

// results checks the writes that have returned.
func (s *simulation) results() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.works {
		select {
		case <-w.done:
		default:
			continue
		}
		if !w.judged {
			w.judged = true
			s.returns(w)
		}
	}
}

// returns checks the outcome of a write.
func (s *simulation) returns(w *work) {
	r, token := w.to, w.term.Token()
	revision, stored := r.stored[w.value]
	outcome := "a write refused"
	switch err := w.result; {
	case err == nil:
		outcome = "a write accepted"
		if !r.forgets && revision != w.revision {
			s.failf("write of %s: acknowledged as %d, and stored as %d", w.value, w.revision, revision)
		}
	case errors.Is(err, fence.ErrUnknownOutcome):
		outcome = "a write of unknown outcome"
	case errors.Is(err, leader.ErrFenced):
		outcome = "a write fenced"
		if w.term.Context().Err() == nil && r.most <= token && !r.forgets {
			s.failf("write of %s: %v, and its term lives, and nothing has raised the guard above %d", w.value, err, r.most)
		}
		if stored {
			s.failf("write of %s: %v, and it is stored", w.value, err)
		}
	case !slices.ContainsFunc(writeErrors, func(known error) bool { return errors.Is(err, known) }):
		s.failf("write of %s: %v", w.value, err)
	case stored:
		s.failf("write of %s: %v, and it is stored", w.value, err)
	}
	s.logf("write of %s: %d %v", w.value, w.revision, w.result)
	s.tally[outcome]++
}

// writeErrors are the errors of writes that were not made.
var writeErrors = []error{
	context.Canceled, context.DeadlineExceeded, leader.ErrUnreachable, leader.ErrPermission, leader.ErrValueTooLarge,
	leader.ErrConnectionClosed, leader.ErrIncompatibleBucket, jetstream.ErrKeyRevisionMismatch, errStrange,
}

// guardStored is called for an entry that was stored at a guard.
func (s *simulation) guardStored(r *resource, e backend.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logf("guard %d: stored %d %s", r.number, e.Revision, e.Value)
	by := s.sessions[field(e.Value, "session")]
	r.forgets = r.forgets || s.amnesia && by == nil // and no other memory may have the tokens
	token, err := strconv.ParseUint(field(e.Value, "token"), 10, 64)
	if err != nil { // a marker, or junk
		r.guard.Overwrite(0)
		r.by, r.taken = nil, false
		return
	}
	taken := r.taken
	r.taken = field(e.Value, "election") != "e"
	again := token == r.guard.Stands() && by != r.by
	var broken *contract.Violation
	if by == nil {
		r.forged = true
		r.guard.Overwrite(token)
	} else {
		broken = r.guard.Raise(contract.Term{Who: by.name, Token: token})
	}
	switch {
	case by == nil, r.forgets:
	case taken || r.taken:
		s.failf("%s raises guard %d, which is another election's", by.name, r.number)
	case again:
		s.failf("%s raises guard %d to %d, where it stood", by.name, r.number, token)
	default:
		s.broken(broken)
	}
	r.by, r.most = by, max(r.most, token)
	if by != nil {
		r.raisers[token] = by
	}
}

// guardedStored is called for a write that was accepted.
func (s *simulation) guardedStored(r *resource, e backend.Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value := string(e.Value)
	s.logf("resource %d: stored %d %s", r.number, e.Revision, value)
	r.last = e.Revision
	r.stored[value] = e.Revision
	if r.forgets {
		return
	}
	i := slices.IndexFunc(s.works, func(w *work) bool { return w.value == value })
	w := s.works[i]
	term := w.checker.Named(w.term)
	s.broken(r.guard.Write(term)...)
	s.broken(s.election.Stored(term, s.election.Now()))
	switch {
	case w.life != r.by:
		s.failf("write of %s is accepted, and the guard is another's", value)
	case w.judged && !errors.Is(w.result, fence.ErrUnknownOutcome):
		s.failf("write of %s is accepted after it returned %v", value, w.result)
	}
}

// rules checks that a term that begins has raised its guards.
func (s *simulation) rules(l *life, term *leader.Term) {
	s.offices = append(s.offices, office{l, term})
	for _, r := range s.resources {
		switch {
		case r.forgets:
			return
		case r.raisers[term.Token()] != l:
			s.failf("%s is elected with token %d, and has not raised guard %d", l.name, term.Token(), r.number)
		}
	}
}

// heeded checks, when all is calm, that the guarded resources accept the leader's
// writes, and no writes of earlier terms.
func (s *simulation) heeded(first *life) {
	term := first.current()
	for _, r := range s.resources {
		stands := r.store.Entry(fence.DefaultGuardKey).Revision
		if fence, ok := backend.GuardRevision(term, r.link(first).Guard()); !ok || fence != stands {
			s.failf("%s leads, and its fence is at revision %d, guard %d at %d", first.name, fence, r.number, stands)
		}
	}
	from := len(s.works)
	for _, o := range s.offices {
		for _, r := range s.resources {
			if !o.closed && !o.away && (o.term == term || !r.forgets) {
				s.labour(o, r)
			}
		}
	}
	s.wait(s.lease / 4)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.works[from:] {
		mismatch := errors.Is(w.result, jetstream.ErrKeyRevisionMismatch)
		switch {
		case !w.judged:
			s.failf("write of %s has not returned, and all is calm", w.value)
		case w.term == term && w.result != nil && !mismatch, w.term != term && !errors.Is(w.result, leader.ErrFenced):
			s.failf("%s leads with token %d; write of %s: %v", first.name, term.Token(), w.value, w.result)
		}
	}
}
