package leadertest

import (
	"bytes"
	"context"
	"maps"
	"sync"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// Store is a bucket in memory. It is a [leader.Store] for any number of elections, or, by
// way of a [Guard], a bucket that only a leader may write.
//
// Each candidate that is to have faults of its own campaigns on a [Link] of the Store. The
// Store itself serves as one more link, Link(""). Revisions are one sequence for all keys,
// as in a stream. Requests and replies are events of the store's clock, also if they take
// no time. When a write is stored, it is first sent to the feeds, in the order in which
// they were opened, the writer's own included. Then it is acknowledged.
//
// The Store also keeps a roster. The roster is a bucket of its own, and faults of the other
// bucket do not affect it.
//
// The methods beyond leader.Store are for the test only. They first wait until all is at
// rest, as [Clock.Settle] does, so that it is always clear which events came before.
type Store struct {
	mu       sync.Mutex
	time     schedule
	clock    leader.Clock
	settings backend.Settings // LastRevision is seq
	latency  time.Duration
	seq      uint64
	gone     bool
	keys     map[string]backend.Entry // the newest message
	before   map[string]backend.Entry // the message that it replaced
	writes   uint64                   // never goes back, unlike seq
	written  map[string]uint64        // writes, when the key was last written
	links    map[string]*Link
	feeds    []*feed
	watches  []*watch // of keys
	made     int      // how often it was made again
	ears     []*ear
	cordons  []*cordonFeed
	pending  []*request

	roster     map[stand]announced
	rosterSeq  uint64 // of another stream
	rosterGone bool
	views      []*view
}

// Option is a setting for [NewStore] and [Store.Configure]. Options apply in order.
type Option func(*Store)

// WithTTL makes the store a bucket of [leader.CreateOrUpdateBucket] with a TTL. Records expire d
// after they were written. Expiry leaves a marker, and the marker disappears without a
// trace another d later. MaxLease becomes two thirds of d if that is less.
func WithTTL(d time.Duration) Option {
	return func(s *Store) {
		s.settings.PurgeProtected, s.settings.TTL = false, d
		s.settings.MaxLease = min(s.settings.MaxLease, d*2/3)
	}
}

// WithMaxLease sets the longest lease that a candidate may ask for; 0 means no
// limit. The default is 15 s. Put it after WithTTL and WithoutPurgeProtection.
func WithMaxLease(d time.Duration) Option {
	return func(s *Store) { s.settings.MaxLease = d }
}

// WithMaxValue sets the size of the largest record in bytes. Writes of larger records fail
// with [leader.ErrValueTooLarge]. The default is the limit of a server with a max_payload
// of 1 MiB, the default of NATS. 0 means no limit.
func WithMaxValue(n int) Option {
	return func(s *Store) { s.settings.MaxValue = n }
}

// WithLatency makes every request, reply and feed message take d. The default
// is 0.
func WithLatency(d time.Duration) Option {
	return func(s *Store) { s.latency = d }
}

// WithoutPurgeProtection makes the store an ordinary bucket, as js.CreateKeyValue makes it.
// It has no TTL and no MaxLease, and its messages can be purged.
func WithoutPurgeProtection() Option {
	return func(s *Store) { s.settings.PurgeProtected, s.settings.MaxLease = false, 0 }
}

// defaultSettings are those of a new [Store]. MaxValue is 1 MiB less the header of a
// conditional write.
var defaultSettings = backend.Settings{PurgeProtected: true, MaxLease: wire.DefaultLease, MaxValue: 1<<20 - 71}

// NewStore returns an empty store that lives in the clock's time. With a nil clock it
// lives in the time of the process, which inside a testing/synctest bubble is the bubble's.
// It is purge-protected, with a MaxLease of 15 s, unless options say otherwise.
func NewStore(clock *Clock, opts ...Option) *Store {
	s := &Store{
		settings: defaultSettings,
		keys:     make(map[string]backend.Entry),
		before:   make(map[string]backend.Entry),
		written:  make(map[string]uint64),
		links:    make(map[string]*Link),
		roster:   make(map[stand]announced),
	}
	if clock != nil {
		s.time, s.clock = clock, clock
	} else {
		s.time, s.clock = new(process), leader.SystemClock()
	}
	for _, opt := range opts {
		opt(s)
	}
	s.time.onRest(s.poll)
	return s
}

// Clock returns the clock of the store's time, the default of Config.Clock.
func (s *Store) Clock() leader.Clock { return s.clock }

// Backend is that of Link(""), for package leader.
func (s *Store) Backend() backend.Store { return s.Link("").Backend() }

// Link returns the link of that name. The first call makes it, without faults.
func (s *Store) Link(name string) *Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link(name)
}

