package leader

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/machine"
	"github.com/natsleader/natsleader/internal/record"
)

// A record contains the number of seats.
func TestRecord_NumberOfSeats(t *testing.T) {
	for _, id := range []string{"plain", "not \"plain\""} {
		r := record.Record{Phase: record.PhaseLeading, ID: id, Session: "s", Counter: 1, Lease: time.Second, Token: 2, Seats: 3}
		got, err := record.Decode(r.Encode(0))
		if err != nil || got != r {
			t.Errorf("%s comes back as %+v, %v", r.Encode(0), got, err)
		}
		r.Seats = 0
		if got, err = record.Decode(r.Encode(0)); err != nil || got != r {
			t.Errorf("%s comes back as %+v, %v", r.Encode(0), got, err)
		}
	}
}

func newBench(seats int) *seatPermit {
	return &seatPermit{waiting: make([]*mailbox, seats), holders: make([]holding, seats), denied: make([]time.Time, seats), value: "v", there: seats}
}

// There is one permit for all seats of a candidate, and the seat that waits for it is
// woken.
func TestSeatPermit_WakesWaiter(t *testing.T) {
	b := newBench(3)
	boxes := [3]mailbox{}
	for i := range boxes {
		boxes[i].bell = make(chan struct{}, 1)
	}
	take := func(seat int) bool {
		_, _, ok := b.take(seat, &boxes[seat-1])
		return ok
	}
	for range 2 {
		check.Must(t, take(2), "the permit was free, or its own")
	}
	check.Must(t, !take(1) && !take(3), "two have the permit")
	until := testEpoch.Add(time.Second)
	a := &actor{Params: &machine.Params{}, seat: 2, c: &Candidate{}, timeline: newTimeline(&stillClock{testEpoch})}
	a.status.CooldownUntil = until
	b.seated(a, holding{})
	b.giveBack(b.taker, "w")
	for i, want := range []int{1, 0, 1} {
		got := len(boxes[i].mails)
		check.That(t, got == want, "seat %d was woken %d times", i+1, got)
	}
	got, value, ok := b.take(3, &boxes[2])
	check.That(t, ok && got.Equal(until) && value == "w", "the permit says %v, %q, %v", got, value, ok)
	a.status.CooldownUntil = testEpoch
	b.seated(a, holding{})
	b.giveBack(b.taker, "w")
	got, _, _ = b.take(1, &boxes[0])
	check.That(t, got.Equal(until), "it sits out until %v", got)
	check.That(t, len(boxes[0].mails) == 1, "who waits no more was woken")
}

// No other seat gets the permit before the key of the first seat is known. Then the seats that
// wait are woken, once.
func TestSeatPermit_FirstSeatFirst(t *testing.T) {
	b := newBench(2)
	b.unread = true
	boxes := [2]mailbox{{bell: make(chan struct{}, 1)}, {bell: make(chan struct{}, 1)}}
	_, _, ok := b.take(2, &boxes[1])
	check.Must(t, !ok, "the second seat has the permit")
	b.firstRead()
	b.firstRead()
	check.Equal(t, len(boxes[1].mails), 1, "the second seat was woken %d times")
	if _, _, ok := b.take(2, &boxes[1]); !ok {
		t.Error("the second seat has no permit")
	}
	first := newBench(2)
	first.unread = true
	if _, _, ok := first.take(1, &boxes[0]); !ok {
		t.Error("the first seat has no permit")
	}
}

// A candidate is announced as denied as long as a write of any of its seats counts as denied.
func TestSeatPermit_DeniedUntil(t *testing.T) {
	for seat := range 3 {
		b := newBench(3)
		b.denied[1] = testEpoch
		b.denied[seat] = testEpoch.Add(1)
		until := b.deniedUntil()
		check.That(t, until.Equal(testEpoch.Add(1)), "seat %d: denied until %v", seat+1, until)
	}
}

// quietStore answers only settings and reads. A read of a key returns its entry in keys.
type quietStore struct {
	backend.Store
	mu   sync.Mutex
	keys map[string]backend.Entry
}

func (s *quietStore) Backend() backend.Store { return s }

func (s *quietStore) Known() (backend.Settings, bool, error) { return backend.Settings{}, false, nil }

func (s *quietStore) Settings(_ context.Context, reply func(backend.Settings, error)) {
	reply(backend.Settings{PurgeProtected: true, MaxLease: time.Hour, LastRevision: 9}, nil)
}

