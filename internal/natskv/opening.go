package natskv

import (
	"context"
	"errors"
	"sync"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/natsleader/natsleader/internal/backend"
)

// Open asks at once for what Watch and Get ask one after the other. feed is called first, and then entry. The feed delivers nothing
// before its Begin. ctx is for the opening of the feed, and readCtx for the read. asked, unless it is nil, is called when the read has gone
// out, perhaps again.
//
// The read goes out behind the subscription, and again once that has been made again. So its answer and the feed have all messages. If
// nothing is known of a bucket of EnsureBucket, its settings are taken to be those of EnsureBucket, until the server has answered.
func (b *Bucket) Open(ctx, readCtx context.Context, key string, deliver func(backend.FeedEvent), asked func(), feed func(*Feed, error), entry func(backend.Entry, error)) {
	r := &openingRead{reply: entry, due: true}
	get := func() {
		b.Get(readCtx, key, r.next())
		if asked != nil {
			asked()
		}
	}
	go func() {
		var err error
		f := b.openByGuess(ctx, key, deliver, r.behind(func() { b.getDirect(readCtx, key, r.next()) }))
		if f != nil {
			r.onFailure(get) // it may have been asked for before there was a bucket
		} else {
			r.void()
			f, err = b.watchInTime(ctx, key, deliver, b.api.Config, r.behind(get))
		}
		if r.isDue() { // the feed is one of several, or a consumer, or was not opened; or there was no bucket yet
			get()
		}
		feed(f, err)
		r.release()
	}()
}

// openByGuess opens the feed of a bucket of which nothing is known. It returns nil if it is not open, or if the settings turn out not to
// be as expected. If there is no bucket, it waits until a candidate has created it.
func (b *Bucket) openByGuess(ctx context.Context, key string, deliver func(backend.FeedEvent), sent func()) *Feed {
	if b.ensure == nil || b.api.Known.Load() != nil {
		return nil
	}
	guess := b.ensure.newStream()
	f, err := b.watchInTime(ctx, key, deliver, func(context.Context) (jetstream.StreamConfig, error) { return guess, nil }, sent)
	if err != nil {
		return nil
	}
	conf, err := b.api.Config(ctx)
	if errors.Is(err, backend.ErrNoBucket) && !b.api.Seen.Load() {
		select {
		case <-b.made.opened: // a candidate creates it
			conf, err = b.api.Config(ctx)
		case <-ctx.Done():
		}
	}
	if err != nil || !conf.AllowDirect || b.topic(conf, key) != f.source.topic {
		f.Stop()
		return nil
	}
	return f
}

// openingRead is the read of an opening: of several the last one. Its answer waits for that of the feed.
type openingRead struct {
	reply func(backend.Entry, error)

	mu       sync.Mutex
	number   int  // of the last one
	due      bool // none is on its way or answered; the last one has failed
	released bool
	answer   func() // nil: the last one is not answered
	again    func() // instead of the next answer that is a failure
}

// behind returns what is called when the subscription was sent, perhaps again. Then the read is due once the feed is open: the denial
// of a read at once would hide that of the subscription once more.
func (r *openingRead) behind(get func()) (sent func()) {
	again := false
	return func() {
		if again {
			r.void()
			return
		}
		again = true
		get()
	}
}

// void makes the answers to the reads so far void.
func (r *openingRead) void() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	r.due, r.answer = true, nil
}

func (r *openingRead) isDue() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.due
}

// next returns what takes the answer to a read that is sent now.
func (r *openingRead) next() func(backend.Entry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.number++
	r.due, r.answer = false, nil
	n := r.number
	return func(e backend.Entry, err error) {
		answer := func() { r.reply(e, err) }
		r.mu.Lock()
		last, released := n == r.number, r.released
		if last {
			r.due, r.answer = err != nil, answer
		}
		if last && err != nil && r.again != nil {
			answer, r.again, r.answer, released = r.again, nil, nil, true
		}
		r.mu.Unlock()
		if last && released {
			answer()
		}
	}
}

// onFailure has the last read sent again if it fails later than now.
func (r *openingRead) onFailure(again func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.due {
		r.again = again
	}
}

// release lets the answer pass.
func (r *openingRead) release() {
	r.mu.Lock()
	r.released = true
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		answer()
	}
}
