package leadertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/leader"
)

// Link is one candidate's connection to a [Store]. It is a [leader.Store] over the
// same data, on which faults are scripted. See [Store.Link], and [Link.Guard].
//
// Its methods beyond [leader.Store] are for the test. They first wait until all
// is at rest, as [Clock.Settle] does.
type Link struct {
	store *Store
	name  string
	asked counts

	cut    bool
	frozen bool
	closed bool
	past   map[string]backend.Entry // what the server of an isolated link has; nil: it is not isolated
	knows  bool                     // a reply has shown that the bucket exists
	epoch  uint64                   // messages that were sent in an older one are lost
	held   []func()                 // messages that are held up while frozen

	delay     time.Duration
	feedDelay time.Duration
	feedLoss  int // number of feed messages to lose; negative: all
	scripts   [views + 1][]fault
	raises    map[raise]string // values written to guards
	standings map[termAt]*standing
	memory    backend.Memory
	ahead     atomic.Int64 // of the wall clock of its host
}

// Requests counts requests, including those that a cut link refused.
type Requests struct {
	Settings, Reads, Writes, Watches int
	// Announcements counts announcements in the roster, Views the views of it.
	Announcements, Views int
}

// Total returns the sum.
func (r Requests) Total() int {
	return r.Settings + r.Reads + r.Writes + r.Watches + r.Announcements + r.Views
}

// kind is the kind of a request.
type kind int

const (
	settings kind = iota
	reads
	writes
	watches
	announcements
	views
)

// counts are numbers of requests, by their kind.
type counts [views + 1]int

func (c counts) requests() Requests {
	return Requests{c[settings], c[reads], c[writes], c[watches], c[announcements], c[views]}
}

// request is a request on its way to the store or back.
type request struct {
	link   *Link
	ctx    context.Context
	fail   func(error) // replies with an error
	lost   func(error) // reports that there will be no answer, although it was sent
	sent   bool
	over   bool // it was rejected, and that answer is on its way
	done   bool
	unhook func() bool
}

// errNotServed means that there is no stream.
var errNotServed = errors.New("no responders")

// unreachable wraps ErrUnreachable around a reason.
func unreachable(why error) error { return fmt.Errorf("%w: %w", leader.ErrUnreachable, why) }

// Clock returns the clock of the store's time with the wall clock of the link's host, the default of Config.Clock.
func (l *Link) Clock() leader.Clock { return hostClock{l.store.clock, l} }

// hostClock is the clock of a link's host. It has all optional methods of package backend.
type hostClock struct {
	time leader.Clock
	link *Link
}

func (c hostClock) Now() time.Time { return c.time.Now() }

func (c hostClock) NewTimer(d time.Duration) leader.Timer { return c.time.NewTimer(d) }

func (c hostClock) Unarmed() leader.Timer { return backend.Unarmed(c.time) }

func (c hostClock) AfterFunc(d time.Duration, f func()) leader.Timer {
	return backend.AfterFunc(c.time, d, f)
}

func (c hostClock) Wall() time.Time {
	return backend.Wall(c.time).Add(time.Duration(c.link.ahead.Load()))
}

func (c hostClock) Ahead() time.Duration {
	return backend.Ahead(c.time) + time.Duration(c.link.ahead.Load())
}

// SetWall sets the wall clock of the link's host further ahead of the time by so much than [Clock.SetWall] does, or
// behind it if that is negative. It concerns candidates that use [Link.Clock], because Config.Clock is not set.
func (l *Link) SetWall(ahead time.Duration) { l.ahead.Store(int64(ahead)) }

// Backend returns the port, for package leader.
func (l *Link) Backend() backend.Store { return linkBackend{l} }

// linkBackend is the backend of a [Link].
type linkBackend struct{ link *Link }

// Known returns the settings of the bucket, if there is one, as a [leader.Bucket] knows
// those of a bucket that was just created.
func (l linkBackend) Known() (backend.Settings, bool, error) {
	s := l.link.store
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := s.settings
	answer.LastRevision = s.seq
	return answer, !s.gone, nil
}

// Memory returns what the candidates of the link remember of keys, as if they were those of
// one process.
func (l linkBackend) Memory() *backend.Memory { return &l.link.memory }

// Settings requests the bucket's settings.
func (l linkBackend) Settings(ctx context.Context, reply func(backend.Settings, error)) {
	s := l.link.store
	fail := func(err error) { reply(backend.Settings{}, err) }
	l.link.ask(ctx, settings, fail, func(fault) func() {
		if l.link.knows = !s.gone; s.gone {
			return func() { fail(leader.ErrNoBucket) }
		}
		answer := s.settings
		answer.LastRevision, answer.Now = s.seq, s.time.Now().UnixNano()
		return func() { reply(answer, nil) }
	})
}

