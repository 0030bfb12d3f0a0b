package leadertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream" //nolint:depguard // the errors are those of a fence.BucketWriter

	"github.com/natsleader/natsleader/fence"
	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// Writer writes to a guarded bucket as the leader of one term. It returns the errors of a
// [fence.BucketWriter]:
//
//   - [leader.ErrFenced] if a later term has raised the guard, or the term is over and
//     its guard gone;
//   - [fence.ErrUnknownOutcome] if the write was sent and the answer lost;
//   - jetstream.ErrKeyExists and ErrKeyRevisionMismatch for a condition of the caller's
//     own;
//   - [leader.ErrIncompatibleBucket] if the guard stands for another election.
//
// A write that is not possible now, because the link is cut, the guard deleted or a write
// refused for no reason ([Link.Refuse]), is tried again until ctx ends. Without a deadline
// it is tried for 5 seconds of the store's time.
//
// A write that finds the guard deleted notifies the leader, which raises it again at once.
//
// It has no batches. [fence.KVWriter] is the interface that it shares with a BucketWriter. A
// Writer may be used by many goroutines at once, and after the term.
//
// Each try counts as one of the link's writes, for its scripts and for [Link.Requests].
//
// A write returns when it is answered. Over a store without latency that needs no
// [Clock.Advance]. With latency, call the write on a goroutine of its own.
type Writer struct {
	guard    Guard
	term     *leader.Term
	standing *standing
}

// GuardRevision returns the revision at which the guard stands for the term, or 0 if the term has no such guard.
func (w *Writer) GuardRevision() uint64 {
	revision, _ := backend.GuardRevision(w.term, w.guard)
	return revision
}

// Put writes a key and returns its new revision.
func (w *Writer) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return w.write(ctx, &writing{key: key, value: value})
}

// Create writes a key that does not exist, or is deleted, and returns its
// revision.
func (w *Writer) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return w.write(ctx, &writing{key: key, value: value, allow: func(last backend.Entry) error {
		if last.Revision != 0 && !last.Marker {
			return jetstream.ErrKeyExists
		}
		return nil
	}})
}

// Update writes a key whose last revision is last, and returns the new one.
func (w *Writer) Update(ctx context.Context, key string, value []byte, last uint64) (uint64, error) {
	return w.write(ctx, &writing{key: key, value: value, allow: func(found backend.Entry) error {
		if found.Revision != last {
			return jetstream.ErrKeyRevisionMismatch
		}
		return nil
	}})
}

// Delete marks a key as deleted.
func (w *Writer) Delete(ctx context.Context, key string) error {
	_, err := w.write(ctx, &writing{key: key, marker: true})
	return err
}

// Purge marks a key as deleted, too.
func (w *Writer) Purge(ctx context.Context, key string) error { return w.Delete(ctx, key) }

// writing is one write on its way. It runs in events of the store's time. The
// goroutine of its caller only waits for the end.
type writing struct {
	*Writer
	ctx    context.Context
	key    string
	value  []byte
	marker bool
	allow  func(last backend.Entry) error // the caller's own condition; nil: none

	tries    int
	later    error // why the last try failed
	revision uint64
	err      error
	ended    chan struct{}
}

var errGuardDeleted = errors.New("leadertest: the guard was deleted")

// The wait of a fence.BucketWriter, and its pauses after the first tries.
const (
	writeWait  = 5 * time.Second
	firstTries = 4
	writePause = 10 * time.Millisecond
)

