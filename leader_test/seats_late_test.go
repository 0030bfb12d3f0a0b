package leader_test

import (
	"context"
	"testing"
	"time"

	"github.com/natsleader/natsleader/internal/backend"
	"github.com/natsleader/natsleader/internal/check"
	"github.com/natsleader/natsleader/internal/leadertest"
	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/seats"
)

// A candidate that does not know whether it has won takes no other seat. The reply to the
// winning write is lost, and the write itself is stored later, when the other seat is
// long free.
func TestSeats_UnknownWin(t *testing.T) { story(t) }

// late is a store that stores a write to one key only when the test calls kept.
type late struct {
	backend.Store
	key  string
	kept func()
}

// Backend returns l.
func (l *late) Backend() backend.Store { return l }

func (l *late) Update(ctx context.Context, key string, value []byte, revision uint64, reply func(uint64, error)) {
	if key != l.key || l.kept != nil {
		l.Store.Update(ctx, key, value, revision, reply)
		return
	}
	l.kept = func() {
		l.Store.Update(context.WithoutCancel(ctx), key, value, revision, func(uint64, error) {})
	}
	reply(0, leader.ErrUnreachable)
}

// The write that would have won seat 1 is stored when the candidate leads on seat 2,
// because the bucket is not purge-protected, and was emptied between. The candidate
// releases seat 1 and never leads on it.
func TestSeats_LateWinIsReleased(t *testing.T) {
	k := newKit(t, leadertest.WithoutPurgeProtection())
	own := k.store.Link("a")
	link := &late{Store: own.Backend(), key: "e"}
	k.store.Put(seats.Key("e", 2), []byte("not free yet"))
	a := check.Got(leader.Campaign(t.Context(), seats.Of(link, 2), "e", leader.Config{ID: "a", Clock: k.clock}))(t)
	defer func() { own.Close(); <-a.Done() }()
	w := leadertest.Watch(t, k.clock, a)
	for link.kept == nil {
		check.Must(t, k.clock.Elapsed() <= 10*time.Minute, "it never tries to win seat 1")
		k.clock.Advance(time.Second)
	}
	k.store.Put("e", []byte("somebody else's"))
	k.clock.Advance(time.Second)
	seat2 := func() bool { term, ok := a.Term(); return ok && term.Seat() == 2 }
	for range 60 {
		if k.clock.Advance(time.Second); seat2() {
			break
		}
		k.store.Put("e", []byte("somebody else's")) // seat 1 is still held
	}
	check.Must(t, seat2(), "it does not lead on seat 2")
	check.OK(t, k.store.Erase("e"))
	link.kept()
	k.clock.Settle()
	h := k.store.Holder("e")
	check.Must(t, h.ID == "a", "the late write was not stored: %v", h)
	for k.store.Holder("e").State != leader.HolderReleased {
		k.clock.Advance(time.Second)
		check.Must(t, seat2(), "it leads no more on seat 2")
		check.Must(t, k.clock.Elapsed() <= 10*time.Minute, "it never released seat 1")
	}
	for _, e := range w.Events() {
		if e, ok := e.(leader.Elected); ok && e.Term.Seat() != 2 {
			t.Errorf("it was elected on seat %d", e.Term.Seat())
		}
		e, ok := e.(leader.Pending)
		check.That(t, !ok || e.Seat == 2, "it was pending on seat %d", e.Seat)
	}
}
