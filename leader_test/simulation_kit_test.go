package leader_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"testing/synctest"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// memory is the ground made of the test kit: leadertest.Store and leadertest.Clock. All
// is at rest before anything happens.
type memory struct {
	s     *simulation
	time  *leadertest.Clock
	begun leader.Timer // its owner counts as busy from Wake to Stop
	vault
	latency time.Duration
}

// newMemory draws a bucket.
func newMemory(s *simulation) *memory {
	clock := leadertest.NewClock()
	m := &memory{s: s, time: clock, begun: clock.Unarmed()}
	m.begun.Stop()
	// A round trip takes less than the shortest renew interval.
	m.latency = s.lease / 100 * []time.Duration{0, 0, 1}[s.rng.IntN(3)] / time.Duration(1+s.rng.IntN(100))
	if s.orderly {
		m.latency = min(m.latency, 50*time.Millisecond) // a round trip takes less than a turn, too
	}
	opts := []leadertest.Option{leadertest.WithLatency(m.latency), leadertest.WithMaxLease(s.lease)}
	m.settings = backend.Settings{PurgeProtected: true, MaxLease: s.lease}
	switch kind := s.rng.IntN(6); {
	case kind < 2 || s.orderly: // sealed
		if s.chance(4) && !s.amnesia {
			s.least, s.election.MinToken = 1000, 1000
		}
	case kind < 4:
		opts = append(opts, leadertest.WithoutPurgeProtection(), leadertest.WithMaxLease(s.lease))
		m.settings.PurgeProtected = false
	default:
		ttl := s.lease + s.between(s.lease/2, 2*s.lease)
		opts = append(opts, leadertest.WithTTL(ttl), leadertest.WithMaxLease(s.lease))
		m.settings.PurgeProtected, m.settings.TTL = false, ttl
	}
	if s.uniform && !m.settings.PurgeProtected && s.chance(2) { // as NATS makes them
		opts = append(opts, leadertest.WithMaxLease(0))
		m.settings.MaxLease = 0
	}
	m.store = leadertest.NewStore(clock, opts...)
	if s.guarded {
		m.guard()
	}
	s.goroutines = runtime.NumGoroutine()
	if !s.amnesia && s.seats == 0 {
		m.store.Backend().Watch(s.Context(), "e", nil, func(e backend.FeedEvent) { s.stored(e.Entry) }, func(backend.Feed, error) {})
		s.witnessed, s.ancestry = true, ancestry{of: make(map[uint64]past), traceless: !m.settings.PurgeProtected}
	}
	return m
}

func (m *memory) clock() leader.Clock { return m.time }

func (m *memory) now() time.Duration { return m.time.Elapsed() }

func (m *memory) pass(d time.Duration) { m.time.Advance(d) }

// begin lets nothing else happen before the call waits for its answer. It returns when
// all immediate effects of the call have happened, because the driver's next action
// would race with them.
func (m *memory) begin(f func()) {
	m.time.Settle()
	m.begun.(interface{ Wake() }).Wake()
	go f()
	synctest.Wait()
	m.begun.Stop()
	m.time.Settle()
}

// kitLink is a link of the test kit.
type kitLink struct{ *leadertest.Link }

func (c kitLink) store() leader.Store { return c.Link }

func (c kitLink) close() { c.Close() }

func (m *memory) link(name string) simulatedLink { return kitLink{m.store.Link(name)} }

// longest is the longest delay of a message.
func (m *memory) longest() time.Duration { return 2 * m.s.lease }

func (m *memory) quiet() time.Duration { return m.longest() + 2*m.latency }

// unknown is the longest lease that could be running.
func (m *memory) unknown() time.Duration { return max(m.s.lease, 2*m.settings.TTL) }

// options returns the options with which a store has the settings.
func options(s backend.Settings) (opts []leadertest.Option) {
	if !s.PurgeProtected {
		opts = append(opts, leadertest.WithoutPurgeProtection())
	}
	if s.TTL > 0 {
		opts = append(opts, leadertest.WithTTL(s.TTL))
	}
	return append(opts, leadertest.WithMaxLease(s.MaxLease), leadertest.WithMaxValue(s.MaxValue))
}