func (w *Writer) write(ctx context.Context, p *writing) (uint64, error) {
	_ = leader.Err(w.term.Context()) // a write is a sign that the work goes on
	_, known := backend.GuardRevision(w.term, w.guard)
	switch {
	case !known:
		return 0, fmt.Errorf("%w: the guard of %s is not among the Guards of the term's candidate", leader.ErrInvalidConfig, w.guard)
	case p.key == w.guard.key:
		return 0, fmt.Errorf("%w: %s is the guard, which only candidates write", leader.ErrInvalidConfig, p.key)
	case !wire.ValidKey(p.key):
		return 0, fmt.Errorf("leadertest: key %q: %w", p.key, jetstream.ErrInvalidKey)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if _, limited := ctx.Deadline(); !limited {
		w.guard.link.store.time.after(writeWait, func() { cancel(context.DeadlineExceeded) })
	}
	p.Writer, p.ctx, p.value, p.ended = w, ctx, bytes.Clone(p.value), make(chan struct{})
	p.try()
	<-p.ended
	return p.revision, p.err
}

// try sends the write.
func (p *writing) try() {
	l := p.guard.link
	s, st := l.store, p.standing
	told, _ := backend.GuardRevision(p.term, p.guard)
	s.mu.Lock()
	if told != st.told {
		st.told, st.revision = told, told
	}
	revision := st.revision
	s.mu.Unlock()
	l.send(&request{link: l, ctx: p.ctx, fail: p.failed, lost: p.lost}, writes, func(f fault) func() {
		guard, last := s.keys[p.guard.key], s.keys[p.key]
		switch {
		case s.gone:
			return func() { p.failed(unreachable(errNotServed)) }
		case f.what == refuse, guard.Revision != revision:
			return func() { p.refused(guard) }
		case s.settings.MaxValue > 0 && len(p.value) > s.settings.MaxValue:
			return func() { p.end(0, leader.ErrValueTooLarge) }
		}
		if p.allow != nil {
			if err := p.allow(last); err != nil {
				return func() { p.end(0, fmt.Errorf("leadertest: %s is at revision %d: %w", p.key, last.Revision, err)) }
			}
		}
		e := s.put(p.key, p.value, p.marker)
		if st.doubt && f.what == none {
			// A later write of the term has been acknowledged. No earlier write of
			// unknown outcome may come after it.
			st.doubt = false
			st.revision = s.put(p.guard.key, guard.Value, false).Revision
		}
		return func() { p.end(e.Revision, nil) }
	})
}

// refused handles a refusal: the guard was not at the revision of the write's condition,
// or the refusal was for no reason.
func (p *writing) refused(guard backend.Entry) {
	l, token := p.guard.link, p.term.Token()
	l.store.mu.Lock()
	own := l.raises[raise{p.guard.key, token}]
	stands := string(guard.Value) == own
	if stands { // perhaps raised again, and the candidate does not know yet
		p.standing.revision = guard.Revision
	}
	l.store.mu.Unlock()
	switch found := decode(guard.Value); {
	case stands:
		p.pause(backend.ErrRefused)
	case found.Election != "" && found.Election != decode([]byte(own)).Election:
		p.end(0, fmt.Errorf("leadertest: nothing was written: %w: the guard is another election's", leader.ErrIncompatibleBucket))
	case found.Token > token, p.term.Context().Err() != nil:
		backend.FenceOf(p.term, p.guard).Suspect()
		p.end(0, leader.ErrFenced)
	default:
		backend.FenceOf(p.term, p.guard).Suspect()
		p.pause(errGuardDeleted)
	}
}

// failed handles a try that has written nothing.
func (p *writing) failed(err error) {
	switch {
	case p.ctx.Err() != nil:
		if ended := context.Cause(p.ctx); !errors.Is(err, ended) { // both at one instant
			err = fmt.Errorf("%w: %w", ended, err)
		}
		p.gaveUp(err)
	case errors.Is(err, leader.ErrUnreachable), errors.Is(err, backend.ErrRefused):
		p.pause(err)
	default:
		p.end(0, err)
	}
}

// lost handles a try that will have no answer.
func (p *writing) lost(err error) {
	s := p.guard.link.store
	s.mu.Lock()
	p.standing.doubt = true
	s.mu.Unlock()
	p.end(0, fmt.Errorf("%w: %w", fence.ErrUnknownOutcome, err))
}

// pause tries again a little later, unless ctx has ended by then.
func (p *writing) pause(why error) {
	s := p.guard.link.store
	s.mu.Lock()
	defer s.mu.Unlock()
	p.later = why
	r := &request{ctx: p.ctx, fail: p.gaveUp} // of no link: no fault of the link ends it
	s.await(r)
	d := writePause
	if p.tries++; p.tries <= firstTries {
		d = 0
	}
	s.end(r, d, p.try)
}

// gaveUp handles the end of ctx while no try is on its way.
func (p *writing) gaveUp(err error) {
	if p.later != nil {
		err = fmt.Errorf("%w; before: %w", err, p.later)
	}
	p.end(0, fmt.Errorf("leadertest: nothing was written: %w", err))
}

func (p *writing) end(revision uint64, err error) {
	p.revision, p.err = revision, err
	close(p.ended)
}
