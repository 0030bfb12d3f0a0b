package leader

import (
	"context"
	"slices"
	"sync"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/record"
)

// mail is one message to the actor. It has a field for everything that some message carries. So
// mails are taken from a pool, and a candidate at rest keeps none.
type mail struct {
	in       machine.Input
	entry    backend.Entry       // InHeard, InRead: becomes what the input observed
	seen     *record.Observation // InHeard: the decoded entry, if it was decoded before
	feed     backend.Feed        // InFeed: the feed that was opened; InTick: that was foretold
	foretold bool                // InSettings, InFeed, InRead: the true answer is to come
	guard    *guardMail          // of a guard, instead of in
	listener *listenerMail       // of a request to the holder, instead of in
	roster   *rosterMail         // of the roster, instead of in
	from     uint32              // InHeard and others of a feed: the number of the feed
	call     chan error          // of a call that waits for an answer
	fault    error               // of a part above the candidate, to be reported
	sign     bool                // of a request for a sign of a majority; only the error of in counts
}

// guardMail is mail about a guard.
type guardMail struct {
	number    int
	in        machine.GuardInput
	rechecked bool // in.err is the answer to a recheck
}

// listenerMail is mail about the listener: the outcome of the opening, the end of the closing, or
// a request.
type listenerMail struct {
	close  func(closed func())
	err    error
	closed bool
	asked  []byte
	answer func([]byte) // of a request only
}

// rosterMail is mail about the roster.
type rosterMail struct {
	kind     rosterNews
	revision uint64       // announced
	err      error        // announced, viewOpened
	feed     backend.Feed // viewOpened
	view     *record.View // viewOpened, viewChanged
}

type rosterNews uint8

const (
	announced rosterNews = iota
	viewOpened
	viewChanged
	viewClosed
)

// mailbox brings everything but ticks to the actor. put never blocks. The actor arms its
// timer under the same lock under which it finds the box empty, so that a fake clock sees
// the actor at rest only when it is.
//
// The mail that can come in while the actor is held up is bounded. There is one reply for
// each request in flight. Of a feed's revisions only the newest waits, of equal notices
// only one, of requests at the listener only a few. Each call waits on behalf of a goroutine
// of the application, and is taken back when that goroutine gives up.
type mailbox struct {
	mu    sync.Mutex
	mails []*mail       // those that wait, the first at the front
	bell  chan struct{} // nil: the actor has ended, or never existed
	wake  func()        // notifies a fake clock that the actor has work; may be nil
}

var mailPool = sync.Pool{New: func() any { return new(mail) }}

// free returns mail that was read to the pool.
func (m *mail) free() {
	*m = mail{}
	mailPool.Put(m)
}

// fewMails is for how many mails a candidate at rest keeps room.
const fewMails = 8

// Granted implements [backend.Waiter].
func (b *mailbox) Granted() { b.note(machine.InSlot, 0) }

// maxRequests is how many requests at the listener may wait.
const maxRequests = 16

// put returns false if the actor has ended or never existed, or if the mail is a request at
// the listener, or a report of a fault, and too many of those wait.
func (b *mailbox) put(m mail) bool {
	kept := newMail()
	*kept = m
	return b.keep(kept)
}

// note is put for an input that has no more than a kind and a term, or no term. Mail is large, and the goroutines of the
// application that call this keep small stacks.
func (b *mailbox) note(kind machine.InputKind, term uint64) {
	m := newMail()
	m.in.Kind, m.in.Term = kind, term
	b.keep(m)
}

func newMail() *mail {
	return mailPool.Get().(*mail) //nolint:forcetypeassert // nothing else is put there
}

func (b *mailbox) keep(m *mail) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.bell == nil || m.isRequest() && b.count((*mail).isRequest) >= maxRequests || m.isFault() && b.count((*mail).isFault) >= maxRequests:
		m.free()
		return false
	case b.merge(m):
		m.free()
	default:
		b.mails = append(b.mails, m)
	}
	if b.wake != nil {
		b.wake()
	}
	select {
	case b.bell <- struct{}{}:
	default:
	}
	return true
}

// merge reports whether a waiting mail says the same as this one. It may have to replace
// the waiting mail for that.
func (b *mailbox) merge(m *mail) bool {
	for _, old := range slices.Backward(b.mails) {
		switch {
		case m.from != 0 && old.from == m.from: // the order within a feed is kept
			if m.in.Kind == machine.InHeard && old.in.Kind == machine.InHeard {
				if m.entry.Revision > old.entry.Revision { // the older of two is of no use
					*old = *m
				}
				return true
			}
			return m.in.Kind == machine.InReconnected && old.in.Kind == machine.InReconnected
		case m.isNotice() && old.isNotice() && m.in.Kind == old.in.Kind && m.in.Term == old.in.Term:
			return true
		case m.isSuspicion() && old.isSuspicion() && m.guard.number == old.guard.number:
			return true
		}
	}
	return false
}

// isNotice reports whether a mail says nothing that another of its kind and term does
// not.
func (m *mail) isNotice() bool {
	switch m.in.Kind { //nolint:exhaustive // all others carry something
	case machine.InTick, machine.InStop, machine.InAbandon, machine.InDrained, machine.InWorked, machine.InResign:
		return m.guard == nil && m.listener == nil && m.roster == nil && m.fault == nil && !m.sign && m.call == nil && m.feed == nil
	}
	return false
}

// isSuspicion reports whether a mail says that a write has found a guard gone.
func (m *mail) isSuspicion() bool { return m.guard != nil && m.guard.in.Kind == machine.GuardInSuspect }

// isRequest reports whether a mail is a request at the listener.
func (m *mail) isRequest() bool { return m.listener != nil && m.listener.answer != nil }

// isFault reports whether a mail is a report of a part above the candidate.
func (m *mail) isFault() bool { return m.fault != nil }

// count returns how many waiting mails satisfy is.
func (b *mailbox) count(is func(*mail) bool) (n int) {
	for _, m := range b.mails {
		if is(m) {
			n++
		}
	}
	return n
}

// call puts a call, and waits for its answer until the caller gives up.
func (b *mailbox) call(ctx context.Context, in machine.Input) error {
	if err := ctx.Err(); err != nil {
		return err // otherwise chance decides whether the candidate takes the call
	}
	answer := make(chan error, 1)
	if !b.put(mail{in: in, call: answer}) {
		return ErrNotLeader
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		b.withdraw(answer)
		return ctx.Err()
	}
}

// withdraw takes back the call of a caller that gives up, if the call still waits.
func (b *mailbox) withdraw(call chan error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mails = slices.DeleteFunc(b.mails, func(m *mail) bool { return m.call == call })
}

// takeOr takes the next mail. If there is none it calls rest, under the lock, and returns nil.
func (b *mailbox) takeOr(rest func()) *mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.bell: // rung for mail that is taken now; it must not wake the actor again
	default:
	}
	if len(b.mails) == 0 {
		rest()
		return nil
	}
	m := b.mails[0]
	b.mails = slices.Delete(b.mails, 0, 1) // the array remains for the next
	if len(b.mails) == 0 && cap(b.mails) > fewMails {
		b.mails = nil // it was for a burst
	}
	return m
}

// close returns the mail that is left. No more mail comes in.
func (b *mailbox) close() []*mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bell = nil
	return b.mails
}
