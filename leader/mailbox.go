package leader

import "sync"

// mail is one thing that reaches the actor.
type mail struct {
	in     input
	entry  Entry       // inHeard, inRead: becomes the input's sight
	seen   *sight      // inHeard: what the entry shows, if somebody has looked
	feed   Feed        // inFeed: what was opened
	guard  *guardMail  // of a guard, instead of in
	door   *doorMail   // of a request to the holder, instead of in
	herald *heraldMail // of the roster, instead of in
	from   uint64      // inHeard and others of a feed: which feed tells
	call   chan error  // of a call that waits for an answer
}

// mailbox brings everything but ticks to the actor. Putting something in never
// blocks. The actor arms its timer under the same lock under which it finds the
// box empty, so that a fake clock sees it at rest only when it is.
type mailbox struct {
	mu     sync.Mutex
	mails  []mail // the first taken have been taken
	taken  int
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
	if n := len(b.mails); n > b.taken && m.in.kind == inHeard && b.mails[n-1].in.kind == inHeard && b.mails[n-1].from == m.from {
		// Nobody needs the older of two revisions.
		if m.entry.Revision > b.mails[n-1].entry.Revision {
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

// takeOr takes the next mail into m. If there is none it calls rest, under the
// lock, and returns false.
func (b *mailbox) takeOr(m *mail, rest func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.bell: // rung for what is taken now; it must not wake the actor again
	default:
	}
	if b.taken == len(b.mails) {
		rest()
		return false
	}
	*m = b.mails[b.taken]
	b.mails[b.taken] = mail{}
	if b.taken++; b.taken == len(b.mails) {
		b.mails, b.taken = b.mails[:0], 0
	}
	return true
}

// close returns what is left; nothing comes in any more.
func (b *mailbox) close() []mail {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return b.mails[b.taken:]
}
