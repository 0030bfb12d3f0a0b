package leader_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// At the defaults the lease is 15 s, a renewal comes every 2.5 s, and signs may be missing for 5 s.
const quiet = 5 * time.Second

// renewal waits for the next renewal of e, and returns when it was stored.
func (k kit) renewal() time.Time {
	k.Helper()
	for last := k.store.Entry("e").Revision; k.store.Entry("e").Revision == last; {
		k.clock.Advance(time.Millisecond)
	}
	return k.store.Entry("e").Created
}

// A server that has lost its routes answers reads and nothing else. A leader there that may move does
// so when its last sign is a third of the lease old, and keeps its lease.
func TestForceReconnect_LeaderKeepsItsLease(t *testing.T) {
	k := newKit(t)
	c, _ := k.lead(leader.Config{ForceReconnect: true})
	k.clock.Advance(time.Second)
	term, _ := c.Term()
	k.clock.Advance(time.Second + 500*time.Millisecond) // just after a renewal
	for range 10 {
		renewed := k.renewal()
		k.store.Link("a").Isolate()
		k.clock.AdvanceTo(renewed.Add(quiet - 1))
		s := c.Stats()
		check.That(t, s.Silent == quiet-1, "%v after its last sign it is silent for %v", quiet-1, s.Silent)
		k.clock.Advance(time.Second)
		if s := c.Stats(); s.Silent != 0 || s.SinceRenewal > time.Second {
			t.Errorf("when it has moved, it is silent for %v, and its last renewal is %v old", s.Silent, s.SinceRenewal)
		}
	}
	check.That(t, term.Err() == nil, "%v", term.Err())
	check.Equal(t, c.Stats().Faults["no_majority"], 0, "it was reported %d times, though a move was enough")
}

// A waiting candidate there finds out by a request for the settings, moves, and takes over as soon as
// the old leader's lease allows it.
func TestForceReconnect_WaitingCandidateTakesOver(t *testing.T) {
	k := newKit(t)
	a, _ := k.lead(leader.Config{})
	k.clock.Advance(time.Second)
	b, wb := k.stand("b", leader.Config{ForceReconnect: true})
	k.clock.Advance(time.Minute)
	n := k.store.Link("b").Requests().Total()
	check.That(t, n <= 4, "%d requests of a candidate that hears renewals", n)
	renewed := k.renewal()
	k.store.Link("a").Close()
	<-a.Done()
	k.store.Link("b").Isolate()
	k.clock.AdvanceTo(renewed.Add(quiet - 1))
	s := b.Stats()
	check.That(t, s.Silent == 0 && s.FeedRebuilds == 0, "before it has waited for the settings: %+v", s)
	k.clock.AdvanceTo(renewed.Add(15*time.Second + 100*time.Millisecond))
	wb.Expect(leadertest.Elected())
}

// A candidate whose connection must not move stays, is silent since the last sign, and a fault names
// the remedy, once.
func TestForceReconnect_UnsetStays(t *testing.T) {
	k := newKit(t)
	c, w := k.lead(leader.Config{})
	k.clock.Advance(time.Second)
	renewed := k.renewal()
	k.store.Link("a").Isolate()
	k.clock.AdvanceTo(renewed.Add(time.Minute))
	s := c.Stats()
	check.That(t, s.Silent == time.Minute && s.State == leader.StateFenced, "after a minute: %+v", s)
	n := k.store.Link("a").Requests().Settings
	check.That(t, n >= 12, "asked for a sign %d times", n)                         // each is given up before the next
	check.Equal(t, c.Stats().Faults["no_majority"], 1, "it was reported %d times") // again when it has lasted for 80 s
	w.Expect(leadertest.Match("the remedy", func(e leader.Event) bool {
		f, ok := e.(leader.Faulted)
		return ok && errors.Is(f.Err, leader.ErrUnreachable) && strings.Contains(f.Err.Error(), "Config.ForceReconnect")
	}))
	k.store.Link("a").Restore()
	k.clock.Advance(time.Second)
	if s := c.Stats(); s.Silent != 0 || s.State != leader.StateLeader {
		t.Errorf("on another server: %+v", s)
	}
	renewed = k.renewal()
	k.store.Link("a").Isolate()
	k.clock.AdvanceTo(renewed.Add(2 * quiet))
	check.Equal(t, c.Stats().Faults["no_majority"], 2, "soon after the next silence has begun, %d were reported")
}