// calm ends all faults.
func (m *memory) calm() {
	if m.s.amnesia {
		m.store.Recreate()
	}
	m.store.Configure(options(m.settings)...)
	if !m.s.chance(4) { // else the candidates do without it
		m.store.RecreateRoster()
	}
	m.calmGuards()
	for _, l := range m.s.lives {
		if l.away && !l.killed {
			m.wake(l)
		}
		if !l.killed {
			for _, link := range m.links(l) {
				link.Heal()
			}
		}
	}
	for _, o := range m.s.lookers {
		o.link.(kitLink).Heal()
	}
}

// sleep stops the process: nothing reaches it, and its timer stands still.
func (m *memory) sleep(l *life) {
	l.release()
	l.rivals.leave(m.s)
	m.pass(0)
	for _, link := range m.links(l) {
		link.Freeze()
	}
	l.clock.hold()
	l.away = true
}

// wake lets the process go on. The process first finds either its messages, or that its
// timer was due.
func (m *memory) wake(l *life) {
	first := m.s.chance(2)
	if first {
		m.begin(l.clock.resume)
	}
	for _, link := range m.links(l) {
		if m.s.chance(2) {
			link.Thaw()
		} else {
			link.Restore()
		}
	}
	if m.pass(0); !first && !l.gone() {
		m.begin(l.clock.resume)
	}
	l.away = false
}

// faults returns all faults of the kit.
func (m *memory) faults() []fault {
	link := func(l *life) *leadertest.Link { return l.link.(kitLink).Link }
	all := append(m.connections(link), m.scripts(link)...)
	all = append(append(all, m.processes()...), m.operator()...)
	all = append(all, m.guardFaults()...)
	if m.s.amnesia {
		all = append(all, m.forgetting()...)
	}
	return all
}

// mended ends a fault of a link after a while, unless its process is stopped.
func (m *memory) mended(l *life, end func()) {
	m.s.later(m.s.between(0, 3*m.s.lease), func() {
		if !l.away {
			end()
		}
	})
}

func (m *memory) connections(of func(*life) *leadertest.Link) []fault {
	on := func(name string, weight int, strike func(l *life, link *leadertest.Link)) fault {
		return fault{name, weight, true, func(l *life) bool {
			strike(l, of(l))
			return true
		}}
	}
	delay := func() time.Duration {
		if m.s.chance(2) {
			return m.s.between(0, m.s.lease/50) // everything still works
		}
		return m.s.between(0, m.longest())
	}
	return []fault{
		on("Link.Cut", 8, func(l *life, link *leadertest.Link) { link.Cut(); m.mended(l, link.Restore) }),
		on("Link.Freeze", 8, func(l *life, link *leadertest.Link) {
			link.Freeze()
			m.mended(l, []func(){link.Thaw, link.Restore}[m.s.rng.IntN(2)])
		}),
		on("Link.Isolate", 6, func(l *life, link *leadertest.Link) { link.Isolate(); m.mended(l, link.Restore) }),
		on("Link.Restore", 2, func(_ *life, link *leadertest.Link) { link.Restore() }),
		on("Link.Thaw", 2, func(_ *life, link *leadertest.Link) { link.Thaw() }),
		on("Link.Heal", 8, func(_ *life, link *leadertest.Link) { link.Heal() }),
		on("Link.Reconnect", 4, func(_ *life, link *leadertest.Link) { link.Reconnect() }),
		on("Link.Delay", 4, func(l *life, link *leadertest.Link) { link.Delay(delay()); m.mended(l, func() { link.Delay(0) }) }),
		on("Link.DelayFeed", 4, func(l *life, link *leadertest.Link) {
			link.DelayFeed(delay())
			m.mended(l, func() { link.DelayFeed(0) })
		}),
	}
}