// Move ends [Link.Isolate], because the candidate moves to another server.
func (l linkBackend) Move(_ time.Duration, moving func(from string) bool) {
	s := l.link.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.link.past == nil || !moving(l.link.name) {
		return
	}
	l.link.rejectAll(unreachable(errMoved))
	l.link.restore()
}

// Signed does nothing: a link knows by itself whether it is isolated.
func (l linkBackend) Signed() {}

// errMoved is the end of the requests of a connection that moves.
var errMoved = errors.New("the connection moves to another server")

// Get requests the newest message of the key.
func (l linkBackend) Get(ctx context.Context, key string, reply func(backend.Entry, error)) {
	l.link.get(ctx, key, reply, func() error {
		if l.link.knows { // a leader.Bucket asks for the settings before it reads again
			l.link.knows = false
			return unreachable(errNotServed)
		}
		return leader.ErrNoBucket
	})
}

// get requests the newest message of the key. gone returns the error of a bucket that does
// not exist.
func (l *Link) get(ctx context.Context, key string, reply func(backend.Entry, error), gone func() error) {
	s := l.store
	fail := func(err error) { reply(backend.Entry{}, err) }
	l.ask(ctx, reads, fail, func(f fault) func() {
		if s.gone {
			err := gone()
			return func() { fail(err) }
		}
		l.knows = true
		answer := s.keys[key]
		switch {
		case l.past != nil:
			answer = l.past[key]
		case f.what == staleRead:
			answer = s.before[key]
		}
		return func() { reply(answer, nil) }
	})
}

// Update writes value if the last revision of the key is revision. A refusal is
// a [backend.RefusedError] that names the last revision, unless [Link.Refuse]
// says otherwise.
func (l linkBackend) Update(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error)) {
	l.link.update(ctx, key, value, revision, false, reply)
}

// Mark writes a delete marker that carries the value, on the condition of
// Update. It counts as a write.
func (l linkBackend) Mark(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error)) {
	l.link.update(ctx, key, value, revision, true, reply)
}

func (l *Link) update(ctx context.Context, key string, value []byte, revision uint64, marker bool, reply func(uint64, error)) {
	s := l.store
	fail := func(err error) { reply(0, err) }
	l.ask(ctx, writes, fail, func(f fault) func() {
		last := s.keys[key].Revision
		switch {
		case s.gone:
			return func() { fail(unreachable(errNotServed)) }
		case s.settings.MaxValue > 0 && len(value) > s.settings.MaxValue:
			return func() { fail(leader.ErrValueTooLarge) }
		case f.what == refuse && !f.named:
			return func() { fail(&backend.RefusedError{}) }
		case f.what == refuse, last != revision:
			return func() { fail(&backend.RefusedError{Actual: last, Named: true}) }
		}
		e := s.put(key, value, marker)
		return func() { reply(e.Revision, nil) }
	})
}

// Watch opens a feed. The feed delivers messages that are stored from then on, and none
// that were stored before.
func (l linkBackend) Watch(ctx context.Context, key string, instead backend.Feed, deliver func(backend.FeedEvent), reply func(backend.Feed, error)) {
	s := l.link.store
	if instead != nil {
		instead.Stop()
	}
	f := &feed{link: l.link, key: key, deliver: deliver}
	fail := func(err error) {
		f.Stop() // the store may have opened it
		reply(nil, err)
	}
	l.link.ask(ctx, watches, fail, func(fault) func() {
		if l.link.knows = !s.gone; s.gone {
			return func() { fail(leader.ErrNoBucket) }
		}
		s.feeds = append(s.feeds, f)
		return func() {
			f.opened()
			reply(f, nil)
		}
	})
}

// ask sends a request. When the request has arrived, serve is called with the store's
// lock. It returns a function that gives the reply, for when the reply is back.
func (l *Link) ask(ctx context.Context, k kind, fail func(error), serve func(fault) func()) {
	l.send(&request{link: l, ctx: ctx, fail: fail, lost: fail}, k, serve)
}

// send is ask for a request that distinguishes whether it was sent.
func (l *Link) send(r *request, k kind, serve func(fault) func()) {
	s := l.store
	s.mu.Lock()
	defer s.mu.Unlock()
	l.asked[k]++
	if !l.leaves(r) {
		return
	}
	f := l.next(k)
	if l.past != nil && k != reads && f.what != fails {
		return // it is never answered
	}
	switch f.what {
	case loseRequest:
	case fails:
		l.transit(2*l.oneWay(), func() func() { return s.answer(r, func() { r.fail(f.err) }) })
	case applyLate:
		s.time.after(f.after, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			serve(f)
		})
	case none, loseReply, refuse, staleRead:
		l.transit(l.oneWay(), func() func() {
			if (k == watches || k == views) && r.done {
				return nil // no caller would stop it
			}
			back := serve(f)
			if f.what != loseReply {
				l.transit(l.oneWay(), func() func() { return s.answer(r, back) })
			}
			return nil
		})
	}
}

