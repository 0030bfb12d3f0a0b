package migration_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/natsleader/natsleader/leader"
	"github.com/natsleader/natsleader/leadertest"
)

// follow reports what etcd-leader's events reported. Work belongs into a loop over Terms.
func follow(ctx context.Context, store leader.Store, name string, say func(string)) error {
	c, err := leader.Campaign(ctx, store, "master", leader.Config{ID: name})
	if err != nil {
		return err
	}
	for event := range c.Events(context.Background()) { // until the candidate has ended
		switch e := event.(type) {
		case leader.Elected:
			say("elected")
		case leader.Deposed:
			say("unelected")
		case leader.Observed:
			if e.Holder.Leads() {
				say("leader " + e.Holder.ID)
			}
		case leader.Faulted:
			say("error " + e.Err.Error()) // and it goes on by itself
		case leader.Pending, leader.Fenced:
		}
	}
	return c.Err()
}

// look reports the leader whenever it changes, until ctx ends.
func look(ctx context.Context, store leader.Store, tell func(leader.Holder)) error {
	now, err := leader.Lookup(ctx, store, "billing") // Leader
	if err != nil {
		return err
	}
	tell(now)
	holders, err := leader.Observe(ctx, store, "billing") // Observe
	if err != nil {
		return err
	}
	for h := range holders {
		if h.Leads() { // otherwise etcd's ErrElectionNoLeader
			tell(h) // its ID, Value and Token
		}
	}
	return nil
}

// The events of etcd-leader have their counterparts.
func TestEtcdLeader_Events(t *testing.T) {
	f := newFake(t)
	told := make(chan string, 100)
	b, w := f.stand("master", "bar")
	w.Expect(leadertest.Elected())
	f.serve("foo", func(ctx context.Context, store leader.Store) error {
		return follow(ctx, store, "foo", func(s string) { told <- s })
	})
	expect := func(expected string) {
		t.Helper()
		if got := <-told; !strings.HasPrefix(got, expected) {
			t.Fatalf("%q, not %q", got, expected)
		}
	}
	expect("leader bar")
	if err := b.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
	expect("elected")
	f.store.Link("foo").Cut()
	f.clock.Advance(time.Second * 15)
	expect("error " + leader.ErrUnreachable.Error())
	f.clock.Advance(time.Minute)
	f.store.Link("foo").Restore() // etcd-leader would have ended
	f.clock.Advance(time.Minute)
	expect("unelected")
	expect("leader bar")
}

// elected returns when its context ends, and when its candidate ends.
func TestElected_Ends(t *testing.T) {
	f := newFake(t)
	_, w := f.stand("billing", "a")
	w.Expect(leadertest.Elected())
	b, _ := f.stand("billing", "b")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := elected(ctx, b); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := b.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := elected(t.Context(), b); !errors.Is(err, leader.ErrNotLeader) {
		t.Error(err)
	}
}

func TestLook_ReturnsTheLeader(t *testing.T) {
	f := newFake(t)
	_, w := f.stand("billing", "a")
	w.Expect(leadertest.Elected())
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan leader.Holder), make(chan error)
	go func() { ended <- look(ctx, f.store, func(h leader.Holder) { told <- h }) }()
	for range 2 {
		if h := <-told; h.ID != "a" || h.Token != 1 {
			t.Error(h)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
