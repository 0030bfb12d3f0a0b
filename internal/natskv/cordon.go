package natskv

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/deadline"
	"github.com/natsleader/natsleader/internal/jsapi"
	"github.com/natsleader/natsleader/internal/record"
	"github.com/natsleader/natsleader/internal/wire"
)

const (
	// cordonQuiet is the least time from one read of the cordon to the next for which only a candidate asks.
	cordonQuiet = 30 * time.Second
	// cordonPause is the pause before another try. It doubles.
	cordonPause = time.Second
	// cordonTries is how many reads in a row may be behind what is known. They take half a minute. Then the feed has
	// delivered a forgery, or the bucket has lost writes, and a read counts.
	cordonTries = 5
)

// cordonSource is the cordon of a bucket, as the candidates of one Bucket share it: one feed, one goroutine, and a read
// when the feed opens, reports something or was interrupted. What the feed delivers is only a reason to read. The
// source ends with its last candidate.
type cordonSource struct {
	bucket *Bucket
	cancel context.CancelFunc
	ended  chan struct{}
	bell   chan struct{} // the cordon is to be read
	back   chan struct{} // the servers may answer again

	mu        sync.Mutex // held during deliver: one call at a time
	followers map[*func([]string)]struct{}
	known     bool // the cordon was read, or cannot be
	names     []string
	revision  uint64        // that was read
	heard     uint64        // that the feed has delivered
	deaf      bool          // the feed has ended, or has not delivered what a read found, or delivers what is older
	behind    int           // how many reads in a row were behind what is known
	failing   bool          // the last read was not answered
	readAt    time.Duration // since the process began
}

// cordonHolder keeps the source while there is a candidate.
type cordonHolder struct {
	mu     sync.Mutex
	source *cordonSource
	last   atomic.Pointer[[]string] // the names that were published last; nil: none were yet
}