func (s *quietStore) Get(_ context.Context, key string, reply func(backend.Entry, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply(s.keys[key], nil)
}

func (s *quietStore) FollowCordon(deliver func([]string)) (look, stop func()) {
	deliver(nil)
	return func() {}, func() {}
}

func (s *quietStore) Update(ctx context.Context, _ string, _ []byte, _ uint64, reply func(uint64, error)) {
	context.AfterFunc(ctx, func() { reply(0, ErrUnreachable) })
}

func (s *quietStore) Watch(_ context.Context, _ string, _ backend.Feed, _ func(backend.FeedEvent), reply func(backend.Feed, error)) {
	reply(quietFeed{}, nil)
}

type quietFeed struct{}

func (quietFeed) Stop() {}

// The seat permit knows the holders of the other seats, and at most one gate is open.
func TestSeatPermit_KnowsHolders(t *testing.T) {
	other := record.Record{Phase: record.PhaseLeading, ID: "b", Session: "other", Counter: 1, Lease: time.Hour, Token: 3, Seats: 2}
	s := &quietStore{keys: map[string]backend.Entry{"e.seat.2": {Revision: 5, Value: other.Encode(0), Created: testEpoch}}}
	c := check.Got(Campaign(t.Context(), backend.Marked{Sealed: s, Seats: 2}, "e", Config{ID: "a"}))(t)
	poll, limit := time.NewTicker(time.Millisecond), time.After(time.Minute)
	defer poll.Stop()
	for !c.permit.holds("other") { // it is read soon
		select {
		case <-limit:
			t.Fatal("nobody is known to hold a seat")
		case <-poll.C:
		}
	}
	check.That(t, !c.permit.holds("another"), "a stranger holds a seat")
	c.toAll(machine.InAbandon)
	<-c.Done()
}

// Of the holders with the lowest priority exactly one gives way: the one on the last seat. While a
// seat is free, nobody does, nor for a candidate that holds a seat.
func TestSeatPermit_GivesWay(t *testing.T) {
	for _, c := range []struct {
		to      string
		last    int // the seat that gives way; 0: none
		holders []holding
	}{
		{"x", 0, []holding{{"a", 1}, {"b", 1}, {}}},
		{"x", 1, []holding{{"a", 1}, {"b", 2}, {"c", 2}}},
		{"x", 2, []holding{{"a", 1}, {"b", 1}, {"c", 2}}},
		{"x", 3, []holding{{"a", 1}, {"b", 2}, {"c", 1}, {"d", 2}}},
		{"x", 4, []holding{{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}}},
		{"b", 0, []holding{{"a", 1}, {"b", 2}, {"c", 2}}},
	} {
		for i, h := range c.holders {
			seat := i + 1
			check.That(t, h.session == "" || (&seatPermit{holders: c.holders}).givesWay(seat, c.to) == (seat == c.last),
				"%v: whether seat %d gives way to %s is wrong; only seat %d does, and none if that is 0", c.holders, seat, c.to, c.last)
		}
	}
}

// The check of a lock looks at all seats of the lock, although the record of the first seat names fewer.
func TestSeatCheck_FewerSeatsInTheRecord(t *testing.T) {
	entry := func(p record.Phase, id string, seats int) backend.Entry {
		r := record.Record{Phase: p, ID: id, Session: id, Counter: 1, Lease: time.Hour, Token: 3, Seats: seats}
		return backend.Entry{Revision: 5, Value: r.Encode(0), Created: testEpoch}
	}
	clock := &stillClock{testEpoch}
	c := seatCheck{
		store: &quietStore{keys: map[string]backend.Entry{"e": entry(record.PhaseReleased, "a", 3), "e.seat.5": entry(record.PhaseLeading, "b", 7)}},
		clock: clock, election: "e", id: "c", seats: 5, try: true, seen: &sightings{new(backend.Memory), clock},
	}
	err := c.compare(t.Context(), false)
	check.That(t, errors.Is(err, ErrSeatsDiffer),
		"the check of 5 seats returns %v beside a holder of the fifth that is set to 7", err)
}

// The numbers of seats that were reported once are forgotten while candidates come and go, before they
// fill the memory of a candidate that stays.
func TestSeatPermit_ForgetsReports(t *testing.T) {
	b := &seatPermit{}
	for i := range 10 * maxReportedSeats {
		seen := seatsSeen{session: strconv.Itoa(i), seats: 2}
		check.That(t, b.isNews(seen) && !b.isNews(seen), "number %d is not reported once", i)
		check.Must(t, len(b.reportedSeats) <= maxReportedSeats, "%d are kept", len(b.reportedSeats))
	}
}