func (s *Store) link(name string) *Link {
	l := s.links[name]
	if l == nil {
		l = &Link{store: s, name: name}
		s.links[name] = l
	}
	return l
}

// Requests returns the number of requests on all links together.
func (s *Store) Requests() Requests {
	defer s.lock("Store.Requests")()
	var sum counts
	for _, l := range s.links {
		for k, n := range l.asked {
			sum[k] += n
		}
	}
	return sum.requests()
}

// lock takes the lock for a method of the test, when all is at rest.
func (s *Store) lock(who string) (unlock func()) {
	s.time.settle(who)
	s.mu.Lock()
	return s.mu.Unlock
}

// put stores a message and sends it to the feeds. The lock is held, as in
// everything below.
func (s *Store) put(key string, value []byte, marker bool) backend.Entry {
	s.seq++
	e := backend.Entry{Revision: s.seq, Value: bytes.Clone(value), Marker: marker, Created: s.time.Now()}
	s.before[key] = s.keys[key]
	s.keys[key] = e
	s.wrote(key, s.settings.TTL)
	for _, f := range s.feeds {
		if f.key == key {
			f.tell(backend.FeedEvent{Entry: e})
		}
	}
	for _, w := range s.watches {
		w.stored(key, e)
	}
	if key == wire.CordonKey {
		for _, c := range s.cordons {
			c.tell(c.link.oneWay())
		}
	}
	return e
}

// wrote lets the newest message of the key expire after d; 0 means never.
func (s *Store) wrote(key string, d time.Duration) {
	s.writes++
	write := s.writes
	s.written[key] = write
	if s.settings.TTL == 0 {
		return
	}
	s.time.after(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.written[key] == write {
			s.expire(key)
		}
	})
}

// expire drops the newest message of the key as its age would.
func (s *Store) expire(key string) {
	switch e := s.keys[key]; {
	case e.Revision == 0:
	case e.Marker:
		s.erase(key)
	default:
		s.put(key, nil, true)
	}
}

// erase drops the newest message of the key without a trace.
func (s *Store) erase(key string) {
	s.before[key] = s.keys[key]
	delete(s.keys, key)
	delete(s.written, key)
}

// poll answers the requests whose contexts have ended. It takes the lock.
func (s *Store) poll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.pending {
		if !r.over && r.ctx.Err() != nil {
			r.over = true
			s.reject(r, unreachable(context.Cause(r.ctx)))
		}
	}
}

// Snapshot is the content of a [Store] at one moment.
type Snapshot struct {
	seq  uint64
	keys map[string]backend.Entry
}

// snapshot returns the state.
func (s *Store) snapshot() Snapshot {
	return Snapshot{seq: s.seq, keys: maps.Clone(s.keys)}
}

// restore goes back to a state.
func (s *Store) restore(snap Snapshot) {
	s.seq = snap.seq
	s.keys = maps.Clone(snap.keys)
	if s.keys == nil {
		s.keys = make(map[string]backend.Entry)
	}
	clear(s.before)
	clear(s.written)
	now := s.time.Now()
	for key, e := range s.keys {
		s.wrote(key, e.Created.Add(s.settings.TTL).Sub(now))
	}
}