// leaves reports whether the request leaves the link. Otherwise it is answered with an error.
func (l *Link) leaves(r *request) bool {
	l.store.await(r)
	switch {
	case r.ctx.Err() != nil: // poll answers
	case l.closed:
		l.store.reject(r, leader.ErrConnectionClosed)
	case l.cut:
		l.store.reject(r, l.isCut())
	default:
		r.sent = true
	}
	return r.sent
}

// reached reports whether what happens in the store can become known on the link.
func (l *Link) reached() bool { return !l.cut && !l.closed && l.past == nil }

func (l *Link) isCut() error {
	return fmt.Errorf("%w: link %q is cut", leader.ErrUnreachable, l.name)
}

// oneWay is how long a message takes from or to the store.
func (l *Link) oneWay() time.Duration { return l.store.latency + l.delay }

// transit runs f with the store's lock after d, if the message is not lost on this link.
// It then runs the function that f returns, without the lock.
func (l *Link) transit(d time.Duration, f func() func()) {
	s, epoch := l.store, l.epoch
	var arrive func()
	arrive = func() {
		s.mu.Lock()
		var then func()
		switch {
		case l.epoch != epoch:
		case l.frozen:
			l.held = append(l.held, arrive)
		default:
			then = f()
		}
		s.mu.Unlock()
		if then != nil {
			then()
		}
	}
	s.time.after(d, arrive)
}

// await makes sure that a request is answered at the latest when its context
// ends. The lock is held.
func (s *Store) await(r *request) {
	r.unhook = context.AfterFunc(r.ctx, s.time.poke)
	s.pending = append(s.pending, r)
}

// answer ends a request and returns the function that gives the reply, or nil if the
// request has had one. The lock is held.
func (s *Store) answer(r *request, give func()) func() {
	if r.done {
		return nil
	}
	r.done = true
	r.unhook()
	if i := slices.Index(s.pending, r); i >= 0 {
		s.pending = slices.Delete(s.pending, i, i+1)
	}
	return give
}

// reject answers a request now, without the link. The lock is held.
func (s *Store) reject(r *request, err error) {
	give := r.fail
	if r.sent {
		give = r.lost
	}
	s.end(r, 0, func() { give(err) })
}

// end answers a request after d, without the link, unless it had an answer
// before. The lock is held.
func (s *Store) end(r *request, d time.Duration, give func()) {
	s.time.after(d, func() {
		s.mu.Lock()
		then := s.answer(r, give)
		s.mu.Unlock()
		if then != nil {
			then()
		}
	})
}

// feed is an open feed.
type feed struct {
	link    *Link
	key     string
	deliver func(backend.FeedEvent)
	open    bool // the reply to Watch has been given
	deaf    bool
	last    time.Time // when the last message arrives: messages do not overtake one another
}

// Stop ends the feed. A delivery that has begun may still be going on.
func (f *feed) Stop() {
	s := f.link.store
	s.mu.Lock()
	defer s.mu.Unlock()
	f.drop()
}

func (f *feed) opened() {
	s := f.link.store
	s.mu.Lock()
	defer s.mu.Unlock()
	f.open = true
}

// drop forgets the feed. The lock is held, as below.
func (f *feed) drop() {
	f.open = false
	s := f.link.store
	if i := slices.Index(s.feeds, f); i >= 0 {
		s.feeds = slices.Delete(slices.Clone(s.feeds), i, i+1) // it may be being ranged over
	}
}

// tell sends a message of the feed over the link.
func (f *feed) tell(e backend.FeedEvent) {
	if f.deaf || f.link.loses(e.Entry.Revision) {
		return
	}
	f.link.inOrder(&f.last, &f.open, func() { f.deliver(e) })
}

// loses reports whether the link loses a message of a feed, which has a revision if it was stored.
func (l *Link) loses(revision uint64) bool {
	if !l.reached() {
		return true
	}
	if l.feedLoss == 0 || revision == 0 {
		return false
	}
	if l.feedLoss > 0 {
		l.feedLoss--
	}
	return true
}

// inOrder delivers a message of a feed or a view, not before the last one arrives.
func (l *Link) inOrder(last *time.Time, open *bool, deliver func()) {
	now := l.store.time.Now()
	at := now.Add(l.oneWay() + l.feedDelay)
	if at.Before(*last) {
		at = *last
	}
	*last = at
	l.transit(at.Sub(now), func() func() {
		if !*open {
			return nil
		}
		return deliver
	})
}