// FollowCordon implements [backend.Cordons].
func (b *Bucket) FollowCordon(deliver func(names []string)) (look, stop func()) {
	b.cordon.mu.Lock()
	defer b.cordon.mu.Unlock()
	s := b.cordon.source
	if s == nil {
		ctx, cancel := context.WithCancel(context.Background())
		s = &cordonSource{bucket: b, cancel: cancel, ended: make(chan struct{}), bell: make(chan struct{}, 1), back: make(chan struct{}, 1), followers: make(map[*func([]string)]struct{})}
		b.cordon.source = s
		go s.run(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followers[&deliver] = struct{}{}
	if s.known {
		deliver(s.names)
	}
	return s.look, func() { s.leave(&deliver) }
}

// leave removes a candidate, and ends the source with the last one.
func (s *cordonSource) leave(deliver *func([]string)) {
	h := &s.bucket.cordon
	h.mu.Lock()
	s.mu.Lock()
	delete(s.followers, deliver)
	last := len(s.followers) == 0 && h.source == s
	s.mu.Unlock()
	if last {
		h.source = nil
	}
	h.mu.Unlock()
	if last {
		s.cancel()
		jsapi.Soon(func() { <-s.ended })
	}
}

// ring rings a bell that the source listens to.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// look reads the cordon again if the last read is long ago: its feed may be as silent as that of the candidate. After
// a read that failed it does so at once.
func (s *cordonSource) look() {
	s.mu.Lock()
	failing, due := s.failing || !s.known, deadline.Elapsed()-s.readAt > cordonQuiet
	s.mu.Unlock()
	if failing {
		ring(s.back)
	} else if due {
		ring(s.bell)
	}
}

// hear takes an event of the feed.
func (s *cordonSource) hear(e backend.FeedEvent) {
	s.mu.Lock()
	anew := e.Err == nil && !e.Reconnected && e.Entry.Revision < s.revision // the bucket was made anew, or it is a forgery
	news := e.Err != nil || e.Reconnected || e.Entry.Revision != s.revision
	s.heard = max(s.heard, e.Entry.Revision)
	s.deaf = s.deaf || e.Err != nil || anew
	s.mu.Unlock()
	if news {
		ring(s.bell)
	}
	if e.Reconnected {
		ring(s.back)
	}
}

func (s *cordonSource) run(ctx context.Context) {
	defer close(s.ended)
	var feed backend.Feed
	var err error
	for tries := 0; ctx.Err() == nil; {
		pause, get := time.Duration(0), s.get
		if s.mustOpen(feed) {
			if feed != nil {
				pause = cordonPause
			}
			feed, get, err = s.open(ctx, feed)
		}
		if s.read(ctx, get) && isFinal(err) {
			tries = 0
		} else {
			if s.behind > 0 { // the servers answer
				tries = s.behind - 1
			}
			pause = min(cordonPause<<min(tries, cordonTries), cordonQuiet)
			tries++
			ring(s.bell)
		}
		s.rest(ctx, pause)
		select {
		case <-s.bell:
		case <-ctx.Done():
		}
	}
	if feed != nil {
		feed.Stop()
	}
}

// rest pauses, whatever the feed wants, until the servers may answer again.
func (s *cordonSource) rest(ctx context.Context, pause time.Duration) {
	ctx, cancel := deadline.Within(ctx, pause)
	defer cancel()
	select {
	case <-ctx.Done():
	case <-s.back:
	}
}

// mustOpen reports whether there is no feed, or one to replace.
func (s *cordonSource) mustOpen(feed backend.Feed) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	deaf := s.deaf
	s.deaf = false
	return deaf || feed == nil
}

// open opens a feed. The first read goes out with it.
func (s *cordonSource) open(ctx context.Context, instead backend.Feed) (feed backend.Feed, get cordonRead, err error) {
	get = s.get
	feed, err = inTime(ctx, func(feedCtx context.Context, reply func(backend.Feed, error)) {
		answers := make(chan func(func(backend.Entry, error)), 1)
		readCtx, cancel := deadline.Within(ctx, deadline.Default)
		if instead != nil {
			cancel()
			s.bucket.Watch(feedCtx, wire.CordonKey, instead, s.hear, reply)
			return
		}
		s.bucket.Open(feedCtx, readCtx, wire.CordonKey, s.hear, nil, func(f *Feed, err error) {
			if err != nil {
				reply(nil, err)
				return
			}
			reply(f, nil)
			f.Begin()
		}, func(e backend.Entry, err error) {
			cancel()
			answers <- func(reply func(backend.Entry, error)) { reply(e, err) }
		})
		get = func(_ context.Context, reply func(backend.Entry, error)) {
			(<-answers)(reply)
		}
	})
	return feed, get, err
}

// cordonRead asks for the cordon, and replies once.
type cordonRead func(ctx context.Context, reply func(backend.Entry, error))

func (s *cordonSource) get(ctx context.Context, reply func(backend.Entry, error)) {
	s.bucket.Get(ctx, wire.CordonKey, reply)
}

// read reads the cordon, and reports whether no other read has to follow.
func (s *cordonSource) read(ctx context.Context, get cordonRead) (done bool) {
	e, err := inTime(ctx, get)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readAt = deadline.Elapsed()
	if s.failing = !isFinal(err); err != nil {
		if !jsapi.IsUnanswered(err) && !jsapi.IsUnsent(err) { // a permission or an import is missing, or the bucket
			s.publish(s.names)
		}
		return !s.failing
	}
	var names []string
	if !e.Marker {
		names, err = record.DecodeCordon(e.Value)
	}
	if err != nil {
		names = nil // natsleader doctor reports it
	}
	if e.Revision < max(s.revision, s.heard) && s.behind < cordonTries { // a replica that lags has answered
		s.behind++
		if !s.known { // better than none
			s.publish(names)
		}
		return false
	}
	s.behind = 0
	if s.revision != 0 && e.Revision > max(s.revision, s.heard) {
		s.deaf = true
		ring(s.bell)
	}
	s.revision, s.heard = e.Revision, e.Revision
	s.publish(names)
	return true
}

// isFinal reports whether a request that had this error is not to be tried again until a candidate asks: a denied request
// leaves a line in the log of the server.
func isFinal(err error) bool {
	return err == nil || errors.Is(err, backend.ErrPermission) || errors.Is(err, backend.ErrConnectionClosed)
}

// publish delivers the names if they are new. The source is locked.
func (s *cordonSource) publish(names []string) {
	s.bucket.cordon.last.Store(&names)
	if s.known && slices.Equal(names, s.names) {
		return
	}
	s.known, s.names = true, names
	for deliver := range s.followers {
		(*deliver)(names)
	}
}

// inTime waits for the reply to a request, for the time of one call at most.
func inTime[T any](ctx context.Context, send func(context.Context, func(T, error))) (T, error) {
	ctx, cancel := deadline.Within(ctx, deadline.Default)
	defer cancel()
	return backend.Await(func(reply func(T, error)) { send(ctx, reply) })
}
