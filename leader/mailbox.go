package leader

import "sync"

// mail is one thing that reaches the actor.
type mail struct {
	in   input
	feed Feed       // inFeed: what was opened
	from uint64     // inHeard and others of a feed: which feed tells
	call chan error // of a call that waits for an answer
}

// mailbox brings everything but ticks to the actor. Putting something in never
// blocks. The actor arms its timer under the same lock under which it finds the
// box empty, so that a fake clock sees it at rest only when it is.
type mailbox struct {
	mu     sync.Mutex
	mails  []mail
	spare  []mail
	bell   chan struct{}
	wake   func() // tells a fake clock that the actor has work; may be nil
	closed bool
}

// put reports false if the actor has ended.
func (b *mailbox) put(m mail) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	if n := len(b.mails); n > 0 && m.in.kind == inHeard && b.mails[n-1].in.kind == inHeard && b.mails[n-1].from == m.from {
		// Nobody needs the older of two revisions.
		if m.in.sight.revision > b.mails[n-1].in.sight.revision {
			b.mails[n-1] = m
		}
	} else {
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

// takeOr returns what has come in. If there is nothing it calls rest, under the
// lock.
func (b *mailbox) takeOr(rest func()) []mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.bell: // rung for what is taken now; it must not wake the actor again
	default:
	}
	if len(b.mails) == 0 {
		rest()
		return nil
	}
	taken := b.mails
	b.mails, b.spare = b.spare[:0], taken
	return taken
}

// close returns what is left; nothing comes in any more.
func (b *mailbox) close() []mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return b.mails
}
