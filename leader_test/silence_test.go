package leader_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/internal/wire"
	"github.com/natsleader/natsleader/leader"
)

// At the defaults the lease is 15 s, a renewal comes every 2.5 s, and signs may be missing for 5 s.
const quiet = 5 * time.Second

// renewal waits for the next renewal of e, and returns when it was stored.
func (k kit) renewal() time.Time {
	k.Helper()
	from := k.clock.Elapsed()
	for last := k.store.Entry("e").Revision; k.store.Entry("e").Revision == last; {
		check.Must(k, k.clock.Elapsed()-from <= time.Minute, "no renewal of e within a minute")
		k.clock.Advance(time.Millisecond)
	}
	return k.store.Entry("e").Created
}

// A server that has lost its routes answers reads and nothing else. A leader there that may move does
// so when its last sign is a third of the lease old, and keeps its lease.
func TestForceReconnect_LeaderKeepsItsLease(t *testing.T) { story(t) }

// The leader of a stream that is cut off refuses a write at once while an earlier one of the key is under
// way. Then no request is unanswered, and the leader moves as well.
func TestForceReconnect_LeaderIsRefused(t *testing.T) { story(t) }

// A waiting candidate there finds out by a request for the settings, moves, and takes over as soon as
// the old leader's lease allows it.
func TestForceReconnect_WaitingCandidateTakesOver(t *testing.T) { story(t) }

// A candidate whose connection must not move stays, is silent since the last sign, and a fault names
// the remedy, once.
func TestForceReconnect_UnsetStays(t *testing.T) { story(t) }

// A silence that lasts is reported again after each 16 findings. The fake clock has the exact
// instants: a finding comes every 5 s.
func TestForceReconnect_SilenceIsReportedAgain(t *testing.T) { story(t) }

// The end of an outage is logged once, also by a candidate that waits, for which the outage changes nothing.
func TestOutage_EndIsLogged(t *testing.T) {
	k := newKit(t)
	k.stand("a", leader.Config{})
	var log bytes.Buffer
	k.stand("b", leader.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for n := range 2 {
		for _, name := range []string{"a", "b"} { // so that b sees no other change
			k.store.Link(name).Freeze()
		}
		k.clock.Advance(10 * time.Second)
		check.Equal(t, strings.Count(log.String(), "faulted"), n+1, "%d faults")
		for _, name := range []string{"a", "b"} {
			k.store.Link(name).Thaw()
		}
		k.clock.Advance(time.Minute)
		check.Equal(t, strings.Count(log.String(), wire.LogAnswered), n+1, "%d times")
	}
}

// The answer that the bucket is gone does not end an outage. The first answer of the bucket does.
func TestOutage_DoesNotEndWithTheBucket(t *testing.T) {
	k := newKit(t)
	k.stand("a", leader.Config{})
	var log bytes.Buffer
	k.stand("b", leader.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	k.store.Link("a").Freeze()
	k.store.Link("b").Freeze()
	k.clock.Advance(10 * time.Second)
	k.store.Drop()
	k.store.Link("b").Thaw()
	k.clock.Advance(10 * time.Second)
	check.Equal(t, strings.Count(log.String(), wire.LogAnswered), 0, "%d times without the bucket")
	k.store.Recreate()
	k.clock.Advance(time.Minute)
	check.Equal(t, strings.Count(log.String(), wire.LogAnswered), 1, "%d times")
}

// A waiting candidate whose reads are all answered is silent when a renewal and the answer to its
// request for a sign are missing, since the last renewal.
func TestSilent_WaitingCandidate(t *testing.T) { story(t) }

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
func TestForceReconnect_DenialIsNoSign(t *testing.T) { story(t) }

// On a healthy server a waiting candidate that may not ask is not silent for that.
func TestSilent_NotByDenial(t *testing.T) { story(t) }

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
	k.clock.Advance(renewed.Add(4 * quiet).Sub(k.clock.Now()))
	check.Equal(t, len(store.held.asks), 1, "%d requests are in flight")
	close(store.held.hold)
	store.held.sent.Wait()
	k.clock.Advance(renewed.Add(5*quiet - 1).Sub(k.clock.Now()))
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
		k.clock.Advance(renewed.Add(quiet - 500*time.Millisecond).Sub(k.clock.Now()))
		<-store.held.asks
		if way == "closed" {
			link.Close()
		} else {
			backend.Crash(c)
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
