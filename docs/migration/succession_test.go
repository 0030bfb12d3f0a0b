package migration_test

import (
	"context"
	"testing"
	"time"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// besideOldProcesses stands on the key that old processes stand on, too.
func besideOldProcesses(ctx context.Context, bucket leader.Store, name string) (*leader.Candidate, error) {
	return leader.Campaign(ctx, bucket, "billing", leader.Config{
		ID:      name,
		KVElect: true, // until the last old process is gone
	})
}

// inLine stands in the order of arrival, as in etcd and ZooKeeper.
func inLine(ctx context.Context, store leader.Store, name string) (*leader.Candidate, error) {
	return leader.Campaign(ctx, store, "billing", leader.Config{
		ID:     name,
		Roster: true,
		Queue:  true,
	})
}

// slots works while it has one of three seats, until ctx ends.
func slots(ctx context.Context, store leader.Store, name string, work func(context.Context, int)) error {
	c, err := leader.Campaign(ctx, store, "workers", leader.Config{ID: name, Seats: 3})
	if err != nil {
		return err
	}
	for term := range c.Terms() {
		work(term.Context(), term.Seat()) // returns when the context has ended
	}
	return c.Err()
}

// Beside old processes, a win is pending for one TTL.
func TestOldProcesses_PendingWin(t *testing.T) {
	f := newFake(t)
	f.store = leadertest.NewStore(f.clock, leadertest.WithTTL(30*time.Second))
	f.store.Put("billing", []byte("member 1"))
	c, err := besideOldProcesses(t.Context(), f.store.Link("new"), "new")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.store.Link("new").Close()
		<-c.Done()
	})
	w := leadertest.Watch(t, f.clock, c)
	f.clock.Advance(30 * time.Second) // member 1 is dead, and its record expires
	w.Ignore(leadertest.Observed()).ExpectExactly(leadertest.Pending())
	f.clock.Advance(29 * time.Second)
	w.ExpectExactly()
	f.clock.Advance(10 * time.Second)
	w.ExpectExactly(leadertest.Elected())
}

// The candidate that came first is next.
func TestInLine_FirstComeIsNext(t *testing.T) {
	f := newFake(t)
	var first, second *leader.Candidate
	for i, name := range []string{"a", "b", "c"} {
		c, err := inLine(t.Context(), f.store.Link(name), name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			f.store.Link(name).Close()
			<-c.Done()
		})
		f.clock.Advance(time.Second)
		switch i {
		case 0:
			first = c
		case 1:
			second = c
		}
	}
	f.clock.Advance(time.Minute)
	if err := first.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.clock.Settle()
	if !second.IsLeader() {
		t.Error("another was faster than the second")
	}
}

// Three of four candidates have seats.
func TestSeats_ThreeOfFour(t *testing.T) {
	f := newFake(t)
	seats := make(chan int, 4)
	for _, name := range []string{"a", "b", "c", "d"} {
		f.serve(name, func(ctx context.Context, store leader.Store) error {
			return slots(ctx, store, name, func(lead context.Context, seat int) { seats <- seat; <-lead.Done() })
		})
	}
	sum := 0
	for range 3 {
		sum += <-seats
	}
	if sum != 1+2+3 {
		t.Errorf("seats sum up to %d", sum)
	}
	f.clock.Advance(time.Minute)
	if len(seats) > 0 {
		t.Errorf("a fourth seat: %d", <-seats)
	}
}