// A silence that lasts is reported again after each 16 findings. The fake clock has the exact
// instants: a finding comes every 5 s.
func TestForceReconnect_SilenceIsReportedAgain(t *testing.T) {
	k := newKit(t)
	c, _ := k.lead(leader.Config{})
	k.clock.Advance(time.Second)
	renewed := k.renewal()
	k.store.Link("a").Isolate()
	var reported []time.Duration
	for at := time.Second; at <= 3*time.Minute; at += time.Second {
		k.clock.AdvanceTo(renewed.Add(at))
		for n := c.Stats().Faults["no_majority"]; uint64(len(reported)) < n; {
			reported = append(reported, at)
		}
	}
	want := []time.Duration{quiet, 16 * quiet, 32 * quiet}
	check.That(t, slices.Equal(reported, want), "it was reported after %v, not after %v", reported, want)
}

// A waiting candidate whose reads are all answered is silent when a renewal and the answer to its
// request for a sign are missing, since the last renewal.
func TestSilent_WaitingCandidate(t *testing.T) {
	k := newKit(t)
	k.lead(leader.Config{})
	k.clock.Advance(time.Second)
	b, _ := k.stand("b", leader.Config{})
	k.clock.Advance(time.Second)
	renewed := k.renewal()
	k.store.Link("b").Isolate()
	k.clock.AdvanceTo(renewed.Add(quiet - 1))
	before := b.Stats().Silent
	k.clock.AdvanceTo(renewed.Add(quiet))
	after := b.Stats().Silent
	check.That(t, before == 0 && after == quiet, "silent for %v, and then for %v", before, after)
}

// Where no renewal is due there is nothing to be silent about: an election without a leader sends no
// request for a sign. When a read is lost, the candidate asks at once.
func TestSilent_IdleElection(t *testing.T) {
	k := newKit(t)
	link := k.store.Link("o")
	holders := check.Got(leader.Observe(t.Context(), link, "e"))(t)
	<-holders
	k.clock.Advance(time.Hour)
	check.Equal(t, link.Requests().Settings, 1, "%d requests for the settings in an hour")
	k.store.Link("guard").FailSettings(-1, leader.ErrNoBucket) // so that the candidate does not take the key
	c, _ := k.stand("a", leader.Config{Guards: []leader.Guard{k.store.Link("guard").Guard()}})
	k.clock.Advance(time.Hour)
	k.store.Link("a").LoseReads(1)
	for range 600 {
		k.clock.Advance(100 * time.Millisecond)
		s := c.Stats()
		check.Must(t, s.Silent == 0, "silent for %v", s.Silent)
	}
	asked := k.store.Link("a").Requests()
	check.That(t, asked.Settings == 2, "%d requests for the settings after a read was lost", asked.Settings)
}

// A server that is cut off denies a request by itself. So a leader that may not ask for the settings
// moves as well, and keeps its lease.
func TestForceReconnect_DenialIsNoSign(t *testing.T) {
	k := newKit(t)
	c, _ := k.lead(leader.Config{ForceReconnect: true})
	k.clock.Advance(time.Second)
	term, _ := c.Term()
	link := k.store.Link("a")
	link.FailSettings(-1, leader.ErrPermission)
	renewed := k.renewal()
	link.Isolate()
	k.clock.AdvanceTo(renewed.Add(quiet))
	k.clock.Advance(time.Second)
	s := c.Stats()
	check.That(t, s.Silent == 0 && term.Err() == nil,
		"a second after it was to move: %v, silent for %v", term.Err(), s.Silent)
}

