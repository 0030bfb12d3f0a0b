package leader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/natskv"
	"github.com/natsleader/natsleader/internal/record"
)

// foresight lets the candidate of a lock write before it has read. The machine gets the answers to its first three
// requests at once: the settings as the process knows them, an open feed, and what the process itself has left at the
// key. The cordon counts as known. The requests go out all the same, and the write behind them. Only the write decides
// which candidate has the key.
//
// The lock is not returned before the true answers agree with the foreseen ones. If they do not, the candidate gives its
// key up, and another begins without foresight. If the bucket has lost what the process has stored there, the caller
// gets [ErrRegressed].
type foresight struct {
	natskv.Foreseen
	next   machine.RequestKind // that is answered
	ctx    context.Context     //nolint:containedctx // of the requests
	cancel context.CancelFunc

	settled chan struct{} // closed when the true answers have come
	mu      sync.Mutex
	cordon  sync.Once          // the true one has come, or comes too late
	asked   bool               // the key
	answer  func()             // called once it is asked
	shown   chan backend.Entry // by the true read; closed if it has failed
	missing int
	err     error // of one that does not agree, or has not come
}

// errUnforeseen ends a candidate whose foresight was wrong, or is not confirmed.
var errUnforeseen = errors.New("unforeseen")

// foresee returns nil where nothing is foreseen.
func foresee(store backend.Store, election, id string) *foresight {
	b, ok := store.(*natskv.Bucket)
	if !ok {
		return nil
	}
	f, ok := b.Foresee(election)
	if ok && f.Entry.Revision > 0 {
		s := record.DecodeEntry(f.Entry)
		ok = s.Kind == record.EntryRecord && seatsOf(s.Rec) == 1
	}
	if _, cordoned := record.Cordoned(f.Cordon, id); !ok || cordoned {
		return nil
	}
	return &foresight{Foreseen: f, next: machine.ReqSettings, settled: make(chan struct{}), shown: make(chan backend.Entry, 1), missing: 3}
}

// hearSettings takes the true settings.
func (f *foresight) hearSettings(s backend.Settings, err error) {
	least := f.Settings.LastRevision
	switch last := s.LastRevision; {
	case err != nil:
	case last < least:
		err = fmt.Errorf("%w: its last revision is %d, and this process has freed the lock at %d", ErrRegressed, last, least)
	default:
		s.LastRevision, s.Now = least, 0
		if s != f.Settings {
			err = errUnforeseen
		}
	}
	f.heard(err)
}

// hearEntry takes the true entry of the key. An older one is the answer of a replica that lags. A newer one is the own write, or
// another's, which the own write has not replaced.
func (f *foresight) hearEntry(e backend.Entry, err error) {
	if err == nil {
		f.shown <- e
	}
	close(f.shown)
	switch {
	case err != nil:
	case e.Revision < f.Entry.Revision:
		err = errUnforeseen
	case e.Revision == f.Entry.Revision && !bytes.Equal(e.Value, f.Entry.Value):
		err = fmt.Errorf("%w: revision %d of the lock is not what this process has stored there", ErrRegressed, e.Revision)
	}
	f.heard(err)
}

// entry returns what the true read has shown, or an error. It is for one caller.
func (f *foresight) entry(ctx context.Context, _ string) (record.Observation, error) {
	ctx, cancel := deadline.Within(ctx, checkLimit)
	defer cancel()
	select {
	case e, ok := <-f.shown:
		if ok {
			return record.DecodeEntry(e), nil
		}
		return record.Observation{}, errUnforeseen
	case <-ctx.Done():
		return record.Observation{}, ctx.Err()
	}
}

// hearCordon takes the true cordon. It has the candidate, or not.
func (f *foresight) hearCordon(has bool) {
	f.cordon.Do(func() {
		if has {
			f.heard(errUnforeseen)
		} else {
			f.heard(nil)
		}
	})
}

func (f *foresight) heard(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
	if f.missing--; f.missing == 0 {
		close(f.settled)
	}
}

// ask records that the true read has gone out. So a server that the client is connected to reads before it writes, and shows what
// the write has replaced.
func (f *foresight) ask() {
	f.mu.Lock()
	f.asked = true
	answer := f.answer
	f.mu.Unlock()
	if answer != nil {
		answer()
	}
}