// processes returns the faults of a process as a whole.
func (m *memory) processes() []fault {
	return []fault{
		{"Link.Close", 2, false, func(l *life) bool {
			l.closed = true
			for _, link := range m.links(l) {
				link.Close()
			}
			return true
		}},
		{"a process stopped", 6, false, func(l *life) bool {
			m.sleep(l)
			d := m.s.between(0, 3*m.s.lease)
			if m.s.witnessed && l.isLeading() && m.s.chance(2) { // about as long as the lease is valid
				d = max(0, l.good.Sub(l.clock.Now())+m.s.between(-l.cfg.LeaseDuration/6, l.cfg.LeaseDuration/6))
			}
			m.s.later(d, func() { m.wake(l) })
			return true
		}},
		{"a process killed", 2, false, func(l *life) bool {
			m.sleep(l)
			l.killed = true
			return true
		}},
	}
}

// errStrange is an error that the library does not know.
var errStrange = errors.New("something else")

func (m *memory) scripts(of func(*life) *leadertest.Link) []fault {
	s := m.s
	weight := 3
	on := func(name string, strike func(link *leadertest.Link, n int)) fault {
		return fault{name, weight, true, func(l *life) bool {
			link, n := of(l), 1+s.rng.IntN(3)
			if s.chance(8) {
				n = -1
				m.mended(l, link.Heal)
			}
			strike(link, n)
			return true
		}}
	}
	fails := func(name string, fail func(link *leadertest.Link, n int, err error), errs ...error) fault {
		return on(name, func(link *leadertest.Link, n int) { fail(link, n, errs[s.rng.IntN(len(errs))]) })
	}
	ends := func(name string, end func(link *leadertest.Link, err error), errs ...error) fault {
		return fails(name, func(link *leadertest.Link, _ int, err error) { end(link, err) }, errs...)
	}
	away, denied := leader.ErrUnreachable, leader.ErrPermission
	type link = leadertest.Link
	all := []fault{
		on("Link.PassWrites", func(link *leadertest.Link, n int) { link.PassWrites(max(n, 1)) }),
		on("Link.LoseWrites", (*link).LoseWrites),
		on("Link.LoseReplies", (*link).LoseReplies),
		on("Link.ApplyLate", func(link *leadertest.Link, n int) { link.ApplyLate(max(n, 1), s.between(0, m.longest())) }),
		on("Link.Refuse", func(link *leadertest.Link, n int) { link.Refuse(n, s.chance(2)) }),
		fails("Link.FailWrites", (*link).FailWrites, away, denied, leader.ErrValueTooLarge, errStrange),
		on("Link.LoseReads", (*link).LoseReads),
		on("Link.StaleReads", (*link).StaleReads),
		fails("Link.FailReads", (*link).FailReads, away, denied, errStrange),
		fails("Link.FailSettings", (*link).FailSettings, away, denied, leader.ErrNoBucket, leader.ErrIncompatibleBucket),
		fails("Link.FailWatches", (*link).FailWatches, away, denied, leader.ErrNoBucket, errStrange),
		on("Link.LoseFeed", (*link).LoseFeed),
		on("Link.DeafFeeds", func(link *leadertest.Link, _ int) { link.DeafFeeds() }),
		ends("Link.EndFeeds", (*link).EndFeeds, away, leader.ErrNoBucket, errStrange),
	}
	weight = 2 // only the order of succession depends on the roster
	return append(all,
		on("Link.LoseAnnouncements", (*link).LoseAnnouncements),
		on("Link.AnnounceLate", func(link *leadertest.Link, n int) { link.AnnounceLate(max(n, 1), s.between(0, m.longest())) }),
		fails("Link.FailAnnouncements", (*link).FailAnnouncements, away, denied, leader.ErrNoRoster, errStrange),
		fails("Link.FailViews", (*link).FailViews, away, denied, leader.ErrNoRoster, errStrange),
		ends("Link.EndViews", (*link).EndViews, away, leader.ErrNoRoster, errStrange),
	)
}