// On a healthy server a waiting candidate that may not ask is not silent for that.
func TestSilent_NotByDenial(t *testing.T) {
	k := newKit(t)
	a, _ := k.lead(leader.Config{})
	k.clock.Advance(time.Second)
	b, _ := k.stand("b", leader.Config{})
	k.clock.Advance(time.Second)
	k.store.Link("b").FailSettings(-1, leader.ErrPermission)
	k.renewal()
	k.store.Link("a").Close()
	<-a.Done()
	before := k.store.Link("b").Requests().Settings
	for range 120 {
		k.clock.Advance(100 * time.Millisecond)
		s := b.Stats()
		check.Must(t, s.Silent == 0, "silent for %v", s.Silent)
	}
	n := k.store.Link("b").Requests().Settings - before
	check.That(t, n != 0, "it has not asked")
}

// heldStore holds back the replies to requests for the settings, once the test says so.
type heldStore struct {
	*leadertest.Link
	held *heldBackend
}

func (s heldStore) Backend() backend.Store { return s.held }

type heldBackend struct {
	backend.Store
	hold chan struct{}  // closed: the replies may go; nil: none is held back
	asks chan struct{}  // gets one for each request of which the reply is held back
	ends chan struct{}  // gets one for each of these that was given up
	sent sync.WaitGroup // the replies
}

func (b *heldBackend) Settings(ctx context.Context, reply func(backend.Settings, error)) {
	hold := b.hold
	if hold == nil {
		b.Store.Settings(ctx, reply)
		return
	}
	b.asks <- struct{}{}
	b.sent.Go(func() {
		<-ctx.Done()
		b.ends <- struct{}{}
		<-hold
		reply(backend.Settings{}, leader.ErrUnreachable)
	})
}

// A request for a sign that is given up still has to be answered. Until then the candidate sends no
// other, and afterwards it does.
func TestSilence_AsksOneAtATime(t *testing.T) {
	k := newKit(t)
	link := k.store.Link("a")
	store := heldStore{link, &heldBackend{Store: link.Backend(), asks: make(chan struct{}, 8), ends: make(chan struct{}, 8)}}
	c := check.Got(leader.Campaign(t.Context(), store, "e", leader.Config{ID: "a"}))(t)
	k.clock.Advance(time.Second)
	renewed := k.renewal()
	store.held.hold = make(chan struct{}) // the candidate rests
	link.Isolate()
	k.clock.AdvanceTo(renewed.Add(4 * quiet))
	check.Equal(t, len(store.held.asks), 1, "%d requests are in flight")
	close(store.held.hold)
	store.held.sent.Wait()
	k.clock.AdvanceTo(renewed.Add(5*quiet - 1))
	check.Equal(t, len(store.held.asks), 2, "after the reply to the first, %d requests were sent")
	link.Close()
	select {
	case <-c.Done():
	case <-time.After(10 * time.Second):
		t.Error("the candidate does not end")
	}
}

// A candidate that ends while it asks for a sign gives the request up, and has not ended before the
// reply has come.
func TestSilence_EndGivesUpTheRequest(t *testing.T) {
	for _, way := range []string{"abandoned", "closed"} {
		k := newKit(t)
		link := k.store.Link("a")
		store := heldStore{link, &heldBackend{Store: link.Backend(), asks: make(chan struct{}, 8), ends: make(chan struct{}, 8)}}
		c := check.Got(leader.Campaign(t.Context(), store, "e", leader.Config{ID: "a"}))(t)
		k.clock.Advance(time.Second)
		renewed := k.renewal()
		store.held.hold = make(chan struct{}) // the candidate rests
		link.Isolate()
		k.clock.AdvanceTo(renewed.Add(quiet - 500*time.Millisecond))
		<-store.held.asks
		if way == "closed" {
			link.Close()
		} else {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			check.Is(t, c.Stop(ctx), context.Canceled)
		}
		select {
		case <-store.held.ends:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the request was not given up", way)
		}
		k.clock.Settle()
		select {
		case <-c.Done():
			t.Errorf("%s: it ends before the reply", way)
		default:
		}
		close(store.held.hold)
		<-c.Done()
	}
}
