package leader

import (
	"context"
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/natskv"
)

// opening is what a new candidate asks for beside its settings: the feed, and behind its subscription the key. The machine asks for
// one after the other. So the answers wait until the machine asks, and what it does not take is dropped. An opening has the one slot
// of its candidate.
type opening struct {
	at    time.Duration // when it was sent, since the candidate began
	feed  openingPart
	read  openingPart
	heard uint64 // the newest revision that the feed has delivered

	foresight *foresight // of a lock, until the candidate ends; nil: it has none
}

// openingPart is one request of an opening.
type openingPart struct {
	box    *mailbox
	ctx    context.Context //nolint:containedctx // of the request
	cancel context.CancelFunc

	mu     sync.Mutex
	wanted bool  // the machine waits for the answer, or has it
	over   bool  // the answer is not needed any more
	answer *mail // which came before the machine asked
}

// opens reports whether an opening goes out with a request: with the first one, which is for the settings, and with that for the feed if
// the first opening has failed, as it does where there is no bucket.
func (r *requester) opens(kind machine.RequestKind) bool {
	return kind == machine.ReqSettings && r.feedNumber == 0 || kind == machine.ReqFeed && r.feedNumber < 2 && r.feed == nil
}

func (r *requester) open(now time.Duration, b *natskv.Bucket) {
	r.closeOpening()
	o := &opening{at: now}
	for _, p := range []*openingPart{&o.feed, &o.read} {
		p.box = &r.c.box
		p.ctx, p.cancel = context.WithCancel(r.values)
	}
	number := r.feedNumber + 1
	r.opening, r.feedNumber = o, number
	b.Open(o.feed.ctx, o.read.ctx, r.c.election, r.deliver(number), nil, func(f *natskv.Feed, err error) {
		m := mail{in: machine.Input{Kind: machine.InFeed, Err: err}}
		if err == nil {
			m.feed = f
		}
		o.feed.come(m)
	}, func(e backend.Entry, err error) {
		o.read.come(mail{in: machine.Input{Kind: machine.InRead, Err: err}, entry: e})
	})
}

// take lets the answer to a request come from the opening, now or later. It returns false if none will come from there.
func (r *requester) take(kind machine.RequestKind) bool {
	var p *openingPart
	switch o := r.opening; {
	case o == nil:
		return false
	case kind == machine.ReqFeed:
		p = &o.feed
	case kind == machine.ReqRead && o.read.follows(o.heard):
		p = &o.read
	default:
		return false
	}
	if !p.want() {
		return false
	}
	r.cancel, r.asked = p.cancel, r.opening.at
	return true
}

// hear records what the feed has delivered.
func (r *requester) hear(revision uint64) {
	if o := r.opening; o != nil {
		o.heard = max(o.heard, revision)
	}
}

// closeOpening drops what the machine has not asked for.
func (r *requester) closeOpening() {
	if r.opening != nil {
		r.opening.drop()
		r.opening = nil
	}
}

func (o *opening) drop() {
	if f := o.foresight; f != nil && f.cancel != nil {
		f.cancel()
	}
	o.feed.drop()
	o.read.drop()
}

// come takes the answer. The machine does not get a failure that it has not asked for: it asks again.
func (p *openingPart) come(m mail) {
	p.mu.Lock()
	p.over = p.over || m.in.Err != nil && !p.wanted
	wanted, over := p.wanted, p.over
	if !wanted && !over {
		p.answer = &m
	}
	p.mu.Unlock()
	switch {
	case over:
		end(&m)
	case wanted:
		p.hand(&m)
	}
}

// follows reports whether the answer may be used after a revision was heard. The machine expects no read that is older than
// what it has heard before it asked.
func (p *openingPart) follows(revision uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return revision == 0 || p.answer != nil && p.answer.entry.Revision >= revision
}

// want has the answer handed over when it is there. It returns false if that was asked before.
func (p *openingPart) want() bool {
	p.mu.Lock()
	first, m := !p.wanted && !p.over, p.answer
	p.wanted, p.answer = true, nil
	p.mu.Unlock()
	if first && m != nil {
		p.hand(m)
	}
	return first
}

// hand puts the answer into the mailbox. What the feed has delivered meanwhile follows.
func (p *openingPart) hand(m *mail) {
	switch f, isFeed := m.feed.(*natskv.Feed); {
	case !p.box.put(*m):
		end(m) // the candidate has ended without waiting any longer
	case isFeed:
		f.Begin()
	}
}

// drop ends the request, unless the machine has asked for the answer.
func (p *openingPart) drop() {
	p.mu.Lock()
	m, wanted := p.answer, p.wanted
	p.over, p.answer = !wanted, nil
	p.mu.Unlock()
	if !wanted {
		p.cancel()
	}
	if m != nil {
		end(m)
	}
}

// end stops the feed of an answer that is dropped.
func end(m *mail) {
	if m.feed != nil {
		m.feed.Stop()
	}
}