// key draws the key of one of the seats.
func (m *memory) key() string {
	if m.s.seats == 0 {
		return "e"
	}
	return seats.Key("e", 1+m.s.rng.IntN(m.s.seats))
}

// operator returns the operations of an operator on a bucket that goes on remembering.
func (m *memory) operator() []fault {
	s, b := m.s, m.store
	if s.least > 0 { // the records alone remember the tokens
		return nil
	}
	all := []fault{
		{"Store.Delete", 1, false, func(*life) bool { b.Delete(m.key()); return true }},
		{"Store.Put", 1, false, func(*life) bool {
			b.Put(m.key(), [][]byte{nil, []byte("junk"), []byte(`{"v":1}`)}[s.rng.IntN(3)])
			return true
		}},
		{"Store.Configure", 1, false, func(*life) bool {
			changed := m.settings
			switch s.rng.IntN(3) {
			case 0:
				changed.MaxValue = 64 // no record fits
			case 1:
				if changed.MaxLease > 0 {
					changed.MaxLease *= 2
				}
			case 2:
				changed.TTL *= 2
			}
			b.Configure(options(changed)...)
			s.later(s.between(0, 3*s.lease), func() { b.Configure(options(m.settings)...) })
			return true
		}},
		{"Store.DropRoster", 1, false, func(*life) bool {
			b.DropRoster()
			s.later(s.between(0, 3*s.lease), b.RecreateRoster)
			return true
		}},
	}
	if !s.amnesia {
		all = append(all, fault{"Store.Forge", 1, false, func(*life) bool {
			// None of this is believed: neither a stranger's release nor these
			// revisions.
			key := m.key()
			e := leadertest.Entry{Revision: b.Entry(key).Revision + 1, Value: junkRecord("released", fmt.Sprintf("X%d", s.rng.Int64()), "8000h", 1<<62, 1)}
			if s.chance(2) {
				e.Revision = []uint64{1, math.MaxUint64}[s.rng.IntN(2)]
				e.Value = junkRecord("leading", "X", "1ns", s.rng.Uint64(), 1)
			}
			b.Forge(key, e)
			return true
		}})
	}
	gone := func(name string, do func(string) error) fault {
		return fault{"Store." + name, 2, false, func(*life) bool {
			s.pass(0)
			s.mu.Lock()
			for _, l := range s.lives { // the feed does not report it
				l.robbed = true
			}
			s.mu.Unlock()
			return do(m.key()) == nil
		}}
	}
	if !m.settings.PurgeProtected {
		all = append(all, gone("Purge", b.Purge), gone("Expire", b.Expire), gone("Erase", b.Erase))
	}
	return all
}

// forgetting returns the faults that void the promise of one leader.
func (m *memory) forgetting() (all []fault) {
	for _, how := range []string{"Rollback", "Recreate", "Drop", "Wipe"} {
		all = append(all, fault{"Store." + how, 4, false, func(*life) bool { return m.s.forgets(&m.vault, how, "e") }})
	}
	return all
}

// vault is a bucket of the test kit, and how it was before.
type vault struct {
	store    *leadertest.Store
	settings backend.Settings
	past     []leadertest.Snapshot
}

// forgets makes a bucket forget something in one of the ways of the test kit. false: it had no effect.
func (s *simulation) forgets(v *vault, how, key string) bool {
	switch how {
	case "Erase":
		return v.store.Erase(key) == nil
	case "Expire":
		return v.store.Expire(key) == nil
	case "Wipe":
		return v.store.Wipe() == nil
	case "Recreate":
		v.store.Recreate()
	case "Drop":
		v.store.Drop()
		s.later(s.between(0, 3*s.lease), v.store.Recreate)
	case "Rollback":
		if len(v.past) == 0 || s.chance(2) {
			v.past = append(v.past, v.store.Snapshot())
			return false
		}
		v.store.Rollback(v.past[s.rng.IntN(len(v.past))])
	}
	return true
}