// onceAsked calls answer, perhaps more than once, when the true read has gone out.
func (f *foresight) onceAsked(answer func()) {
	f.mu.Lock()
	f.answer = answer
	asked := f.asked
	f.mu.Unlock()
	if asked {
		answer()
	}
}

// wait returns nil if the foresight of a won term was right, or if that is over.
func (f *foresight) wait(ctx context.Context, t *Term) error {
	if f == nil {
		return nil
	}
	select {
	case <-f.settled:
		if errors.Is(f.err, ErrRegressed) {
			return f.err
		}
		if f.err != nil {
			return errUnforeseen
		}
	case <-t.Context().Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// foresight returns what the candidate takes for granted, or nil.
func (r *requester) foresight() *foresight {
	if r.opening == nil {
		return nil
	}
	return r.opening.foresight
}

// foretell answers a request of the machine by foresight, and reports whether it has.
func (r *requester) foretell(kind machine.RequestKind, now time.Duration, b *natskv.Bucket) bool {
	f := r.foresight()
	if f == nil || f.next == machine.ReqNone {
		return false
	}
	if kind != f.next || kind == machine.ReqRead && r.opening.heard > 0 { // the connection was lost meanwhile, or there is news
		f.next = machine.ReqNone
		return false
	}
	m := mail{foretold: true}
	answer := sync.OnceFunc(func() { r.c.box.put(m) })
	r.cancel = answer // a request that is given up is answered, too
	switch kind {
	case machine.ReqSettings:
		m.in, f.next = machine.Input{Kind: machine.InSettings, Settings: f.Settings}, machine.ReqFeed
		r.openForeseen(now, b)
		answer()
	case machine.ReqFeed:
		m.in.Kind, f.next = machine.InFeed, machine.ReqRead
		answer()
	case machine.ReqRead:
		m.in.Kind, m.entry, f.next = machine.InRead, f.Entry, machine.ReqNone
		f.onceAsked(answer)
	case machine.ReqNone, machine.ReqWrite:
	}
	return true
}

// openForeseen asks for what is foreseen. The machine hears of the feed and of the entry as of news. If it asks for the key once more,
// because its write was refused, the answer is there.
func (r *requester) openForeseen(now time.Duration, b *natskv.Bucket) {
	o, f, box := r.opening, r.opening.foresight, &r.c.box
	f.ctx, f.cancel = deadline.Within(r.values, deadline.Default)
	r.feedNumber++
	number, deliver := r.feedNumber, r.deliver(r.feedNumber)
	context.AfterFunc(f.ctx, func() { f.hearCordon(false) }) // a candidate waits for it no longer either
	o.at, o.feed.wanted, o.read.box, o.read.cancel = now, true, box, func() {}
	b.Settings(f.ctx, f.hearSettings)
	b.Open(f.ctx, f.ctx, r.c.election, deliver, f.ask, func(feed *natskv.Feed, err error) {
		if err != nil {
			box.put(feedMail(backend.FeedEvent{Err: err}, number))
			return
		}
		m := mail{feed: feed, from: number}
		o.read.hand(&m)
	}, func(e backend.Entry, err error) {
		f.hearEntry(e, err)
		o.read.come(mail{in: machine.Input{Kind: machine.InRead, Err: err}, entry: e}) // so it is there when the machine hears of it
		if err == nil && e.Revision > f.Entry.Revision {
			deliver(backend.FeedEvent{Entry: e})
		}
	})
}

// receiveFeed takes the feed that was foretold.
func (a *actor) receiveFeed(m *mail) {
	if m.from != a.requests.feedNumber {
		m.feed.Stop()
		return
	}
	a.requests.keep(m.feed, a.ID, a.Session)
}

// leaves returns what remembers a write that is stored, if it is a lock's. Until then the process does not know the key as free.
func (r *requester) leaves(req *machine.Request, value []byte, server int64, b *natskv.Bucket) (stored func(revision uint64)) {
	if r.c.admission == nil || b == nil {
		return nil
	}
	b.Taken(r.c.election)
	if req.Rec.Phase != record.PhaseReleased {
		return nil
	}
	return func(revision uint64) { b.Freed(r.c.election, value, revision, server) }
}
